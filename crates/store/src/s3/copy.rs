//! Copies within the store: whole objects, and ranges as parts of an upload.

use std::sync::Arc;

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::Front;
use super::checksum::{checksums_out, with_checksums};
use super::multipart;
use super::object::shown_version;
use super::translate::{ReadCondition, described, etag, timestamp};
use crate::hex::hex;
use crate::stored::body::Body;
use crate::stored::index::Precondition;
use crate::stored::object::{About, Draft, Form, Object};

/// Finds the source of a copy.
fn source(
    front: &Front,
    named: &CopySource,
    condition: ReadCondition,
) -> S3Result<(Arc<Object>, Body)> {
    let CopySource::Bucket { bucket, key, version_id } = named else {
        return Err(s3_error!(NotImplemented, "this store has no access points"));
    };
    let account = &front.account;
    let object = account.object(&*account.bucket(bucket)?, key, version_id.as_deref())?;
    if object.is_delete_marker() {
        return Err(s3_error!(InvalidRequest, "a delete marker cannot be copied"));
    }
    // A copy answers 412 where a read would answer 304.
    condition.check(&object).map_err(|_| s3_error!(PreconditionFailed))?;
    let body = account.content(&object)?;
    Ok((object, body))
}

pub(super) async fn object(
    front: &Front,
    request: S3Request<CopyObjectInput>,
) -> S3Result<S3Response<CopyObjectOutput>> {
    let input = request.input;
    let condition = ReadCondition {
        if_match: input.copy_source_if_match,
        if_none_match: input.copy_source_if_none_match,
        if_modified_since: input.copy_source_if_modified_since,
        if_unmodified_since: input.copy_source_if_unmodified_since,
    };
    let bucket = front.account.bucket(&input.bucket)?;
    let (source, body) = source(front, &input.copy_source, condition)?;
    let replaces_metadata = input
        .metadata_directive
        .is_some_and(|directive| directive.as_str() == MetadataDirective::REPLACE);
    let is_itself = matches!(&input.copy_source, CopySource::Bucket { bucket, key, version_id: None }
        if **bucket == *input.bucket && **key == *input.key);
    if is_itself && !replaces_metadata {
        return Err(s3_error!(InvalidRequest, "a copy onto itself has to change something"));
    }
    let given = described!(input).into_about()?;
    let is_lied_about = is_itself && front.account.loses_metadata(&bucket, &input.key);
    let about = if replaces_metadata && !is_lied_about { given } else { source.about.clone() };
    let about = as_one(about, &source);
    let shown = about.checksums.as_deref().map(checksums_out).unwrap_or_default();
    let draft = Draft { body, etag: source.etag.clone(), about };
    let copied = front.account.put(&bucket, &input.key, draft, &Precondition::default()).await?;
    Ok(S3Response::new(CopyObjectOutput {
        copy_object_result: Some(with_checksums!(shown => CopyObjectResult {
            e_tag: Some(etag(&copied.etag)),
            last_modified: Some(timestamp(copied.modified_us)),
            checksum_type: shown.checksum_type,
        })),
        copy_source_version_id: shown_version(&source),
        version_id: shown_version(&copied),
        ..Default::default()
    }))
}

/// Describes a copy, which is a single object even if the source was not.
fn as_one(about: About, source: &Object) -> About {
    About {
        checksums: source.about.checksums.clone().filter(|checksums| !checksums.is_composite),
        part_bytes: Vec::new(),
        part_checksums: Vec::new(),
        form: Form::Plain,
        lock: None,
        ..about
    }
}

pub(super) async fn part(
    front: &Front,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let input = request.input;
    let condition = ReadCondition {
        if_match: input.copy_source_if_match,
        if_none_match: input.copy_source_if_none_match,
        if_modified_since: input.copy_source_if_modified_since,
        if_unmodified_since: input.copy_source_if_unmodified_since,
    };
    let (bucket, upload) = multipart::find(front, &input.bucket, &input.key, &input.upload_id)?;
    let (source, body) = source(front, &input.copy_source, condition)?;
    let length = body.length();
    let range = match &input.copy_source_range {
        None => 0..length,
        Some(text) => {
            let range = Range::parse(text).map_err(|_| s3_error!(InvalidArgument))?;
            // A read is limited to the object's end, but a part with a longer range is refused.
            if matches!(range, Range::Int { last: Some(last), .. } if last >= length) {
                return Err(s3_error!(InvalidRange, "the object has {length} bytes"));
            }
            range.check(length).map_err(|_| s3_error!(InvalidRange))?
        }
    };
    let bytes = body.slice(range);
    let part = multipart::add_copied(front, &bucket, &upload, input.part_number, bytes).await?;
    let shown = checksums_out(&part.checksums);
    Ok(S3Response::new(UploadPartCopyOutput {
        copy_part_result: Some(with_checksums!(shown => CopyPartResult {
            e_tag: Some(etag(&hex(&part.md5))),
            last_modified: Some(timestamp(part.modified_us)),
        })),
        copy_source_version_id: shown_version(&source),
        ..Default::default()
    }))
}
