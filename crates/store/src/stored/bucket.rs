//! A bucket, which Swift calls a container: its settings, its objects, its open uploads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde::{Deserialize, Serialize};

use crate::budget::Reservation;
use crate::error::Refusal;
use crate::stored::index::{Index, Versioning};
use crate::stored::upload::Upload;

/// Memory of a bucket in addition to its name and the texts of its settings: itself, its index, its
/// entry in the tree of buckets.
const BUCKET_BYTES: usize = 1024;

/// A bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) name: Box<str>,
    /// Number of the bucket, and name of its directory on the disk.
    pub(crate) id: u64,
    pub(crate) created_us: u64,
    settings: RwLock<Settings>,
    /// Memory of the bucket and of its settings.
    record: Mutex<Reservation>,
    /// Locked while the settings change, on the disk as well.
    pub(crate) turn: Mutex<()>,
    index: RwLock<Index>,
    uploads: Mutex<BTreeMap<Box<str>, Arc<Upload>>>,
}

/// Settings of a bucket.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    /// Swift container metadata, names in lower case and without prefix.
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) versioning: Versioning,
    /// Whether its versions can be locked, which implies that it keeps versions.
    pub(crate) locks_objects: bool,
    /// Swift storage policy, by name only.
    pub(crate) policy: Option<String>,
}

impl Settings {
    /// Returns the bytes to reserve for a bucket with this name and these settings.
    pub(crate) fn record_bytes(&self, name: &str) -> u64 {
        let pairs = self.metadata.iter();
        let pairs: usize = pairs.map(|(name, value)| name.len() + value.len() + 48).sum();
        let policy = self.policy.as_ref().map_or(0, String::len);
        (BUCKET_BYTES + 2 * name.len() + pairs + policy) as u64
    }
}

impl Bucket {
    pub(crate) fn new(
        name: &str,
        id: u64,
        created_us: u64,
        settings: Settings,
        record: Reservation,
    ) -> Arc<Bucket> {
        Arc::new(Bucket {
            name: name.into(),
            id,
            created_us,
            settings: RwLock::new(settings),
            record: Mutex::new(record),
            turn: Mutex::default(),
            index: RwLock::default(),
            uploads: Mutex::default(),
        })
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn versioning(&self) -> Versioning {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).versioning
    }

    /// Changes the settings, if there is memory for them, and returns the new ones.
    pub(crate) fn change_settings(
        &self,
        change: impl FnOnce(&mut Settings),
    ) -> Result<Settings, Refusal> {
        let mut settings = self.settings.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = settings.clone();
        change(&mut changed);
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        record.resize(changed.record_bytes(&self.name))?;
        *settings = changed;
        Ok(settings.clone())
    }

    pub(crate) fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index for a change, unless the bucket was deleted meanwhile.
    pub(crate) fn open_index(&self) -> Result<RwLockWriteGuard<'_, Index>, Refusal> {
        let index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        if index.is_closed { Err(Refusal::NoSuchBucket) } else { Ok(index) }
    }

    /// Returns the open multipart uploads by ID.
    pub(crate) fn uploads(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Arc<Upload>>> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
