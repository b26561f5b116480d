//! The operations: every kind of request that a workload can ask for.

use serde::{Deserialize, Serialize};

/// One kind of request. The name is the same in campaigns, records and reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Operation {
    /// Write a whole object.
    Put,
    /// Read a whole object.
    Get,
    /// Read one range of an object.
    RangeGet,
    /// Read several ranges of an object with one request.
    MultiRangeGet,
    /// Read an object's metadata.
    Head,
    /// List one page of keys.
    List,
    /// Delete one object.
    Delete,
    /// Delete many objects with one request.
    BulkDelete,
    /// Copy an object inside the target.
    Copy,
    /// Replace an object's metadata.
    Post,
    /// Write an object in parts.
    MultipartPut,
    /// Read a whole object in parts, each with a request of its own.
    MultipartGet,
    /// Create a bucket.
    CreateBucket,
    /// Delete a bucket.
    DeleteBucket,
    /// Read a block at an offset.
    Read,
    /// Write a block at an offset.
    Write,
    /// Write the next block behind an object's end.
    Append,
    /// Write a whole object on the condition that there is none.
    PutIfAbsent,
    /// Write a whole object on the condition that nobody else has since.
    PutIfMatch,
    /// Delete an object on the condition that nobody else has written it since.
    DeleteIfMatch,
    /// Write an object on the condition that nobody else has since its ETag was asked for, until that
    /// succeeds.
    CompareAndSwap,
}

/// What the rest of the program needs to know of an operation.
#[derive(Debug, Clone, Copy)]
pub struct OperationInfo {
    /// Which operation this row describes.
    pub operation: Operation,
    /// Its name everywhere.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// Whether payload comes from the target.
    pub reads: bool,
    /// Whether payload goes to the target.
    pub writes: bool,
    /// Whether it needs objects that are there already.
    pub needs_objects: bool,
    /// Whether it may stand in a mix with others.
    pub is_mixed: bool,
    /// How often it can be done to one object, or bucket.
    pub repeats: Repeats,
    /// The options of a trial that it reads.
    pub options: &'static [&'static str],
}

/// How often an operation can be done to one object, or bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeats {
    /// Any number of times.
    Always,
    /// Until the object is full: a trial goes over its objects once, whatever a warm-up has appended.
    UntilFull,
    /// Once: what is gone cannot be asked for again, by a warm-up either.
    Never,
}

macro_rules! operations {
    ($($variant:ident, $name:literal, $summary:literal, $reads:literal, $writes:literal, $needs:literal,
        $mixed:literal, $repeats:ident, $options:expr;)*) => {
        /// Every operation, in the order in which lists show them.
        pub const OPERATIONS: &[OperationInfo] = &[$(OperationInfo {
            operation: Operation::$variant,
            name: $name,
            summary: $summary,
            reads: $reads,
            writes: $writes,
            needs_objects: $needs,
            is_mixed: $mixed,
            repeats: Repeats::$repeats,
            options: &$options,
        }),*];
    };
}

operations! {
    Put,           "put",             "write a whole object",
        false, true,  false, true,  Always,    [];
    Get,           "get",             "read a whole object",
        true,  false, true,  true,  Always,    [];
    RangeGet,      "range_get",       "read one range of an object",
        true,  false, true,  true,  Always,    ["range_bytes"];
    MultiRangeGet, "multi_range_get", "read several ranges of an object in one request",
        true,  false, true,  true,  Always,    ["range_bytes", "range_count"];
    Head,          "head",            "read an object's metadata",
        false, false, true,  true,  Always,    [];
    List,          "list",            "list one page of keys",
        false, false, true,  true,  Always,    ["page_keys", "prefix", "delimiter"];
    Delete,        "delete",          "delete one object",
        false, false, true,  true,  Never,     [];
    BulkDelete,    "bulk_delete",     "delete many objects with one request",
        false, false, true,  false, Never,     ["bulk_keys"];
    Copy,          "copy",            "copy an object inside the target",
        false, false, true,  true,  Always,    [];
    Post,          "post",            "replace an object's metadata",
        false, false, true,  true,  Always,    [];
    MultipartPut,  "multipart_put",   "write an object in parts",
        false, true,  false, true,  Always,    ["part_bytes", "part_concurrency"];
    MultipartGet,  "multipart_get",   "read an object in parts",
        true,  false, true,  true,  Always,    ["part_bytes", "part_concurrency"];
    CreateBucket,  "create_bucket",   "create a bucket",
        false, false, false, false, Never,     [];
    DeleteBucket,  "delete_bucket",   "delete a bucket",
        false, false, false, false, Never,     [];
    Read,          "read",            "read a block at an offset",
        true,  false, true,  true,  Always,    ["range_bytes"];
    Write,         "write",           "write a block at an offset",
        false, true,  false, true,  Always,    ["range_bytes"];
    Append,        "append",          "write the next block behind an object's end",
        false, true,  false, false, UntilFull, ["range_bytes"];
    PutIfAbsent,   "put_if_absent",   "write a whole object if there is none",
        false, true,  false, true,  Never,     [];
    PutIfMatch,    "put_if_match",    "write an object again if nobody else has meanwhile",
        false, true,  true,  true,  Always,    [];
    DeleteIfMatch, "delete_if_match", "delete an object if nobody else has written it meanwhile",
        false, false, true,  true,  Never,     [];
    CompareAndSwap, "compare_and_swap", "try to write an object until no other write comes first",
        false, true,  true,  false, Always,    ["contended_keys"];
}

