//! Scripts: tables of requests that depend on each other, as the planner wrote them for a trial.
//!
//! Two Arrow files, mapped into memory: the requests, sorted by session, and their subjects. A trial
//! holds 8 bytes for each session beside them, and nothing for a request.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::operation::Operation;
use crate::portion::Portion;

mod file;
mod progress;
mod requests;
mod subjects;

pub(crate) use progress::{Progress, Turn};
pub(crate) use requests::{Expected, Row, Rows};
pub use subjects::Reader;
pub(crate) use subjects::{Listing, ListingCheck, SetVerdict, Subjects};

/// Bits of an object's version that hold its length.
const LENGTH_BITS: u32 = 40;
/// The longest object of a script.
pub(crate) const LENGTH_MAX: u64 = (1 << LENGTH_BITS) - 1;
/// The most kinds of actions, by their names, spaces and user types: each is counted apart.
pub const ACTION_KINDS_MAX: usize = 127;
/// The most writes of one object, and one more.
pub(crate) const VERSION_MAX: u64 = (1 << (64 - LENGTH_BITS)) - 1;

/// Returns the version of an object that a script's write number `version` makes `length` long. Later
/// writes have higher versions, whatever their lengths.
#[inline]
pub(crate) fn version_of(version: u64, length: u64) -> u64 {
    version << LENGTH_BITS | (length & LENGTH_MAX)
}

/// Returns the length of an object in a version of a script's.
#[inline]
pub(crate) fn length_of(version: u64) -> u64 {
    version & LENGTH_MAX
}

/// Stands for whichever version an object of a script has, of at most this length.
pub(crate) fn any_version(length_max: u64) -> u64 {
    version_of(VERSION_MAX, length_max)
}

/// Tells whether a version is one that [`any_version`] returns, of an object whose length its own version tells.
pub(crate) fn is_any_version(version: u64) -> bool {
    version != u64::MAX && version >> LENGTH_BITS == VERSION_MAX
}

/// Returns the number of the write that made a version of a script's object.
pub(crate) fn write_of(version: u64) -> u64 {
    version >> LENGTH_BITS
}

/// A file, and the SHA-256 that it must have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hashed<'a> {
    pub(crate) path: &'a Path,
    pub(crate) sha256: &'a str,
}

/// What actions are counted by: their name, and the kind of space and the type of user, if they have any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActionKind {
    pub(crate) name: String,
    pub(crate) space: Option<String>,
    pub(crate) user_type: Option<String>,
}

/// A script that is open.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) subjects: Subjects,
    /// Absent in a trial that only cleans up.
    pub(crate) rows: Option<Rows>,
    /// How far all load threads of this host together are.
    pub(crate) progress: Progress,
    /// Time in the script over time of the trial; nothing where actions are not due at times.
    pub(crate) speed: Option<f64>,
    /// When the first action began, once one has.
    begun_ns: AtomicU64,
}

impl Script {
    /// Opens a script's files, of which this host runs a portion, and checks that they are the ones meant.
    ///
    /// # Errors
    /// A file is missing, another one than the planner wrote, or no script.
    pub(crate) fn open(
        subjects: Hashed<'_>,
        rows: Option<Hashed<'_>>,
        speed: Option<f64>,
        key_prefix: &str,
        portion: Portion,
    ) -> Result<Self, Error> {
        let sha256 = subjects.sha256.to_owned();
        let subjects = Subjects::open(subjects, key_prefix)?;
        let rows = match rows {
            Some(rows) => Some(Rows::open(rows, &sha256, subjects.len())?),
            None => None,
        };
        let progress = Progress::new(rows.as_ref(), portion);
        Ok(Self { subjects, rows, progress, speed, begun_ns: AtomicU64::new(u64::MAX) })
    }

    /// Returns the kinds of the actions by their numbers.
    pub(crate) fn action_kinds(&self) -> &[ActionKind] {
        self.rows.as_ref().map_or(&[], |rows| &rows.actions)
    }

    /// Returns when the script began. The first call sets it to now.
    pub(crate) fn begun_ns(&self, now_ns: u64) -> u64 {
        match self.begun_ns.compare_exchange(u64::MAX, now_ns, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => now_ns,
            Err(begun_ns) => begun_ns,
        }
    }
}

/// The operations by their numbers in the file.
const OPERATIONS: [(&str, Operation); 5] = [
    ("put", Operation::Put),
    ("get", Operation::Get),
    ("head", Operation::Head),
    ("delete", Operation::Delete),
    ("list", Operation::List),
];
