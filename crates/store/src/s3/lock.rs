//! Object locks: retention and legal holds of versions, in buckets created with object lock.

use std::sync::Arc;

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};
use time::OffsetDateTime;

use super::Front;
use super::translate::timestamp;
use crate::account::Account;
use crate::clock;
use crate::stored::bucket::Bucket as StoredBucket;
use crate::stored::object::{About, Lock, Object, Retention};

const GOVERNANCE: &str = ObjectLockRetentionMode::GOVERNANCE;

/// Returns whether a version must not be deleted, unless a lie is due.
pub(super) fn forbids_delete(
    account: &Account,
    bucket: &StoredBucket,
    key: &str,
    version: &Object,
    bypasses_governance: bool,
) -> bool {
    let Some(lock) = &version.about.lock else { return false };
    lock.is_in_force(clock::now_us(), bypasses_governance)
        && !account.lies.as_ref().is_some_and(|lies| lies.ignores_lock(&bucket.name, key))
}

pub(super) async fn configuration(
    front: &Front,
    request: S3Request<GetObjectLockConfigurationInput>,
) -> S3Result<S3Response<GetObjectLockConfigurationOutput>> {
    lockable(front, &request.input.bucket)?;
    let object_lock_enabled = Some(ObjectLockEnabled::from_static(ObjectLockEnabled::ENABLED));
    let object_lock_configuration =
        Some(ObjectLockConfiguration { object_lock_enabled, ..Default::default() });
    Ok(S3Response::new(GetObjectLockConfigurationOutput { object_lock_configuration }))
}

pub(super) async fn retain(
    front: &Front,
    request: S3Request<PutObjectRetentionInput>,
) -> S3Result<S3Response<PutObjectRetentionOutput>> {
    let input = request.input;
    let bucket = lockable(front, &input.bucket)?;
    let named = input.retention.and_then(|named| Some((named.mode?, named.retain_until_date?)));
    let (mode, until) = named.ok_or_else(|| s3_error!(MalformedXML))?;
    let until_us = (OffsetDateTime::from(until).unix_timestamp_nanos() / 1000) as u64;
    if until_us <= clock::now_us() {
        return Err(s3_error!(InvalidArgument, "the retain until date must be in the future"));
    }
    let is_governance = mode.as_str() == GOVERNANCE;
    let version = input.version_id.as_deref();
    let account = &front.account;
    let current = account.object(&bucket, &input.key, version)?;
    let bypasses = input.bypass_governance_retention == Some(true);
    let before = current.about.lock.as_ref().and_then(|lock| lock.retention);
    if before.is_some_and(|before| {
        before.is_in_force(clock::now_us(), bypasses)
            && (until_us < before.until_us || (is_governance && !before.is_governance))
    }) {
        return Err(s3_error!(AccessDenied, "the object is locked for longer"));
    }
    let retention = Some(Retention { is_governance, until_us });
    let change = move |lock: &mut Lock| lock.retention = retention;
    change_lock(account, &bucket, &input.key, version, change).await?;
    Ok(S3Response::new(PutObjectRetentionOutput::default()))
}

pub(super) async fn hold(
    front: &Front,
    request: S3Request<PutObjectLegalHoldInput>,
) -> S3Result<S3Response<PutObjectLegalHoldOutput>> {
    let input = request.input;
    let bucket = lockable(front, &input.bucket)?;
    let status = input.legal_hold.and_then(|named| named.status);
    let is_held = match status.as_ref().map(|status| status.as_str()) {
        Some(ObjectLockLegalHoldStatus::ON) => true,
        Some(ObjectLockLegalHoldStatus::OFF) => false,
        _ => return Err(s3_error!(MalformedXML)),
    };
    let change = move |lock: &mut Lock| lock.is_held = is_held;
    let version = input.version_id.as_deref();
    change_lock(&front.account, &bucket, &input.key, version, change).await?;
    Ok(S3Response::new(PutObjectLegalHoldOutput::default()))
}

/// The description of a lock in answers to reads: mode and end of its retention, and the legal
/// hold.
pub(super) type ShownLock =
    (Option<ObjectLockMode>, Option<ObjectLockRetainUntilDate>, Option<ObjectLockLegalHoldStatus>);

pub(super) fn shown(lock: Option<&Lock>) -> ShownLock {
    let Some(Lock { retention, is_held }) = lock else { return (None, None, None) };
    let mode = |retention: Retention| match retention.is_governance {
        true => ObjectLockMode::GOVERNANCE,
        false => ObjectLockMode::COMPLIANCE,
    };
    let status = match is_held {
        true => ObjectLockLegalHoldStatus::ON,
        false => ObjectLockLegalHoldStatus::OFF,
    };
    (
        retention.map(|retention| ObjectLockMode::from_static(mode(retention))),
        retention.map(|retention| timestamp(retention.until_us)),
        Some(ObjectLockLegalHoldStatus::from_static(status)),
    )
}

async fn change_lock(
    account: &Arc<Account>,
    bucket: &Arc<StoredBucket>,
    key: &str,
    version: Option<&str>,
    change: impl FnOnce(&mut Lock) + Send + 'static,
) -> S3Result<()> {
    let change = |about: &mut About| change(about.lock.get_or_insert_default());
    account.change_object(bucket, key, version, None, change).await?;
    Ok(())
}

fn lockable(front: &Front, name: &str) -> S3Result<Arc<StoredBucket>> {
    let bucket = front.account.bucket(name)?;
    match bucket.settings().locks_objects {
        true => Ok(bucket),
        false => Err(s3_error!(
            ObjectLockConfigurationNotFoundError,
            "the bucket was not made to lock objects"
        )),
    }
}
