//! The memory of what connections read: within the store's bound, like all that it holds.
//!
//! What is read lies in a buffer that grows with what comes. Its first step is part of the connection;
//! what exceeds it is taken out of the budget. Where that has no room, a body is read in small pieces,
//! and a connection whose head does not fit is closed. So thousands of connections may each send a
//! half and wait.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::budget::Reservation;

/// The first buffer of a connection, as hyper has it. It grows when a read fills it.
const STEP_BYTES: u64 = 8 << 10;

/// The answers that a connection has begun and ended: odd while one is under way.
#[derive(Debug, Default)]
pub(crate) struct Turns(AtomicU64);

impl Turns {
    /// Notes that an answer begins or ends.
    pub(crate) fn next(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection whose buffer is counted.
pub(crate) struct Room<S> {
    stream: S,
    turns: Arc<Turns>,
    turn: u64,
    /// What has come of a head. It stays until its answer has ended: its fields lie there.
    head_bytes: u64,
    /// The size of the buffer that is read into, and what was left free of it.
    buffer_bytes: u64,
    spare_bytes: u64,
    taken: Reservation,
}

impl<S> Room<S> {
    /// Counts what a stream's buffer takes besides what its connection has `taken` already.
    pub(crate) fn new(stream: S, taken: Reservation, turns: Arc<Turns>) -> Room<S> {
        Room { stream, turns, turn: 0, head_bytes: 0, buffer_bytes: 0, spare_bytes: 0, taken }
    }

    /// Takes note of what has begun or ended since the last read; returns whether a body is read.
    fn turn(&mut self) -> bool {
        let turn = self.turns.0.load(Ordering::Relaxed);
        let is_body = !turn.is_multiple_of(2);
        if turn != self.turn {
            // What a head has taken stays with it until its answer has ended.
            if !(is_body && turn == self.turn + 1) {
                self.head_bytes = 0;
                self.taken.shrink(0);
            }
            self.turn = turn;
        }
        is_body
    }

    /// Takes memory for a buffer of which so much is free.
    fn take(&mut self, spare_bytes: u64, is_body: bool) -> bool {
        if spare_bytes != self.spare_bytes {
            let before = if is_body { 0 } else { self.head_bytes };
            self.buffer_bytes = before + spare_bytes;
            self.spare_bytes = spare_bytes;
        }
        let beyond = |bytes: u64| bytes.saturating_sub(STEP_BYTES);
        let wanted = match is_body {
            // The last piece may still be under way while the next is read, and what a head says is
            // there twice: as it came, and as it is understood.
            true => 2 * (beyond(self.buffer_bytes) + beyond(self.head_bytes)),
            false => beyond(self.buffer_bytes),
        };
        self.taken.grow_in_passing(wanted).is_ok()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Room<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let is_body = self.turn();
        let polled = if self.take(buffer.remaining() as u64, is_body) {
            Pin::new(&mut self.stream).poll_read(context, buffer)
        } else if is_body || self.head_bytes == 0 {
            // Less than a step: then hyper asks for no larger buffer, and for smaller ones again.
            let length = buffer.remaining().min(STEP_BYTES as usize - 1);
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(length));
            let polled = Pin::new(&mut self.stream).poll_read(context, &mut part);
            let length = part.filled().len();
            buffer.advance(length);
            polled
        } else {
            return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
        };
        let came = (buffer.filled().len() - before) as u64;
        self.spare_bytes -= came;
        if !is_body {
            self.head_bytes += came;
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Room<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
