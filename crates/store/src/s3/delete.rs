//! Deletes: one object or many, possibly conditional.

use std::sync::Arc;

use s3s::dto::*;
use s3s::{S3Error, S3Request, S3Response, S3Result, s3_error};

use super::Front;
use super::lock;
use super::translate::rule;
use crate::error::Refusal;
use crate::stored::bucket::Bucket;
use crate::stored::index::EtagRule;
use crate::stored::object::Object;

/// Refuses a delete whose `If-Match` does not hold; an object that does not exist satisfies every
/// condition.
fn check(wanted: Option<&EtagRule>, current: Option<&Object>) -> Result<(), Refusal> {
    match (wanted, current) {
        (Some(rule), Some(object)) if !rule.matches(&object.etag) => {
            Err(Refusal::PreconditionFailed)
        }
        _ => Ok(()),
    }
}

/// A key to delete, with the client's conditions.
struct Wanted<'a> {
    key: &'a str,
    /// Whether a version is given, which is deleted permanently unless it is locked.
    names_version: bool,
    etag: Option<EtagRule>,
    bypasses_governance: bool,
}

/// Returns the check of whether a key may be deleted.
fn checked(
    front: &Front,
    bucket: &Arc<Bucket>,
    wanted: Wanted<'_>,
) -> impl FnOnce(Option<&Object>) -> Result<(), Refusal> + Send + use<> {
    let (account, bucket, key) = (front.account.clone(), bucket.clone(), wanted.key.to_owned());
    let Wanted { names_version, etag, bypasses_governance, .. } = wanted;
    move |current| {
        let is_kept = |version: &Object| {
            lock::forbids_delete(&account, &bucket, &key, version, bypasses_governance)
        };
        if names_version && current.is_some_and(is_kept) {
            return Err(Refusal::Locked);
        }
        account.unless_lied(&bucket, &key, current, &|object| check(etag.as_ref(), object))
    }
}

pub(super) async fn one(
    front: &Front,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let input = request.input;
    let bucket = front.account.bucket(&input.bucket)?;
    let version_id = input.version_id.as_deref();
    let wanted = Wanted {
        key: &input.key,
        names_version: version_id.is_some(),
        etag: rule(input.if_match),
        bypasses_governance: input.bypass_governance_retention == Some(true),
    };
    let check = checked(front, &bucket, wanted);
    let deleted = front.account.delete(&bucket, &input.key, version_id, check).await?;
    Ok(S3Response::new(DeleteObjectOutput {
        delete_marker: deleted.is_marker.then_some(true),
        version_id: deleted.version_id,
        ..Default::default()
    }))
}

pub(super) async fn many(
    front: &Front,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    let input = request.input;
    if input.delete.objects.len() > 1000 {
        return Err(s3_error!(MalformedXML, "at most 1000 keys can be deleted at once"));
    }
    let bucket = front.account.bucket(&input.bucket)?;
    let is_quiet = input.delete.quiet.unwrap_or(false);
    let mut output = DeleteObjectsOutput::default();
    for named in input.delete.objects {
        let version_id = named.version_id.as_deref();
        let wanted = Wanted {
            key: &named.key,
            names_version: version_id.is_some(),
            etag: named.e_tag.map(|etag| EtagRule::parse(etag.value())),
            bypasses_governance: input.bypass_governance_retention == Some(true),
        };
        let check = checked(front, &bucket, wanted);
        match front.account.delete(&bucket, &named.key, version_id, check).await {
            Ok(deleted) if !is_quiet => {
                let marker = deleted.is_marker && named.version_id.is_none();
                output.deleted.get_or_insert_default().push(DeletedObject {
                    key: Some(named.key),
                    delete_marker: deleted.is_marker.then_some(true),
                    delete_marker_version_id: deleted.version_id.filter(|_| marker),
                    version_id: named.version_id,
                });
            }
            Ok(_) => {}
            Err(refusal) => {
                let error = S3Error::from(refusal);
                output.errors.get_or_insert_default().push(Error {
                    code: Some(error.code().as_str().to_owned()),
                    key: Some(named.key),
                    message: error.message().map(str::to_owned),
                    version_id: named.version_id,
                });
            }
        }
    }
    Ok(S3Response::new(output))
}
