//! The bound of the bytes a store holds in memory.
//!
//! All that clients make a store hold takes a [`Reservation`]: pages of objects and records of the
//! index, and what is under way: connections, heads, bodies that are collected, answers that wait for
//! a slow reader. What does not fit is refused before it is allocated, so that a store that is written
//! to or called without end answers errors instead of taking the machine down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::error::Refusal;

/// What a connection takes besides what it is known to hold: the first buffers that it reads into, what
/// it has queued of an answer at least, and the state of a request. 400 with half a body took 61 KiB each.
const CONNECTION_BYTES: u64 = 64 << 10;
/// Shares of the bound that what is kept leaves to what is under way, and that leaves to connections.
const SHARES: u64 = 16;
/// An answer that is no longer than this is part of its connection.
const ANSWER_BYTES: usize = 4 << 10;

/// Counts the bytes in use against their bound.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_max: u64,
    bytes: AtomicU64,
}

impl Budget {
    pub(crate) fn new(bytes_max: u64) -> Arc<Budget> {
        Arc::new(Budget { bytes_max, bytes: AtomicU64::new(0) })
    }

    /// Takes `bytes` for what the store keeps, until the reservation is dropped.
    pub(crate) fn reserve(self: &Arc<Budget>, bytes: u64) -> Result<Reservation, Refusal> {
        self.reserve_below(self.kept_bytes_max(), bytes)
    }

    /// Takes `bytes` for a request that is under way: a store that is full answers it all the same.
    pub(crate) fn reserve_in_passing(
        self: &Arc<Budget>,
        bytes: u64,
    ) -> Result<Reservation, Refusal> {
        self.reserve_below(self.bytes_max - self.share(), bytes)
    }

    /// Returns a reservation that may grow.
    pub(crate) fn nothing(self: &Arc<Budget>) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }

    /// Takes what a connection needs at least.
    pub(crate) fn reserve_connection(self: &Arc<Budget>) -> Result<Reservation, Refusal> {
        self.reserve_below(self.bytes_max, CONNECTION_BYTES)
    }

    /// Takes memory for a part of an answer, until its reader has it.
    pub(crate) fn hold(self: &Arc<Budget>, bytes: Bytes) -> Result<Bytes, Refusal> {
        if bytes.len() <= ANSWER_BYTES {
            return Ok(bytes);
        }
        let reservation = self.reserve_in_passing(bytes.len() as u64)?;
        Ok(reservation.of(bytes))
    }

    fn kept_bytes_max(&self) -> u64 {
        self.bytes_max - 2 * self.share()
    }

    fn share(&self) -> u64 {
        (self.bytes_max / SHARES).min(8 << 20)
    }

    fn reserve_below(self: &Arc<Budget>, bound: u64, bytes: u64) -> Result<Reservation, Refusal> {
        self.take(bound, bytes)?;
        Ok(Reservation { budget: self.clone(), bytes })
    }

    fn take(&self, bound: u64, bytes: u64) -> Result<(), Refusal> {
        let mut used = self.bytes.load(Ordering::Relaxed);
        loop {
            let wanted = used.saturating_add(bytes);
            if wanted > bound {
                return Err(Refusal::Full { bytes_max: self.bytes_max });
            }
            match self.bytes.compare_exchange_weak(
                used,
                wanted,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => used = now,
            }
        }
    }

    /// Returns the bytes in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// A share of a budget, given back on drop.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Reservation {
    /// Takes more for a request that is under way, until it is `bytes` in all.
    pub(crate) fn grow_in_passing(&mut self, bytes: u64) -> Result<(), Refusal> {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 {
            self.budget.take(self.budget.bytes_max - self.budget.share(), more)?;
            self.bytes += more;
        }
        Ok(())
    }

    /// Takes more, or gives back, so that it is `bytes` for what the store keeps.
    pub(crate) fn resize(&mut self, bytes: u64) -> Result<(), Refusal> {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 {
            self.budget.take(self.budget.kept_bytes_max(), more)?;
            self.bytes += more;
        }
        self.shrink(bytes);
        Ok(())
    }

    /// Gives back what exceeds `bytes`, when less was needed than reserved.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.budget.bytes.fetch_sub(surplus, Ordering::Relaxed);
        self.bytes -= surplus;
    }

    /// Ties it to bytes: it is given back when the last that reads them lets go.
    pub(crate) fn of(self, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Reserved { bytes, _reservation: self })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

struct Reserved<B> {
    bytes: B,
    _reservation: Reservation,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Reserved<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_and_what_is_dropped_can_be_taken_again() {
        let budget = Budget::new(160);
        let mut first = budget.reserve(110).unwrap();
        assert!(budget.reserve(31).is_err());
        assert!(first.resize(141).is_err());
        first.resize(90).unwrap();
        let second = budget.reserve(50).unwrap();
        drop(first);
        drop(second);
        assert_eq!(budget.bytes(), 0);
        assert!(budget.reserve(140).is_ok());
    }

    #[test]
    fn a_store_that_is_full_has_room_for_requests_and_then_for_connections() {
        let budget = Budget::new(16 << 20);
        let _kept = budget.reserve(14 << 20).unwrap();
        assert!(budget.reserve(1).is_err());
        let mut passing = budget.reserve_in_passing(1).unwrap();
        passing.grow_in_passing(1 << 20).unwrap();
        assert!(passing.grow_in_passing((1 << 20) + 1).is_err());
        let connections: Vec<_> = std::iter::from_fn(|| budget.reserve_connection().ok()).collect();
        assert_eq!(connections.len() as u64, (1 << 20) / CONNECTION_BYTES);
    }

    #[test]
    fn bytes_that_somebody_still_reads_stay_reserved() {
        let budget = Budget::new(1 << 20);
        let bytes = budget.hold(Bytes::from(vec![7; 10_000])).unwrap();
        let read = bytes.slice(9_000..);
        drop(bytes);
        assert_eq!(budget.bytes(), 10_000);
        drop(read);
        assert_eq!(budget.bytes(), 0);
    }
}
