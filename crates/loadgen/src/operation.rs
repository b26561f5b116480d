//! The operations: every kind of request that a workload can contain.

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
    /// Write the next block at an object's end.
    Append,
    /// Write a whole object if it does not exist.
    PutIfAbsent,
    /// Write a whole object if its ETag is still the one that the client knows.
    PutIfMatch,
    /// Delete an object if its ETag is still the one that the client knows.
    DeleteIfMatch,
    /// Read an object's ETag and write the object on the condition that it is unchanged; repeat
    /// until that succeeds.
    CompareAndSwap,
    /// Write a new version of an object.
    VersionedPut,
    /// Read a version of an object by its ID.
    GetVersion,
    /// List one page of the versions of objects, including delete markers.
    ListVersions,
    /// Delete one of several versions of an object.
    DeleteVersion,
    /// Begin a multipart upload.
    CreateUpload,
    /// Send a part of an upload.
    UploadPart,
    /// Copy an object of the dataset into a part of an upload.
    UploadPartCopy,
    /// List the parts of an upload.
    ListParts,
    /// List one page of the uploads in progress.
    ListUploads,
    /// Complete an upload, which creates its object.
    CompleteUpload,
    /// Abort an upload and drop its parts.
    AbortUpload,
    /// Read a whole object by a presigned URL.
    PresignedGet,
    /// Write a whole object by a presigned URL.
    PresignedPut,
    /// Lock the newest version of an object for a short time.
    PutRetention,
    /// Put a legal hold on the newest version of an object.
    PutLegalHold,
    /// Lift the legal hold on the newest version of an object.
    LiftLegalHold,
    /// Try to delete a locked version.
    DeleteLocked,
}

/// Facts about an operation that other code needs.
#[derive(Debug, Clone, Copy)]
pub struct OperationInfo {
    /// The operation that this row describes.
    pub operation: Operation,
    /// Name in campaigns, records and reports.
    pub name: &'static str,
    /// One line for users.
    pub summary: &'static str,
    /// Subject of one request.
    pub scope: Scope,
    /// Effect on objects.
    pub effect: Effect,
    /// Direction of the payload.
    pub payload: Payload,
    /// Whether it needs objects that exist.
    pub needs_objects: bool,
    /// Whether it can be applied to objects that others wrote: it changes nothing, and needs no
    /// more information than a listing gives.
    pub reads_existing: bool,
    /// Whether a mix with other operations may contain it.
    pub is_mixed: bool,
    /// How often it can be applied to one object or bucket.
    pub repeats: Repeats,
    /// Options of a trial that it reads.
    pub options: &'static [&'static str],
    /// In a mix, it applies only to what these operations have created there.
    pub takes_from: &'static [Operation],
}

/// Kind of subject of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// One object.
    Object,
    /// A block of an object.
    Block,
    /// Several objects of a bucket.
    Batch,
    /// A bucket.
    Bucket,
}

/// Effect of an operation on objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing.
    None,
    /// Creates or deletes an empty bucket.
    Buckets,
    /// Writes a whole object, whether or not it exists.
    Puts,
    /// Writes an existing object again.
    Rewrites,
    /// Writes a block of an object.
    WritesBlock,
    /// Replaces the metadata of an object.
    Describes,
    /// Creates an object from another object.
    Copies,
    /// Deletes objects.
    Deletes,
    /// Deletes one of several versions of an object.
    Prunes,
    /// Starts an upload, from which an object is created later.
    Begins,
}

/// Direction of an operation's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// No payload.
    None,
    /// From the target.
    Read,
    /// To the target.
    Written,
}

/// How often an operation can be applied to one object or bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeats {
    /// Any number of times.
    Always,
    /// Until the object is full. A trial goes over its objects once, whatever a warm-up has
    /// appended.
    UntilFull,
    /// Once. A deleted object cannot be requested again, so a warm-up is impossible too.
    Never,
}

macro_rules! operations {
    ($($variant:ident, $name:literal, $summary:literal, $scope:ident, $effect:ident, $payload:ident,
        $needs:literal, $existing:literal, $mixed:literal, $repeats:ident, $options:expr, $takes_from:expr;)*) => {
        /// Every operation, in the order of lists for users.
        pub const OPERATIONS: &[OperationInfo] = &[$(OperationInfo {
            operation: Operation::$variant,
            name: $name,
            summary: $summary,
            scope: Scope::$scope,
            effect: Effect::$effect,
            payload: Payload::$payload,
            needs_objects: $needs,
            reads_existing: $existing,
            is_mixed: $mixed,
            repeats: Repeats::$repeats,
            options: &$options,
            takes_from: &$takes_from,
        }),*];
    };
}

