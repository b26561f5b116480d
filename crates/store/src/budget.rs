//! The bound of the bytes a store holds in memory.
//!
//! Every page of an object and every record of the index holds a [`Reservation`]; what does not
//! fit is refused before it is allocated, so that a store that is written to without end answers
//! errors instead of taking the machine down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Refusal;

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

    /// Takes `bytes` out of the budget until the reservation is dropped.
    pub(crate) fn reserve(self: &Arc<Budget>, bytes: u64) -> Result<Reservation, Refusal> {
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
                Ok(_) => return Ok(Reservation { budget: self.clone(), bytes }),
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
    /// Returns how much it is.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives back what exceeds `bytes`, when less was needed than reserved.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.budget.bytes.fetch_sub(surplus, Ordering::Relaxed);
        self.bytes -= surplus;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_and_what_is_dropped_can_be_taken_again() {
        let budget = Budget::new(100);
        let mut first = budget.reserve(70).unwrap();
        assert!(budget.reserve(31).is_err());
        first.shrink(50);
        let second = budget.reserve(50).unwrap();
        drop(first);
        drop(second);
        assert_eq!(budget.bytes(), 0);
        assert!(budget.reserve(100).is_ok());
    }
}
