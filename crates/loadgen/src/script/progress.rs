//! How far a script is, over all load threads: whose turn it is, and what is in doubt.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::{Rows, Subjects};

/// Subjects in doubt that are remembered, at most; of more than these nothing is expected any more.
const DOUBTED_MAX: usize = 1 << 20;

/// What all load threads share of a script.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Sessions of the first kind that have not ended, and of those between first and last.
    first_left: AtomicU32,
    middle_left: AtomicU32,
    /// Subjects whose state is unknown since a request that changes them failed.
    doubted: Mutex<HashSet<u32>>,
    doubts: AtomicUsize,
}

impl Progress {
    pub(super) fn new(rows: Option<&Rows>) -> Self {
        let (first, middle) = rows.map_or((0, 0), |rows| {
            let first = rows.first_sessions;
            (first, rows.sessions() - first - rows.last_sessions)
        });
        Self {
            first_left: AtomicU32::new(first),
            middle_left: AtomicU32::new(middle),
            doubted: Mutex::default(),
            doubts: AtomicUsize::new(0),
        }
    }

    pub(crate) fn first_left(&self) -> u32 {
        self.first_left.load(Ordering::Acquire)
    }

    pub(crate) fn middle_left(&self) -> u32 {
        self.middle_left.load(Ordering::Acquire)
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
        let mut doubted = self.doubted.lock().expect("no holder of this lock panics");
        let mut next = Some(subject);
        while let Some(one) = next {
            if doubted.len() >= DOUBTED_MAX {
                self.doubts.store(usize::MAX, Ordering::Relaxed);
                return;
            }
            // What is in doubt already has its sets in doubt, and a file may name a set its own.
            next = if doubted.insert(one) { subjects.space(one) } else { None };
        }
        self.doubts.fetch_max(doubted.len(), Ordering::Relaxed);
    }

    /// Notes that an object is known again, as it was written; its sets are not.
    #[inline]
    pub(crate) fn settle(&self, subject: u32) {
        let doubts = self.doubts.load(Ordering::Relaxed);
        if doubts > 0 && doubts < usize::MAX {
            self.doubted.lock().expect("no holder of this lock panics").remove(&subject);
        }
    }

    #[inline]
    pub(crate) fn is_doubted(&self, subject: u32) -> bool {
        match self.doubts.load(Ordering::Relaxed) {
            0 => false,
            usize::MAX => true,
            _ => self.doubted.lock().expect("no holder of this lock panics").contains(&subject),
        }
    }
}
