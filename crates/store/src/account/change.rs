//! Changes of objects: put, change, delete; one at a time for each object.
//!
//! A change is first written to the disk and then to the index, so that no client sees a change
//! that a crash could revert. Both happen while the object is locked for the change.

use std::sync::Arc;

use crate::account::{Account, Deleted};
use crate::clock;
use crate::error::Refusal;
use crate::faults::{Lies, WriteLie};
use crate::stored::body::Body;
use crate::stored::bucket::Bucket;
use crate::stored::index::{Precondition, Versioning};
use crate::stored::object::{About, Draft, Form, Object, check_version_id};

impl Account {
    /// Writes an object, which is complete when this returns.
    pub(crate) async fn put(
        self: &Arc<Account>,
        bucket: &Arc<Bucket>,
        key: &str,
        draft: Draft,
        precondition: &Precondition,
    ) -> Result<Arc<Object>, Refusal> {
        let (bucket, key, precondition) = (bucket.clone(), key.to_owned(), precondition.clone());
        self.carry_out(move |account| account.put_now(&bucket, &key, draft, &precondition)).await
    }

    /// Writes an object, or executes the lie that is due.
    pub(crate) fn put_now(
        &self,
        bucket: &Bucket,
        key: &str,
        mut draft: Draft,
        precondition: &Precondition,
    ) -> Result<Arc<Object>, Refusal> {
        let length = draft.body.length();
        match self.lies.as_ref().and_then(|lies| lies.write(&bucket.name, key, length)) {
            None => {}
            Some(WriteLie::Lost) => return Ok(Arc::new(self.number(bucket, key, draft)?)),
            Some(WriteLie::CorruptByte(at)) => draft.body.flaw = Some(at),
            Some(WriteLie::Torn(at)) => draft.body = torn(bucket, key, &draft.body, at),
        }
        self.commit(bucket, key, draft, |current| {
            let check = |object: Option<&Object>| precondition.check(object);
            self.unless_lied(bucket, key, current, &check)
        })
    }

    /// Returns whether a replacement of an object's metadata must be discarded: the lie is due.
    pub(crate) fn loses_metadata(&self, bucket: &Bucket, key: &str) -> bool {
        self.lies.as_ref().is_some_and(|lies| lies.loses_metadata(&bucket.name, key))
    }

