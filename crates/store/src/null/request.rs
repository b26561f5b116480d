//! Parses the head of a request, as far as the null server needs it.

/// Maximum length of a head.
pub(super) const HEAD_BYTES_MAX: usize = 32 << 10;
const HEADERS_MAX: usize = 64;

/// The parsed head of a request.
#[derive(Debug, PartialEq)]
pub(super) struct Request<'b> {
    pub(super) method: &'b str,
    pub(super) path: &'b str,
    pub(super) query: &'b str,
    /// The requested ranges; empty if the header is absent or invalid.
    pub(super) ranges: Vec<Range>,
    pub(super) body: BodyForm,
    pub(super) waits_for_continue: bool,
    pub(super) is_copy: bool,
    pub(super) closes: bool,
    /// Length of the head.
    pub(super) head_bytes: usize,
}

/// Framing of a request's body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum BodyForm {
    Length(u64),
    Chunked,
}

/// Result of parsing.
#[derive(Debug, PartialEq)]
pub(super) enum Parsed<'b> {
    Request(Request<'b>),
    /// The head is not complete.
    Partial,
    Invalid,
}

/// Parses the head of a request.
pub(super) fn parse(bytes: &[u8]) -> Parsed<'_> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let head_bytes = match head.parse(bytes) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) if bytes.len() <= HEAD_BYTES_MAX => return Parsed::Partial,
        _ => return Parsed::Invalid,
    };
    let target = head.path.unwrap_or("/");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        method: head.method.unwrap_or_default(),
        path,
        query,
        ranges: Vec::new(),
        body: BodyForm::Length(0),
        waits_for_continue: false,
        is_copy: false,
        closes: head.version == Some(0),
        head_bytes,
    };
    for header in head.headers.iter() {
        if !note(&mut request, header.name, header.value) {
            return Parsed::Invalid;
        }
    }
    Parsed::Request(request)
}

/// Processes a header; returns whether it is valid.
fn note(request: &mut Request<'_>, name: &str, value: &[u8]) -> bool {
    // Distinguished by length first, because most headers are irrelevant here.
    match name.len() {
        5 if name.eq_ignore_ascii_case("range") => request.ranges = parse_ranges(value),
        6 if name.eq_ignore_ascii_case("expect") => request.waits_for_continue = true,
        10 if name.eq_ignore_ascii_case("connection") => {
            request.closes |= value.eq_ignore_ascii_case(b"close");
        }
        14 if name.eq_ignore_ascii_case("content-length") => {
            match std::str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok()) {
                Some(length) if request.body != BodyForm::Chunked => {
                    request.body = BodyForm::Length(length);
                }
                Some(_) => {}
                None => return false,
            }
        }
        17 if name.eq_ignore_ascii_case("transfer-encoding") => request.body = BodyForm::Chunked,
        17 if name.eq_ignore_ascii_case("x-amz-copy-source") => request.is_copy = true,
        _ => {}
    }
    true
}

/// A range with a beginning: first byte and, unless it is open, last byte.
pub(super) type Range = (u64, Option<u64>);

/// Parses ranges; if one is invalid, the whole object is meant.
fn parse_ranges(value: &[u8]) -> Vec<Range> {
    let list = std::str::from_utf8(value).ok().and_then(|text| text.strip_prefix("bytes="));
    let parsed: Option<Vec<_>> = list.and_then(|list| list.split(',').map(parse_range).collect());
    parsed.unwrap_or_default()
}

fn parse_range(text: &str) -> Option<Range> {
    let (first, last) = text.trim().split_once('-')?;
    let first = first.parse().ok()?;
    match last {
        "" => Some((first, None)),
        last => last.parse().ok().filter(|last| *last >= first).map(|last| (first, Some(last))),
    }
}

impl Request<'_> {
    /// Returns a parameter of the query; one without a value is empty.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| {
            let (known, value) = pair.split_once('=').unwrap_or((pair, ""));
            (known == name).then_some(value)
        })
    }

    /// Returns bucket and key for either API; the key may be empty.
    pub(super) fn place(&self) -> (&str, &str) {
        let path = self.path.strip_prefix('/').unwrap_or(self.path);
        let path = match self.is_swift() {
            true => path.splitn(3, '/').nth(2).unwrap_or_default(),
            false => path,
        };
        path.split_once('/').unwrap_or((path, ""))
    }

    pub(super) fn is_swift(&self) -> bool {
        self.path.starts_with("/v1/")
    }
}

/// State of reading a chunked body.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Chunked {
    /// In a line with a chunk's size, or in a trailer, with the size parsed so far.
    #[default]
    SizeStart,
    Size(u64),
    /// After the size, in an extension.
    Extension(u64),
    Data(u64),
    /// After the data, before the end of its line.
    DataEnd,
    TrailerStart,
    Trailer,
    Done,
}

