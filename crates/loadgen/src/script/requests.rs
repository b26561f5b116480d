//! The requests of a script, by row number in session order.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt32Type, UInt64Type};
use arrow_array::{Array, BooleanArray, RecordBatch, UInt8Array, UInt32Array, UInt64Array};
use arrow_schema::{Metadata, Schema};

use super::{
    ACTION_KINDS_MAX, ActionKind, Hashed, LENGTH_MAX, Listing, OPERATIONS, Turn, VERSION_MAX, file,
};
use crate::error::Error;
use crate::operation::Operation;
use crate::portion::Portion;

/// The expected answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    /// The state of the object is unknown.
    Any,
    /// The object exists in the version that the row names.
    There,
    /// The object does not exist.
    Absent,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) action: u8,
    /// Whether it is the last request of its action.
    pub(crate) is_last: bool,
    pub(crate) operation: Operation,
    pub(crate) subject: u32,
    pub(crate) size: u64,
    pub(crate) version: u64,
    pub(crate) expected: Expected,
    /// The set that a list must return.
    pub(crate) listing: Listing,
    /// Due time relative to the script's begin.
    pub(crate) due_ns: Option<u64>,
}

/// All requests, sorted by session.
#[derive(Debug)]
pub(crate) struct Rows {
    batches: Vec<Batch>,
    batch_rows: usize,
    /// First row of each session, and the end of the last session.
    starts: Vec<u64>,
    /// Kinds of the actions.
    pub(crate) actions: Vec<ActionKind>,
    operations: Vec<Operation>,
    /// Number of sessions that run one by one before all others, and of those that run after all
    /// others.
    pub(crate) first_sessions: u32,
    pub(crate) last_sessions: u32,
}

#[derive(Debug)]
struct Batch {
    session: UInt32Array,
    action: UInt8Array,
    is_last: BooleanArray,
    operation: UInt8Array,
    subject: UInt32Array,
    size: UInt64Array,
    version: UInt32Array,
    expect: UInt8Array,
    entries: UInt32Array,
    entries_hash: UInt64Array,
    due_ns: UInt64Array,
}

impl Rows {
    /// Opens a file of requests on this many subjects, which are in another file with this SHA-256.
    pub(super) fn open(
        hashed: Hashed<'_>,
        subjects_sha256: &str,
        subjects: u64,
    ) -> Result<Self, Error> {
        let (schema, batches) = file::open(hashed)?;
        let wrong = |problem: &str| {
            let path = hashed.path.display();
            Error::Trial(vec![format!("script \"{path}\": {problem}")])
        };
        let known = &schema.metadata;
        if known.get("subjects_sha256").map(String::as_str) != Some(subjects_sha256) {
            return Err(wrong("it was written for other subjects than the trial names"));
        }
        let rows =
            Self::read(&schema, &batches).ok_or_else(|| wrong("it is no table of requests"))?;
        match rows.mistake(subjects) {
            Some(mistake) => Err(wrong(&mistake)),
            None => Ok(rows),
        }
    }

    fn read(schema: &Schema, batches: &[RecordBatch]) -> Option<Self> {
        let known = &schema.metadata;
        let names =
            |key: &str| -> Option<Vec<String>> { serde_json::from_str(known.get(key)?).ok() };
        let number = |key: &str| -> Option<u32> { known.get(key)?.parse().ok() };
        let batches = batches.iter().map(Batch::of).collect::<Option<Vec<_>>>()?;
        let batch_rows = batches.first().map_or(1, |batch| batch.session.len()).max(1);
        let (last, others) = batches.split_last()?;
        if others.iter().any(|batch| batch.session.len() != batch_rows)
            || last.session.len() > batch_rows
        {
            return None;
        }
        let operations = names("operations")?
            .iter()
            .map(|name| OPERATIONS.iter().find(|row| row.0 == name).map(|row| row.1))
            .collect::<Option<Vec<_>>>()?;
        let mut starts = Vec::with_capacity(number("sessions")? as usize + 1);
        let mut row = 0;
        for batch in &batches {
            for session in batch.session.values() {
                // Each session's first row; a session that occurs twice means that rows are not
                // sorted.
                if *session as usize == starts.len() {
                    starts.push(row);
                } else if *session as usize + 1 != starts.len() {
                    return None;
                }
                row += 1;
            }
        }
        starts.push(row);
        Some(Self {
            batches,
            batch_rows,
            starts,
            actions: kinds(known)?,
            operations,
            first_sessions: number("first_sessions")?,
            last_sessions: number("last_sessions")?,
        })
    }

