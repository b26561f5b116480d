//! Connections that the store has no memory for: told so in the words of the API that they ask.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Uri};
use tokio::net::TcpStream;

use super::route::{self, Api};

/// How long a connection has to say what it asks for.
const WAIT: Duration = Duration::from_secs(1);
/// What is read of a request.
const HEAD_BYTES: usize = 4 << 10;
/// Connections that are waited for at once; what exceeds them is closed without a word. So all of them
/// take no more than 1 MiB.
const WAITING_MAX: usize = 128;
const FIELDS_MAX: usize = 64;

/// Connections that wait to be told.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    /// Answers a connection that no memory is left for, and closes it.
    pub(crate) fn refuse(&self, stream: TcpStream) {
        let waiting = self.0.clone();
        if waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        tokio::spawn(async move {
            let mut head = vec![0; HEAD_BYTES];
            // What was read is no reason to reset the connection, which would take the answer with it.
            let read = tokio::time::timeout(WAIT, read(&stream, &mut head)).await;
            let length = read.ok().and_then(Result::ok).unwrap_or(0);
            let answer = answer(api_of(&head[..length]));
            // It never waits: what does not fit into the socket at once is not sent.
            let _ = stream.try_write(answer.as_bytes());
            waiting.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

async fn read(stream: &TcpStream, head: &mut [u8]) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        match stream.try_read(head) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

/// Returns the API that the beginning of a request asks for.
fn api_of(head: &[u8]) -> Api {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    // A head that goes on, or is none, shows what it has shown.
    let _ = request.parse(head);
    let mut headers = HeaderMap::new();
    let signature =
        request.headers.iter().find(|field| field.name.eq_ignore_ascii_case("authorization"));
    if let Some(value) = signature.and_then(|field| HeaderValue::from_bytes(field.value).ok()) {
        headers.insert(AUTHORIZATION, value);
    }
    match request.path.and_then(|path| path.parse::<Uri>().ok()) {
        Some(uri) => route::api(&uri, &headers),
        None => Api::S3,
    }
}

fn answer(api: Api) -> String {
    let message = "memory_bytes_max has no room for another connection: close some, or raise it";
    let (kind, text) = match api {
        Api::S3 => (
            "application/xml",
            format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
                 <Error><Code>SlowDown</Code><Message>{message}</Message></Error>"
            ),
        ),
        Api::Swift => (
            "text/html; charset=UTF-8",
            format!("<html><h1>Service Unavailable</h1><p>{message}</p></html>"),
        ),
    };
    let length = text.len();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {kind}\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{text}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_request_shows_which_api_it_asks() {
        let of = |head: &str| api_of(head.as_bytes());
        assert_eq!(of("GET /v1/AUTH_test HTTP/1.1\r\nhost: a\r\n\r\n"), Api::Swift);
        assert_eq!(of("GET /auth/v1.0 HTTP/1.1\r\nhost: a"), Api::Swift);
        assert_eq!(of("GET /info HTTP/1.1\r\nAuthorization: AWS4-HMAC-SHA256 x\r\nx: "), Api::S3);
        assert_eq!(of("PUT /bucket/key HTTP/1.1\r\n"), Api::S3);
        for nothing in ["", "GET", "\0\r\n\r\n", "GET /\u{7f} HTTP/1.1\r\n\r\n"] {
            assert_eq!(of(nothing), Api::S3);
        }
    }
}
