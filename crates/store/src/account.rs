//! The one account of a store: its buckets, and all that can be done to the objects in them.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::body::Body;
use crate::bucket::{Bucket, Settings};
use crate::budget::Budget;
use crate::clock;
use crate::directory::{BucketRecord, Directory, Found};
use crate::error::{Refusal, StoreError};
use crate::faults::{Lies, WriteLie};
use crate::index::{Precondition, Versioning};
use crate::intake::blocking;
use crate::object::{About, Draft, Form, Object};

/// Where bytes go: memory within a budget, or a directory.
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

    /// Returns a number that was not used before.
    pub(crate) fn next_id(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns a body with the same bytes that lives and dies by itself.
    pub(crate) async fn share(self: &Arc<Storage>, body: &Body) -> io::Result<Body> {
        let Some(directory) = self.directory.clone() else { return Ok(body.clone()) };
        let (storage, body) = (self.clone(), body.clone());
        blocking(move || directory.share(&body, || storage.next_id())).await
    }
}

/// The account.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) storage: Arc<Storage>,
    pub(crate) lies: Option<Lies>,
    buckets: RwLock<BTreeMap<Box<str>, Arc<Bucket>>>,
    /// Swift account metadata, names in lower case and without prefix; not kept over a restart.
    metadata: RwLock<Vec<(String, String)>>,
    pub(crate) may_expire: AtomicBool,
}

