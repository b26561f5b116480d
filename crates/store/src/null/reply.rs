//! The null server's answers to requests for objects.

use std::io::Write;

use super::content::{Content, Object};
use super::control::Answer;
use super::request::{Range, Request};

/// Answers up to this size are created once, head and body in one piece.
pub(super) const READY_BYTES_MAX: u64 = 64 << 10;

/// Maximum size of several ranges in one body.
const RANGES_BYTES_MAX: u64 = 16 << 20;
const BOUNDARY: &str = "loadstone-null-server";

const ETAG: &str = "\"00000000000000000000000000000000\"";
/// A fixed date, because a null server stores no times.
const MODIFIED: &str = "Sat, 01 Jan 2000 00:00:00 GMT";

/// An answer to send.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    /// Bytes that are always the same.
    Ready(&'static [u8]),
    /// A whole object of the default size.
    UsualObject,
    /// A head for this request, possibly followed by bytes of an object.
    Written { head: Vec<u8>, body: Option<Slice> },
}

/// Bytes of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slice {
    pub(super) object: Object,
    pub(super) at: u64,
    pub(super) end: u64,
}

const NO_CONTENT: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
const ACCEPTED: &[u8] = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
const WRITTEN_S3: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\
    ETag: \"00000000000000000000000000000000\"\r\n\r\n";
const WRITTEN_SWIFT: &[u8] = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\
    Etag: 00000000000000000000000000000000\r\n\r\n";
pub(super) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
pub(super) const BAD_REQUEST: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
pub(super) const TOO_LARGE: &[u8] =
    b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const NOT_FOUND: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
const UNSATISFIABLE: &[u8] = b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n";

/// Returns the answer to a request for an object.
pub(super) fn to_object(request: &Request<'_>, content: &Content) -> Reply {
    match request.method {
        "GET" if request.parameter("uploadId").is_none() => read(request, content),
        "HEAD" => ask(request, content),
        "PUT" if request.is_copy => {
            xml("<CopyObjectResult><ETag>&quot;0&quot;</ETag></CopyObjectResult>")
        }
        "PUT" | "COPY" if request.is_swift() => Reply::Ready(WRITTEN_SWIFT),
        "PUT" => Reply::Ready(WRITTEN_S3),
        "DELETE" => Reply::Ready(NO_CONTENT),
        "POST" if request.is_swift() => Reply::Ready(ACCEPTED),
        "POST" | "GET" => multipart(request),
        _ => Reply::Ready(BAD_REQUEST),
    }
}

fn read(request: &Request<'_>, content: &Content) -> Reply {
    if request.query.is_empty() && request.ranges.is_empty() && content.usual_bytes().is_some() {
        return Reply::UsualObject;
    }
    let Some(object) = find(request, content) else { return Reply::Ready(NOT_FOUND) };
    let slice = |(first, last): &Range| {
        let end = last.map_or(object.bytes, |last| last.saturating_add(1).min(object.bytes));
        (*first < end).then_some(Slice { object, at: *first, end })
    };
    match request.ranges.as_slice() {
        [] => {
            let head = object_head(object.bytes, None);
            Reply::Written { head, body: Some(Slice { object, at: 0, end: object.bytes }) }
        }
        [range] => match slice(range) {
            None => Reply::Ready(UNSATISFIABLE),
            Some(slice) => {
                let head = object_head(
                    slice.end - slice.at,
                    Some((slice.at, slice.end - 1, object.bytes)),
                );
                Reply::Written { head, body: Some(slice) }
            }
        },
        ranges => many(&ranges.iter().filter_map(slice).collect::<Vec<_>>(), content),
    }
}

/// Writes several ranges into one body, which is generated whole, because they are assumed to be
/// short.
fn many(slices: &[Slice], content: &Content) -> Reply {
    let bytes: u64 = slices.iter().map(|slice| slice.end - slice.at).sum();
    if slices.is_empty() || bytes > RANGES_BYTES_MAX {
        return Reply::Ready(UNSATISFIABLE);
    }
    let mut body = Vec::with_capacity(bytes as usize + slices.len() * 128);
    for slice in slices {
        // Writing to memory does not fail.
        let _ = write!(
            body,
            "\r\n--{BOUNDARY}\r\nContent-Type: application/octet-stream\r\n\
             Content-Range: bytes {}-{}/{}\r\n\r\n",
            slice.at,
            slice.end - 1,
            slice.object.bytes,
        );
        let start = body.len();
        body.resize(start + (slice.end - slice.at) as usize, 0);
        content.fill(slice.object, slice.at, &mut body[start..]);
    }
    let _ = write!(body, "\r\n--{BOUNDARY}--\r\n");
    let mut head = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\n\
         Content-Type: multipart/byteranges; boundary={BOUNDARY}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    head.append(&mut body);
    Reply::Written { head, body: None }
}

fn ask(request: &Request<'_>, content: &Content) -> Reply {
    match find(request, content) {
        Some(object) => Reply::Written { head: object_head(object.bytes, None), body: None },
        None => Reply::Ready(NOT_FOUND),
    }
}

fn find(request: &Request<'_>, content: &Content) -> Option<Object> {
    let bytes_asked = request.parameter("size").and_then(|size| size.parse().ok());
    content.object(request.place().1, bytes_asked)
}

/// Writes the head of an answer with `length` bytes of an object.
pub(super) fn object_head(length: u64, range: Option<(u64, u64, u64)>) -> Vec<u8> {
    let mut head = Vec::with_capacity(256);
    let status = if range.is_some() { "206 Partial Content" } else { "200 OK" };
    // Writing to memory does not fail.
    let _ = write!(
        head,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\
         Content-Type: application/octet-stream\r\nETag: {ETAG}\r\n\
         Last-Modified: {MODIFIED}\r\nAccept-Ranges: bytes\r\n"
    );
    if let Some((first, last, whole)) = range {
        let _ = write!(head, "Content-Range: bytes {first}-{last}/{whole}\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn multipart(request: &Request<'_>) -> Reply {
    if request.parameter("uploads").is_some() {
        return xml("<InitiateMultipartUploadResult><UploadId>null</UploadId>\
             </InitiateMultipartUploadResult>");
    }
    if request.method == "GET" {
        return xml("<ListPartsResult><IsTruncated>false</IsTruncated></ListPartsResult>");
    }
    xml(
        "<CompleteMultipartUploadResult><ETag>&quot;0-1&quot;</ETag></CompleteMultipartUploadResult>",
    )
}

fn xml(document: &str) -> Reply {
    let body = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>{document}");
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nContent-Type: application/xml\r\n\r\n{body}",
        body.len()
    );
    Reply::Written { head: head.into_bytes(), body: None }
}

/// Writes an answer from the table of buckets; that to a HEAD has no body.
pub(super) fn of_control(answer: Answer, method: &str) -> Reply {
    let mut head = format!("HTTP/1.1 {}\r\n", answer.status);
    for (name, value) in answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !answer.status.starts_with("204") {
        head.push_str(&format!("Content-Length: {}\r\n", answer.body.len()));
    }
    head.push_str("\r\n");
    let mut head = head.into_bytes();
    if method != "HEAD" && !answer.status.starts_with("204") {
        head.extend_from_slice(&answer.body);
    }
    Reply::Written { head, body: None }
}
