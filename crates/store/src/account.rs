//! The only account of a store: its buckets, and all operations on the objects in them.

pub(crate) mod change;
mod content;
#[cfg(test)]
mod crash_points;
pub(crate) mod intake;
#[cfg(test)]
mod linearizability;
pub(crate) mod uploads;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use crate::budget::{Budget, Reservation};
use crate::clock;
use crate::directory::recovery::DirectoryContent;
use crate::directory::{BucketRecord, Directory};
use crate::error::{Refusal, StoreError};
use crate::faults::Lies;
use crate::stored::bucket::{Bucket, Settings};
use crate::stored::object::{Object, check_version_id};
use crate::stored::upload::Upload;

/// Number of locks that the objects share, large enough that two objects rarely wait for each
/// other.
const TURNS: usize = 1024;

/// Storage for bytes: memory within a budget, or a directory.
#[derive(Debug)]
pub(crate) struct Storage {
    pub(crate) budget: Arc<Budget>,
    pub(crate) directory: Option<Arc<Directory>>,
    sequence: AtomicU64,
}

impl Storage {
    pub(crate) fn new(budget: Arc<Budget>, directory: Option<Directory>) -> Storage {
        Storage { budget, directory: directory.map(Arc::new), sequence: AtomicU64::new(1) }
    }

    /// Returns a new number.
    pub(crate) fn next_id(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }
}

/// The account.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) storage: Arc<Storage>,
    pub(crate) lies: Option<Lies>,
    buckets: RwLock<BTreeMap<Box<str>, Arc<Bucket>>>,
    /// Locks, so that each object has one change at a time, on the disk and in the index together.
    turns: Box<[Mutex<()>]>,
}

/// Result of a delete.
#[derive(Debug)]
pub(crate) struct Deleted {
    /// Whether the object or version existed.
    pub(crate) existed: bool,
    /// The version that was removed, or the delete marker that was written.
    pub(crate) version_id: Option<String>,
    pub(crate) is_marker: bool,
}