    /// Returns the first reference that leads out of the tables, if any.
    fn mistake(&self, subjects: u64) -> Option<String> {
        let sessions = u64::from(self.sessions());
        if u64::from(self.first_sessions) + u64::from(self.last_sessions) > sessions {
            return Some(format!("more first and last sessions than {sessions}"));
        }
        if self.actions.len() > ACTION_KINDS_MAX {
            return Some(format!("{} kinds of actions", self.actions.len()));
        }
        for batch in &self.batches {
            let beyond = |name: &str, is_wrong: bool| {
                is_wrong.then(|| format!("a value of column \"{name}\" is out of range"))
            };
            let wrong = [
                beyond("action", max(batch.action.values()) >= self.actions.len() as u64),
                beyond("operation", max(batch.operation.values()) >= self.operations.len() as u64),
                beyond("subject", max(batch.subject.values()) >= subjects),
                beyond("size", max(batch.size.values()) > LENGTH_MAX),
                beyond("version", max(batch.version.values()) > VERSION_MAX),
                beyond("expect", max(batch.expect.values()) > 2),
            ];
            if let Some(mistake) = wrong.into_iter().flatten().next() {
                return Some(mistake);
            }
        }
        None
    }

    pub(crate) fn sessions(&self) -> u32 {
        (self.starts.len() - 1) as u32
    }

    /// Returns the sessions of a turn.
    pub(crate) fn sessions_of(&self, turn: Turn) -> Range<u32> {
        let (first, all) = (self.first_sessions, self.sessions());
        let last = all - self.last_sessions;
        match turn {
            Turn::First => 0..first,
            Turn::Middle => first..last,
            Turn::Last => last..all,
        }
    }

    /// Returns which of `hosts` hosts runs a session. The first host runs all that create users.
    pub(crate) fn host_of(&self, session: u32, hosts: u32) -> u32 {
        if session < self.first_sessions { 0 } else { session % hosts }
    }

    /// Returns the number of requests in the sessions of one host.
    pub(crate) fn requests_of(&self, portion: Portion) -> u64 {
        (0..self.sessions())
            .filter(|session| self.host_of(*session, portion.of) == portion.index)
            .map(|session| self.of_session(session))
            .map(|rows| rows.end - rows.start)
            .sum()
    }

    /// Returns the rows of a session.
    pub(crate) fn of_session(&self, session: u32) -> Range<u64> {
        self.starts[session as usize]..self.starts[session as usize + 1]
    }

    #[inline]
    pub(crate) fn row(&self, number: u64) -> Row {
        let batch = &self.batches[number as usize / self.batch_rows];
        let at = number as usize % self.batch_rows;
        let entries = if batch.entries.is_valid(at) { batch.entries.value(at) } else { u32::MAX };
        let subject = batch.subject.value(at);
        Row {
            action: batch.action.value(at),
            is_last: batch.is_last.value(at),
            operation: self.operations[batch.operation.value(at) as usize],
            subject,
            size: batch.size.value(at),
            version: u64::from(batch.version.value(at)),
            expected: match batch.expect.value(at) {
                0 => Expected::Any,
                1 => Expected::There,
                _ => Expected::Absent,
            },
            listing: Listing { prefix: subject, entries, hash: batch.entries_hash.value(at) },
            due_ns: batch.due_ns.is_valid(at).then(|| batch.due_ns.value(at)),
        }
    }
}

fn max<T: Copy + Into<u64>>(values: &[T]) -> u64 {
    values.iter().map(|value| (*value).into()).max().unwrap_or(0)
}

/// Returns the kinds of actions; scripts of earlier builds have names only.
fn kinds(known: &Metadata) -> Option<Vec<ActionKind>> {
    let names: Vec<String> = serde_json::from_str(known.get("actions")?).ok()?;
    let others = |key: &str| -> Option<Vec<Option<String>>> {
        let read = match known.get(key) {
            Some(text) => serde_json::from_str(text).ok()?,
            None => vec![None; names.len()],
        };
        (read.len() == names.len()).then_some(read)
    };
    let (spaces, types) = (others("spaces")?, others("user_types")?);
    let kinds = names.into_iter().zip(spaces).zip(types);
    Some(kinds.map(|((name, space), user_type)| ActionKind { name, space, user_type }).collect())
}

impl Batch {
    fn of(batch: &RecordBatch) -> Option<Self> {
        let column = |name: &str| batch.column_by_name(name);
        let word = |name: &str| column(name)?.as_primitive_opt::<UInt32Type>().cloned();
        let byte = |name: &str| column(name)?.as_primitive_opt::<UInt8Type>().cloned();
        let long = |name: &str| column(name)?.as_primitive_opt::<UInt64Type>().cloned();
        Some(Self {
            session: word("session")?,
            action: byte("action")?,
            is_last: column("is_last")?.as_boolean_opt()?.clone(),
            operation: byte("operation")?,
            subject: word("subject")?,
            size: long("size")?,
            version: word("version")?,
            expect: byte("expect")?,
            entries: word("entries")?,
            entries_hash: long("entries_hash")?,
            due_ns: long("due_ns")?,
        })
    }
}