impl Chunked {
    /// Skips bytes; returns how many belong to the body, or `None` if they are not chunks.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() && *self != Chunked::Done {
            if let Chunked::Data(left) = self {
                let piece = (*left).min((bytes.len() - at) as u64);
                at += piece as usize;
                *left -= piece;
                if *left == 0 {
                    *self = Chunked::DataEnd;
                }
                continue;
            }
            let byte = bytes[at];
            at += 1;
            *self = match (*self, byte) {
                (Chunked::Size(0), b'\n') | (Chunked::Extension(0), b'\n') => Chunked::TrailerStart,
                (Chunked::Size(size) | Chunked::Extension(size), b'\n') => Chunked::Data(size),
                (Chunked::Size(size), b'\r') => Chunked::Size(size),
                (Chunked::Size(size) | Chunked::Extension(size), b';') => Chunked::Extension(size),
                (Chunked::Extension(size), _) => Chunked::Extension(size),
                (Chunked::SizeStart, digit) => Chunked::Size(hex_digit(digit)?),
                (Chunked::Size(size), digit) if size < 1 << 56 => {
                    Chunked::Size(size * 16 + hex_digit(digit)?)
                }
                (Chunked::DataEnd, b'\r') => Chunked::DataEnd,
                (Chunked::DataEnd, b'\n') => Chunked::SizeStart,
                (Chunked::TrailerStart, b'\r') => Chunked::TrailerStart,
                (Chunked::TrailerStart, b'\n') => Chunked::Done,
                (Chunked::TrailerStart, _) => Chunked::Trailer,
                (Chunked::Trailer, b'\n') => Chunked::TrailerStart,
                (Chunked::Trailer, _) => Chunked::Trailer,
                _ => return None,
            };
        }
        Some(at)
    }
}

fn hex_digit(byte: u8) -> Option<u64> {
    (byte as char).to_digit(16).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Request<'_> {
        match parse(text.as_bytes()) {
            Parsed::Request(request) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_relevant_parts_of_heads_are_parsed() {
        let text = "PUT /b/k?partNumber=1&size=9 HTTP/1.1\r\nHost: x\r\ncontent-length: 12\r\n\
                    RANGE: bytes=5-9\r\nExpect: 100-continue\r\nConnection: Close\r\n\r\nbody";
        let read = request(text);
        assert_eq!((read.method, read.path), ("PUT", "/b/k"));
        assert_eq!(read.parameter("size"), Some("9"));
        assert_eq!(read.parameter("uploads"), None);
        assert_eq!(read.ranges, [(5, Some(9))]);
        assert_eq!(read.body, BodyForm::Length(12));
        assert!(read.closes && read.waits_for_continue);
        assert_eq!(&text[read.head_bytes..], "body");
        assert_eq!(read.place(), ("b", "k"));
    }

    #[test]
    fn ranges_are_parsed_or_ignored() {
        assert_eq!(parse_ranges(b"bytes=1-"), [(1, None)]);
        assert_eq!(parse_ranges(b"bytes=1-2, 5-9"), [(1, Some(2)), (5, Some(9))]);
        assert!(parse_ranges(b"bytes=1-2,-5").is_empty());
        assert!(parse_ranges(b"bytes=2-1").is_empty());
    }

    #[test]
    fn swift_paths_contain_bucket_and_key_after_the_account() {
        let place = |path: &str| {
            let text = format!("GET {path} HTTP/1.1\r\n\r\n");
            let read = request(&text);
            (read.place().0.to_owned(), read.place().1.to_owned())
        };
        assert_eq!(place("/v1/AUTH_t/c/a/b"), ("c".into(), "a/b".into()));
        assert_eq!(place("/v1/AUTH_t/c"), ("c".into(), String::new()));
        assert_eq!(place("/v1/AUTH_t"), (String::new(), String::new()));
        assert_eq!(place("/bucket/"), ("bucket".into(), String::new()));
    }

    #[test]
    fn incomplete_heads_wait_and_malformed_ones_are_invalid() {
        assert_eq!(parse(b"GET / HT"), Parsed::Partial);
        assert_eq!(parse(b"\0\0\0"), Parsed::Invalid);
        assert_eq!(parse(b"GET / HTTP/1.1\r\ncontent-length: x\r\n\r\n"), Parsed::Invalid);
        assert_eq!(parse(&[b'A'; HEAD_BYTES_MAX + 1]), Parsed::Invalid);
    }

    #[test]
    fn chunked_bodies_end_at_the_same_position_for_any_split() {
        let body =
            b"4\r\nWiki\r\n1F;name=value\r\n0123456789012345678901234567890\r\n0\r\nA: b\r\n\r\n";
        let with_next = [&body[..], b"GET"].concat();
        for cut in 0..body.len() {
            let mut state = Chunked::default();
            let first = state.pass(&with_next[..cut]).unwrap();
            let second = state.pass(&with_next[first..]).unwrap();
            assert_eq!((first + second, state), (body.len(), Chunked::Done), "cut at {cut}");
        }
        assert_eq!(Chunked::default().pass(b"x\r\n"), None);
    }
}
