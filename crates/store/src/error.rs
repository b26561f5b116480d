//! Errors of starting a store or a null server, and reasons to refuse a request.

use std::io;
use std::path::PathBuf;

/// Why a store or null server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The configuration is not JSON, or has unknown or wrongly typed keys.
    #[error("configuration of the store not understood: {0}")]
    Parse(#[from] serde_json::Error),
    /// The configuration is well formed but cannot be used.
    #[error("configuration of the store refused: {key}: {problem}\nhint: {hint}")]
    Config {
        /// Name of the invalid key.
        key: &'static str,
        /// The problem.
        problem: String,
        /// Advice for the user.
        hint: &'static str,
    },
    /// The server cannot listen on the address.
    #[error(
        "cannot listen on {address}: {source}\nhint: another process may hold the port; port 0 takes a free one"
    )]
    Listen {
        /// Requested address and port.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The data directory cannot be used.
    #[error("data directory \"{}\": {problem}\nhint: {hint}", path.display())]
    Directory {
        /// The directory or the file in it.
        path: PathBuf,
        /// The problem.
        problem: String,
        /// Advice for the user.
        hint: &'static str,
    },
    /// The system refused something that a server needs.
    #[error("cannot {action}: {source}")]
    System {
        /// The action.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// Why the storage refused an operation; each API converts it to its own answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the bucket does not exist")]
    NoSuchBucket,
    #[error("the object does not exist")]
    NoSuchKey,
    #[error("the current version is a delete marker")]
    DeleteMarker,
    #[error("the version does not exist")]
    NoSuchVersion,
    #[error("the version is named by \"null\" or by 16 hexadecimal digits")]
    NoVersionName,
    #[error("the upload does not exist")]
    NoSuchUpload,
    #[error("the bucket exists already")]
    BucketExists,
    #[error("the bucket still holds objects")]
    BucketNotEmpty,
    #[error("If-Match names an object that does not exist")]
    NothingToMatch,
    #[error("a precondition failed")]
    PreconditionFailed,
    #[error("the version is locked, by a retention or a legal hold")]
    Locked,
    #[error("a part is missing or its ETag differs")]
    InvalidPart,
    #[error("parts are not in ascending order")]
    InvalidPartOrder,
    #[error("the body ended before its declared length")]
    Incomplete,
    #[error("the body is longer than allowed")]
    TooLarge,
    #[error(
        "the store is full: memory_bytes_max is {bytes_max} bytes; delete objects, raise memory_bytes_max or give the store a data directory"
    )]
    Full { bytes_max: u64 },
    #[error("a large object cannot be read: {0}")]
    Segment(String),
    #[error("the body is not the one that was signed")]
    NotAsSigned,
    #[error("the request's body broke off: {0}")]
    Body(String),
    #[error("storage failed: {0}")]
    Io(#[from] io::Error),
}

impl Refusal {
    /// Returns whether the store is full, in memory or on the disk.
    pub(crate) fn is_full(&self) -> bool {
        match self {
            Refusal::Full { .. } => true,
            Refusal::Io(error) => error.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}
