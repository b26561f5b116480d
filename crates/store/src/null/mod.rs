//! A server that stores nothing, against which a load generator measures its own ceiling.
//!
//! It implements enough of S3 and Swift, without credentials, for the drivers of both to run a
//! whole trial: bodies of writes are dropped inside the kernel, reads are answered with fixed bytes
//! or with payload that verifies, and buckets with their marks are stored. One thread per core, raw
//! epoll, no runtime, no allocation on the path of a small read or write.

mod connection;
mod content;
mod control;
mod poll;
mod reply;
mod request;
mod worker;

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use serde::Deserialize;

use self::connection::Shared;
use self::content::Content;
use self::control::Memory;
use self::poll::{Interest, Poll};
use self::worker::Inbox;
use crate::error::StoreError;

/// The configuration of a [`NullServer`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NullConfig {
    /// Address to listen on; loopback by default.
    pub bind: String,
    /// Port to listen on; 0 selects a free one.
    pub port: u16,
    /// Number of serving threads; one for each allowed processor when absent.
    pub threads: Option<usize>,
    /// Size of every object; a read may request another with `?size=BYTES`.
    pub object_bytes: u64,
    /// Trial document: reads return the payload of its objects, which verifies.
    pub trial: Option<serde_json::Value>,
}

impl Default for NullConfig {
    fn default() -> Self {
        NullConfig {
            bind: "127.0.0.1".to_owned(),
            port: 0,
            threads: None,
            object_bytes: 4096,
            trial: None,
        }
    }
}

impl NullConfig {
    /// Parses a configuration from JSON; unknown keys are errors.
    pub fn parse(json: &str) -> Result<NullConfig, StoreError> {
        Ok(serde_json::from_str(json)?)
    }
}

/// Counters of a null server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NullCounters {
    /// Requests answered or in progress.
    pub requests: u64,
    /// Accepted connections.
    pub connections: u64,
    /// Open connections.
    pub connections_open: u64,
    /// Received bytes, including heads.
    pub bytes_received: u64,
    /// Sent bytes, including heads.
    pub bytes_sent: u64,
}

/// The counters of one thread, in separate cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Counters {
    requests: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
    accepted: AtomicU64,
    closed: AtomicU64,
}

impl Counters {
    fn add_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn accept(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    fn close(&self) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }

    fn open(&self) -> u64 {
        let closed = self.closed.load(Ordering::Relaxed);
        self.accepted.load(Ordering::Relaxed).saturating_sub(closed)
    }
}

/// A running null server; it stops when it is dropped.
#[derive(Debug)]
pub struct NullServer {
    address: SocketAddr,
    stop: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
    counters: Vec<Arc<Counters>>,
}

impl NullServer {
    /// Starts a null server on its own threads; it is listening when this returns.
    pub fn start(config: &NullConfig) -> Result<NullServer, StoreError> {
        let system = |action| move |source| StoreError::System { action, source };
        let shared = Arc::new(prepare(config)?);
        let listener = listen(config)?;
        let address = listener.local_addr().map_err(system("name the listening socket"))?;
        let stop = Arc::new(poll::wake_channel().map_err(system("make an eventfd"))?);
        let mut server =
            NullServer { address, stop: stop.clone(), threads: Vec::new(), counters: Vec::new() };
        let mut inboxes = Vec::new();
        let threads = config.threads.unwrap_or_else(|| {
            std::thread::available_parallelism().map_or(1, |threads| threads.get())
        });
        for _ in 0..threads.max(1) {
            let poll = watching(&[stop.as_fd()]).map_err(system("make an epoll"))?;
            let counters = Arc::new(Counters::default());
            let inbox = Arc::new(Inbox::new(&poll, counters.clone()));
            server.counters.push(counters);
            inboxes.push(inbox.clone());
            let (shared, stop) = (shared.clone(), stop.clone());
            server.spawn(move || worker::serve(poll, &shared, &inbox, &stop))?;
        }
        let poll = watching(&[stop.as_fd(), listener.as_fd()]).map_err(system("make an epoll"))?;
        server.spawn(move || worker::accept(&listener, poll, &inboxes, &stop))?;
        Ok(server)
    }

