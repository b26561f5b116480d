//! Writes request heads into a reused buffer.

use crate::encode::write_number;

/// The request methods that the drivers send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`
    Get,
    /// `PUT`
    Put,
    /// `HEAD`
    Head,
    /// `POST`
    Post,
    /// `DELETE`
    Delete,
    /// `COPY`, of Swift only
    Copy,
}

impl Method {
    /// Returns the method as in the request line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Delete => "DELETE",
            Self::Copy => "COPY",
        }
    }

    /// Returns the method with this name, if the drivers send it.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Get, Self::Put, Self::Head, Self::Post, Self::Delete, Self::Copy]
            .into_iter()
            .find(|method| method.name() == name)
    }

    /// Returns whether a request sent twice has the same effect as one sent once (RFC 9110, 9.2.2).
    pub const fn is_idempotent(self) -> bool {
        !matches!(self, Self::Post | Self::Copy)
    }
}

/// Writes the request line. `path` and `query` must be encoded; the query has no `?`.
pub fn request_line(out: &mut Vec<u8>, method: Method, path: &[u8], query: &[u8]) {
    out.extend_from_slice(method.name().as_bytes());
    out.push(b' ');
    out.extend_from_slice(path);
    if !query.is_empty() {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Writes one header line.
pub fn header(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    debug_assert!(
        !value.iter().any(|&byte| byte == b'\r' || byte == b'\n'),
        "a line break in a header value would start another header"
    );
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Writes one header line whose value is a number.
pub fn header_number(out: &mut Vec<u8>, name: &str, value: u64) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    write_number(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Ends the head.
pub fn finish(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_written_byte_for_byte() {
        let mut out = Vec::new();
        request_line(&mut out, Method::Get, b"/bucket", b"list-type=2");
        header(&mut out, "host", b"localhost");
        header_number(&mut out, "content-length", 0);
        header_number(&mut out, "x-big", u64::MAX);
        finish(&mut out);
        assert_eq!(
            out,
            b"GET /bucket?list-type=2 HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\
              x-big: 18446744073709551615\r\n\r\n"
        );
    }

    #[test]
    fn only_requests_that_may_be_sent_twice_are_idempotent() {
        assert!(Method::Put.is_idempotent() && Method::Delete.is_idempotent());
        assert!(!Method::Post.is_idempotent());
    }
}