    /// Refuses a request whose condition does not hold, unless a lie is due.
    pub(crate) fn unless_lied(
        &self,
        bucket: &Bucket,
        key: &str,
        current: Option<&Object>,
        check: &dyn Fn(Option<&Object>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        match (check(current), &self.lies) {
            (Err(_), Some(lies))
                if lies.ignores_condition(&bucket.name, key, |before| check(before).is_ok()) =>
            {
                Ok(())
            }
            (checked, _) => checked,
        }
    }

    /// Refuses a write whose condition does not hold before its body is received, so that the
    /// refusal is cheap.
    pub(crate) fn refuse_early(
        &self,
        bucket: &Bucket,
        key: &str,
        precondition: &Precondition,
    ) -> Result<(), Refusal> {
        if self.lies.as_ref().is_some_and(Lies::are_about_conditions) {
            return Ok(());
        }
        precondition.check(bucket.index().current(key).map(|object| &**object))
    }

    /// Assigns a draft its number in the order of writes, and its share of the budget.
    fn number(&self, bucket: &Bucket, key: &str, draft: Draft) -> Result<Object, Refusal> {
        let record = self.storage.budget.reserve(draft.about.record_bytes(key))?;
        Ok(Object {
            id: self.storage.next_id(),
            is_null_version: bucket.versioning() != Versioning::Enabled,
            body: draft.body,
            etag: draft.etag,
            modified_us: clock::now_us(),
            about: draft.about,
            _record: record,
        })
    }

    fn commit(
        &self,
        bucket: &Bucket,
        key: &str,
        draft: Draft,
        check: impl FnOnce(Option<&Object>) -> Result<(), Refusal>,
    ) -> Result<Arc<Object>, Refusal> {
        let _turn = self.turn(bucket.id, key);
        let before = bucket.index().current(key).cloned();
        check(before.as_deref())?;
        // Numbered under the lock: the order of numbers is the order of writes.
        let object = Arc::new(self.number(bucket, key, draft)?);
        let directory = self.storage.directory.as_deref();
        if let Some(directory) = directory
            && let Err(error) = directory.write_object(bucket.id, key, &object)
        {
            // The bucket may have been deleted, with its directories.
            drop(bucket.open_index()?);
            return Err(error.into());
        }
        let replaced = match bucket.open_index() {
            Ok(mut index) => index.insert(key, object.clone()),
            Err(refusal) => {
                directory
                    .map(|directory| directory.forget_object(bucket.id, &object))
                    .transpose()?;
                return Err(refusal);
            }
        };
        if let Some(lies) = &self.lies {
            let shown = before.as_ref().filter(|before| !before.is_delete_marker());
            lies.keep_previous(&bucket.name, key, shown);
            if let Some(before) = before.filter(|_| !object.is_null_version)
                && lies.loses_version(&bucket.name, key)
            {
                self.remove_in_turn(bucket, key, before.id)?;
            }
        }
        // Under the same lock, so that no delete is acknowledged while an older sidecar exists.
        if let Some(directory) = directory {
            for old in &replaced {
                directory.forget_object(bucket.id, old)?;
            }
        }
        Ok(object)
    }

    /// Changes the metadata of an object, or of the given version, without touching its bytes. Its
    /// time of change is kept unless `modified_us` is given.
    pub(crate) async fn change_object(
        self: &Arc<Account>,
        bucket: &Arc<Bucket>,
        key: &str,
        version_id: Option<&str>,
        modified_us: Option<u64>,
        change: impl FnOnce(&mut About) + Send + 'static,
    ) -> Result<Arc<Object>, Refusal> {
        let (bucket, key) = (bucket.clone(), key.to_owned());
        let version_id = version_id.map(str::to_owned);
        self.carry_out(move |account| {
            let _turn = account.turn(bucket.id, &key);
            // Looked up under the lock: an object that is overwritten meanwhile exists at any time.
            let old = account.find(&bucket, &key, version_id.as_deref())?;
            let mut about = old.about.clone();
            change(&mut about);
            let changed = Arc::new(Object {
                id: old.id,
                is_null_version: old.is_null_version,
                body: old.body.clone(),
                etag: old.etag.clone(),
                modified_us: modified_us.unwrap_or(old.modified_us),
                _record: account.storage.budget.reserve(about.record_bytes(&key))?,
                about,
            });
            if let Some(directory) = &account.storage.directory {
                directory.rewrite_object(bucket.id, &key, &changed)?;
            }
            bucket.open_index()?.replace(&key, changed.clone());
            Ok(changed)
        })
        .await
    }

    /// Deletes an object, or one version of it, if `check` allows it. `check` is called under the
    /// object's lock, with the version to be deleted.
    pub(crate) async fn delete(
        self: &Arc<Account>,
        bucket: &Arc<Bucket>,
        key: &str,
        version_id: Option<&str>,
        check: impl FnOnce(Option<&Object>) -> Result<(), Refusal> + Send + 'static,
    ) -> Result<Deleted, Refusal> {
        version_id.map(check_version_id).transpose()?;
        let covers = version_id.is_none() && bucket.versioning() != Versioning::Off;
        let (owned_bucket, owned_key) = (bucket.clone(), key.to_owned());
        let version = version_id.map(str::to_owned);
        let removed = self.carry_out(move |account| match covers {
            true => account.cover(&owned_bucket, &owned_key, check).map(Err),
            false => account.remove(&owned_bucket, &owned_key, version.as_deref(), check).map(Ok),
        });
        let removed = match removed.await? {
            Ok(removed) => removed,
            Err(covered) => return Ok(covered),
        };
        if let (Some(lies), Some(object)) = (&self.lies, &removed) {
            lies.keep_previous(&bucket.name, key, None);
            if let Some(after) = lies.resurrect(&bucket.name, key) {
                self.resurrect(bucket, key, object.clone(), after);
            }
        }
        Ok(Deleted {
            existed: removed
                .as_ref()
                .is_some_and(|o| version_id.is_some() || !o.is_delete_marker()),
            version_id: version_id.map(str::to_owned),
            is_marker: removed.is_some_and(|object| object.is_delete_marker()),
        })
    }

    fn remove(
        &self,
        bucket: &Bucket,
        key: &str,
        version_id: Option<&str>,
        check: impl FnOnce(Option<&Object>) -> Result<(), Refusal>,
    ) -> Result<Option<Arc<Object>>, Refusal> {
        let _turn = self.turn(bucket.id, key);
        let found = {
            let index = bucket.index();
            let found = index.version(key, version_id.unwrap_or("null"));
            check(found.map(|object| &**object))?;
            found.map(|object| object.id)
        };
        match found {
            Some(id) => self.remove_in_turn(bucket, key, id),
            None => Ok(None),
        }
    }

    /// Removes a version, from the disk first, so that no client sees a delete that a crash could
    /// revert.
    fn remove_in_turn(
        &self,
        bucket: &Bucket,
        key: &str,
        id: u64,
    ) -> Result<Option<Arc<Object>>, Refusal> {
        let stored = bucket.index().exactly(key, id).cloned();
        if let (Some(directory), Some(object)) = (&self.storage.directory, &stored) {
            directory.forget_object(bucket.id, object)?;
        }
        Ok(bucket.open_index()?.remove_exactly(key, id))
    }

    /// Writes a delete marker over the current version.
    fn cover(
        &self,
        bucket: &Bucket,
        key: &str,
        check: impl FnOnce(Option<&Object>) -> Result<(), Refusal>,
    ) -> Result<Deleted, Refusal> {
        let existed = bucket.index().current(key).is_some_and(|object| !object.is_delete_marker());
        let about = About { form: Form::DeleteMarker, ..About::default() };
        let draft = Draft { body: Body::empty(), etag: "".into(), about };
        let marker = self.commit(bucket, key, draft, check)?;
        Ok(Deleted { existed, version_id: Some(marker.version_id()), is_marker: true })
    }

    /// Restores a deleted object after a while: the lie "resurrect".
    fn resurrect(
        self: &Arc<Account>,
        bucket: &Arc<Bucket>,
        key: &str,
        object: Arc<Object>,
        after: std::time::Duration,
    ) {
        let (account, bucket, key) = (self.clone(), bucket.clone(), key.to_owned());
        tokio::spawn(async move {
            let (body, etag) = (object.body.clone(), object.etag.clone());
            let draft = Draft { body, etag, about: object.about.clone() };
            tokio::time::sleep(after).await;
            let brought = account.carry_out(move |account| {
                account.commit(&bucket, &key, draft, |current| match current {
                    Some(_) => Err(Refusal::PreconditionFailed),
                    None => Ok(()),
                })
            });
            // A lie that fails has no effect.
            let _ = brought.await;
        });
    }
}

/// Returns the beginning of the new body with the end of the old one.
fn torn(bucket: &Bucket, key: &str, body: &Body, at: u64) -> Body {
    let length = body.length();
    let old = bucket.index().current(key).cloned();
    let tail = match old.filter(|old| old.body.length() >= length) {
        Some(old) => old.body.slice(at..length),
        None => body.slice(0..length - at),
    };
    Body::join([&body.slice(0..at), &tail])
}
