//! What an audit reads back: the ledgers of the trials that changed a dataset.

use serde::{Deserialize, Serialize};

/// What is owed of a dataset: by it an audit tells what must be there.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OwedSpec {
    /// The ledgers, in the order in which their trials ran.
    pub ledgers: Vec<LedgerSpec>,
    /// Whether nothing of the dataset was there before the first of them.
    pub is_absent_before: bool,
    /// So many objects are read, drawn by chance; all of them when absent.
    #[serde(default)]
    pub sample: Option<u64>,
}

/// The ledger of one trial, and what that trial did.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LedgerSpec {
    /// Where the file with its frames is. In a record it is a path inside the run folder.
    pub path: String,
    /// Its SHA-256, as hex digits.
    pub sha256: String,
    /// The trial.
    pub trial: String,
    /// Which version of objects it wrote.
    pub version: u64,
    /// Whether it put objects.
    pub puts: bool,
    /// Whether it deleted objects.
    pub deletes: bool,
    /// The first number of the objects that it may have changed.
    pub first: u64,
    /// The number behind the last of them.
    pub end: u64,
}

/// Histories that an audit judges, with what it read itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HistorySpec {
    /// What the target promises: `linear`, `read-after-write` or `last-writer-wins`.
    pub model: String,
    /// The files, in the order in which their trials ran.
    pub files: Vec<HistoryFile>,
    /// The version of the dataset's objects before the first of them; not known when absent.
    #[serde(default)]
    pub version: Option<u64>,
}

/// The history of one trial.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HistoryFile {
    /// Where it is. In a record it is a path inside the run folder.
    pub path: String,
    /// Its SHA-256, as hex digits.
    pub sha256: String,
}
