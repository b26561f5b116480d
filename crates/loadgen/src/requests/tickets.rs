//! Tickets: numbers that all threads draw from, so that a count is met exactly.

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
    /// Objects that mixes have put beyond the dataset.
    fresh: AtomicU64,
    /// Objects that appends have begun, in all stages of the trial together.
    begun: Arc<AtomicU64>,
    /// Which of the whole's numbers are ours: all of the counters count our own.
    portion: Portion,
    /// Where the numbers of objects begin that mixes put.
    first_fresh: u64,
}

impl Tickets {
    /// Makes the tickets of a stage; objects that a mix puts are numbered from `fresh` on, beyond
    /// the dataset, so that no stage and no trial writes over what another has put.
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
        // Looked at first, so that clients that ask again and again cannot make it overflow.
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

    /// Returns the number of an object that no mix has put yet, of those beyond the dataset.
    pub(super) fn next_fresh(&self) -> u64 {
        self.first_fresh + self.portion.number(self.fresh.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the number of an object that no append has begun yet.
    pub(super) fn next_begun(&self) -> u64 {
        self.portion.number(self.begun.fetch_add(1, Ordering::Relaxed))
    }

    /// Tells whether every ticket has been drawn.
    pub(super) fn are_used_up(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.limit.load(Ordering::Relaxed)
    }
}

/// One ticket, and what chance says of its request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticket {
    pub(super) number: u64,
    /// What chooses the operation of a mix.
    pub(super) draw: u64,
    /// What is the request's own.
    pub(super) chance: u64,
    pub(super) is_verified: bool,
}

/// The tickets that one thread holds: drawn several at a time, so that threads do not fight for one
/// cache line.
#[derive(Debug)]
pub(super) struct Hand {
    held: Range<u64>,
    /// How many are drawn at once.
    chunk: u64,
    trial_seed: u64,
    seed: u64,
    verify: f64,
    portion: Portion,
}

impl Hand {
    pub(super) fn new(trial: &Trial, threads: usize, clients: u32) -> Self {
        // Small enough that no thread sits on work at the end, large enough that many cores do
        // not fight for one cache line.
        let portion = trial.portion();
        let chunk = trial.stop.requests.map_or(16, |requests| {
            (portion.share(requests) / (threads as u64 * u64::from(clients).max(1) * 64))
                .clamp(1, 16)
        });
        let trial_seed = trial.chance_seed();
        let seed = mix64(trial_seed);
        Self { held: 0..0, chunk, trial_seed, seed, verify: trial.verify, portion }
    }

    /// Forgets tickets drawn for an earlier stage or iteration; each has chances of its own.
    pub(super) fn restart(&mut self, iteration: u32, stage: u64) {
        self.held = 0..0;
        self.seed = mix64(self.trial_seed ^ mix64(u64::from(iteration) << 8 | stage));
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Gives back the ticket that was taken last: nothing can be done with it yet.
    pub(super) fn give_back(&mut self) {
        self.held.start -= 1;
    }

    /// Takes a ticket, or `None` when all are used up.
    #[inline(always)]
    pub(super) fn take(&mut self, shared: &Tickets) -> Option<Ticket> {
        let own = match self.held.next() {
            Some(number) => number,
            None => {
                self.held = shared.draw(self.chunk);
                self.held.next()?
            }
        };
        // By its number in the whole, a ticket is the same on every host.
        let number = self.portion.number(own);
        let draw = mix64(self.seed ^ mix64(number));
        let is_verified = self.verify >= 1.0 || unit(mix64(draw ^ 1)) < self.verify;
        Some(Ticket { number, draw, chance: mix64(draw), is_verified })
    }
}
