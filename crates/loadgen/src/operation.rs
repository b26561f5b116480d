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
}

macro_rules! operations {
    ($($variant:ident, $name:literal, $summary:literal, $reads:literal, $writes:literal, $needs:literal;)*) => {
        /// Every operation, in the order in which lists show them.
        pub const OPERATIONS: &[OperationInfo] = &[$(OperationInfo {
            operation: Operation::$variant,
            name: $name,
            summary: $summary,
            reads: $reads,
            writes: $writes,
            needs_objects: $needs,
        }),*];
    };
}

operations! {
    Put,           "put",             "write a whole object",                          false, true,  false;
    Get,           "get",             "read a whole object",                           true,  false, true;
    RangeGet,      "range_get",       "read one range of an object",                   true,  false, true;
    MultiRangeGet, "multi_range_get", "read several ranges of an object in one request", true, false, true;
    Head,          "head",            "read an object's metadata",                     false, false, true;
    List,          "list",            "list one page of keys",                         false, false, true;
    Delete,        "delete",          "delete one object",                             false, false, true;
    BulkDelete,    "bulk_delete",     "delete many objects with one request",          false, false, true;
    Copy,          "copy",            "copy an object inside the target",              false, false, true;
    Post,          "post",            "replace an object's metadata",                  false, false, true;
    MultipartPut,  "multipart_put",   "write an object in parts",                      false, true,  false;
    MultipartGet,  "multipart_get",   "read an object in parts",                       true,  false, true;
    CreateBucket,  "create_bucket",   "create a bucket",                               false, false, false;
    DeleteBucket,  "delete_bucket",   "delete a bucket",                               false, false, false;
    Read,          "read",            "read a block at an offset",                     true,  false, true;
    Write,         "write",           "write a block at an offset",                    false, true,  false;
    Append,        "append",        "write the next block behind an object's end",    false, true,  false;
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
        matches!(self, Self::Put | Self::MultipartPut)
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
        )
    }

    /// Tells whether a request consists of requests for the parts of one object.
    #[inline]
    #[must_use]
    pub fn is_in_parts(self) -> bool {
        matches!(self, Self::MultipartPut | Self::MultipartGet)
    }

    /// Tells whether objects of the dataset are not the same afterwards. Buckets are another
    /// matter: whoever deletes one looks at its mark at every request.
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
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_stands_at_its_operations_number() {
        for (number, row) in OPERATIONS.iter().enumerate() {
            assert_eq!(row.operation as usize, number, "{}", row.name);
            assert_eq!(serde_json::to_value(row.operation).expect("a string"), row.name);
        }
    }
}