impl Account {
    pub(crate) fn new(storage: Storage, lies: Option<Lies>) -> Account {
        Account {
            storage: Arc::new(storage),
            lies,
            buckets: RwLock::default(),
            turns: (0..TURNS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Restores the content of a data directory.
    pub(crate) fn restore(&self, content: DirectoryContent) -> Result<(), StoreError> {
        // Objects deleted before the restart are unknown, but clients may still use their numbers,
        // so these must not be assigned again. A store assigns fewer numbers than microseconds
        // pass.
        let first = content.id_max.saturating_add(1).max(clock::now_us());
        self.storage.sequence.fetch_max(first, Ordering::Relaxed);
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        for stored_bucket in content.buckets {
            let (name, created_us) = (stored_bucket.record.name, stored_bucket.record.created_us);
            let settings = stored_bucket.record.settings;
            let record = self.restored_record(settings.record_bytes(&name))?;
            let bucket = Bucket::new(&name, stored_bucket.id, created_us, settings, record);
            for object in stored_bucket.objects {
                let (sidecar, body) = (object.sidecar, object.body);
                let restored = Object {
                    id: sidecar.id,
                    is_null_version: sidecar.is_null_version,
                    body,
                    etag: sidecar.etag,
                    modified_us: sidecar.modified_us,
                    _record: self.restored_record(sidecar.about.record_bytes(&sidecar.key))?,
                    about: sidecar.about,
                };
                if let Ok(mut index) = bucket.open_index() {
                    index.insert(&sidecar.key, Arc::new(restored));
                }
            }
            for stored_upload in stored_bucket.uploads {
                let record = self.restored_record(stored_upload.facts.record_bytes())?;
                let upload = Upload::new(stored_upload.number, stored_upload.facts, record);
                for (number, part) in stored_upload.parts {
                    let record = self.restored_record(part.record_bytes())?;
                    upload.insert(number, part, record);
                }
                bucket.uploads().insert(upload.place(), upload);
            }
            buckets.insert(name.into(), bucket);
        }
        Ok(())
    }

    fn restored_record(&self, bytes: u64) -> Result<Reservation, StoreError> {
        self.storage.budget.reserve(bytes).map_err(|_| StoreError::Config {
            key: "memory_bytes_max",
            problem: "is too small for the records of the objects in \"data\"".to_owned(),
            hint: "raise it; about 600 bytes are needed for each object",
        })
    }

    /// Locks an object for a change.
    pub(crate) fn turn(&self, bucket: u64, key: &str) -> MutexGuard<'_, ()> {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((bucket, key));
        self.turns[hash as usize % TURNS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes a change to its end, even if the client disconnects.
    pub(crate) async fn carry_out<T: Send + 'static>(
        self: &Arc<Account>,
        change: impl FnOnce(&Arc<Account>) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        if self.storage.directory.is_none() {
            return change(self);
        }
        let account = self.clone();
        let done = tokio::task::spawn_blocking(move || change(&account)).await;
        done.map_err(|error| Refusal::Io(io::Error::other(error)))?
    }

    pub(crate) fn buckets(&self) -> RwLockReadGuard<'_, BTreeMap<Box<str>, Arc<Bucket>>> {
        self.buckets.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn bucket(&self, name: &str) -> Result<Arc<Bucket>, Refusal> {
        self.buckets().get(name).cloned().ok_or(Refusal::NoSuchBucket)
    }

    /// Creates a bucket; refuses a name that exists.
    pub(crate) fn create_bucket(
        &self,
        name: &str,
        settings: Settings,
    ) -> Result<Arc<Bucket>, Refusal> {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        if buckets.contains_key(name) {
            return Err(Refusal::BucketExists);
        }
        let record = self.storage.budget.reserve(settings.record_bytes(name))?;
        let id = self.storage.next_id();
        let bucket = Bucket::new(name, id, clock::now_us(), settings, record);
        self.write_bucket(&bucket, bucket.settings())?;
        buckets.insert(name.into(), bucket.clone());
        Ok(bucket)
    }

    /// Deletes a bucket without objects and versions; its open uploads are deleted with it.
    pub(crate) fn delete_bucket(&self, name: &str) -> Result<(), Refusal> {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.get(name).ok_or(Refusal::NoSuchBucket)?;
        let mut index = bucket.open_index()?;
        if !index.is_empty() {
            return Err(Refusal::BucketNotEmpty);
        }
        index.is_closed = true;
        drop(index);
        let bucket = buckets.remove(name).ok_or(Refusal::NoSuchBucket)?;
        let Some(directory) = &self.storage.directory else { return Ok(()) };
        directory.forget_bucket(bucket.id)?;
        for upload in bucket.uploads().values() {
            upload.parts().values().for_each(|part| part.body.let_go());
        }
        Ok(())
    }

    /// Changes a bucket's settings.
    pub(crate) fn change_bucket(
        &self,
        bucket: &Bucket,
        change: impl FnOnce(&mut Settings),
    ) -> Result<(), Refusal> {
        let _turn = bucket.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let settings = bucket.change_settings(change)?;
        self.write_bucket(bucket, settings)
    }

    fn write_bucket(&self, bucket: &Bucket, settings: Settings) -> Result<(), Refusal> {
        let Some(directory) = &self.storage.directory else { return Ok(()) };
        let (name, created_us) = (bucket.name.to_string(), bucket.created_us);
        Ok(directory.write_bucket(bucket.id, &BucketRecord { name, created_us, settings })?)
    }

    /// Returns the current version of an object, or the given one, as shown to readers, possibly
    /// with a lie.
    pub(crate) fn object(
        &self,
        bucket: &Bucket,
        key: &str,
        version_id: Option<&str>,
    ) -> Result<Arc<Object>, Refusal> {
        let version = self.find(bucket, key, version_id)?;
        let lies = self.lies.as_ref().filter(|_| version_id.is_none());
        Ok(lies.and_then(|lies| lies.stale_read(&bucket.name, key)).unwrap_or(version))
    }

    /// Returns the current version of an object, or the given one, without lies.
    pub(crate) fn find(
        &self,
        bucket: &Bucket,
        key: &str,
        version_id: Option<&str>,
    ) -> Result<Arc<Object>, Refusal> {
        if let Some(version_id) = version_id {
            check_version_id(version_id)?;
            let index = bucket.index();
            return index.version(key, version_id).cloned().ok_or(Refusal::NoSuchVersion);
        }
        let current = bucket.index().current(key).cloned().ok_or(Refusal::NoSuchKey)?;
        if current.is_delete_marker() {
            return Err(Refusal::DeleteMarker);
        }
        Ok(current)
    }
}
