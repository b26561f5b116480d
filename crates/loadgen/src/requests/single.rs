//! One operation on subjects in the trial's key order: in sequence or at random.

use crate::operation::Operation;
use crate::requests::subjects::Subjects;
use crate::requests::tickets::{Hand, Tickets};
use crate::requests::{Next, Request};
use crate::trial::Trial;

#[derive(Debug)]
pub(crate) struct Single {
    operation: Operation,
    pub(super) hand: Hand,
    subjects: Subjects,
}

impl Single {
    pub(super) fn new(trial: &Trial, hand: Hand) -> Self {
        Self { operation: trial.mix[0].operation, hand, subjects: Subjects::new(trial) }
    }

    #[inline(always)]
    pub(super) fn next(&mut self, shared: &Tickets) -> Next {
        let Some(ticket) = self.hand.take(shared) else { return Next::Over };
        Next::Request(Request {
            operation: self.operation,
            subject: self.subjects.choose(self.operation, &ticket),
            chance: ticket.chance,
            is_verified: ticket.is_verified,
        })
    }
}
