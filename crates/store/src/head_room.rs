//! The memory that half-sent heads take: within the store's bound, like all that it holds.
//!
//! Thousands of connections may each send half a head and wait. What such a connection has sent is
//! taken out of the budget, and the connection is closed if it does not fit. A head that comes
//! whole costs nothing here, so that a full store still answers.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::budget::{Budget, Reservation};

/// Memory is taken in steps of what a connection reads at first.
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

/// A connection whose half-sent heads are counted.
pub(crate) struct HeadRoom<S> {
    stream: S,
    budget: Arc<Budget>,
    turns: Arc<Turns>,
    turn: u64,
    /// What has come of a head so far.
    bytes: u64,
    taken: Option<Reservation>,
}

impl<S> HeadRoom<S> {
    pub(crate) fn new(stream: S, budget: Arc<Budget>, turns: Arc<Turns>) -> HeadRoom<S> {
        HeadRoom { stream, budget, turns, turn: 0, bytes: 0, taken: None }
    }

    /// Takes memory for a head whose rest is waited for.
    fn wait(&mut self) -> io::Result<()> {
        let bytes = self.bytes.next_multiple_of(STEP_BYTES);
        if self.taken.as_ref().is_some_and(|taken| taken.bytes() >= bytes) {
            return Ok(());
        }
        self.taken = None;
        self.taken = Some(self.budget.reserve(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?);
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadRoom<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let turn = self.turns.0.load(Ordering::Relaxed);
        if turn != self.turn {
            (self.turn, self.bytes, self.taken) = (turn, 0, None);
        }
        // What comes during an answer is a body, whose pages are counted where they are kept.
        if turn.is_multiple_of(2) {
            self.bytes += (buffer.filled().len() - before) as u64;
            if polled.is_pending() && self.bytes > 0 {
                self.wait()?;
            }
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadRoom<S> {
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
