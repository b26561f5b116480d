//! How far a script is, over all load threads of this host: whose turn it is, and what is in doubt.
//!
//! Where several hosts run a script, each counts its own sessions only. That a turn begins is told to
//! it, with what the others have in doubt.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

use super::{Rows, Subjects};
use crate::operation::Operation;
use crate::portion::Portion;

/// Subjects in doubt that are remembered, at most; of more than these nothing is expected any more.
const DOUBTED_MAX: usize = 1 << 20;
/// Subjects in doubt that other hosts are told of one by one, at most.
const TOLD_MAX: usize = 1 << 18;

/// Which sessions run: those that make users, then all others, then audits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Turn {
    First,
    Middle,
    Last,
}

impl Turn {
    /// Returns a turn by its number, from 0.
    pub(crate) fn numbered(number: u32) -> Option<Self> {
        [Self::First, Self::Middle, Self::Last].get(number as usize).copied()
    }

    pub(crate) fn number(self) -> u32 {
        self as u32
    }
}

/// What all load threads share of a script.
#[derive(Debug)]
pub(crate) struct Progress {
    portion: Portion,
    /// This host's sessions of the first kind that have not ended, and of those between first and last.
    first_left: AtomicU32,
    middle_left: AtomicU32,
    /// The number of the turn that has begun on all hosts; of no use where there is one.
    begun: AtomicU8,
    doubted: Mutex<Doubted>,
    doubts: AtomicUsize,
}

/// Subjects whose state is unknown since a request that changes them failed.
#[derive(Debug, Default)]
struct Doubted {
    all: HashSet<u32>,
    /// Those of them that other hosts do not know of.
    untold: HashSet<u32>,
}

impl Progress {
    pub(super) fn new(rows: Option<&Rows>, portion: Portion) -> Self {
        let (first, middle) = rows.map_or((0, 0), |rows| {
            let is_own = |session: &u32| rows.host_of(*session, portion.of) == portion.index;
            let middle = rows.sessions_of(Turn::Middle).filter(is_own).count() as u32;
            (if portion.index == 0 { rows.first_sessions } else { 0 }, middle)
        });
        Self {
            portion,
            first_left: AtomicU32::new(first),
            middle_left: AtomicU32::new(middle),
            begun: AtomicU8::new(0),
            doubted: Mutex::default(),
            doubts: AtomicUsize::new(0),
        }
    }

    /// Returns which of the script's sessions are this host's.
    pub(crate) fn portion(&self) -> Portion {
        self.portion
    }

    pub(crate) fn first_left(&self) -> u32 {
        self.first_left.load(Ordering::Acquire)
    }

    /// Tells whether this host's sessions of a turn have ended.
    pub(crate) fn has_ended(&self, turn: Turn) -> bool {
        match turn {
            Turn::First => self.first_left() == 0,
            Turn::Middle => self.middle_left.load(Ordering::Acquire) == 0,
            Turn::Last => false,
        }
    }

    /// Tells whether the turn after one that this host takes part in has begun.
    pub(crate) fn may_follow(&self, turn: Turn) -> bool {
        if self.portion.of == 1 {
            return self.has_ended(turn);
        }
        u32::from(self.begun.load(Ordering::Acquire)) > turn.number()
    }

    /// Lets a turn begin that all hosts wait for.
    pub(crate) fn begin(&self, turn: Turn) {
        self.begun.fetch_max(turn as u8, Ordering::Release);
    }

    pub(crate) fn end_first(&self) {
        self.first_left.fetch_sub(1, Ordering::Release);
    }

    pub(crate) fn end_middle(&self) {
        self.middle_left.fetch_sub(1, Ordering::Release);
    }

    /// Notes that the state of an object is unknown, and with it the sets that it is in.
    #[cold]
    pub(crate) fn doubt(&self, subject: u32, subjects: &Subjects) {
        self.note(subject, subjects, self.portion.of > 1);
    }

    fn note(&self, subject: u32, subjects: &Subjects, is_to_tell: bool) {
        let mut doubted = self.doubted.lock().expect("no holder of this lock panics");
        let mut next = Some(subject);
        while let Some(one) = next {
            if doubted.all.len() >= DOUBTED_MAX {
                self.doubts.store(usize::MAX, Ordering::Relaxed);
                return;
            }
            // What is in doubt already has its sets in doubt, and a file may name a set its own.
            next = if doubted.all.insert(one) { subjects.space(one) } else { None };
            if is_to_tell && doubted.untold.len() <= TOLD_MAX {
                doubted.untold.insert(one);
            }
        }
        self.doubts.fetch_max(doubted.all.len(), Ordering::Relaxed);
    }

    /// Notes what other hosts have in doubt; nothing of it in particular is everything.
    pub(crate) fn doubt_told(&self, told: Option<&[u32]>) {
        let mut doubted = self.doubted.lock().expect("no holder of this lock panics");
        let rest = DOUBTED_MAX.saturating_sub(doubted.all.len());
        match told {
            Some(told) if told.len() <= rest => {
                doubted.all.extend(told);
                self.doubts.fetch_max(doubted.all.len(), Ordering::Relaxed);
            }
            _ => self.doubts.store(usize::MAX, Ordering::Relaxed),
        }
    }

    /// Notes that what the sessions of lost hosts change in a turn may be changed or not.
    pub(crate) fn doubt_lost(&self, turn: Turn, lost: &[u32], rows: &Rows, subjects: &Subjects) {
        let is_lost = |session: &u32| lost.contains(&rows.host_of(*session, self.portion.of));
        for session in rows.sessions_of(turn).filter(is_lost) {
            for number in rows.of_session(session) {
                let row = rows.row(number);
                if matches!(row.operation, Operation::Put | Operation::Delete) {
                    // Each host finds the same by itself.
                    self.note(row.subject, subjects, false);
                }
            }
        }
    }

    /// Returns what other hosts do not know to be in doubt, sorted; nothing when that is too much to
    /// name.
    pub(crate) fn take_untold(&self) -> Option<Vec<u32>> {
        let mut doubted = self.doubted.lock().expect("no holder of this lock panics");
        if self.doubts.load(Ordering::Relaxed) == usize::MAX || doubted.untold.len() > TOLD_MAX {
            return None;
        }
        let mut untold: Vec<u32> = doubted.untold.drain().collect();
        untold.sort_unstable();
        Some(untold)
    }

    /// Notes that an object is known again, as it was written; its sets are not.
    #[inline]
    pub(crate) fn settle(&self, subject: u32) {
        let doubts = self.doubts.load(Ordering::Relaxed);
        if doubts > 0 && doubts < usize::MAX {
            let mut doubted = self.doubted.lock().expect("no holder of this lock panics");
            doubted.all.remove(&subject);
            doubted.untold.remove(&subject);
        }
    }

    #[inline]
    pub(crate) fn is_doubted(&self, subject: u32) -> bool {
        match self.doubts.load(Ordering::Relaxed) {
            0 => false,
            usize::MAX => true,
            _ => self.doubted.lock().expect("no holder of this lock panics").all.contains(&subject),
        }
    }
}
