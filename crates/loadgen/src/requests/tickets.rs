//! Tickets: numbers that all threads draw from, so that counts are exact.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::chance::{mix64, unit};
use crate::trial::{Portion, Trial};

/// The tickets that all threads draw from.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    next: AtomicU64,
    limit: AtomicU64,
    /// Number of objects that mixes have put beyond the dataset.
    fresh: AtomicU64,
    /// Number of objects that appends have begun, over all stages of the trial.
    begun: Arc<AtomicU64>,
    /// This host's portion; all counters count the portion's own numbers.
    portion: Portion,
    /// First number of the objects that mixes put.
    first_fresh: u64,
}

impl Tickets {
    /// Creates the tickets of a stage. Objects that a mix puts are numbered from `fresh` on, beyond
    /// the dataset, so that no stage and no trial overwrites what another has put.
    #[must_use]
    pub(crate) fn with_fresh_from(
        first_fresh: u64,
        begun: Arc<AtomicU64>,
        portion: Portion,
    ) -> Self {
        Self { first_fresh, begun, portion, ..Self::default() }
    }

    /// Starts a new iteration or stage with `limit` tickets.
    pub(crate) fn restart(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.next.store(0, Ordering::Release);
    }

    pub(super) fn draw(&self, count: u64) -> Range<u64> {
        let limit = self.limit.load(Ordering::Relaxed);
        // Checked first, so that repeated calls cannot overflow the counter.
        if self.next.load(Ordering::Relaxed) >= limit {
            return 0..0;
        }
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        first.min(limit)..(first + count).min(limit)
    }

    /// Returns how many tickets have been drawn.
    pub(crate) fn drawn(&self) -> u64 {
        self.next.load(Ordering::Relaxed).min(self.limit.load(Ordering::Relaxed))
    }

    /// Returns the number of a new object beyond the dataset, which no mix has put yet.
    pub(super) fn next_fresh(&self) -> u64 {
        self.first_fresh + self.portion.number(self.fresh.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the number of an object that no append has begun yet.
    pub(super) fn next_begun(&self) -> u64 {
        self.portion.number(self.begun.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns whether every ticket has been drawn.
    pub(super) fn are_used_up(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.limit.load(Ordering::Relaxed)
    }
}

/// One ticket, and the random bits of its request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    pub(super) number: u64,
    /// Random bits that choose the operation of a mix.
    pub(super) draw: u64,
    /// Random bits of the request itself.
    pub(super) chance: u64,
    pub(super) is_verified: bool,
}

/// The tickets that one thread holds. It draws several at a time, so that threads do not contend
/// for one cache line.
#[derive(Debug)]
pub(super) struct Hand {
    held: Range<u64>,
    /// How many tickets to draw at a time.
    chunk: u64,
    trial_seed: u64,
    seed: u64,
    verify: f64,
    portion: Portion,
}

impl Hand {
    pub(super) fn new(trial: &Trial, threads: usize, clients: u32) -> Self {
        // Small enough that no thread holds back work at the end, large enough that many cores do
        // not contend for one cache line.
        let portion = trial.portion();
        let chunk = trial.stop.requests.map_or(16, |requests| {
            (portion.share(requests) / (threads as u64 * u64::from(clients).max(1) * 64))
                .clamp(1, 16)
        });
        let trial_seed = trial.chance_seed();
        let seed = mix64(trial_seed);
        Self { held: 0..0, chunk, trial_seed, seed, verify: trial.verify, portion }
    }

    /// Drops tickets drawn for an earlier stage or iteration; each stage has its own random bits.
    pub(super) fn restart(&mut self, iteration: u32, stage: u64) {
        self.held = 0..0;
        self.seed = mix64(self.trial_seed ^ mix64(u64::from(iteration) << 8 | stage));
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns the ticket that was taken last, because no request is possible with it yet.
    pub(super) fn give_back(&mut self) {
        self.held.start -= 1;
    }

    /// Takes a ticket, or returns `None` when all are used up.
    #[inline(always)]
    pub(super) fn take(&mut self, shared: &Tickets) -> Option<Ticket> {
        let own_number = match self.held.next() {
            Some(number) => number,
            None => {
                self.held = shared.draw(self.chunk);
                self.held.next()?
            }
        };
        // The number in the whole trial, so that a ticket means the same on every host.
        let number = self.portion.number(own_number);
        let draw = mix64(self.seed ^ mix64(number));
        let is_verified = self.verify >= 1.0 || unit(mix64(draw ^ 1)) < self.verify;
        Some(Ticket { number, draw, chance: mix64(draw), is_verified })
    }
}
