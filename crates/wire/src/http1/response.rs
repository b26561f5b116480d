//! Parses responses: a head, then a body in one of the framings of RFC 9112.

use std::mem::MaybeUninit;

use super::{
    chunked::{Chunked, Piece},
    error::ParseError,
    request::Method,
};

/// Maximum length of a response head.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// Maximum number of interim (1xx) responses that are skipped.
pub const INTERIM_MAX: u32 = 32;
/// Maximum number of header lines in one head.
const HEADERS_MAX: usize = 128;
/// First bytes of every response.
const START: &[u8] = b"HTTP/1.";

#[derive(Clone, Copy, Debug)]
enum State {
    Head,
    Length(u64),
    Chunked(Chunked),
    UntilClose,
    Done,
}

/// Result of one step of parsing.
#[derive(Debug)]
pub struct Parsed<'a> {
    /// Number of bytes consumed from the input, including those of the event.
    pub consumed: usize,
    /// What the bytes contained.
    pub event: Event<'a>,
}

/// Event of a step of parsing.
#[derive(Debug)]
pub enum Event<'a> {
    /// The input is used up: provide more.
    More,
    /// The head of the response.
    Head(Head<'a>),
    /// Bytes of the body, without framing.
    Body(&'a [u8]),
    /// The response is complete. Remaining input does not belong to it.
    End,
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Status code, 200 to 999.
    pub status: u16,
    /// Length of the body, if it is announced; also for HEAD, where no body follows.
    pub content_length: Option<u64>,
    /// Whether the body is chunked.
    pub is_chunked: bool,
    /// Whether the connection may be reused after the body.
    pub keep_alive: bool,
    raw: &'a [u8],
}

impl<'a> Head<'a> {
    /// Iterates over the headers, with names as sent and values without surrounding blanks.
    /// Searches linearly, for headers that are rarely needed.
    pub fn headers(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let lines = self.raw.split(|&byte| byte == b'\n').skip(1);
        lines.filter_map(|line| {
            let (name, value) = line.split_at(memchr::memchr(b':', line)?);
            Some((name, value[1..].trim_ascii()))
        })
    }

    /// Returns the first value of a header, without surrounding blanks.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers()
            .find(|(field, _)| field.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// Returns the first value of a header, if it is valid text.
    pub fn header_text(&self, name: &str) -> Option<&'a str> {
        self.header(name).and_then(|value| std::str::from_utf8(value).ok())
    }
}

/// Parses one response after another, from input in pieces of any size.
#[derive(Debug)]
pub struct ResponseParser {
    state: State,
    /// Whether the request was a HEAD, whose response has no body.
    is_bodiless: bool,
    interim: u32,
    /// Whether any byte of the response has arrived.
    has_begun: bool,
    /// The start of a head that did not arrive in one piece.
    stash: Vec<u8>,
}

impl Default for ResponseParser {
    fn default() -> Self {
        Self {
            state: State::Done,
            is_bodiless: false,
            interim: 0,
            has_begun: false,
            stash: Vec::new(),
        }
    }
}

impl ResponseParser {
    /// Prepares for the response to a request with this method.
    pub fn start(&mut self, method: Method) {
        self.state = State::Head;
        self.is_bodiless = method == Method::Head;
        self.interim = 0;
        self.has_begun = false;
        self.stash.clear();
    }

    /// Returns whether any byte of the response has arrived.
    pub const fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Continues parsing. Call again with the remaining input, until `More` (provide new input) or
    /// `End`.
    ///
    /// # Errors
    ///
    /// Input that is not a response. The connection is then unusable.
    pub fn next<'a>(&'a mut self, input: &'a [u8]) -> Result<Parsed<'a>, ParseError> {
        if input.is_empty() && !matches!(self.state, State::Length(0) | State::Done) {
            return Ok(Parsed { consumed: 0, event: Event::More });
        }
        match &mut self.state {
            State::Head => self.next_head(input),
            State::Length(0) | State::Done => {
                self.state = State::Done;
                Ok(Parsed { consumed: 0, event: Event::End })
            }
            State::Length(left) => {
                let take = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                *left -= take as u64;
                Ok(Parsed { consumed: take, event: Event::Body(&input[..take]) })
            }
            State::UntilClose => Ok(Parsed { consumed: input.len(), event: Event::Body(input) }),
            State::Chunked(chunked) => Ok(match chunked.step(input)? {
                Piece::More(consumed) => Parsed { consumed, event: Event::More },
                Piece::Data(skip, length) => Parsed {
                    consumed: skip + length,
                    event: Event::Body(&input[skip..skip + length]),
                },
                Piece::End(consumed) => {
                    self.state = State::Done;
                    Parsed { consumed, event: Event::End }
                }
            }),
        }
    }

    /// Returns how many bytes of a body of known length are missing, if any.
    pub const fn body_left(&self) -> Option<u64> {
        match self.state {
            State::Length(left) if left > 0 => Some(left),
            _ => None,
        }
    }

    /// Skips bytes of a body of known length without inspecting them.
    ///
    /// # Panics
    ///
    /// Fewer bytes are left.
    pub fn skip(&mut self, bytes: u64) {
        match &mut self.state {
            State::Length(left) => *left -= bytes,
            _ => assert_eq!(bytes, 0, "only a body of known length can be skipped"),
        }
    }

    /// Checks whether the response was complete when the peer closed the connection.
    ///
    /// # Errors
    ///
    /// [`ParseError::Closed`] before the first byte, [`ParseError::Truncated`] within.
    pub fn close(&mut self) -> Result<(), ParseError> {
        match self.state {
            State::UntilClose | State::Done | State::Length(0) => {
                self.state = State::Done;
                Ok(())
            }
            State::Head if !self.has_begun => Err(ParseError::Closed),
            State::Head | State::Length(_) | State::Chunked(_) => Err(ParseError::Truncated),
        }
    }

    fn next_head<'a>(&'a mut self, input: &'a [u8]) -> Result<Parsed<'a>, ParseError> {
        self.has_begun = true;
        let mut position = 0;
        loop {
            let rest = &input[position..];
            if !self.stash.is_empty() {
                break;
            }
            if rest.is_empty() {
                return Ok(Parsed { consumed: position, event: Event::More });
            }
            // Almost every head arrives in one piece, and is parsed in place.
            let Some((mut framing, length)) = read_whole(rest)? else {
                break;
            };
            position += length;
            if !self.is_interim(framing.status)? {
                self.state = self.framing(&mut framing);
                let head = framing.head(&rest[..length]);
                return Ok(Parsed { consumed: position, event: Event::Head(head) });
            }
        }
        self.next_split_head(input, position)
    }

    /// Collects a head that arrives in pieces.
    fn next_split_head<'a>(
        &'a mut self,
        input: &'a [u8],
        mut position: usize,
    ) -> Result<Parsed<'a>, ParseError> {
        loop {
            let rest = &input[position..];
            let Some(length) = stash_head(&mut self.stash, rest)? else {
                return Ok(Parsed { consumed: input.len(), event: Event::More });
            };
            position += length;
            let (mut framing, _) = read_whole(&self.stash)?.ok_or(ParseError::BadHead)?;
            if !self.is_interim(framing.status)? {
                self.state = self.framing(&mut framing);
                let head = framing.head(&self.stash);
                return Ok(Parsed { consumed: position, event: Event::Head(head) });
            }
            self.stash.clear();
        }
    }

    fn is_interim(&mut self, status: u16) -> Result<bool, ParseError> {
        match status {
            101 => Err(ParseError::UnexpectedUpgrade),
            100..200 => {
                self.interim += 1;
                if self.interim > INTERIM_MAX { Err(ParseError::TooManyInterim) } else { Ok(true) }
            }
            _ => Ok(false),
        }
    }

    fn framing(&self, framing: &mut Framing) -> State {
        if self.is_bodiless || matches!(framing.status, 204 | 304) {
            return State::Length(0);
        }
        match (framing.is_chunked, framing.content_length) {
            (true, _) => State::Chunked(Chunked::new()),
            (false, Some(length)) => State::Length(length),
            (false, None) => {
                framing.keep_alive = false;
                State::UntilClose
            }
        }
    }
}

