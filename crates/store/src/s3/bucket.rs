//! Buckets: create, delete, list, and their settings.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::Front;
use super::translate::{count, owner, timestamp};
use crate::stored::bucket::Settings;
use crate::stored::index::Versioning;
use crate::stored::listing::{self, Entry, Query};

pub(super) async fn create(
    front: &Front,
    request: S3Request<CreateBucketInput>,
) -> S3Result<S3Response<CreateBucketOutput>> {
    let input = request.input;
    if input.bucket.contains(".-") || input.bucket.contains("-.") {
        return Err(s3_error!(InvalidBucketName, "a dot and a dash must not stand side by side"));
    }
    let settings = match input.object_lock_enabled_for_bucket {
        Some(true) => {
            let versioning = Versioning::Enabled;
            Settings { locks_objects: true, versioning, ..Settings::default() }
        }
        _ => Settings::default(),
    };
    front.account.create_bucket(&input.bucket, settings)?;
    let location = Some(format!("/{}", input.bucket));
    Ok(S3Response::new(CreateBucketOutput { location }))
}

pub(super) async fn delete(
    front: &Front,
    request: S3Request<DeleteBucketInput>,
) -> S3Result<S3Response<DeleteBucketOutput>> {
    front.account.delete_bucket(&request.input.bucket)?;
    Ok(S3Response::with_status(DeleteBucketOutput::default(), http::StatusCode::NO_CONTENT))
}

pub(super) async fn head(
    front: &Front,
    request: S3Request<HeadBucketInput>,
) -> S3Result<S3Response<HeadBucketOutput>> {
    front.account.bucket(&request.input.bucket)?;
    let bucket_region = Some(front.region.clone());
    Ok(S3Response::new(HeadBucketOutput { bucket_region, ..Default::default() }))
}

pub(super) async fn list(
    front: &Front,
    request: S3Request<ListBucketsInput>,
) -> S3Result<S3Response<ListBucketsOutput>> {
    let input = request.input;
    let query = Query {
        prefix: input.prefix.as_deref().unwrap_or_default(),
        after: input.continuation_token.as_deref().unwrap_or_default(),
        limit: count(input.max_buckets, 10_000)?,
        ..Query::default()
    };
    let page = listing::list(&front.account.buckets(), query, |bucket| Some(bucket.clone()));
    let mut output = ListBucketsOutput::default();
    if page.is_truncated {
        output.continuation_token = page.entries.last().map(|entry| entry.name().to_owned());
    }
    let buckets = page.entries.iter().filter_map(|entry| match entry {
        Entry::Key(name, bucket) => Some(Bucket {
            name: Some(name.to_string()),
            creation_date: Some(timestamp(bucket.created_us)),
            bucket_region: None,
        }),
        Entry::Prefix(_) => None,
    });
    output.buckets = Some(buckets.collect());
    output.owner = Some(owner());
    output.prefix = input.prefix;
    Ok(S3Response::new(output))
}

pub(super) async fn location(
    front: &Front,
    request: S3Request<GetBucketLocationInput>,
) -> S3Result<S3Response<GetBucketLocationOutput>> {
    front.account.bucket(&request.input.bucket)?;
    // The oldest region is represented by an absent one.
    let location = (front.region != "us-east-1").then(|| front.region.clone().into());
    Ok(S3Response::new(GetBucketLocationOutput { location_constraint: location }))
}

pub(super) async fn versioning(
    front: &Front,
    request: S3Request<GetBucketVersioningInput>,
) -> S3Result<S3Response<GetBucketVersioningOutput>> {
    let status = match front.account.bucket(&request.input.bucket)?.versioning() {
        Versioning::Off => None,
        Versioning::Enabled => Some(BucketVersioningStatus::ENABLED),
        Versioning::Suspended => Some(BucketVersioningStatus::SUSPENDED),
    };
    let status = status.map(BucketVersioningStatus::from_static);
    Ok(S3Response::new(GetBucketVersioningOutput { status, ..Default::default() }))
}

pub(super) async fn set_versioning(
    front: &Front,
    request: S3Request<PutBucketVersioningInput>,
) -> S3Result<S3Response<PutBucketVersioningOutput>> {
    let bucket = front.account.bucket(&request.input.bucket)?;
    let status = request.input.versioning_configuration.status;
    let versioning = match status.as_ref().map(|status| status.as_str()) {
        Some(BucketVersioningStatus::ENABLED) => Versioning::Enabled,
        Some(BucketVersioningStatus::SUSPENDED) => Versioning::Suspended,
        _ => return Err(s3_error!(MalformedXML)),
    };
    if bucket.settings().locks_objects && versioning != Versioning::Enabled {
        return Err(s3_error!(InvalidBucketState, "a bucket that locks objects keeps versions"));
    }
    front.account.change_bucket(&bucket, |settings| settings.versioning = versioning)?;
    Ok(S3Response::new(PutBucketVersioningOutput::default()))
}