/// In a mix, a delete takes an object that one such request has put, so that no other request asks
/// for an object that may be gone.
const PUT_ALONE: [Operation; 2] = [Operation::Put, Operation::PutIfAbsent];

/// The steps of an upload apply to uploads that their mix has begun.
const BEGIN: [Operation; 1] = [Operation::CreateUpload];
const UPLOAD_OPTIONS: [&str; 4] = ["part_bytes", "part_order", "part_pause_ns", "ended_twice"];

// Scope, effect, payload; needs objects, reads existing ones, is mixed; repeats, options, takes from.
operations! {
    Put, "put", "write a whole object",
        Object, Puts, Written, false, false, true, Always, [], [];
    Get, "get", "read a whole object",
        Object, None, Read, true, true, true, Always, [], [];
    RangeGet, "range_get", "read one range of an object",
        Object, None, Read, true, true, true, Always, ["range_bytes"], [];
    MultiRangeGet, "multi_range_get", "read several ranges of an object in one request",
        Object, None, Read, true, true, true, Always, ["range_bytes", "range_count"], [];
    Head, "head", "read an object's metadata",
        Object, None, None, true, true, true, Always, [], [];
    List, "list", "list one page of keys",
        Bucket, None, None, true, true, true, Always, ["page_keys", "prefix", "delimiter"], [];
    Delete, "delete", "delete one object",
        Object, Deletes, None, true, false, true, Never, [], PUT_ALONE;
    BulkDelete, "bulk_delete", "delete many objects with one request",
        Batch, Deletes, None, true, false, false, Never, ["bulk_keys"], [];
    Copy, "copy", "copy an object inside the target",
        Object, Copies, None, true, false, true, Always, [], [];
    Post, "post", "replace an object's metadata",
        Object, Describes, None, true, false, true, Always, [], [];
    MultipartPut, "multipart_put", "write an object in parts",
        Object, Puts, Written, false, false, true, Always, ["part_bytes", "part_concurrency"], [];
    MultipartGet, "multipart_get", "read an object in parts",
        Object, None, Read, true, true, true, Always, ["part_bytes", "part_concurrency"], [];
    CreateBucket, "create_bucket", "create a bucket",
        Bucket, Buckets, None, false, false, false, Never, [], [];
    DeleteBucket, "delete_bucket", "delete a bucket",
        Bucket, Buckets, None, false, false, false, Never, [], [];
    Read, "read", "read a block at an offset",
        Block, None, Read, true, false, true, Always, ["range_bytes"], [];
    Write, "write", "write a block at an offset",
        Block, WritesBlock, Written, false, false, true, Always, ["range_bytes"], [];
    Append, "append", "write the next block behind an object's end",
        Block, WritesBlock, Written, false, false, false, UntilFull, ["range_bytes"], [];
    PutIfAbsent, "put_if_absent", "write a whole object if there is none",
        Object, Puts, Written, false, false, true, Never, [], [];
    PutIfMatch, "put_if_match", "overwrite an object if its ETag is unchanged",
        Object, Rewrites, Written, true, false, true, Always, [], [];
    DeleteIfMatch, "delete_if_match", "delete an object if its ETag is unchanged",
        Object, Deletes, None, true, false, true, Never, [], PUT_ALONE;
    CompareAndSwap, "compare_and_swap", "retry a conditional overwrite until it succeeds",
        Object, Rewrites, Written, true, false, false, Always, ["contended_keys"], [];
    VersionedPut, "versioned_put", "write an object again, as a new version",
        Object, Rewrites, Written, true, false, true, Always, [], [];
    GetVersion, "get_version", "read a version of an object by its id",
        Object, None, Read, true, false, true, Always, [], [];
    ListVersions, "list_versions", "list one page of versions",
        Bucket, None, None, true, false, true, Always, ["page_keys", "prefix"], [];
    DeleteVersion, "delete_version", "delete a version of an object that has others",
        Object, Prunes, None, true, false, true, Always, [], [Operation::VersionedPut];
    CreateUpload, "create_upload", "begin an upload in parts",
        Object, Begins, None, false, false, true, Always, UPLOAD_OPTIONS, BEGIN;
    UploadPart, "upload_part", "write a part of an upload",
        Block, None, Written, false, false, true, Always, ["part_bytes"], BEGIN;
    UploadPartCopy, "upload_part_copy", "make a part of an upload from an object",
        Block, None, None, true, false, true, Always, ["part_bytes"], BEGIN;
    ListParts, "list_parts", "list the parts of an upload",
        Object, None, None, false, false, true, Always, ["page_keys"], BEGIN;
    ListUploads, "list_uploads", "list one page of uploads",
        Bucket, None, None, false, false, true, Always, ["page_keys", "prefix"], [];
    CompleteUpload, "complete_upload", "make an object of the parts of an upload",
        Block, Puts, None, false, false, true, Never, [], BEGIN;
    AbortUpload, "abort_upload", "give up an upload and its parts",
        Block, None, None, false, false, true, Never, [], BEGIN;
    PresignedGet, "presigned_get", "read a whole object by a signed URL",
        Object, None, Read, true, false, true, Always, [], [];
    PresignedPut, "presigned_put", "write a whole object by a signed URL",
        Object, Puts, Written, false, false, true, Always, [], [];
    PutRetention, "put_retention", "lock an object for a short time",
        Object, Describes, None, true, false, true, Always, [], [];
    PutLegalHold, "put_legal_hold", "put a legal hold on an object",
        Object, Describes, None, true, false, true, Always, [], [];
    LiftLegalHold, "lift_legal_hold", "lift the legal hold on an object",
        Object, Describes, None, true, false, true, Always, [], [];
    DeleteLocked, "delete_locked", "try to delete a locked version, which must be refused",
        Object, Describes, None, true, false, true, Always, [], [];
}

