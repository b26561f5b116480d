//! The store on a connection that is in memory: no socket, no thread, nothing that waits. A
//! fuzzer sends the same bytes twice and gets the same answer.

use std::collections::VecDeque;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use http::Method;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::{Builder, Runtime};

use crate::config::StoreConfig;
use crate::error::StoreError;
use crate::server::{Service, serve_bytes};

/// A store that answers on connections in memory.
#[derive(Debug)]
pub struct InProcessStore {
    service: Arc<Service>,
    /// Timers belong to it; none of them ever fires.
    runtime: Runtime,
}

/// What came of a connection.
#[derive(Debug)]
pub struct Connection {
    /// Methods of the requests that were understood, in their order.
    pub methods: Vec<Method>,
    /// All that the store sent.
    pub sent: Vec<u8>,
    /// Whether the store was still waiting for something after the client had closed its side.
    pub is_stuck: bool,
}

impl InProcessStore {
    /// Makes a store. It keeps everything in memory: `data` must not be configured.
    pub fn new(config: &StoreConfig) -> Result<InProcessStore, StoreError> {
        if config.data.is_some() {
            return Err(StoreError::Config {
                key: "data",
                problem: "is set for a store in the process".to_owned(),
                hint: "leave it out: this store lives in memory",
            });
        }
        let runtime = Builder::new_current_thread().enable_time().build();
        let runtime = runtime
            .map_err(|source| StoreError::System { action: "start a store's runtime", source })?;
        Ok(InProcessStore { service: Arc::new(Service::new(config, 1)?), runtime })
    }

    /// Returns the bytes that the store holds in memory by its own account.
    pub fn memory_bytes(&self) -> u64 {
        self.service.memory_bytes()
    }

    /// Serves a connection on which `pieces` arrive, one after the other. The client closes its side
    /// once the store has nothing left to do.
    pub fn serve(&self, pieces: &[&[u8]]) -> Connection {
        let _entered = self.runtime.enter();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let is_closed = Arc::new(AtomicBool::new(false));
        let line = Line {
            pieces: pieces.iter().map(|piece| piece.to_vec()).collect(),
            sent: sent.clone(),
            is_closed: is_closed.clone(),
        };
        let methods = Mutex::new(Vec::new());
        let note = |request: &http::Request<hyper::body::Incoming>| {
            methods.lock().unwrap_or_else(PoisonError::into_inner).push(request.method().clone());
        };
        let mut serving = pin!(serve_bytes(&self.service, line, note));
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(woken.clone());
        let is_stuck = loop {
            woken.0.store(false, Ordering::Relaxed);
            if serving.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                break false;
            }
            // Without new bytes it waits for the client, which has sent everything.
            if !woken.0.load(Ordering::Relaxed) && is_closed.swap(true, Ordering::Relaxed) {
                break true;
            }
        };
        let methods = std::mem::take(&mut *methods.lock().unwrap_or_else(PoisonError::into_inner));
        let sent = std::mem::take(&mut *sent.lock().unwrap_or_else(PoisonError::into_inner));
        Connection { methods, sent, is_stuck }
    }
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The store's end of a connection.
struct Line {
    pieces: VecDeque<Vec<u8>>,
    sent: Arc<Mutex<Vec<u8>>>,
    is_closed: Arc<AtomicBool>,
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(mut piece) = self.pieces.pop_front() else {
            let is_closed = self.is_closed.load(Ordering::Relaxed);
            return if is_closed { Poll::Ready(Ok(())) } else { Poll::Pending };
        };
        let rest = piece.split_off(piece.len().min(buffer.remaining()));
        if !rest.is_empty() {
            self.pieces.push_front(rest);
        }
        buffer.put_slice(&piece);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Line {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_pieces_are_answered_one_after_the_other() {
        let config = r#"{"user": "user", "password": "secret"}"#;
        let store = InProcessStore::new(&StoreConfig::parse(config).unwrap()).unwrap();
        let text = b"GET /healthcheck HTTP/1.1\r\nhost: a\r\n\r\nHEAD /info HTTP/1.1\r\n\r\n";
        let pieces: Vec<&[u8]> = text.chunks(7).collect();
        let done = store.serve(&pieces);
        assert_eq!(done.methods, [Method::GET, Method::HEAD]);
        assert_eq!(done.sent.windows(12).filter(|at| at == b"HTTP/1.1 200").count(), 2);
        assert!(!done.is_stuck);
        let half =
            store.serve(&[b"PUT /v1/AUTH_test/c/o HTTP/1.1\r\ncontent-length: 9\r\n\r\nhalf"]);
        assert_eq!(half.methods, [Method::PUT]);
        assert!(!half.is_stuck);
    }
}
