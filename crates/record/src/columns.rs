//! The columns of each table of a record. Times are in nanoseconds; histograms are in
//! HdrHistogram's V2 log format, deflated. Any column may contain nulls, as in imported files that
//! lack the values.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// Columns of intervals that early builds did not write.
pub const LATER: [&str; 2] = ["part", "parts_failed"];

/// Columns of actions that early builds did not write.
pub const LATER_OF_ACTIONS: [&str; 8] =
    ["encryption", "wrapping", "hashing", "began_ns", "ended_ns", "space", "user_type", "paths"];

/// Columns that only actions have.
const ACTIONS: [(&str, DataType); 8] = [
    ("encryption", DataType::Binary),
    ("wrapping", DataType::Binary),
    ("hashing", DataType::Binary),
    ("began_ns", DataType::Int64),
    ("ended_ns", DataType::Int64),
    ("space", DataType::Utf8),
    ("user_type", DataType::Utf8),
    ("paths", DataType::Binary),
];

/// Optional columns of a list of objects.
pub const LATER_OF_LISTS: [&str; 2] = ["size", "etag"];

const LIST: [(&str, DataType); 3] =
    [("key", DataType::Utf8), ("size", DataType::Int64), ("etag", DataType::Utf8)];

const INTERVALS: [(&str, DataType); 15] = [
    ("agent", DataType::Utf8),
    ("stage", DataType::Utf8),
    ("iteration", DataType::Int32),
    ("operation", DataType::Utf8),
    ("outcome", DataType::Utf8),
    ("second", DataType::Int64),
    ("requests", DataType::Int64),
    ("objects", DataType::Int64),
    ("bytes", DataType::Int64),
    ("response", DataType::Binary),
    ("service", DataType::Binary),
    ("first_byte", DataType::Binary),
    ("lag", DataType::Binary),
    ("part", DataType::Binary),
    ("parts_failed", DataType::Int64),
];

const PROBES: [(&str, DataType); 6] = [
    ("time_unix_ns", DataType::Int64),
    ("host", DataType::Utf8),
    ("probe", DataType::Utf8),
    ("subject", DataType::Utf8),
    ("metric", DataType::Utf8),
    ("value", DataType::Float64),
];

const REQUESTS: [(&str, DataType); 11] = [
    ("agent", DataType::Utf8),
    ("stage", DataType::Utf8),
    ("iteration", DataType::Int64),
    ("operation", DataType::Utf8),
    ("outcome", DataType::Utf8),
    ("object", DataType::Int64),
    ("bytes", DataType::Int64),
    ("intended_ns", DataType::Int64),
    ("sent_ns", DataType::Int64),
    ("first_byte_ns", DataType::Int64),
    ("ended_ns", DataType::Int64),
];

/// One row for each stage, iteration, operation and outcome of a second of one agent.
#[must_use]
pub fn intervals() -> SchemaRef {
    schema(INTERVALS.iter().map(|(name, kind)| (*name, kind)))
}

/// One row for each kind of action, stage, iteration and outcome of a second of one agent;
/// `objects` are the requests of actions. Instead of parts, it has the time spent on cryptography,
/// the begin of the first action and the end of the last, the kind of space, and the type of user.
#[must_use]
pub fn actions() -> SchemaRef {
    let shared = INTERVALS.iter().filter(|(name, _)| !LATER.contains(name));
    let shared =
        shared.map(|(name, kind)| (if *name == "operation" { "action" } else { *name }, kind));
    schema(shared.chain(ACTIONS.iter().map(|(name, kind)| (*name, kind))))
}

/// One row for each value that a probe read. Counters are stored as read: readers compute
/// differences.
#[must_use]
pub fn probes() -> SchemaRef {
    schema(PROBES.iter().map(|(name, kind)| (*name, kind)))
}

/// One row for each object that others wrote: its whole key, and its size in bytes and its ETag, if
/// they are known.
#[must_use]
pub fn list() -> SchemaRef {
    schema(LIST.iter().map(|(name, kind)| (*name, kind)))
}

/// One row for each logged request.
#[must_use]
pub fn requests() -> SchemaRef {
    schema(REQUESTS.iter().map(|(name, kind)| (*name, kind)))
}

fn schema<'a>(columns: impl Iterator<Item = (&'a str, &'a DataType)>) -> SchemaRef {
    let fields: Vec<Field> =
        columns.map(|(name, kind)| Field::new(name, kind.clone(), true)).collect();
    Arc::new(Schema::new(fields))
}
