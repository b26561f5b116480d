//! Several operations by their shares. Reads see only the dataset, which a mix never deletes, and
//! deletes take only what the mix has put beyond it: so no request asks for an object that may be
//! gone already.

use std::collections::VecDeque;

use crate::chance::unit;
use crate::dataset::Object;
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::requests::subjects::Subjects;
use crate::requests::tickets::{Hand, Tickets};
use crate::requests::{Next, Request, Subject};
use crate::trial::Trial;

/// Objects that a thread remembers having put, for the deletes of its mix.
const WRITTEN_MAX: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct Mix {
    /// Operations, each with the sum of the shares up to its own.
    shares: Vec<(f64, Operation)>,
    pub(super) hand: Hand,
    subjects: Subjects,
    /// What puts the objects that deletes take.
    put: Operation,
    /// What this thread has put beyond the dataset and not deleted.
    written: VecDeque<Object>,
}

impl Mix {
    pub(super) fn new(trial: &Trial, hand: Hand) -> Self {
        let total: f64 = trial.mix.iter().map(|share| share.weight).sum();
        let mut sum = 0.0;
        let cumulated = trial.mix.iter().map(|share| {
            sum += share.weight / total;
            (sum, share.operation)
        });
        let shares = cumulated.collect();
        let is_put = |operation: &Operation| puts_for_deletes(*operation);
        let put = trial.mix.iter().map(|share| share.operation).find(is_put);
        Self {
            shares,
            hand,
            subjects: Subjects::new(trial),
            put: put.unwrap_or(Operation::Put),
            written: VecDeque::new(),
        }
    }

    #[inline]
    pub(super) fn next(&mut self, shared: &Tickets) -> Next {
        let Some(ticket) = self.hand.take(shared) else { return Next::Over };
        let draw = unit(ticket.draw);
        let drawn = self.shares.iter().find(|(upper, _)| draw < *upper);
        let drawn = drawn.unwrap_or(&self.shares[0]).1;
        let (operation, subject) = match drawn {
            _ if drawn.deletes_object() => match self.written.pop_front() {
                Some(object) => (drawn, Subject::Object(object)),
                // Nothing of the mix's own is there yet: put what a later delete can take.
                None => (self.put, self.fresh(shared)),
            },
            _ if drawn.puts_object() => (drawn, self.fresh(shared)),
            _ => (drawn, self.subjects.choose(drawn, &ticket)),
        };
        let (chance, is_verified) = (ticket.chance, ticket.is_verified);
        Next::Request(Request { operation, subject, chance, is_verified })
    }

    fn fresh(&self, shared: &Tickets) -> Subject {
        Subject::Object(self.subjects.object(self.subjects.objects + shared.next_fresh()))
    }

    /// Remembers an object that was put, so that a later delete may take it.
    #[inline]
    pub(super) fn note(&mut self, request: &Request, outcome: Outcome) {
        if outcome.is_ok()
            && puts_for_deletes(request.operation)
            && let Subject::Object(object) = request.subject
            && self.written.len() < WRITTEN_MAX
        {
            self.written.push_back(object);
        }
    }
}

/// Tells whether deletes of a mix take what the operation puts.
fn puts_for_deletes(operation: Operation) -> bool {
    matches!(operation, Operation::Put | Operation::PutIfAbsent)
}
