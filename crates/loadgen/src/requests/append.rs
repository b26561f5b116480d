//! Appends: fills each object block by block, with at most one request per object in flight.

use std::collections::VecDeque;

use crate::dataset::Dataset;
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::requests::tickets::Tickets;
use crate::requests::{Next, Request, Subject};
use crate::trial::Trial;

/// The objects that appends of one thread have begun and not filled. An object with an append in
/// flight is not among them, so each has one request at a time, and its blocks arrive in order.
#[derive(Debug)]
pub(crate) struct Append {
    dataset: Dataset,
    objects: u64,
    block_bytes: u64,
    /// Objects, each with the number of its next block.
    unfilled: VecDeque<(u64, u64)>,
}

impl Append {
    pub(super) fn new(trial: &Trial) -> Self {
        Self {
            dataset: Dataset::new(trial),
            objects: trial.dataset.objects,
            block_bytes: trial.options.range_bytes.unwrap_or(u64::MAX).max(1),
            unfilled: VecDeque::new(),
        }
    }

    /// Takes the next block of an object of this thread, or begins an object. It draws single
    /// tickets: a thread that held several might have no object to append to.
    pub(super) fn next(&mut self, shared: &Tickets) -> Next {
        let Some((index, number)) = self.unfilled.pop_front().or_else(|| {
            let index = shared.next_begun();
            (index < self.objects).then_some((index, 0))
        }) else {
            // Every object that is not full has an append in flight.
            return if shared.are_used_up() { Next::Over } else { Next::Busy };
        };
        if shared.draw(1).is_empty() {
            self.unfilled.push_front((index, number));
            return Next::Over;
        }
        let subject = Subject::Block { object: self.dataset.object(index), number };
        let operation = Operation::Append;
        Next::Request(Request { operation, subject, chance: 0, is_verified: false })
    }

    /// Keeps an object after an append, unless it is full. An object whose append failed is given
    /// up, because its length is unknown.
    pub(super) fn note(&mut self, request: &Request, outcome: Outcome) {
        let Subject::Block { object, number } = request.subject else { return };
        if outcome.is_ok()
            && (number + 1).saturating_mul(self.block_bytes) < self.dataset.size(object.index)
        {
            self.unfilled.push_back((object.index, number + 1));
        }
    }
}
