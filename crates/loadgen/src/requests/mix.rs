//! Several operations by their shares. Reads use only the dataset, which a mix never deletes from,
//! and deletes take only what the mix has put beyond it. So no request asks for an object that may
//! already be deleted.

use std::collections::VecDeque;

use crate::chance::unit;
use crate::dataset::Object;
use crate::operation::Operation;
use crate::outcome::Completion;
use crate::requests::subjects::Subjects;
use crate::requests::tickets::{Hand, Tickets};
use crate::requests::uploads::{Step, Uploads};
use crate::requests::{Next, Request, Subject};
use crate::trial::Trial;

/// Maximum number of objects that a thread remembers for the deletes of its mix.
const WRITTEN_MAX: usize = 1 << 16;

#[derive(Debug)]
pub(crate) struct Mix {
    /// Operations, each with the cumulative share.
    shares: Vec<(f64, Operation)>,
    pub(super) hand: Hand,
    subjects: Subjects,
    /// The operation that puts the objects that deletes take.
    put: Operation,
    /// Objects that this thread has put beyond the dataset and not deleted.
    written: VecDeque<Object>,
    /// Objects of the dataset of which this thread has written versions that it has not deleted.
    versioned: VecDeque<Object>,
    /// Uploads in progress, if the mix has steps of uploads.
    uploads: Option<Box<Uploads>>,
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
        let mut operations = trial.mix.iter().map(|share| share.operation);
        let put = operations.find(|operation| puts_for_deletes(*operation));
        Self {
            shares,
            hand,
            subjects: Subjects::new(trial),
            put: put.unwrap_or(Operation::Put),
            written: VecDeque::new(),
            versioned: VecDeque::new(),
            uploads: Uploads::of_trial(trial).map(Box::new),
        }
    }

    /// A separate function, so that the hot loop of a single operation stays smaller and faster.
    #[inline(never)]
    pub(super) fn next(&mut self, now_ns: u64, shared: &Tickets) -> Next {
        let Some(ticket) = self.hand.take(shared) else { return Next::Over };
        let draw = unit(ticket.draw);
        let drawn = self.shares.iter().find(|(upper, _)| draw < *upper);
        let drawn = drawn.unwrap_or(&self.shares[0]).1;
        let (operation, subject) = match drawn {
            _ if drawn.is_upload_step() => match self.step(drawn, ticket.chance, now_ns, shared) {
                Ok(step) => step,
                Err(then_ns) => {
                    self.hand.give_back();
                    return Next::Later(then_ns);
                }
            },
            _ if drawn.deletes_object() => match self.written.pop_front() {
                Some(object) => (drawn, Subject::Object(object)),
                // The mix has nothing to delete yet, so it puts an object for a later delete.
                None => (self.put, self.fresh(shared)),
            },
            Operation::DeleteVersion => match self.versioned.pop_front() {
                Some(object) => (drawn, Subject::Object(object)),
                None => {
                    let put = Operation::VersionedPut;
                    (put, self.subjects.choose(put, &ticket))
                }
            },
            _ if drawn.puts_object() => (drawn, self.fresh(shared)),
            _ => (drawn, self.subjects.choose(drawn, &ticket)),
        };
        let (chance, is_verified) = (ticket.chance, ticket.is_verified);
        Next::Request(Request { operation, subject, chance, is_verified })
    }

    /// Chooses the step of an upload, or returns until when all uploads pause.
    fn step(
        &mut self,
        drawn: Operation,
        chance: u64,
        now_ns: u64,
        shared: &Tickets,
    ) -> Result<(Operation, Subject), u64> {
        let fresh = self.subjects.object(self.subjects.objects);
        let Some(uploads) = &mut self.uploads else { unreachable!("Trial::check wants a begin") };
        match uploads.choose(drawn, chance, now_ns) {
            Step::Now(operation, subject) => Ok((operation, subject)),
            Step::Begin => {
                let index = fresh.index + shared.next_fresh();
                let object = Object { index, ..fresh };
                uploads.add(object, chance);
                Ok((Operation::CreateUpload, Subject::Object(object)))
            }
            Step::Rest(then_ns) => Err(then_ns),
        }
    }

    fn fresh(&self, shared: &Tickets) -> Subject {
        Subject::Object(self.subjects.object(self.subjects.objects + shared.next_fresh()))
    }

    /// Remembers an object that was put, so that a later delete can take it or a version of it.
    #[inline]
    pub(super) fn note(&mut self, request: &Request, completion: &Completion) {
        if request.operation.is_upload_step() {
            self.uploads.iter_mut().for_each(|uploads| uploads.note(request, completion));
        }
        let made = match request.operation {
            Operation::VersionedPut => &mut self.versioned,
            operation if puts_for_deletes(operation) => &mut self.written,
            _ => return,
        };
        if completion.outcome.is_ok()
            && let Subject::Object(object) = request.subject
            && made.len() < WRITTEN_MAX
        {
            made.push_back(object);
        }
    }
}

/// Returns whether deletes of a mix take what the operation puts.
fn puts_for_deletes(operation: Operation) -> bool {
    Operation::Delete.info().takes_from.contains(&operation)
}
