//! The script that a trial follows instead of a mix: two files, named by path and hash.

use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Trial;
use crate::error::Error;
use crate::script::{Hashed, Script};

/// A script of dependent actions. `stop.requests` is the number of its requests, and `mix` names the
/// operations that stand in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ScriptSpec {
    /// The objects and listed prefixes: their keys and places.
    pub subjects: NamedFile,
    /// The requests. Absent in a trial that cleans up, which needs the keys alone.
    #[serde(default)]
    pub requests: Option<NamedFile>,
    /// Actions are due at the script's own times, which pass so many times as fast. Without it each
    /// follows the one before.
    #[serde(default)]
    pub speed: Option<f64>,
    /// How many actions there are; no load depends on it.
    #[serde(default)]
    pub actions: u64,
    /// How many sessions there are; no load depends on it.
    #[serde(default)]
    pub sessions: u64,
}

/// A file that a trial names: of a script, or a list of objects.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NamedFile {
    /// Where it is. In a record it is a path inside the run folder.
    pub path: String,
    /// Its SHA-256, as hex digits.
    pub sha256: String,
}

impl NamedFile {
    fn hashed(&self) -> Hashed<'_> {
        Hashed { path: Path::new(&self.path), sha256: &self.sha256 }
    }
}

impl Trial {
    /// Opens the trial's script, where it has one.
    ///
    /// # Errors
    /// The script's files are not as they must be.
    pub(crate) fn open_script(&self) -> Result<Option<Arc<Script>>, Error> {
        let Some(spec) = &self.script else { return Ok(None) };
        let rows = spec.requests.as_ref().map(NamedFile::hashed);
        let prefix = &self.dataset.object_prefix;
        let portion = self.portion();
        Script::open(spec.subjects.hashed(), rows, spec.speed, prefix, portion)
            .map(Arc::new)
            .map(Some)
    }

    /// Tells whether a script says what is asked for, and not the mix.
    #[must_use]
    pub fn follows_script(&self) -> bool {
        self.script.as_ref().is_some_and(|script| script.requests.is_some())
    }
}