/// The parts of a head that determine the framing, copied.
struct Framing {
    status: u16,
    content_length: Option<u64>,
    is_chunked: bool,
    keep_alive: bool,
}

impl Framing {
    fn head<'a>(&self, raw: &'a [u8]) -> Head<'a> {
        Head {
            status: self.status,
            content_length: self.content_length,
            is_chunked: self.is_chunked,
            keep_alive: self.keep_alive,
            raw,
        }
    }
}

/// Parses a head that is complete in the input; `None` if its end has not arrived.
fn read_whole(input: &[u8]) -> Result<Option<(Framing, usize)>, ParseError> {
    // httparse would skip empty lines first; a response never starts with one.
    if !input.starts_with(START) {
        return if START.starts_with(input) { Ok(None) } else { Err(ParseError::NotHttp) };
    }
    let mut headers = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        input,
        &mut headers,
    );
    match parsed {
        Ok(httparse::Status::Complete(length)) if length <= HEAD_BYTES_MAX => {
            let framing = read_framing(&response)?;
            Ok(Some((framing, length)))
        }
        Ok(_) => Ok(None),
        // The same bytes must fail in the same way for all sizes of pieces, so an error counts only
        // once the head is complete.
        Err(error) => match head_end(input, 0) {
            Some(end) if end <= HEAD_BYTES_MAX => Err(match error {
                httparse::Error::TooManyHeaders => ParseError::HeadTooLarge,
                _ => ParseError::BadHead,
            }),
            _ => Ok(None),
        },
    }
}

