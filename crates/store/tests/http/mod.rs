//! A minimal client: one request per connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// An answer.
pub(crate) struct Answer {
    /// The status line and the headers.
    pub(crate) head: String,
    /// The body.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Returns the HTTP status.
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|text| text.parse().ok()).expect("a status line")
    }
}

/// Sends a request and reads the answer to its end.
pub(crate) fn ask(to: SocketAddr, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut stream = TcpStream::connect(to).expect("the server listens");
    let mut request = format!("{line} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    stream.write_all(request.as_bytes()).expect("the server reads");
    stream.write_all(body).expect("the server reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("the server answers");
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
    let head = String::from_utf8(answer[..end].to_vec()).expect("a head of text");
    Answer { head, body: answer[end + 4..].to_vec() }
}