/// The operations that write a whole object, one bit for each. A bit mask, because the hot loop
/// checks it after each request.
const PUTTING: u64 = {
    let (mut set, mut at) = (0, 0);
    while at < OPERATIONS.len() {
        if matches!(OPERATIONS[at].effect, Effect::Puts) {
            set |= 1 << at;
        }
        at += 1;
    }
    set
};

/// Concatenates two lists of operations into one of length `N`.
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
    /// Returns the row of the table for this operation.
    #[must_use]
    pub fn info(self) -> &'static OperationInfo {
        &OPERATIONS[self as usize]
    }

    /// Returns the operation's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns whether one request writes a whole object of the dataset.
    #[must_use]
    pub fn puts_object(self) -> bool {
        PUTTING >> (self as u32) & 1 != 0
    }

    /// Returns whether one request deletes one object.
    #[must_use]
    pub fn deletes_object(self) -> bool {
        let OperationInfo { scope, effect, .. } = self.info();
        (*scope, *effect) == (Scope::Object, Effect::Deletes)
    }

    /// Returns whether one request applies to one object of the dataset that must exist.
    #[must_use]
    pub fn asks_for_object(self) -> bool {
        let OperationInfo { scope, needs_objects, .. } = self.info();
        *needs_objects && matches!(scope, Scope::Object | Scope::Block) && !self.is_upload_step()
    }

    /// Returns whether it locks objects, which needs buckets with object lock.
    #[must_use]
    pub fn locks(self) -> bool {
        matches!(
            self,
            Self::PutRetention | Self::PutLegalHold | Self::LiftLegalHold | Self::DeleteLocked
        )
    }

    /// Returns whether it begins an upload, or applies to one that its mix has begun.
    #[inline]
    #[must_use]
    pub fn is_upload_step(self) -> bool {
        matches!(
            self,
            Self::CreateUpload
                | Self::UploadPart
                | Self::UploadPartCopy
                | Self::ListParts
                | Self::CompleteUpload
                | Self::AbortUpload
        )
    }

    /// Returns whether a request consists of requests for the parts of one object.
    #[inline]
    #[must_use]
    pub fn is_in_parts(self) -> bool {
        matches!(self, Self::MultipartPut | Self::MultipartGet)
    }

    /// Returns whether it changes objects of the dataset. Operations on buckets do not count: a
    /// delete of a bucket checks the mark with each request.
    #[must_use]
    pub fn changes_objects(self) -> bool {
        !matches!(self.info().effect, Effect::None | Effect::Buckets)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_row_is_at_the_index_of_its_operation() {
        for (number, row) in OPERATIONS.iter().enumerate() {
            assert_eq!(row.operation as usize, number, "{}", row.name);
            assert_eq!(serde_json::to_value(row.operation).expect("a string"), row.name);
        }
    }

    #[test]
    fn every_option_belongs_to_an_operation_and_to_trials() {
        let of_trial = serde_json::to_value(crate::trial::Options::default()).expect("a map");
        let of_trial: BTreeSet<&str> =
            of_trial.as_object().expect("a map").keys().map(String::as_str).collect();
        let read: BTreeSet<&str> =
            OPERATIONS.iter().flat_map(|row| row.options.iter().copied()).collect();
        assert_eq!(read, of_trial);
    }
}
