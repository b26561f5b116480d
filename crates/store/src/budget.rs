//! A limit of the bytes that a store holds in memory.
//!
//! The pages of objects and the records of the index each take a [`Reservation`]. What does not fit
//! is refused before it is allocated, so that a store under endless writes returns errors instead
//! of exhausting the machine's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::error::Refusal;

/// Counts the bytes in use against the limit.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes_max: u64,
    bytes: AtomicU64,
}

impl Budget {
    pub(crate) fn new(bytes_max: u64) -> Arc<Budget> {
        Arc::new(Budget { bytes_max, bytes: AtomicU64::new(0) })
    }

    /// Reserves `bytes` until the reservation is dropped.
    pub(crate) fn reserve(self: &Arc<Budget>, bytes: u64) -> Result<Reservation, Refusal> {
        self.take(bytes)?;
        Ok(Reservation { budget: self.clone(), bytes })
    }

    fn take(&self, bytes: u64) -> Result<(), Refusal> {
        let mut used = self.bytes.load(Ordering::Relaxed);
        loop {
            let wanted = used.saturating_add(bytes);
            if wanted > self.bytes_max {
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

/// A share of a budget, returned on drop.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Reservation {
    /// Changes the reservation to `bytes`.
    pub(crate) fn resize(&mut self, bytes: u64) -> Result<(), Refusal> {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 {
            self.budget.take(more)?;
            self.bytes += more;
        }
        self.shrink(bytes);
        Ok(())
    }

    /// Reduces the reservation to `bytes`, if less was needed than reserved.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.budget.bytes.fetch_sub(surplus, Ordering::Relaxed);
        self.bytes -= surplus;
    }

    /// Ties it to bytes: it is returned when their last reader drops them.
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
    fn reservations_are_limited_and_returned_on_drop() {
        let budget = Budget::new(140);
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
    fn bytes_with_readers_stay_reserved() {
        let budget = Budget::new(1 << 20);
        let bytes = budget.reserve(10_000).unwrap().of(vec![7; 10_000]);
        let read = bytes.slice(9_000..);
        drop(bytes);
        assert_eq!(budget.bytes(), 10_000);
        drop(read);
        assert_eq!(budget.bytes(), 0);
    }
}
