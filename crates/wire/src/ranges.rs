//! Parses `multipart/byteranges` bodies, and `content-range` values.

/// Maximum length of the boundary line and headers of one part.
const PART_HEAD_BYTES_MAX: usize = 8 << 10;

/// The range of an object in a part or an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// First byte.
    pub first: u64,
    /// Number of bytes.
    pub length: u64,
    /// Size of the whole object, if the server gives it.
    pub total: Option<u64>,
}

/// Parses a value such as `bytes 0-9/100`.
pub fn parse_content_range(value: &[u8]) -> Option<ContentRange> {
    let text = std::str::from_utf8(value).ok()?.trim();
    let (unit, rest) = text.split_once(' ')?;
    let (range, total) = rest.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let total = if total == "*" { None } else { Some(total.parse().ok()?) };
    let is_sound = unit.eq_ignore_ascii_case("bytes")
        && total.is_none_or(|total| last < total)
        && last >= first;
    let length = (last.checked_sub(first)?).checked_add(1)?;
    is_sound.then_some(ContentRange { first, length, total })
}

/// Returns the boundary in a content type such as `multipart/byteranges; boundary=x`.
pub fn parse_boundary(content_type: &[u8]) -> Option<&[u8]> {
    let mut parts = content_type.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    if !parts.next()?.eq_ignore_ascii_case(b"multipart/byteranges") {
        return None;
    }
    parts.find_map(|part| {
        let (name, value) = part.split_at_checked(9)?;
        if !name.eq_ignore_ascii_case(b"boundary=") {
            return None;
        }
        let value = match value {
            [b'"', inner @ .., b'"'] => inner,
            bare => bare,
        };
        (!value.is_empty() && value.len() <= 70).then_some(value)
    })
}

/// An error in a multipart body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangesError {
    /// A line is not the expected boundary.
    #[error("a part of the multipart answer does not start at its boundary")]
    BadBoundary,
    /// A part does not state its range.
    #[error("a part of the multipart answer has no valid content-range")]
    BadPartHead,
    /// The headers of a part are too long.
    #[error("a part of the multipart answer has headers of more than 8 KiB")]
    PartHeadTooLarge,
    /// The body ended before its last boundary.
    #[error("the multipart answer ended early")]
    Truncated,
}

/// Some data of a part, and its offset in the object.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Offset of the first byte in the object.
    pub offset: u64,
    /// Data.
    pub bytes: &'a [u8],
    /// The part's range, in its first piece.
    pub starts: Option<ContentRange>,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    /// Before a boundary line or in the headers that follow; the lines are in the stash.
    Head,
    Data {
        offset: u64,
        left: u64,
        starts: Option<ContentRange>,
    },
    Done,
}

/// Parses a multipart body from input in pieces of any size.
#[derive(Debug)]
pub struct RangesParser {
    state: State,
    boundary: Vec<u8>,
    stash: Vec<u8>,
}

impl RangesParser {
    /// Starts a body with this boundary.
    pub fn new(boundary: &[u8]) -> Self {
        Self { state: State::Head, boundary: boundary.to_vec(), stash: Vec::new() }
    }

    /// Takes the next piece of data from the front of the input; `None` when the input is used up.
    ///
    /// # Errors
    ///
    /// Input that is not a multipart body with this boundary.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Piece<'a>>, RangesError> {
        loop {
            match &mut self.state {
                State::Data { left: 0, .. } => self.state = State::Head,
                _ if input.is_empty() => return Ok(None),
                // Data after the last boundary must be ignored (RFC 2046).
                State::Done => *input = &[],
                State::Data { offset, left, starts } => {
                    let take = usize::try_from(*left).map_or(input.len(), |n| n.min(input.len()));
                    let (bytes, rest) = input.split_at(take);
                    let piece = Piece { offset: *offset, bytes, starts: starts.take() };
                    *input = rest;
                    *offset += take as u64;
                    *left -= take as u64;
                    return Ok(Some(piece));
                }
                State::Head => self.read_head_line(input)?,
            }
        }
    }

    /// Checks whether the body was complete when it ended.
    ///
    /// # Errors
    ///
    /// [`RangesError::Truncated`] when the last boundary is missing.
    pub fn finish(&self) -> Result<(), RangesError> {
        // A body may end directly after the last boundary, without a line break.
        let is_last = self.state == State::Head && self.is_last_boundary(&self.stash);
        if is_last || self.state == State::Done { Ok(()) } else { Err(RangesError::Truncated) }
    }

    /// Moves input up to the end of a line into the stash, and processes the head once it is
    /// complete.
    fn read_head_line(&mut self, input: &mut &[u8]) -> Result<(), RangesError> {
        let end = memchr::memchr(b'\n', input).map_or(input.len(), |position| position + 1);
        let (line, rest) = input.split_at(end);
        *input = rest;
        self.stash.extend_from_slice(line);
        if self.stash.len() > PART_HEAD_BYTES_MAX {
            return Err(RangesError::PartHeadTooLarge);
        }
        if !self.stash.ends_with(b"\n") {
            return Ok(());
        }
        if self.stash.trim_ascii().is_empty() {
            // Only the line break that belongs to the next boundary.
            self.stash.clear();
            return Ok(());
        }
        let mut lines = self.stash.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
        let first = lines.next().unwrap_or_default();
        if self.is_last_boundary(first) {
            self.state = State::Done;
        } else if first.strip_prefix(b"--") != Some(&self.boundary) {
            return Err(RangesError::BadBoundary);
        } else if self.stash.ends_with(b"\n\r\n") || self.stash.ends_with(b"\n\n") {
            let range = part_range(lines).ok_or(RangesError::BadPartHead)?;
            self.state =
                State::Data { offset: range.first, left: range.length, starts: Some(range) };
            self.stash.clear();
        }
        Ok(())
    }

    fn is_last_boundary(&self, line: &[u8]) -> bool {
        let inside =
            line.trim_ascii().strip_prefix(b"--").and_then(|line| line.strip_suffix(b"--"));
        inside == Some(&self.boundary)
    }
}

