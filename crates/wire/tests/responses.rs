//! Responses, whole and in pieces, valid and hostile.

use loadstone_wire::http1::{Event, HEAD_BYTES_MAX, Method, ParseError, ResponseParser};
use proptest::prelude::*;

/// A parsed response.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ParsedResponse {
    status: u16,
    keep_alive: bool,
    etag: Option<Vec<u8>>,
    body: Vec<u8>,
    /// Number of bytes after the end of the response.
    left: usize,
}

/// Feeds the parser one piece after another, then the end of the stream.
fn read(method: Method, pieces: &[&[u8]]) -> Result<ParsedResponse, ParseError> {
    let mut parser = ResponseParser::default();
    parser.start(method);
    let total: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut used = 0;
    let mut response =
        ParsedResponse { status: 0, keep_alive: false, etag: None, body: Vec::new(), left: 0 };
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let progress = parser.next(rest)?;
            used += progress.consumed;
            let consumed = progress.consumed;
            match progress.event {
                Event::More => break assert_eq!(consumed, rest.len()),
                Event::Head(head) => {
                    response.status = head.status;
                    response.keep_alive = head.keep_alive;
                    response.etag = head.header("ETag").map(<[u8]>::to_vec);
                }
                Event::Body(bytes) => response.body.extend_from_slice(bytes),
                Event::End => return Ok(ParsedResponse { left: total - used, ..response }),
            }
            rest = &rest[consumed..];
        }
    }
    parser.close()?;
    Ok(response)
}

fn get(response: &str) -> Result<ParsedResponse, ParseError> {
    read(Method::Get, &[response.as_bytes()])
}

#[test]
fn a_body_of_known_length_is_read_to_its_end_and_no_further() {
    let response =
        get("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag:  \"x\" \r\n\r\nhelloHTTP").unwrap();
    assert_eq!(response.body, b"hello");
    assert_eq!(response.left, 4, "bytes behind the body are left for the caller to object to");
    assert_eq!(response.etag.as_deref(), Some(b"\"x\"".as_slice()));
    assert!(response.keep_alive);
}

#[test]
fn a_chunked_body_is_returned_without_extensions_and_trailers() {
    let response = get("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n\
                    5;name=value\r\nhello\r\n00A \r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\nrest")
    .unwrap();
    assert_eq!(response.body, b"hello0123456789");
    assert_eq!((response.left, response.keep_alive), (4, true));
}

#[test]
fn a_body_without_length_ends_with_the_connection() {
    let response = get("HTTP/1.1 200 OK\r\n\r\nall of it").unwrap();
    assert_eq!((response.body.as_slice(), response.keep_alive), (b"all of it".as_slice(), false));
}

#[test]
fn answers_without_a_body_leave_the_connection_usable() {
    for status in ["204 No Content", "304 Not Modified"] {
        let response = get(&format!("HTTP/1.1 {status}\r\n\r\n")).unwrap();
        assert!(response.body.is_empty() && response.keep_alive, "{status}");
    }
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 4096\r\n\r\n";
    assert!(read(Method::Head, &[head]).unwrap().keep_alive);
    assert!(read(Method::Head, &[b"HTTP/1.1 200 OK\r\n\r\n"]).unwrap().keep_alive);
}

#[test]
fn interim_answers_are_skipped() {
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n";
    let response =
        get(&format!("{interim}HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")).unwrap();
    assert_eq!(response.status, 201);
    let endless = interim.repeat(20);
    assert_eq!(get(&endless), Err(ParseError::TooManyInterim));
    assert_eq!(get("HTTP/1.1 101 x\r\n\r\n"), Err(ParseError::UnexpectedUpgrade));
}

#[test]
fn the_connection_header_and_the_version_say_whether_it_may_be_used_again() {
    let keep_alive = |version: &str, connection: &str| {
        get(&format!("{version} 200 OK\r\n{connection}Content-Length: 0\r\n\r\n"))
            .unwrap()
            .keep_alive
    };
    assert!(keep_alive("HTTP/1.1", ""));
    assert!(!keep_alive("HTTP/1.1", "Connection: Close\r\n"));
    assert!(!keep_alive("HTTP/1.1", "connection: x, close\r\n"));
    assert!(!keep_alive("HTTP/1.0", ""));
    assert!(keep_alive("HTTP/1.0", "Connection: keep-alive\r\n"));
}