/// Joins two lists of operations into one of `N`.
pub(crate) const fn joined<const N: usize>(
    first: &[Operation],
    second: &[Operation],
) -> [Operation; N] {
    let mut all = [Operation::Put; N];
    let mut at = 0;
    while at < N {
        all[at] = if at < first.len() { first[at] } else { second[at - first.len()] };
        at += 1;
    }
    all
}

impl Operation {
    /// Returns the row of the table that describes this operation.
    #[must_use]
    pub fn info(self) -> &'static OperationInfo {
        &OPERATIONS[self as usize]
    }

    /// Returns the operation's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Tells whether one request writes a whole object of the dataset.
    #[must_use]
    pub fn puts_object(self) -> bool {
        matches!(self, Self::Put | Self::MultipartPut | Self::PutIfAbsent)
    }

    /// Tells whether one request deletes one object.
    #[must_use]
    pub fn deletes_object(self) -> bool {
        matches!(self, Self::Delete | Self::DeleteIfMatch)
    }

    /// Tells whether one request is for one object of the dataset that must be there.
    #[must_use]
    pub fn asks_for_object(self) -> bool {
        matches!(
            self,
            Self::Get
                | Self::RangeGet
                | Self::MultiRangeGet
                | Self::MultipartGet
                | Self::Head
                | Self::Delete
                | Self::Copy
                | Self::Post
                | Self::Read
                | Self::PutIfMatch
                | Self::DeleteIfMatch
                | Self::CompareAndSwap
        )
    }

    /// Tells whether it can be done to objects that others wrote: it changes nothing, and needs to know
    /// of an object no more than a listing says.
    #[must_use]
    pub fn reads_existing(self) -> bool {
        matches!(
            self,
            Self::Get
                | Self::RangeGet
                | Self::MultiRangeGet
                | Self::MultipartGet
                | Self::Head
                | Self::List
        )
    }

    /// Tells whether a request consists of requests for the parts of one object.
    #[inline]
    #[must_use]
    pub fn is_in_parts(self) -> bool {
        matches!(self, Self::MultipartPut | Self::MultipartGet)
    }

    /// Tells whether objects of the dataset are not the same afterwards. Buckets are another
    /// matter: a delete looks at the mark at every request.
    #[must_use]
    pub fn changes_objects(self) -> bool {
        matches!(
            self,
            Self::Put
                | Self::MultipartPut
                | Self::Copy
                | Self::Post
                | Self::Delete
                | Self::BulkDelete
                | Self::Write
                | Self::Append
                | Self::PutIfAbsent
                | Self::PutIfMatch
                | Self::DeleteIfMatch
                | Self::CompareAndSwap
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_stands_at_its_operations_number() {
        for (number, row) in OPERATIONS.iter().enumerate() {
            assert_eq!(row.operation as usize, number, "{}", row.name);
            assert_eq!(serde_json::to_value(row.operation).expect("a string"), row.name);
        }
    }

    #[test]
    fn every_option_is_read_by_an_operation_and_is_one_of_a_trial() {
        let of_trial = serde_json::to_value(crate::trial::Options::default()).expect("a map");
        let of_trial: BTreeSet<&str> =
            of_trial.as_object().expect("a map").keys().map(String::as_str).collect();
        let read: BTreeSet<&str> =
            OPERATIONS.iter().flat_map(|row| row.options.iter().copied()).collect();
        assert_eq!(read, of_trial);
    }
}
