//! Scripts: tables of requests that depend on each other, as the planner wrote them for a trial.
//!
//! Two Arrow files, mapped into memory: the requests, sorted by session, and their subjects. In
//! addition, a trial needs 8 bytes of memory for each session, and nothing for a request.

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

/// Number of bits of an object's version that hold its length.
const LENGTH_BITS: u32 = 40;
/// Maximum length of an object of a script, in bytes.
pub(crate) const LENGTH_MAX: u64 = (1 << LENGTH_BITS) - 1;
/// Maximum number of kinds of actions (name, space and user type); each is counted separately.
pub const ACTION_KINDS_MAX: usize = 127;
/// Maximum number of writes of one object, plus one.
pub(crate) const VERSION_MAX: u64 = (1 << (64 - LENGTH_BITS)) - 1;

/// Returns the version for write number `version` of an object, which makes it `length` bytes long.
/// Later writes have higher versions, whatever their lengths.
#[inline]
pub(crate) fn version_of(version: u64, length: u64) -> u64 {
    version << LENGTH_BITS | (length & LENGTH_MAX)
}

/// Returns the length that a version of a script's object encodes.
#[inline]
pub(crate) fn length_of(version: u64) -> u64 {
    version & LENGTH_MAX
}

/// Returns a placeholder for any version of a script's object, up to this length.
pub(crate) fn any_version(length_max: u64) -> u64 {
    version_of(VERSION_MAX, length_max)
}

/// Returns whether a version is a placeholder from [`any_version`], so that the object's length is
/// that of its actual version.
pub(crate) fn is_any_version(version: u64) -> bool {
    version != u64::MAX && version >> LENGTH_BITS == VERSION_MAX
}

/// Returns the number of the write that created a version of a script's object.
pub(crate) fn write_of(version: u64) -> u64 {
    version >> LENGTH_BITS
}

/// A file, and its expected SHA-256.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hashed<'a> {
    pub(crate) path: &'a Path,
    pub(crate) sha256: &'a str,
}

/// Kind of an action: name, and the kind of space and type of user, if any. Actions are counted by
/// kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActionKind {
    pub(crate) name: String,
    pub(crate) space: Option<String>,
    pub(crate) user_type: Option<String>,
}

/// An opened script.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) subjects: Subjects,
    /// Absent in a trial that only cleans up.
    pub(crate) rows: Option<Rows>,
    /// Progress over all load threads of this host.
    pub(crate) progress: Progress,
    /// Time in the script divided by time of the trial; `None` if actions have no due times.
    pub(crate) speed: Option<f64>,
    /// When the first action began; `u64::MAX` before that.
    begun_ns: AtomicU64,
}

impl Script {
    /// Opens a script's files, of which this host runs a portion, and checks their digests.
    ///
    /// # Errors
    /// A file is missing, differs from what the planner wrote, or is not a script.
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

    /// Returns the kinds of the actions, by number.
    pub(crate) fn action_kinds(&self) -> &[ActionKind] {
        self.rows.as_ref().map_or(&[], |rows| &rows.actions)
    }

    /// Returns when the script began. The first call sets that to now.
    pub(crate) fn begun_ns(&self, now_ns: u64) -> u64 {
        match self.begun_ns.compare_exchange(u64::MAX, now_ns, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => now_ns,
            Err(begun_ns) => begun_ns,
        }
    }
}

/// Operations by their numbers in the file.
const OPERATIONS: [(&str, Operation); 5] = [
    ("put", Operation::Put),
    ("get", Operation::Get),
    ("head", Operation::Head),
    ("delete", Operation::Delete),
    ("list", Operation::List),
];
