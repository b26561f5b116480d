//! The requests of a trial that keeps a history: any client reads, writes and deletes objects of
//! the dataset at any time. Every write has its own version, so that a read identifies the write
//! that it saw.

use crate::chance::unit;
use crate::operation::{Operation, Payload};
use crate::payload::ANY_VERSION;
use crate::portion::Portion;
use crate::requests::subjects::Subjects;
use crate::requests::tickets::{Hand, Tickets};
use crate::requests::{Next, Request, Subject};
use crate::trial::Trial;

/// Versions of a history lie between those of the dataset's rewrites.
const VERSION_BITS: u32 = 40;

#[derive(Debug)]
pub(crate) struct Rewrites {
    /// Operations, each with the cumulative share.
    shares: Vec<(f64, Operation)>,
    pub(super) hand: Hand,
    subjects: Subjects,
    /// Lower bound of all versions of the trial.
    base: u64,
    /// Number of this thread's next version on this host, and the number of threads.
    next_version: u64,
    threads: u64,
    portion: Portion,
}

impl Rewrites {
    pub(super) fn new(trial: &Trial, hand: Hand, thread: usize, threads: usize) -> Self {
        let total: f64 = trial.mix.iter().map(|share| share.weight).sum();
        let mut sum = 0.0;
        let cumulated = trial.mix.iter().map(|share| {
            sum += share.weight / total;
            (sum, share.operation)
        });
        Self {
            shares: cumulated.collect(),
            hand,
            subjects: Subjects::new(trial),
            base: (trial.dataset.version << VERSION_BITS) + 1,
            next_version: thread as u64,
            threads: threads as u64,
            portion: trial.portion(),
        }
    }

    pub(super) fn next(&mut self, shared: &Tickets) -> Next {
        let Some(ticket) = self.hand.take(shared) else { return Next::Over };
        let draw = unit(ticket.draw);
        let drawn = self.shares.iter().find(|(upper, _)| draw < *upper);
        let operation = drawn.unwrap_or(&self.shares[0]).1;
        let mut subject = self.subjects.choose(operation, &ticket);
        if let Subject::Object(object) = &mut subject {
            object.version = if operation.info().payload == Payload::Written {
                self.version()
            } else {
                ANY_VERSION
            };
        }
        Next::Request(Request { operation, subject, chance: ticket.chance, is_verified: true })
    }

    fn version(&mut self) -> u64 {
        let number = self.portion.number(self.next_version);
        self.next_version += self.threads;
        self.base + number
    }
}
