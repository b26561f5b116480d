//! Specifies what an audit reads back: the ledgers of the trials that changed a dataset.

use serde::{Deserialize, Serialize};

/// The ledgers of a dataset, from which an audit derives what must exist.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OwedSpec {
    /// Ledgers, in the order in which their trials ran.
    pub ledgers: Vec<LedgerSpec>,
    /// Whether no object of the dataset existed before the first of these trials.
    pub is_absent_before: bool,
    /// Number of objects to read, chosen at random; all of them when absent.
    #[serde(default)]
    pub sample: Option<u64>,
}

/// The ledger of one trial, and what that trial did.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LedgerSpec {
    /// Path of the file with its frames. In a record, it is a path inside the run folder.
    pub path: String,
    /// SHA-256 of the file, in hex.
    pub sha256: String,
    /// ID of the trial.
    pub trial: String,
    /// Version of the objects that it wrote.
    pub version: u64,
    /// Whether it put objects.
    pub puts: bool,
    /// Whether it deleted objects.
    pub deletes: bool,
    /// Whether it copied objects of the dataset.
    #[serde(default)]
    pub copies: bool,
    /// Whether it replaced metadata of objects of the dataset.
    #[serde(default)]
    pub posts: bool,
    /// Whether a put replaces an object's metadata, and a copy includes it.
    #[serde(default)]
    pub metadata_follows: bool,
    /// Whether a put that fails may leave a part of what it wrote.
    #[serde(default)]
    pub tears: bool,
    /// Whether it may have put an object more than once.
    #[serde(default)]
    pub repeats: bool,
    /// First number of the objects that it may have changed.
    pub first: u64,
    /// End of those numbers (exclusive).
    pub end: u64,
}

/// Histories that an audit judges together with its own reads.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HistorySpec {
    /// Consistency model: `linear`, `read-after-write` or `last-writer-wins`.
    pub model: String,
    /// Files, in the order in which their trials ran.
    pub files: Vec<HistoryFile>,
    /// Version of the dataset's objects before the first of these trials; unknown when absent.
    #[serde(default)]
    pub version: Option<u64>,
}

/// The history of one trial.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HistoryFile {
    /// Path of the file. In a record, it is a path inside the run folder.
    pub path: String,
    /// SHA-256 of the file, in hex.
    pub sha256: String,
}