    fn spawn(&mut self, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
        let thread = std::thread::Builder::new().name("null-server".to_owned()).spawn(work);
        let action = "start a thread of the null server";
        self.threads.push(thread.map_err(|source| StoreError::System { action, source })?);
        Ok(())
    }

    /// Returns the port that the server listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> NullCounters {
        let mut sum = NullCounters::default();
        for counters in &self.counters {
            sum.requests += counters.requests.load(Ordering::Relaxed);
            sum.connections += counters.accepted.load(Ordering::Relaxed);
            sum.connections_open += counters.open();
            sum.bytes_received += counters.received.load(Ordering::Relaxed);
            sum.bytes_sent += counters.sent.load(Ordering::Relaxed);
        }
        sum
    }

    /// Stops the server: closes its connections and waits for its threads.
    pub fn stop(&mut self) {
        poll::wake(&self.stop);
        for thread in self.threads.drain(..) {
            // A panic of a thread was reported; the others must still be joined.
            let _ = thread.join();
        }
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn prepare(config: &NullConfig) -> Result<Shared, StoreError> {
    let content = match &config.trial {
        Some(trial) => Content::payload(&trial.to_string())?,
        None => Content::fixed(config.object_bytes)?,
    };
    let usual = content.usual_bytes().filter(|bytes| *bytes <= reply::READY_BYTES_MAX);
    let usual = usual.and_then(|bytes| {
        let object = content.object("", Some(bytes))?;
        let mut whole = reply::object_head(bytes, None);
        let head_bytes = whole.len();
        whole.resize(head_bytes + bytes as usize, 0);
        content.fill(object, 0, &mut whole[head_bytes..]);
        Some(whole)
    });
    Ok(Shared { content, memory: Memory::default(), usual })
}

fn listen(config: &NullConfig) -> Result<TcpListener, StoreError> {
    let (bind, port) = (config.bind.as_str(), config.port);
    let failed = |source| StoreError::Listen { address: format!("{bind}:{port}"), source };
    let listener = TcpListener::bind((bind, port)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    // The standard library's backlog is too short for ten thousand clients that start at once.
    rustix::net::listen(&listener, 16_384).map_err(|error| failed(error.into()))?;
    Ok(listener)
}

fn watching(descriptors: &[BorrowedFd<'_>]) -> std::io::Result<Poll> {
    let poll = Poll::new()?;
    for descriptor in descriptors {
        poll.watches().add(descriptor, Interest::Read)?;
    }
    Ok(poll)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    fn start(object_bytes: u64) -> NullServer {
        NullServer::start(&NullConfig { object_bytes, ..NullConfig::default() }).unwrap()
    }

    /// Sends bytes, shuts down the sending side, and returns everything that is received.
    fn talk(server: &NullServer, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let bytes = bytes.to_vec();
        let sender = std::thread::spawn(move || writer.write_all(&bytes));
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        sender.join().unwrap().unwrap();
        answer
    }

    fn count(answer: &[u8], text: &str) -> usize {
        answer.windows(text.len()).filter(|window| *window == text.as_bytes()).count()
    }

    #[test]
    fn requests_in_one_packet_are_all_answered_in_order() {
        let server = start(100);
        let requests = "GET /b/k HTTP/1.1\r\n\r\nPUT /b/k HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello\
                        HEAD /b/k HTTP/1.1\r\n\r\nDELETE /b/k HTTP/1.1\r\nConnection: close\r\n\r\n";
        let answer = talk(&server, requests.as_bytes());
        assert_eq!(count(&answer, "HTTP/1.1 200 OK"), 3);
        assert!(answer.ends_with(b"HTTP/1.1 204 No Content\r\n\r\n"));
        assert_eq!(server.counters().requests, 4);
    }

    #[test]
    fn large_bodies_are_sent_and_received_completely() {
        for object_bytes in [100_000, 10_000_001] {
            let server = start(object_bytes);
            let answer = talk(&server, b"GET /b/k HTTP/1.1\r\nConnection: close\r\n\r\n");
            let head = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
            assert_eq!((answer.len() - head) as u64, object_bytes);
            let content = Content::fixed(object_bytes).unwrap();
            let mut expected = vec![0; object_bytes as usize];
            content.fill(content.object("", None).unwrap(), 0, &mut expected);
            assert!(answer[head..] == expected);
            let mut upload =
                format!("PUT /b/k HTTP/1.1\r\nContent-Length: {object_bytes}\r\n\r\n").into_bytes();
            upload.resize(upload.len() + object_bytes as usize, 7);
            upload.extend_from_slice(b"GET /b/k?size=3 HTTP/1.1\r\nConnection: close\r\n\r\n");
            let answer = talk(&server, &upload);
            assert_eq!(count(&answer, "Content-Length: 0\r\n"), 1);
            assert_eq!(count(&answer, "Content-Length: 3\r\n"), 1);
        }
    }

    #[test]
    fn many_pipelined_large_reads_survive_a_full_socket() {
        let server = start(300_000);
        let mut requests = "GET /b/k HTTP/1.1\r\n\r\n".repeat(40).into_bytes();
        requests.extend_from_slice(b"DELETE /b/k HTTP/1.1\r\nConnection: close\r\n\r\n");
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(&requests).unwrap();
        // Longer than all buffers between this test and the server can hold.
        std::thread::sleep(std::time::Duration::from_millis(50));
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(count(&answer, "HTTP/1.1 200 OK"), 40);
        assert!(answer.ends_with(b"HTTP/1.1 204 No Content\r\n\r\n"));
    }

    #[test]
    fn ranges_continue_and_chunked_uploads_are_understood() {
        let server = start(4096);
        let answer = talk(
            &server,
            b"PUT /v1/AUTH_null/c/o HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
              5\r\nhello\r\n0\r\n\r\n\
              GET /b/k HTTP/1.1\r\nRange: bytes=4000-\r\nConnection: close\r\n\r\n",
        );
        assert_eq!(count(&answer, "HTTP/1.1 201 Created"), 1);
        assert_eq!(count(&answer, "Content-Range: bytes 4000-4095/4096"), 1);
        let answer = talk(
            &server,
            b"GET /b/k HTTP/1.1\r\nRange: bytes=0-1,4090-9999\r\nConnection: close\r\n\r\n",
        );
        assert_eq!(count(&answer, "multipart/byteranges"), 1);
        assert_eq!(count(&answer, "Content-Range: bytes 0-1/4096"), 1);
        assert_eq!(count(&answer, "Content-Range: bytes 4090-4095/4096"), 1);
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let head = b"PUT /b/k HTTP/1.1\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
        stream.write_all(head).unwrap();
        let mut answer = [0; 25];
        stream.read_exact(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 100 Continue"));
        stream.write_all(b"hello").unwrap();
        let mut answer = [0; 15];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200 OK");
    }

    #[test]
    fn other_protocols_than_http_are_refused_and_closed() {
        let server = start(1);
        assert!(talk(&server, b"\0\0\0\r\n\r\n").starts_with(b"HTTP/1.1 400"));
    }

    #[test]
    fn connections_are_counted_and_end_with_the_server() {
        let mut server = start(1);
        let mut streams: Vec<_> =
            (0..20).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
        for stream in &mut streams {
            stream.write_all(b"GET /b/k HTTP/1.1\r\n\r\n").unwrap();
            assert_eq!(stream.read(&mut [0; 15]).unwrap(), 15);
        }
        assert_eq!(server.counters().connections_open, 20);
        server.stop();
        for stream in &mut streams {
            let mut rest = Vec::new();
            // Closed with or without an error, but closed.
            let _ = stream.read_to_end(&mut rest);
        }
    }
}