fn read_framing(response: &httparse::Response<'_, '_>) -> Result<Framing, ParseError> {
    let status = response.code.ok_or(ParseError::BadHead)?;
    if status < 100 {
        return Err(ParseError::BadHead);
    }
    let mut framing = Framing {
        status,
        content_length: None,
        is_chunked: false,
        keep_alive: response.version == Some(1),
    };
    let mut is_coded = false;
    for header in response.headers.iter() {
        // The length distinguishes most headers without comparing bytes.
        match header.name.len() {
            10 if header.name.eq_ignore_ascii_case("connection") => {
                read_connection(header.value, &mut framing.keep_alive);
            }
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                let length = read_length(header.value)?;
                if framing.content_length.is_some_and(|earlier| earlier != length) {
                    return Err(ParseError::BadContentLength);
                }
                framing.content_length = Some(length);
            }
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                let coding = header.value.trim_ascii();
                if is_coded || !coding.eq_ignore_ascii_case(b"chunked") {
                    return Err(ParseError::BadTransferEncoding);
                }
                is_coded = true;
            }
            _ => {}
        }
    }
    framing.is_chunked = is_coded;
    if is_coded && framing.content_length.take().is_some() {
        // With both headers, chunked takes precedence, and the connection is not reused.
        framing.keep_alive = false;
    }
    Ok(framing)
}

fn read_connection(value: &[u8], keep_alive: &mut bool) {
    for option in value.split(|&byte| byte == b',') {
        let option = option.trim_ascii();
        if option.eq_ignore_ascii_case(b"close") {
            *keep_alive = false;
            return;
        }
        if option.eq_ignore_ascii_case(b"keep-alive") {
            *keep_alive = true;
        }
    }
}

fn read_length(value: &[u8]) -> Result<u64, ParseError> {
    let digits = value.trim_ascii();
    if digits.is_empty() {
        return Err(ParseError::BadContentLength);
    }
    digits.iter().try_fold(0_u64, |length, &digit| {
        if !digit.is_ascii_digit() {
            return Err(ParseError::BadContentLength);
        }
        length
            .checked_mul(10)
            .and_then(|length| length.checked_add(u64::from(digit - b'0')))
            .ok_or(ParseError::BadContentLength)
    })
}

/// Moves bytes up to the end of the head into the stash; returns their number once the end has
/// arrived.
fn stash_head(stash: &mut Vec<u8>, input: &[u8]) -> Result<Option<usize>, ParseError> {
    let had = stash.len();
    let room = (HEAD_BYTES_MAX + 1).saturating_sub(had);
    stash.extend_from_slice(&input[..input.len().min(room)]);
    let is_start = stash.starts_with(START) || START.starts_with(stash);
    if !is_start {
        return Err(ParseError::NotHttp);
    }
    // The end may be split between the old and the new bytes.
    match head_end(stash, had.saturating_sub(2)) {
        Some(end) if end <= HEAD_BYTES_MAX => {
            stash.truncate(end);
            Ok(Some(end - had))
        }
        _ if stash.len() > HEAD_BYTES_MAX => Err(ParseError::HeadTooLarge),
        _ => Ok(None),
    }
}

/// Returns the position after the empty line that ends a head.
fn head_end(bytes: &[u8], from: usize) -> Option<usize> {
    memchr::memchr_iter(b'\n', &bytes[from..]).find_map(|position| {
        let after = from + position + 1;
        match &bytes[after..] {
            [b'\n', ..] => Some(after + 1),
            [b'\r', b'\n', ..] => Some(after + 2),
            _ => None,
        }
    })
}
