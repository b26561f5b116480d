//! A bucket, which Swift calls a container: its settings, its objects, its open uploads.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde::{Deserialize, Serialize};

use crate::error::Refusal;
use crate::stored::index::{Index, Versioning};
use crate::stored::upload::Upload;

/// A bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub(crate) name: Box<str>,
    /// Identity of the bucket, and name of its directory on the disk.
    pub(crate) id: u64,
    pub(crate) created_us: u64,
    settings: RwLock<Settings>,
    /// Held while the settings change on the disk as well.
    pub(crate) turn: Mutex<()>,
    index: RwLock<Index>,
    uploads: Mutex<BTreeMap<Box<str>, Arc<Upload>>>,
}

/// What can be set on a bucket.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Settings {
    /// Swift container metadata, names in lower case and without prefix.
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) versioning: Versioning,
    /// Swift storage policy, by name only.
    pub(crate) policy: Option<String>,
    /// Swift's `X-Container-Read`.
    pub(crate) read_acl: Option<String>,
    /// Swift's `X-Container-Write`: kept and given back.
    pub(crate) write_acl: Option<String>,
}

impl Bucket {
    pub(crate) fn new(name: &str, id: u64, created_us: u64, settings: Settings) -> Arc<Bucket> {
        Arc::new(Bucket {
            name: name.into(),
            id,
            created_us,
            settings: RwLock::new(settings),
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

    /// Changes the settings and returns them as they are now.
    pub(crate) fn change_settings(&self, change: impl FnOnce(&mut Settings)) -> Settings {
        let mut settings = self.settings.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut settings);
        settings.clone()
    }

    pub(crate) fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index for a change, unless the bucket was deleted meanwhile.
    pub(crate) fn open_index(&self) -> Result<RwLockWriteGuard<'_, Index>, Refusal> {
        let index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        if index.is_closed { Err(Refusal::NoSuchBucket) } else { Ok(index) }
    }

    /// Returns the open multipart uploads by their identity.
    pub(crate) fn uploads(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Arc<Upload>>> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
