//! Chooses the next request: an operation and its subject.
//!
//! A [`Source`] chooses the requests of one load thread. A client asks it when its next request is
//! due and what that request is, and reports how each request ended. So a source may depend on
//! outcomes and on the client that asks. Its memory must be bounded, and its choices are a function
//! of the seed and of the reported outcomes. To add one: a file in `requests/`, and a variant of
//! [`Source`].

use std::sync::Arc;

use crate::cryptography::Spent;
use crate::dataset::{COPY_SUFFIX, Object};
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
    /// The operation.
    pub(crate) operation: Operation,
    /// The subject of the operation.
    pub(crate) subject: Subject,
    /// 64 random bits for this request alone: the start of a range, for example.
    pub(crate) chance: u64,
    /// Whether to check the content that is read.
    pub(crate) is_verified: bool,
}

/// The subject of an operation. Each operation has one kind of subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// An object, in the version that is written or expected.
    Object(Object),
    /// The copy of an object: what an audit reads.
    Copy(Object),
    /// A block of an object: `read`, `write`, `append`, and the parts of an upload.
    Block {
        /// The object.
        object: Object,
        /// Number of the block, from the object's start. It may be beyond the end of an object
        /// smaller than the largest: the driver then takes it modulo the number of blocks.
        number: u64,
    },
    /// The number of a bucket: `list`, and operations that create and delete buckets.
    Bucket(u64),
    /// Objects of one bucket: `bulk_delete`.
    Batch {
        /// Number of the first object; the others follow in steps of `dataset.buckets`.
        first: u64,
        /// Number of objects.
        keys: u32,
    },
    /// All keys under a prefix, over all pages: a script's `list`.
    Listing(Listing),
}

impl Subject {
    /// Returns the number for the log of requests: of the object, of the bucket, or of the first
    /// object of a batch.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        match *self {
            Self::Object(object) | Self::Copy(object) | Self::Block { object, .. } => object.index,
            Self::Bucket(bucket) => bucket,
            Self::Batch { first, .. } => first,
            Self::Listing(listing) => u64::from(listing.prefix),
        }
    }
}

/// Creates the ledger of a trial that keeps one and changes objects.
pub(crate) fn ledger_of(trial: &Trial, now_unix_ns: u64) -> Option<Ledger> {
    let effects = || trial.mix.iter().filter_map(|share| Effect::of(share.operation));
    // A mix deletes only what it has put, so writes are its usual effect.
    let usual = effects().find(|effect| *effect == Effect::Writes).or(effects().next());
    let usual = usual.filter(|_| trial.keeps_ledger)?;
    let mut stretches = vec![(0, trial.dataset.objects)];
    if let Some(first) = trial.first_beyond().filter(|_| trial.mix.len() > 1) {
        // Each stage has its own range of numbers for the objects that it puts.
        stretches.extend((0..3).map(|stage| (first + (stage << 32), 1 << 32)));
    }
    for effect in [Effect::Copies, Effect::Describes] {
        if effects().any(|other| other == effect) {
            stretches.push((effect.bit(), trial.dataset.objects));
        }
    }
    Some(Ledger::new(&stretches, trial.portion().index, usual, now_unix_ns))
}

impl Request {
    /// Records in a ledger how this request ended, if it changes objects. With `is_in_doubt`, it was
    /// sent twice, and nothing is known of the first one.
    #[inline(never)]
    pub(crate) fn note_in(
        &self,
        ledger: &Ledger,
        buckets: u64,
        outcome: Outcome,
        is_in_doubt: bool,
    ) {
        let Some(effect) = Effect::of(self.operation) else { return };
        let note = |index| {
            ledger.note(index, effect, outcome.is_ok());
            if is_in_doubt {
                ledger.note(index, effect, false);
            }
        };
        match self.subject {
            Subject::Object(object) => note(object.index),
            Subject::Batch { first, keys } => {
                (0..u64::from(keys)).for_each(|key| note(first + key * buckets));
            }
            Subject::Copy(_) | Subject::Block { .. } | Subject::Bucket(_) | Subject::Listing(_) => {
            }
        }
    }

    /// Returns the object of an operation on an object or on a block of one.
    ///
    /// # Panics
    /// The operation has another kind of subject: a driver matches the operation first.
    #[inline]
    pub(crate) fn object(&self) -> Object {
        match self.subject {
            Subject::Object(object) | Subject::Copy(object) | Subject::Block { object, .. } => {
                object
            }
            Subject::Bucket(_) | Subject::Batch { .. } | Subject::Listing(_) => self.misread(),
        }
    }

    /// Returns what follows the object's own key.
    #[inline]
    pub(crate) fn suffix(&self) -> &'static str {
        if let Subject::Copy(_) = self.subject { COPY_SUFFIX } else { "" }
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

    /// Returns the first object of a batch, and the number of objects.
    ///
    /// # Panics
    /// As [`Request::object`].
    #[inline]
    pub(crate) fn batch(&self) -> (u64, u32) {
        let Subject::Batch { first, keys } = self.subject else { self.misread() };
        (first, keys)
    }

    /// Returns the number of the requested block. A range without one begins at a random block.
    #[inline]
    pub(crate) fn block(&self) -> u64 {
        if let Subject::Block { number, .. } = self.subject { number } else { self.chance }
    }

    #[cold]
    fn misread(&self) -> ! {
        unreachable!("{} is done to {:?}", self.operation.name(), self.subject)
    }
}

/// The answer to a client that asks for its next request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Next {
    /// The next request.
    Request(Request),
    /// The remaining work belongs to other clients; this client has nothing more to do.
    Busy,
    /// No request is possible before other requests have ended; ask again at this time.
    Later(u64),
    /// All requests have been taken.
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
    /// Creates the source for thread number `thread` of `threads`.
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
            // Appends fill what they have begun, whatever the stage; the others have only one
            // stage.
            Self::Append(_) | Self::Script(_) | Self::ReadBack(_) => {}
        }
    }

    /// Returns whether this thread holds tickets that no other thread can take.
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

    /// Returns when the next request of a client is due. The load's schedule decides, except for a
    /// script that has its own times or whose actions follow each other.
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

    /// Returns whether the load's schedule decides when requests are due.
    pub(crate) fn is_scheduled(&self) -> bool {
        !matches!(self, Self::Script(_))
    }

    /// Returns the next request of a client, given the client's number in this thread and the due
    /// time.
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

    /// Corrects the outcome of a client's request, which read a version, by the script or the
    /// expectation of an audit. Returns the action if this request was its last. Other sources
    /// leave outcomes unchanged.
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
                read_back.judge(client, version, completion);
                None
            }
        }
    }

    /// Records how a request of a client ended.
    #[inline]
    pub(crate) fn note(&mut self, request: &Request, completion: &Completion) {
        if let Self::Mix(_) | Self::Append(_) = self {
            self.note_later_use(request, completion);
        }
    }

    /// A separate function, so that the hot loop of other sources stays smaller and faster.
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
