//! Which request is next: an operation and what it is done to.
//!
//! A [`Source`] chooses the requests of one load thread. It is asked by a client when its next one is due
//! and which it is, and told how each of them ended, so a source may keep what depends on outcomes, or on who asks. It may
//! hold no more than is bounded, and what it chooses is a function of the seed and of what it was
//! told. To add one: a file in `requests/`, a variant of [`Source`].

use std::sync::Arc;

use crate::cryptography::Spent;
use crate::dataset::Object;
use crate::ledger::{Effect, Ledger};
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::schedule::Schedule;
use crate::script::Listing;
use crate::trial::Trial;

mod append;
mod audit;
mod mix;
mod rewrites;
mod script;
mod single;
mod subjects;
mod tickets;
mod uploads;

use append::Append;
use audit::ReadBack;
use mix::Mix;
use rewrites::Rewrites;
use script::{EndedAction, Sessions};
use single::Single;
pub(crate) use subjects::bulk_requests;
use tickets::Hand;
pub(crate) use tickets::Tickets;
pub(crate) use uploads::LAST_END;

/// One operation on one subject.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// What to do.
    pub(crate) operation: Operation,
    /// What to do it to.
    pub(crate) subject: Subject,
    /// 64 bits of chance that belong to this request alone: where ranges start, and the like.
    pub(crate) chance: u64,
    /// Whether the bytes that come back are to be checked.
    pub(crate) is_verified: bool,
}

/// What an operation is done to. Each operation has one kind of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// An object, in the version that is written, or expected.
    Object(Object),
    /// A block of an object: `read`, `write`, `append`, and the parts of an upload.
    Block {
        /// Of which object.
        object: Object,
        /// Which one, from the object's start. It may be beyond the end of an object smaller than
        /// the largest: the driver then takes it modulo the blocks that are there.
        number: u64,
    },
    /// A bucket's number: `list`, and what makes and deletes buckets.
    Bucket(u64),
    /// Objects of one bucket: `bulk_delete`.
    Batch {
        /// The first one's number; the others follow in steps of `dataset.buckets`.
        first: u64,
        /// How many.
        keys: u32,
    },
    /// All keys under a prefix, however many pages they take: a script's `list`.
    Listing(Listing),
}

impl Subject {
    /// Returns the number that a log of requests shows: the object's, the bucket's, or that of the
    /// first object of a batch.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        match *self {
            Self::Object(object) | Self::Block { object, .. } => object.index,
            Self::Bucket(bucket) => bucket,
            Self::Batch { first, .. } => first,
            Self::Listing(listing) => u64::from(listing.prefix),
        }
    }
}

/// Makes the ledger of a trial that keeps one, and changes objects.
pub(crate) fn ledger_of(trial: &Trial, now_unix_ns: u64) -> Option<Ledger> {
    let effects = || trial.mix.iter().filter_map(|share| Effect::of(share.operation));
    // What a mix deletes it has put.
    let usual = effects().find(|effect| *effect == Effect::Writes).or(effects().next());
    let usual = usual.filter(|_| trial.keeps_ledger)?;
    let mut stretches = vec![(0, trial.dataset.objects)];
    if let Some(first) = trial.first_beyond().filter(|_| trial.mix.len() > 1) {
        // Each stage numbers what it puts from a begin of its own.
        stretches.extend((0..3).map(|stage| (first + (stage << 32), 1 << 32)));
    }
    Some(Ledger::new(&stretches, trial.portion().index, usual, now_unix_ns))
}

impl Request {
    /// Takes note in a ledger of how this request ended, if it changes objects.
    #[inline(never)]
    pub(crate) fn note_in(&self, ledger: &Ledger, buckets: u64, outcome: Outcome) {
        let Some(effect) = Effect::of(self.operation) else { return };
        match self.subject {
            Subject::Object(object) => ledger.note(object.index, effect, outcome.is_ok()),
            Subject::Batch { first, keys } => {
                for key in 0..u64::from(keys) {
                    ledger.note(first + key * buckets, effect, outcome.is_ok());
                }
            }
            Subject::Block { .. } | Subject::Bucket(_) | Subject::Listing(_) => {}
        }
    }

    /// Returns the object of an operation on one, or on a block of one.
    ///
    /// # Panics
    /// When the operation is on something else: a driver matches the operation first.
    #[inline]
    pub(crate) fn object(&self) -> Object {
        match self.subject {
            Subject::Object(object) | Subject::Block { object, .. } => object,
            Subject::Bucket(_) | Subject::Batch { .. } | Subject::Listing(_) => self.misread(),
        }
    }

    /// Returns the bucket of an operation on one.
    ///
    /// # Panics
    /// As [`Request::object`].
    #[inline]
    pub(crate) fn bucket(&self) -> u64 {
        let Subject::Bucket(bucket) = self.subject else { self.misread() };
        bucket
    }

    /// Returns the first object of a batch, and how many there are.
    ///
    /// # Panics
    /// As [`Request::object`].
    #[inline]
    pub(crate) fn batch(&self) -> (u64, u32) {
        let Subject::Batch { first, keys } = self.subject else { self.misread() };
        (first, keys)
    }

    /// Returns the number of the block that is asked for. A range that was asked for without one
    /// begins at a block of chance.
    #[inline]
    pub(crate) fn block(&self) -> u64 {
        if let Subject::Block { number, .. } = self.subject { number } else { self.chance }
    }

