//! The body of a request, shared between the API that reads it and the server that drains it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;

use crate::faults::Pacer;

/// Maximum number of bytes to drain so that the connection can be kept; beyond that, it is closed.
const DRAIN_BYTES_MAX: u64 = 64 << 20;

/// A request's body; clones read the same bytes.
#[derive(Clone)]
pub(crate) struct RequestBody {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    incoming: Incoming,
    is_ended: bool,
    pacer: Option<Arc<Pacer>>,
    /// Data that waits until the limited link has transferred it.
    waiting: Option<(Pin<Box<Sleep>>, Bytes)>,
}

impl RequestBody {
    pub(crate) fn new(incoming: Incoming, pacer: Option<Arc<Pacer>>) -> RequestBody {
        let is_ended = incoming.is_end_stream();
        let shared = Shared { incoming, is_ended, pacer, waiting: None };
        RequestBody { shared: Arc::new(Mutex::new(shared)) }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads and drops the rest, so that the client can read the answer and continue.
    pub(crate) async fn drain(&self) {
        if self.shared().is_ended {
            return;
        }
        let drained = async {
            let (mut rest, mut bytes) = (self.clone(), 0);
            while let Some(Ok(piece)) =
                std::future::poll_fn(|context| Pin::new(&mut rest).poll_next(context)).await
            {
                bytes += piece.len() as u64;
                if bytes > DRAIN_BYTES_MAX {
                    break;
                }
            }
        };
        // A client that stops sending is not waited for.
        let _ = tokio::time::timeout(Duration::from_secs(10), drained).await;
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let mut guard = self.shared();
        let shared = &mut *guard;
        loop {
            if let Some((sleep, piece)) = &mut shared.waiting {
                ready!(sleep.as_mut().poll(context));
                let piece = std::mem::take(piece);
                shared.waiting = None;
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            let frame = ready!(Pin::new(&mut shared.incoming).poll_frame(context));
            if frame.is_none() || shared.incoming.is_end_stream() {
                shared.is_ended = true;
            }
            let frame = frame.map(|frame| frame.map_err(io::Error::other));
            match (frame, &shared.pacer) {
                (Some(Ok(frame)), Some(pacer)) => match frame.into_data() {
                    Ok(piece) => {
                        let sleep = tokio::time::sleep(pacer.incoming(piece.len()));
                        shared.waiting = Some((Box::pin(sleep), piece));
                    }
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                (frame, _) => return Poll::Ready(frame),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let shared = self.shared();
        shared.is_ended && shared.waiting.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.shared().incoming.size_hint()
    }
}

impl Stream for RequestBody {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.as_mut().poll_frame(context)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                // Trailers are not part of the body.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => return Poll::Ready(Some(Ok(piece))),
                    Err(_) => continue,
                },
            }
        }
    }
}
