//! Decodes the chunked transfer coding of a body, in pieces of any size.

use super::error::ParseError;

/// Maximum length of a chunk-size line, including extensions.
const LINE_BYTES_MAX: usize = 4096;
/// Maximum length of the trailer section.
const TRAILER_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the digits of a chunk size, with the number of digits so far.
    Size {
        digits: u8,
    },
    /// After the digits: blanks or an extension, up to the end of the line.
    Extension,
    /// After the carriage return of the size line.
    SizeNewline,
    Data,
    DataReturn,
    DataNewline,
    /// At the start of a trailer line.
    TrailerStart,
    TrailerLine,
    /// After the carriage return of the last empty line.
    LastNewline,
    Done,
}

/// Result of one step over the input.
pub(super) enum Piece {
    /// This many bytes of framing were skipped; the input is used up.
    More(usize),
    /// Framing of the first length was skipped, and data of the second length follows.
    Data(usize, usize),
    /// The body ends after this many bytes.
    End(usize),
}

/// The state of the decoder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunked {
    state: State,
    /// While reading a size: the size so far. While in data: the number of missing bytes.
    left: u64,
    /// Bytes of the current size line, or of the trailers.
    line: usize,
}

impl Chunked {
    pub(super) const fn new() -> Self {
        Self { state: State::Size { digits: 0 }, left: 0, line: 0 }
    }

    /// Continues to the next piece of data, the end of the body or the end of the input.
    pub(super) fn step(&mut self, input: &[u8]) -> Result<Piece, ParseError> {
        for (position, &byte) in input.iter().enumerate() {
            if self.state == State::Data {
                let room = input.len() - position;
                let take = usize::try_from(self.left).map_or(room, |left| left.min(room));
                self.left -= take as u64;
                if self.left == 0 {
                    self.state = State::DataReturn;
                }
                return Ok(Piece::Data(position, take));
            }
            self.framing(byte)?;
            if self.state == State::Done {
                return Ok(Piece::End(position + 1));
            }
        }
        Ok(Piece::More(input.len()))
    }

    /// Processes one byte that is not data.
    fn framing(&mut self, byte: u8) -> Result<(), ParseError> {
        self.state = match (self.state, byte) {
            (State::Size { digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.digit(byte, digits)?
            }
            // A size without digits is invalid.
            (State::Size { digits: 0 }, _) => return Err(ParseError::BadChunk),
            (State::Size { .. }, b'\r') | (State::Extension, b'\r') => State::SizeNewline,
            (State::Size { .. }, b';' | b' ' | b'\t') => State::Extension,
            (State::Extension, byte) if byte != b'\n' => {
                self.line += 1;
                if self.line > LINE_BYTES_MAX {
                    return Err(ParseError::ChunkLineTooLong);
                }
                State::Extension
            }
            (State::SizeNewline, b'\n') => {
                self.line = 0;
                if self.left == 0 { State::TrailerStart } else { State::Data }
            }
            (State::DataReturn, b'\r') => State::DataNewline,
            (State::DataNewline, b'\n') => State::Size { digits: 0 },
            (State::TrailerStart, b'\r') => State::LastNewline,
            (State::TrailerStart, b'\n') => State::Done,
            (State::TrailerLine, b'\n') => State::TrailerStart,
            (State::TrailerStart | State::TrailerLine, _) => {
                self.line += 1;
                if self.line > TRAILER_BYTES_MAX {
                    return Err(ParseError::HeadTooLarge);
                }
                State::TrailerLine
            }
            (State::LastNewline, b'\n') => State::Done,
            _ => return Err(ParseError::BadChunk),
        };
        Ok(())
    }

    fn digit(&mut self, byte: u8, digits: u8) -> Result<State, ParseError> {
        // Sixteen digits fill the number; more digits, even zeros, are rejected.
        if digits == 16 {
            return Err(ParseError::BadChunk);
        }
        let value = (byte as char).to_digit(16).expect("the caller matched a hexadecimal digit");
        self.left = self.left << 4 | u64::from(value);
        Ok(State::Size { digits: digits + 1 })
    }
}