    #[cold]
    fn misread(&self) -> ! {
        unreachable!("{} is done to {:?}", self.operation.name(), self.subject)
    }
}

/// The answer to a client that asks for a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Next {
    /// This is it.
    Request(Request),
    /// What is left is in other clients' hands; this client has nothing more to do.
    Busy,
    /// Nothing is to be done before others have ended; to be asked again then.
    Later(u64),
    /// All has been asked for.
    Over,
}

/// Chooses the requests of one load thread.
#[derive(Debug)]
pub(crate) enum Source {
    Single(Single),
    Mix(Mix),
    Append(Append),
    Rewrites(Box<Rewrites>),
    Script(Box<Sessions>),
    ReadBack(Box<ReadBack>),
}

impl Source {
    /// Makes the source for thread number `thread` of so many.
    #[must_use]
    pub(crate) fn new(trial: &Trial, thread: usize, threads: usize, clients: u32) -> Self {
        if let Some(script) = trial.open_script.as_ref().filter(|_| trial.follows_script()) {
            let sessions = Sessions::new(trial, Arc::clone(script), thread, threads, clients);
            return Self::Script(Box::new(sessions));
        }
        if let Some(audit) = &trial.open_audit {
            let read_back = ReadBack::new(trial, Arc::clone(audit), threads, clients);
            return Self::ReadBack(Box::new(read_back));
        }
        let hand = Hand::new(trial, threads, clients);
        if trial.keeps_history {
            return Self::Rewrites(Box::new(Rewrites::new(trial, hand, thread, threads)));
        }
        match trial.mix.as_slice() {
            [share] if share.operation == Operation::Append => Self::Append(Append::new(trial)),
            [_] => Self::Single(Single::new(trial, hand)),
            _ => Self::Mix(Mix::new(trial, hand)),
        }
    }

    /// Begins a stage of an iteration.
    pub(crate) fn restart(&mut self, iteration: u32, stage: u64) {
        match self {
            Self::Single(single) => single.hand.restart(iteration, stage),
            Self::Mix(mix) => mix.hand.restart(iteration, stage),
            Self::Rewrites(rewrites) => rewrites.hand.restart(iteration, stage),
            // What is begun is filled, whatever the stage; the others have one stage alone.
            Self::Append(_) | Self::Script(_) | Self::ReadBack(_) => {}
        }
    }

    /// Tells whether requests are left that no other thread can take.
    #[inline]
    #[must_use]
    pub(crate) fn is_holding_tickets(&self) -> bool {
        match self {
            Self::Single(single) => !single.hand.is_empty(),
            Self::Mix(mix) => !mix.hand.is_empty(),
            Self::Rewrites(rewrites) => !rewrites.hand.is_empty(),
            Self::ReadBack(read_back) => read_back.has_work(),
            Self::Append(_) | Self::Script(_) => false,
        }
    }

    /// Returns when the next request of a client is due: when the load's schedule says, but for a
    /// script, which has times of its own, or whose actions follow from one another.
    #[inline]
    #[must_use]
    pub(crate) fn due_ns(&mut self, client: usize, schedule: &Schedule, now_ns: u64) -> u64 {
        match self {
            Self::Single(_)
            | Self::Mix(_)
            | Self::Append(_)
            | Self::Rewrites(_)
            | Self::ReadBack(_) => schedule.peek_ns(now_ns),
            Self::Script(sessions) => sessions.due_ns(client, now_ns),
        }
    }

    /// Tells whether the load's schedule says when requests are due.
    pub(crate) fn is_scheduled(&self) -> bool {
        !matches!(self, Self::Script(_))
    }

    /// Returns the next request of a client, by its number in this thread, which is due then.
    #[inline]
    pub(crate) fn next(&mut self, client: usize, due_ns: u64, shared: &Tickets) -> Next {
        match self {
            Self::Single(single) => single.next(shared),
            Self::Mix(mix) => mix.next(due_ns, shared),
            Self::Append(append) => append.next(shared),
            Self::Rewrites(rewrites) => rewrites.next(shared),
            Self::Script(sessions) => sessions.next(client, due_ns),
            Self::ReadBack(read_back) => read_back.next(client, due_ns),
        }
    }

    /// Corrects the outcome of a client's request, which read a version, by the script, or by what an audit
    /// expects, and returns the action if this request was its last. Other sources leave outcomes as they are.
    pub(crate) fn judge(
        &mut self,
        client: usize,
        began_ns: u64,
        spent: Spent,
        version: u64,
        completion: &mut Completion,
    ) -> Option<EndedAction> {
        match self {
            Self::Single(_) | Self::Mix(_) | Self::Append(_) | Self::Rewrites(_) => None,
            Self::Script(sessions) => sessions.judge(client, began_ns, spent, version, completion),
            Self::ReadBack(read_back) => {
                read_back.judge(client, completion);
                None
            }
        }
    }

    /// Learns how a request of a client ended.
    #[inline]
    pub(crate) fn note(&mut self, request: &Request, completion: &Completion) {
        if let Self::Mix(_) | Self::Append(_) = self {
            self.note_later_use(request, completion);
        }
    }

    /// Kept out of the hot loop, which is smaller and faster without it for other sources.
    #[inline(never)]
    fn note_later_use(&mut self, request: &Request, completion: &Completion) {
        match self {
            Self::Mix(mix) => mix.note(request, completion),
            Self::Append(append) => append.note(request, completion.outcome),
            Self::Single(_) | Self::Rewrites(_) | Self::Script(_) | Self::ReadBack(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