#[test]
fn contradictory_framing_is_refused_or_closes_the_connection() {
    let framed = |headers: &str| get(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n0\r\n\r\n"));
    for lengths in ["-1", "+1", "", "1,2", "0x10", "18446744073709551616", "1 2"] {
        let response = framed(&format!("Content-Length: {lengths}\r\n"));
        assert_eq!(response, Err(ParseError::BadContentLength), "{lengths:?}");
    }
    let twice = framed("Content-Length: 1\r\nContent-Length: 2\r\n");
    assert_eq!(twice, Err(ParseError::BadContentLength));
    assert_eq!(framed("Content-Length: 1\r\nContent-Length: 1\r\n").unwrap().body, b"0");
    for coding in ["gzip", "gzip, chunked", "chunked\r\nTransfer-Encoding: chunked"] {
        let response = framed(&format!("Transfer-Encoding: {coding}\r\n"));
        assert_eq!(response, Err(ParseError::BadTransferEncoding), "{coding:?}");
    }
    let both = framed("Transfer-Encoding: chunked\r\nContent-Length: 99\r\n").unwrap();
    assert!(both.body.is_empty() && !both.keep_alive);
}

#[test]
fn broken_chunks_are_refused() {
    let chunked =
        |body: &str| get(&format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}"));
    for body in
        ["x\r\n", "\r\n", ";\r\n", "5\rx", "1\r\nab\r\n", "1\r\na\n", "11112222333344445\r\n"]
    {
        assert_eq!(chunked(body), Err(ParseError::BadChunk), "{body:?}");
    }
    assert_eq!(chunked(&format!("1;{}", "x".repeat(5000))), Err(ParseError::ChunkLineTooLong));
    let trailers = format!("0\r\n{}", "a: b\r\n".repeat(20_000));
    assert_eq!(chunked(&trailers), Err(ParseError::HeadTooLarge));
    assert_eq!(chunked("5\r\nhel"), Err(ParseError::Truncated));
    assert_eq!(chunked("0\r\n"), Err(ParseError::Truncated));
}

#[test]
fn garbage_and_endless_heads_are_refused() {
    assert_eq!(get("SSH-2.0-OpenSSH\r\n"), Err(ParseError::NotHttp));
    assert_eq!(get("\r\nHTTP/1.1 200 OK\r\n\r\n"), Err(ParseError::NotHttp));
    assert_eq!(get("HTTP/1.1 OK\r\n\r\n"), Err(ParseError::BadHead));
    assert_eq!(get("HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), Err(ParseError::BadHead));
    assert_eq!(get("HTTP/1.1 099 OK\r\n\r\n"), Err(ParseError::BadHead));
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(HEAD_BYTES_MAX));
    assert_eq!(get(&endless), Err(ParseError::HeadTooLarge));
    assert_eq!(get(&format!("{endless}\r\n\r\n")), Err(ParseError::HeadTooLarge));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "a: b\r\n".repeat(200));
    assert_eq!(get(&many), Err(ParseError::HeadTooLarge));
}

#[test]
fn the_end_of_the_stream_is_distinguished_from_a_truncated_answer() {
    assert_eq!(read(Method::Get, &[]), Err(ParseError::Closed));
    assert_eq!(get("HTTP/1.1 200 OK\r\nContent-Le"), Err(ParseError::Truncated));
    assert_eq!(get("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"), Err(ParseError::Truncated));
}

/// Fragments that are combined at random into valid, almost valid and invalid responses.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop::sample::select(vec![
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.0 503 Slow\n",
        "HTTP/1.1 204\r\n",
        "Content-Length: 7\r\n",
        "Content-Length: x\r\n",
        "Transfer-Encoding: chunked\r\n",
        "ETag: \"a\"\r\n",
        "Connection: close\r\n",
        "bad header\r\n",
        "\r\n",
        "\n",
        "3\r\nabc\r\n",
        "0\r\n\r\n",
        "payload",
    ]);
    prop::collection::vec(fragment, 0..9).prop_map(|parts| parts.concat().into_bytes())
}

fn cut<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut ends: Vec<usize> = cuts.iter().map(|index| index.index(bytes.len() + 1)).collect();
    ends.extend([0, bytes.len()]);
    ends.sort_unstable();
    ends.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

/// Removes the number of remaining bytes, which depends on how the input was split, before
/// comparing results.
fn without_left(
    response: Result<ParsedResponse, ParseError>,
) -> Result<ParsedResponse, ParseError> {
    response.map(|response| ParsedResponse { left: 0, ..response })
}

proptest! {
    #[test]
    fn an_answer_parses_the_same_for_any_split(
        bytes in fragments(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let whole = without_left(read(Method::Get, &[&bytes]));
        prop_assert_eq!(without_left(read(Method::Get, &cut(&bytes, &cuts))), whole.clone());
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(without_left(read(Method::Get, &single)), whole);
    }

    #[test]
    fn an_answer_after_a_valid_start_parses_the_same_for_any_split(
        mut tail in fragments(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut bytes = b"HTTP/1.1 200 OK\r\n".to_vec();
        bytes.append(&mut tail);
        let whole = without_left(read(Method::Get, &[&bytes]));
        prop_assert_eq!(without_left(read(Method::Get, &cut(&bytes, &cuts))), whole);
    }

    #[test]
    fn random_bytes_never_panic(
        start in prop::bool::ANY,
        noise in prop::collection::vec(any::<u8>(), 0..300),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        let mut bytes = if start { b"HTTP/1.1 200 ".to_vec() } else { Vec::new() };
        bytes.extend(noise);
        let whole = without_left(read(Method::Get, &[&bytes]));
        prop_assert_eq!(without_left(read(Method::Get, &cut(&bytes, &cuts))), whole);
    }

    #[test]
    fn chunks_of_random_bytes_never_panic(noise in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        bytes.extend(noise);
        let _ = read(Method::Get, &[&bytes]);
    }
}