fn part_range<'a>(mut lines: impl Iterator<Item = &'a [u8]>) -> Option<ContentRange> {
    lines.find_map(|line| {
        let (name, value) = line.split_at(memchr::memchr(b':', line)?);
        let is_range = name.trim_ascii().eq_ignore_ascii_case(b"content-range");
        is_range.then(|| parse_content_range(&value[1..]))?
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BODY: &[u8] =
        b"--xyz\r\nContent-Type: a/b\r\nContent-Range: bytes 0-4/100\r\n\r\nhello\r\n\
        --xyz\r\nContent-range: bytes 90-99/100\r\n\r\n--xyz--\r\n9\r\n--xyz--\r\nepilogue";

    fn read(pieces: &[&[u8]]) -> Result<Vec<(u64, Vec<u8>)>, RangesError> {
        let mut parser = RangesParser::new(b"xyz");
        let mut parts: Vec<(u64, Vec<u8>)> = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            while let Some(piece) = parser.next(&mut input)? {
                match piece.starts {
                    Some(range) => parts.push((range.first, piece.bytes.to_vec())),
                    None => parts.last_mut().unwrap().1.extend_from_slice(piece.bytes),
                }
            }
        }
        parser.finish()?;
        Ok(parts)
    }

    #[test]
    fn parts_are_delimited_by_their_ranges_and_not_by_their_content() {
        let parts = read(&[BODY]).unwrap();
        assert_eq!(parts, [(0, b"hello".to_vec()), (90, b"--xyz--\r\n9".to_vec())]);
    }

    #[test]
    fn a_body_without_its_last_boundary_is_truncated() {
        assert_eq!(read(&[&BODY[..80]]), Err(RangesError::Truncated));
        assert_eq!(read(&[b""]), Err(RangesError::Truncated));
        assert_eq!(read(&[&BODY[..BODY.len() - 10]]).unwrap().len(), 2, "no break at the end");
    }

    #[test]
    fn parts_of_another_kind_are_refused() {
        assert_eq!(read(&[b"--abc\r\n"]), Err(RangesError::BadBoundary));
        assert_eq!(read(&[b"--xyz\r\nX: y\r\n\r\n"]), Err(RangesError::BadPartHead));
        let endless = [b"--xyz\r\nX: ".as_slice(), &[b'y'; 9000]].concat();
        assert_eq!(read(&[&endless]), Err(RangesError::PartHeadTooLarge));
    }

    #[test]
    fn content_ranges_are_parsed_and_impossible_ones_rejected() {
        let range = |first, length, total| Some(ContentRange { first, length, total });
        assert_eq!(parse_content_range(b"bytes 0-9/100"), range(0, 10, Some(100)));
        assert_eq!(parse_content_range(b"bytes 5-5/*"), range(5, 1, None));
        for value in [
            "bytes 9-0/100",
            "bytes 0-100/100",
            "bytes */100",
            "lines 0-1/2",
            "",
            "x",
            "bytes 0-18446744073709551615/*",
        ] {
            assert_eq!(parse_content_range(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn quoted_and_bare_boundaries_are_parsed() {
        let boundary = |text: &'static str| parse_boundary(text.as_bytes());
        assert_eq!(boundary("multipart/byteranges; boundary=xyz"), Some(b"xyz".as_slice()));
        assert_eq!(boundary("Multipart/ByteRanges;charset=x; Boundary=\"x y\""), Some(&b"x y"[..]));
        assert_eq!(boundary("multipart/byteranges; boundary="), None);
        assert_eq!(boundary("text/plain; boundary=x"), None);
    }

    proptest! {
        #[test]
        fn a_body_parses_the_same_for_any_split(first in 0..BODY.len(), second in 0..BODY.len()) {
            let (first, second) = (first.min(second), first.max(second));
            let cut = read(&[&BODY[..first], &BODY[first..second], &BODY[second..]]);
            prop_assert_eq!(cut, read(&[BODY]));
        }

        #[test]
        fn random_bytes_never_panic(noise in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&[b"--xyz\r\n", &noise]);
        }
    }
}
