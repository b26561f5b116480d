//! Progress of a script over all load threads of this host: the current turn, and the subjects in
//! doubt.
//!
//! If several hosts run a script, each counts only its own sessions. The controller announces the
//! begin of a turn, together with what the other hosts have in doubt.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering};

use super::{Rows, Subjects};
use crate::operation::Operation;
use crate::portion::Portion;

/// Maximum number of subjects in doubt to remember; above it, every subject is in doubt.
const DOUBTED_MAX: usize = 1 << 20;
/// Maximum number of subjects in doubt to report to other hosts by name.
const TOLD_MAX: usize = 1 << 18;

/// Phases of a script: first the sessions that create users, then all others, then audits.
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

/// State of a script that all load threads share.
#[derive(Debug)]
pub(crate) struct Progress {
    portion: Portion,
    /// How many of this host's sessions have not ended: of the first turn, and of the middle turn.
    first_left: AtomicU32,
    middle_left: AtomicU32,
    /// Number of the turn that has begun on all hosts; unused with a single host.
    begun: AtomicU8,
    doubted: Mutex<Doubted>,
    doubts: AtomicUsize,
}

/// Subjects whose state is unknown because a request that changes them failed.
#[derive(Debug, Default)]
struct Doubted {
    all: HashSet<u32>,
    /// Subjects in doubt that other hosts do not know of.
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

    /// Returns which of the script's sessions belong to this host.
    pub(crate) fn portion(&self) -> Portion {
        self.portion
    }

    pub(crate) fn first_left(&self) -> u32 {
        self.first_left.load(Ordering::Acquire)
    }

    /// Returns whether this host's sessions of a turn have ended.
    pub(crate) fn has_ended(&self, turn: Turn) -> bool {
        match turn {
            Turn::First => self.first_left() == 0,
            Turn::Middle => self.middle_left.load(Ordering::Acquire) == 0,
            Turn::Last => false,
        }
    }

    /// Returns whether the turn after one that this host takes part in has begun.
    pub(crate) fn may_follow(&self, turn: Turn) -> bool {
        if self.portion.of == 1 {
            return self.has_ended(turn);
        }
        u32::from(self.begun.load(Ordering::Acquire)) > turn.number()
    }

    /// Begins a turn that all hosts wait for.
    pub(crate) fn begin(&self, turn: Turn) {
        self.begun.fetch_max(turn as u8, Ordering::Release);
    }

    pub(crate) fn end_first(&self) {
        self.first_left.fetch_sub(1, Ordering::Release);
    }

    pub(crate) fn end_middle(&self) {
        self.middle_left.fetch_sub(1, Ordering::Release);
    }

    /// Records that the state of an object is unknown, and so the state of the sets that contain
    /// it.
    #[cold]
    pub(crate) fn doubt(&self, subject: u32, subjects: &Subjects) {
        self.note(subject, subjects, self.portion.of > 1);
    }

    fn note(&self, subject: u32, subjects: &Subjects, is_to_tell: bool) {
        let mut doubted = self.doubted.lock().expect("no holder of this lock panics");
        let mut next = Some(subject);
        while let Some(current) = next {
            if doubted.all.len() >= DOUBTED_MAX {
                self.doubts.store(usize::MAX, Ordering::Relaxed);
                return;
            }
            // The sets of a subject in doubt are already in doubt; this also ends a cycle in the
            // file.
            next = if doubted.all.insert(current) { subjects.space(current) } else { None };
            if is_to_tell && doubted.untold.len() <= TOLD_MAX {
                doubted.untold.insert(current);
            }
        }
        self.doubts.fetch_max(doubted.all.len(), Ordering::Relaxed);
    }

    /// Records what other hosts have in doubt; `None` means all subjects.
    pub(crate) fn doubt_told(&self, subjects: Option<&[u32]>) {
        let mut doubted = self.doubted.lock().expect("no holder of this lock panics");
        let rest = DOUBTED_MAX.saturating_sub(doubted.all.len());
        match subjects {
            Some(subjects) if subjects.len() <= rest => {
                doubted.all.extend(subjects);
                self.doubts.fetch_max(doubted.all.len(), Ordering::Relaxed);
            }
            _ => self.doubts.store(usize::MAX, Ordering::Relaxed),
        }
    }

    /// Records that what the sessions of lost hosts change in a turn may or may not have been
    /// changed.
    pub(crate) fn doubt_lost(&self, turn: Turn, lost: &[u32], rows: &Rows, subjects: &Subjects) {
        let is_lost = |session: &u32| lost.contains(&rows.host_of(*session, self.portion.of));
        for session in rows.sessions_of(turn).filter(is_lost) {
            for number in rows.of_session(session) {
                let row = rows.row(number);
                if matches!(row.operation, Operation::Put | Operation::Delete) {
                    // Not reported: each host computes the same by itself.
                    self.note(row.subject, subjects, false);
                }
            }
        }
    }

    /// Returns the subjects in doubt that other hosts do not know of, sorted; `None` if there are
    /// too many to name.
    pub(crate) fn take_untold(&self) -> Option<Vec<u32>> {
        let mut doubted = self.doubted.lock().expect("no holder of this lock panics");
        if self.doubts.load(Ordering::Relaxed) == usize::MAX || doubted.untold.len() > TOLD_MAX {
            return None;
        }
        let mut untold: Vec<u32> = doubted.untold.drain().collect();
        untold.sort_unstable();
        Some(untold)
    }

    /// Records that an object is known again, because it was written; its sets stay in doubt.
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
