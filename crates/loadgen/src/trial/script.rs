//! The script that a trial follows instead of a mix: two files, identified by path and hash.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Trial;
use crate::error::Error;
use crate::script::{Hashed, Script};

/// A script of dependent actions. `stop.requests` is the number of its requests, and `mix` names
/// the operations that it contains.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ScriptSpec {
    /// Objects and listed prefixes, with their keys and places.
    pub subjects: NamedFile,
    /// Requests. Absent in a clean-up, which needs the keys only.
    #[serde(default)]
    pub requests: Option<NamedFile>,
    /// Actions are due at the times in the script, which pass this many times as fast. When absent,
    /// each action follows the previous one.
    #[serde(default)]
    pub speed: Option<f64>,
    /// Number of actions; no load depends on it.
    #[serde(default)]
    pub actions: u64,
    /// Number of sessions; no load depends on it.
    #[serde(default)]
    pub sessions: u64,
}

/// A file that a trial names: part of a script, or a list of objects.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NamedFile {
    /// Path of the file. In a record, it is a path inside the run folder.
    pub path: String,
    /// SHA-256 of the file, in hex.
    pub sha256: String,
}

impl NamedFile {
    fn hashed(&self) -> Hashed<'_> {
        Hashed { path: Path::new(&self.path), sha256: &self.sha256 }
    }
}

impl Trial {
    /// Opens the trial's script, if it has one.
    ///
    /// # Errors
    /// The script's files are missing or invalid.
    pub(crate) fn open_script(&self) -> Result<Option<Arc<Script>>, Error> {
        let Some(spec) = &self.script else { return Ok(None) };
        let rows = spec.requests.as_ref().map(NamedFile::hashed);
        let prefix = &self.dataset.object_prefix;
        let portion = self.portion();
        Script::open(spec.subjects.hashed(), rows, spec.speed, prefix, portion)
            .map(Arc::new)
            .map(Some)
    }

    /// Returns whether requests come from a script instead of the mix.
    #[must_use]
    pub fn follows_script(&self) -> bool {
        self.script.as_ref().is_some_and(|script| script.requests.is_some())
    }
}