/// What a delete did.
#[derive(Debug)]
pub(crate) struct Deleted {
    /// The object or version was there.
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
            metadata: RwLock::default(),
            may_expire: AtomicBool::new(false),
        }
    }

    /// Takes over what a data directory holds.
    pub(crate) fn restore(&self, found: Found) -> Result<(), StoreError> {
        self.storage.sequence.fetch_max(found.id_max + 1, Ordering::Relaxed);
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        for (id, record, objects) in found.buckets {
            let bucket = Bucket::new(&record.name, id, record.created_us, record.settings);
            for object in objects {
                let bytes = object.about.record_bytes(&object.key);
                let record =
                    self.storage.budget.reserve(bytes).map_err(|_| StoreError::Config {
                        key: "memory_bytes_max",
                        problem: "is too small for the records of the objects in \"data\""
                            .to_owned(),
                        hint: "raise it; about 600 bytes are needed for each object",
                    })?;
                self.note_expiry(&object.about);
                let restored = Object {
                    id: object.id,
                    is_null_version: object.is_null_version,
                    body: object.body,
                    etag: object.etag,
                    modified_us: object.modified_us,
                    about: object.about,
                    _record: record,
                };
                if let Ok(mut index) = bucket.open_index() {
                    index.insert(&object.key, Arc::new(restored));
                }
            }
            buckets.insert(record.name.into(), bucket);
        }
        Ok(())
    }

    pub(crate) fn buckets(&self) -> RwLockReadGuard<'_, BTreeMap<Box<str>, Arc<Bucket>>> {
        self.buckets.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn bucket(&self, name: &str) -> Result<Arc<Bucket>, Refusal> {
        self.buckets().get(name).cloned().ok_or(Refusal::NoSuchBucket)
    }

    pub(crate) fn metadata(&self) -> Vec<(String, String)> {
        self.metadata.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn change_metadata(&self, change: impl FnOnce(&mut Vec<(String, String)>)) {
        change(&mut self.metadata.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Makes a bucket; one of that name that is there already is refused.
    pub(crate) fn create_bucket(
        &self,
        name: &str,
        settings: Settings,
    ) -> Result<Arc<Bucket>, Refusal> {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        if buckets.contains_key(name) {
            return Err(Refusal::BucketExists);
        }
        let bucket = Bucket::new(name, self.storage.next_id(), clock::now_us(), settings);
        self.write_bucket(&bucket, bucket.settings())?;
        buckets.insert(name.into(), bucket.clone());
        Ok(bucket)
    }

    /// Deletes a bucket that holds no object, no version and no open upload.
    pub(crate) fn delete_bucket(&self, name: &str) -> Result<(), Refusal> {
        let mut buckets = self.buckets.write().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets.get(name).ok_or(Refusal::NoSuchBucket)?;
        if self.may_expire.load(Ordering::Relaxed) {
            self.sweep_bucket(bucket, clock::now_us() / 1_000_000);
        }
        let mut index = bucket.open_index()?;
        if !index.is_empty() {
            return Err(Refusal::BucketNotEmpty);
        }
        index.is_closed = true;
        drop(index);
        let bucket = buckets.remove(name).ok_or(Refusal::NoSuchBucket)?;
        match &self.storage.directory {
            Some(directory) => Ok(directory.forget_bucket(bucket.id)?),
            None => Ok(()),
        }
    }

    /// Changes a bucket's settings.
    pub(crate) fn change_bucket(
        &self,
        bucket: &Bucket,
        change: impl FnOnce(&mut Settings),
    ) -> Result<(), Refusal> {
        let settings = bucket.change_settings(change);
        self.write_bucket(bucket, settings)
    }

    fn write_bucket(&self, bucket: &Bucket, settings: Settings) -> Result<(), Refusal> {
        let Some(directory) = &self.storage.directory else { return Ok(()) };
        let (name, created_us) = (bucket.name.to_string(), bucket.created_us);
        Ok(directory.write_bucket(bucket.id, &BucketRecord { name, created_us, settings })?)
    }

    /// Returns the current version of an object, or the version that is named.
    pub(crate) fn object(
        &self,
        bucket: &Bucket,
        key: &str,
        version_id: Option<&str>,
    ) -> Result<Arc<Object>, Refusal> {
        if let Some(version_id) = version_id {
            let index = bucket.index();
            return index.version(key, version_id).cloned().ok_or(Refusal::NoSuchVersion);
        }
        let current = bucket.index().current(key).cloned().ok_or(Refusal::NoSuchKey)?;
        if !current.is_live() {
            let is_marker = current.is_delete_marker();
            return Err(if is_marker { Refusal::DeleteMarker } else { Refusal::NoSuchKey });
        }
        let stale = self.lies.as_ref().and_then(|lies| lies.stale_read(&bucket.name, key));
        Ok(stale.unwrap_or(current))
    }

    /// Writes an object: it is there, whole, when this returns.
    pub(crate) async fn put(
        &self,
        bucket: &Arc<Bucket>,
        key: &str,
        draft: Draft,
        precondition: &Precondition,
    ) -> Result<Arc<Object>, Refusal> {
        let is_null_version = bucket.versioning() != Versioning::Enabled;
        let mut object = self.number(key, draft, is_null_version)?;
        let lie =
            self.lies.as_ref().and_then(|lies| lies.write(&bucket.name, key, object.body.length()));
        match lie {
            None => {}
            Some(WriteLie::Lost) => return Ok(Arc::new(object)),
            Some(WriteLie::CorruptByte(at)) => object.body.flaw = Some(at),
            Some(WriteLie::Torn(at)) => object.body = self.torn(bucket, key, &object, at).await?,
        }
        self.commit(bucket, key, Arc::new(object), precondition).await
    }

    /// Gives a draft its place in the order of writes and its share of the budget.
    fn number(&self, key: &str, draft: Draft, is_null_version: bool) -> Result<Object, Refusal> {
        let record = self.storage.budget.reserve(draft.about.record_bytes(key))?;
        self.note_expiry(&draft.about);
        Ok(Object {
            id: self.storage.next_id(),
            is_null_version,
            body: draft.body,
            etag: draft.etag,
            modified_us: clock::now_us(),
            about: draft.about,
            _record: record,
        })
    }

    async fn commit(
        &self,
        bucket: &Arc<Bucket>,
        key: &str,
        object: Arc<Object>,
        precondition: &Precondition,
    ) -> Result<Arc<Object>, Refusal> {
        if let Some(directory) = self.storage.directory.clone() {
            let (id, key, object) = (bucket.id, key.to_owned(), object.clone());
            blocking(move || directory.write_object(id, &key, &object)).await?;
        }
        let inserted = self.insert(bucket, key, &object, precondition);
        if let (Err(_), Some(directory)) = (&inserted, &self.storage.directory) {
            directory.forget_object(bucket.id, &object)?;
        }
        inserted.map(|()| object)
    }

    fn insert(
        &self,
        bucket: &Bucket,
        key: &str,
        object: &Arc<Object>,
        precondition: &Precondition,
    ) -> Result<(), Refusal> {
        let mut index = bucket.open_index()?;
        precondition.check(index.current(key).map(|current| &**current))?;
        let replaced = index.insert(key, object.clone());
        if let Some(lies) = &self.lies {
            lies.keep_previous(&bucket.name, key, replaced.first());
        }
        // Under the lock, so that no delete can be acknowledged while an older sidecar is there.
        if let Some(directory) = &self.storage.directory {
            for old in &replaced {
                directory.forget_object(bucket.id, old)?;
            }
        }
        Ok(())
    }

    /// Returns the beginning of the new body with the end of the old one.
    async fn torn(
        &self,
        bucket: &Bucket,
        key: &str,
        object: &Object,
        at: u64,
    ) -> Result<Body, Refusal> {
        let length = object.body.length();
        let old = bucket.index().current(key).cloned();
        let tail = match old.filter(|old| old.body.length() >= length) {
            Some(old) => self.storage.share(&old.body.slice(at..length)).await?,
            None => self.storage.share(&object.body.slice(0..length - at)).await?,
        };
        Ok(Body::join([&object.body.slice(0..at), &tail]))
    }

    /// Changes what is known about a version without touching its bytes.
    pub(crate) async fn change_object(
        &self,
        bucket: &Arc<Bucket>,
        key: &str,
        old: &Object,
        modified_us: u64,
        change: impl FnOnce(&mut About),
    ) -> Result<Arc<Object>, Refusal> {
        let mut about = old.about.clone();
        change(&mut about);
        self.note_expiry(&about);
        let changed = Arc::new(Object {
            id: old.id,
            is_null_version: old.is_null_version,
            body: old.body.clone(),
            etag: old.etag.clone(),
            modified_us,
            _record: self.storage.budget.reserve(about.record_bytes(key))?,
            about,
        });
        if let Some(directory) = self.storage.directory.clone() {
            let (id, key, object) = (bucket.id, key.to_owned(), changed.clone());
            blocking(move || directory.write_object(id, &key, &object)).await?;
        }
        if bucket.open_index()?.replace(key, changed.clone()) {
            return Ok(changed);
        }
        // Deleted or overwritten meanwhile: the sidecar just written must not bring it back.
        if let Some(directory) = &self.storage.directory {
            directory.forget_object(bucket.id, &changed)?;
        }
        Err(Refusal::NoSuchKey)
    }

    /// Deletes an object, or one version of it.
    pub(crate) async fn delete(
        self: &Arc<Account>,
        bucket: &Arc<Bucket>,
        key: &str,
        version_id: Option<&str>,
    ) -> Result<Deleted, Refusal> {
        if version_id.is_none() && bucket.versioning() != Versioning::Off {
            return self.cover(bucket, key).await;
        }
        let mut index = bucket.open_index()?;
        let removed = index.remove(key, version_id);
        if let (Some(directory), Some(object)) = (&self.storage.directory, &removed) {
            directory.forget_object(bucket.id, object)?;
        }
        drop(index);
        if let (Some(lies), Some(object)) = (&self.lies, &removed) {
            lies.keep_previous(&bucket.name, key, None);
            if let Some(after) = lies.resurrect(&bucket.name, key) {
                self.resurrect(bucket, key, object.clone(), after);
            }
        }
        Ok(Deleted {
            existed: removed.as_ref().is_some_and(|o| version_id.is_some() || o.is_live()),
            version_id: version_id.map(str::to_owned),
            is_marker: removed.is_some_and(|object| object.is_delete_marker()),
        })
    }

    /// Writes a delete marker over the current version.
    async fn cover(&self, bucket: &Arc<Bucket>, key: &str) -> Result<Deleted, Refusal> {
        let existed = bucket.index().current(key).is_some_and(|object| object.is_live());
        let about = About { form: Form::DeleteMarker, ..About::default() };
        let draft = Draft { body: Body::empty(), etag: "".into(), about };
        let is_null_version = bucket.versioning() != Versioning::Enabled;
        let marker = Arc::new(self.number(key, draft, is_null_version)?);
        let marker = self.commit(bucket, key, marker, &Precondition::default()).await?;
        Ok(Deleted { existed, version_id: Some(marker.version_id()), is_marker: true })
    }

    /// Brings a deleted object back after a while: the lie "resurrect".
    fn resurrect(
        self: &Arc<Account>,
        bucket: &Arc<Bucket>,
        key: &str,
        object: Arc<Object>,
        after: std::time::Duration,
    ) {
        let (account, bucket, key) = (self.clone(), bucket.clone(), key.to_owned());
        tokio::spawn(async move {
            let Ok(body) = account.storage.share(&object.body).await else { return };
            let etag = object.etag.clone();
            let draft = Draft { body, etag, about: object.about.clone() };
            // Its file would go with the last reader: the share above holds the bytes now.
            drop(object);
            tokio::time::sleep(after).await;
            if bucket.index().current(&key).is_none()
                && let Ok(object) = account.number(&key, draft, true)
            {
                let none = Precondition::default();
                let _ = account.commit(&bucket, &key, Arc::new(object), &none).await;
            }
        });
    }
}
