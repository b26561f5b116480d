//! Multipart uploads: begin, add parts, complete, abort.

use std::sync::{Arc, PoisonError};

use super::Account;
use crate::error::Refusal;
use crate::faults::Lies;
use crate::stored::bucket::Bucket;
use crate::stored::index::Precondition;
use crate::stored::object::{Draft, Object};
use crate::stored::upload::{Part, Upload, UploadFacts};

impl Account {
    /// Begins an upload.
    pub(crate) async fn open_upload(
        self: &Arc<Account>,
        bucket: &Arc<Bucket>,
        facts: UploadFacts,
    ) -> Result<Arc<Upload>, Refusal> {
        let bucket = bucket.clone();
        self.carry_out(move |account| {
            let record = account.storage.budget.reserve(facts.record_bytes())?;
            let upload = Upload::new(account.storage.next_id(), facts, record);
            if let Some(directory) = &account.storage.directory {
                directory.write_upload(bucket.id, upload.number, &upload.facts)?;
            }
            bucket.uploads().insert(upload.place(), upload.clone());
            Ok(upload)
        })
        .await
    }

    /// Adds a part to an upload, replacing one with the same number.
    pub(crate) async fn add_part(
        self: &Arc<Account>,
        bucket: &Arc<Bucket>,
        upload: &Arc<Upload>,
        number: i32,
        part: Part,
    ) -> Result<(), Refusal> {
        let (bucket, upload) = (bucket.clone(), upload.clone());
        self.carry_out(move |account| {
            let is_closed = upload.is_closed.read().unwrap_or_else(PoisonError::into_inner);
            if *is_closed {
                return Err(Refusal::NoSuchUpload);
            }
            let record = account.storage.budget.reserve(part.record_bytes())?;
            let _turn = account.turn(upload.number, &number.to_string());
            let directory = account.storage.directory.as_ref();
            if let Some(directory) = directory {
                directory.write_part(bucket.id, upload.number, number, &part)?;
            }
            let replaced = upload.insert(number, part, record);
            if let (Some(_), Some(old)) = (directory, replaced) {
                old.body.let_go();
            }
            Ok(())
        })
        .await
    }

    /// Turns an upload into an object; if several clients try, one succeeds.
    pub(crate) async fn complete_upload(
        self: &Arc<Account>,
        bucket: &Arc<Bucket>,
        upload: &Arc<Upload>,
        draft: Draft,
        precondition: &Precondition,
    ) -> Result<Arc<Object>, Refusal> {
        let (bucket, upload) = (bucket.clone(), upload.clone());
        let precondition = precondition.clone();
        self.carry_out(move |account| {
            let mut is_closed = upload.is_closed.write().unwrap_or_else(PoisonError::into_inner);
            if *is_closed {
                return Err(Refusal::NoSuchUpload);
            }
            let object = account.put_now(&bucket, &upload.facts.key, draft, &precondition)?;
            account.close_upload(&bucket, &upload, &mut is_closed)?;
            Ok(object)
        })
        .await
    }

    /// Ends an upload without an object.
    pub(crate) async fn abort_upload(
        self: &Arc<Account>,
        bucket: &Arc<Bucket>,
        upload: &Arc<Upload>,
    ) -> Result<(), Refusal> {
        let (bucket, upload) = (bucket.clone(), upload.clone());
        self.carry_out(move |account| {
            let mut is_closed = upload.is_closed.write().unwrap_or_else(PoisonError::into_inner);
            let ignores = |lies: &Lies| lies.ignores_abort(&bucket.name, &upload.facts.key);
            match *is_closed {
                true => Err(Refusal::NoSuchUpload),
                false if account.lies.as_ref().is_some_and(ignores) => Ok(()),
                false => account.close_upload(&bucket, &upload, &mut is_closed),
            }
        })
        .await
    }

    fn close_upload(
        &self,
        bucket: &Bucket,
        upload: &Upload,
        is_closed: &mut bool,
    ) -> Result<(), Refusal> {
        if let Some(directory) = &self.storage.directory {
            directory.forget_upload(bucket.id, upload)?;
        }
        *is_closed = true;
        bucket.uploads().remove(&upload.place());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Storage;
    use crate::budget::Budget;
    use crate::stored::body::Body;
    use crate::stored::bucket::Settings;
    use crate::stored::object::{About, Checksums};

    #[test]
    fn empty_parts_reserve_memory_and_return_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let account = Arc::new(Account::new(Storage::new(Budget::new(1 << 20), None), None));
        let bucket = account.create_bucket("bucket", Settings::default()).unwrap();
        let before = account.storage.budget.bytes();
        runtime.block_on(async {
            let about = About::default();
            let facts = UploadFacts { key: "key".into(), started_us: 0, about, rule: None };
            let upload = account.open_upload(&bucket, facts).await.unwrap();
            let mut numbers = 1..10_000;
            let refusal = loop {
                let number = numbers.next().expect("the store takes all of them");
                let checksums = Checksums::default();
                let part = Part { body: Body::empty(), md5: [0; 16], modified_us: 0, checksums };
                if let Err(refusal) = account.add_part(&bucket, &upload, number, part).await {
                    break refusal;
                }
            };
            assert!(refusal.is_full(), "{refusal}");
            account.abort_upload(&bucket, &upload).await.unwrap();
        });
        assert_eq!(account.storage.budget.bytes(), before);
    }
}
