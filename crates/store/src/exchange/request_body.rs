//! The body of a request: shared between the API that reads it and the server that drains it.

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
use tokio::time::{Instant, Sleep};

use crate::budget::Reservation;
use crate::faults::Pacer;

/// Bytes that are drained for the sake of the connection; beyond them it is closed.
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
    /// Where the body is framed in signed chunks: how far it has come.
    frames: Option<Frames>,
    /// A piece that waits until the link of limited width is through with it.
    waiting: Option<(Pin<Box<Sleep>>, Bytes)>,
    patience: Patience,
    held: Held,
}

/// What was given out and may still be held by who reads: a document is collected, and a signed chunk
/// waits for its end.
struct Held {
    memory: Reservation,
    bytes: u64,
    /// It is counted where it is kept, piece by piece, and nothing waits but signed chunks.
    is_streamed: bool,
    is_refused: bool,
}

/// What a piece takes besides its bytes.
const PIECE_BYTES: u64 = 128;

impl Held {
    /// Takes memory for a piece that was read, of which this copy alone remains: as it came, it would
    /// keep the whole buffer that it was read into. `is_chunk_over` says that what came before the
    /// piece is held no longer.
    fn take(&mut self, piece: &Bytes, is_chunk_over: bool) -> io::Result<Bytes> {
        if is_chunk_over {
            self.bytes = 0;
            self.memory.shrink(0);
        }
        self.bytes += piece.len() as u64 + PIECE_BYTES;
        // What is collected in pieces is put together at the end, and then it is there twice.
        let times = if self.is_streamed { 1 } else { 2 };
        if self.memory.grow_in_passing(times * self.bytes).is_err() {
            self.is_refused = true;
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(Bytes::copy_from_slice(piece))
    }
}

/// How long a client is waited for that has sent a part of a body.
struct Patience {
    time_max: Duration,
    /// When something came last, if more was waited for.
    came: Option<Instant>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Patience {
    fn new(time_max: Duration) -> Patience {
        // A time beyond the end of the clock is none.
        let time_max = time_max.min(Duration::from_secs(365 * 86_400));
        Patience { time_max, came: None, sleep: None }
    }

    /// Returns once nothing has come for too long.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let over = *self.came.get_or_insert_with(Instant::now) + self.time_max;
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(over)));
        while sleep.as_mut().poll(context).is_ready() {
            // A timer is not set anew for each piece: it finds out what has come since.
            if Instant::now() >= over {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(over);
        }
        Poll::Pending
    }
}

impl RequestBody {
    /// Takes a request's body; one that `is_framed` comes in chunks of its own (`aws-chunked`).
    pub(crate) fn new(
        incoming: Incoming,
        pacer: Option<Arc<Pacer>>,
        is_framed: bool,
        time_max: Duration,
        memory: Reservation,
    ) -> RequestBody {
        let is_ended = incoming.is_end_stream();
        let frames = is_framed.then(Frames::default);
        let patience = Patience::new(time_max);
        let held = Held { memory, bytes: 0, is_streamed: false, is_refused: false };
        let shared = Shared { incoming, is_ended, pacer, frames, waiting: None, patience, held };
        RequestBody { shared: Arc::new(Mutex::new(shared)) }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a framed body that was read has had its last chunk, which is empty: without
    /// it the body was cut off, where no signature shows it.
    pub(crate) fn is_whole(&self) -> bool {
        self.shared().frames.as_ref().is_none_or(|frames| frames.is_ended)
    }

    /// Notes that who reads it holds no more of it than a piece, or counts what they hold.
    pub(crate) fn stream_on(&self) {
        self.shared().held.is_streamed = true;
    }

    /// Returns whether there was no memory for it.
    pub(crate) fn is_refused(&self) -> bool {
        self.shared().held.is_refused
    }

    /// Reads and drops what is left, so that the client can read the answer and go on.
    pub(crate) async fn drain(&self) {
        if !self.shared().drop_rest() {
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

impl Shared {
    /// Notes that what is left is read and dropped; returns whether there may be anything.
    fn drop_rest(&mut self) -> bool {
        (self.frames, self.held.is_streamed) = (None, true);
        self.held.memory.shrink(0);
        !self.is_ended
    }

    /// Takes note of a piece, and takes memory for one that may be held.
    fn take(&mut self, frame: Frame<Bytes>) -> io::Result<Frame<Bytes>> {
        let Some(piece) = frame.data_ref() else { return Ok(frame) };
        let is_chunk_over = match &mut self.frames {
            None if self.held.is_streamed => return Ok(frame),
            None => false,
            Some(frames) => {
                let before = std::mem::take(&mut frames.is_chunk_over);
                frames.update(piece);
                before && self.held.is_streamed
            }
        };
        self.held.take(piece, is_chunk_over).map(Frame::data)
    }
}

/// How far a body in chunks has come: `SIZE;chunk-signature=…`, as many bytes, and again.
#[derive(Debug, Default)]
struct Frames {
    /// The size that is being read.
    size: u64,
    is_size_over: bool,
    /// Bytes of the chunk, and of the line end behind it, that are still to come.
    rest: u64,
    /// A chunk has come to its end since this was looked at.
    is_chunk_over: bool,
    is_ended: bool,
}

impl Frames {
    fn update(&mut self, mut piece: &[u8]) {
        while !self.is_ended && !piece.is_empty() {
            if self.rest > 0 {
                let length = self.rest.min(piece.len() as u64);
                piece = &piece[length as usize..];
                self.rest -= length;
                self.is_chunk_over |= self.rest == 0;
                continue;
            }
            let byte = piece[0];
            piece = &piece[1..];
            match char::from(byte).to_digit(16) {
                _ if byte == b'\n' => {
                    self.is_ended = self.size == 0;
                    self.rest = self.size.saturating_add(2);
                    (self.size, self.is_size_over) = (0, false);
                }
                Some(digit) if !self.is_size_over => {
                    self.size = self.size.saturating_mul(16).saturating_add(u64::from(digit));
                }
                _ => self.is_size_over = true,
            }
        }
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
            let polled = Pin::new(&mut shared.incoming).poll_frame(context);
            if polled.is_pending() {
                ready!(shared.patience.poll_end(context));
                return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
            }
            shared.patience.came = None;
            let frame = ready!(polled).map(|frame| frame.map_err(io::Error::other));
            if frame.is_none() || shared.incoming.is_end_stream() {
                shared.is_ended = true;
            }
            let frame = match frame {
                Some(Ok(frame)) => Some(shared.take(frame)),
                frame => frame,
            };
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
                // Trailers are no bytes of the body.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(piece) => return Poll::Ready(Some(Ok(piece))),
                    Err(_) => continue,
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_in_chunks_has_ended_with_its_empty_chunk_however_it_is_cut() {
        let begun = b"a;chunk-signature=0f\r\n0\r\n0\r\n0\r\n0\r\n1;chunk-signature=0\r\nx\r\n";
        let last = b"0;chunk-signature=ab\r\n\r\n";
        let whole = [&begun[..], &last[..]].concat();
        for length in 1..whole.len() {
            let (mut cut, mut all) = (Frames::default(), Frames::default());
            begun.chunks(length).for_each(|piece| cut.update(piece));
            whole.chunks(length).for_each(|piece| all.update(piece));
            assert!(!cut.is_ended && all.is_ended, "in pieces of {length}");
        }
    }
}
