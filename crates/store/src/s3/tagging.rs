//! Tags of buckets and objects.

use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::Front;
use super::translate::{BUCKET_TAGS_MAX, OBJECT_TAGS_MAX, tags_in, tags_out};

pub(super) async fn of_bucket(
    front: &Front,
    request: S3Request<GetBucketTaggingInput>,
) -> S3Result<S3Response<GetBucketTaggingOutput>> {
    let tags = front.account.bucket(&request.input.bucket)?.settings().tags;
    if tags.is_empty() {
        return Err(s3_error!(NoSuchTagSet));
    }
    Ok(S3Response::new(GetBucketTaggingOutput { tag_set: tags_out(&tags) }))
}

pub(super) async fn set_of_bucket(
    front: &Front,
    request: S3Request<PutBucketTaggingInput>,
) -> S3Result<S3Response<PutBucketTaggingOutput>> {
    let bucket = front.account.bucket(&request.input.bucket)?;
    let tags = tags_in(request.input.tagging.tag_set, BUCKET_TAGS_MAX)?;
    front.account.change_bucket(&bucket, |settings| settings.tags = tags)?;
    Ok(S3Response::with_status(PutBucketTaggingOutput::default(), http::StatusCode::NO_CONTENT))
}

pub(super) async fn clear_of_bucket(
    front: &Front,
    request: S3Request<DeleteBucketTaggingInput>,
) -> S3Result<S3Response<DeleteBucketTaggingOutput>> {
    let bucket = front.account.bucket(&request.input.bucket)?;
    front.account.change_bucket(&bucket, |settings| settings.tags.clear())?;
    Ok(S3Response::new(DeleteBucketTaggingOutput::default()))
}

pub(super) async fn of_object(
    front: &Front,
    request: S3Request<GetObjectTaggingInput>,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    let input = request.input;
    let bucket = front.account.bucket(&input.bucket)?;
    let object = front.account.object(&bucket, &input.key, input.version_id.as_deref())?;
    let tag_set = tags_out(&object.about.tags);
    Ok(S3Response::new(GetObjectTaggingOutput { tag_set, version_id: input.version_id }))
}

pub(super) async fn set_of_object(
    front: &Front,
    request: S3Request<PutObjectTaggingInput>,
) -> S3Result<S3Response<PutObjectTaggingOutput>> {
    let input = request.input;
    let tags = tags_in(input.tagging.tag_set, OBJECT_TAGS_MAX)?;
    change(front, &input.bucket, &input.key, input.version_id.as_deref(), tags).await?;
    Ok(S3Response::new(PutObjectTaggingOutput { version_id: input.version_id }))
}

pub(super) async fn clear_of_object(
    front: &Front,
    request: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
    let input = request.input;
    change(front, &input.bucket, &input.key, input.version_id.as_deref(), Vec::new()).await?;
    Ok(S3Response::new(DeleteObjectTaggingOutput { version_id: input.version_id }))
}

async fn change(
    front: &Front,
    bucket: &str,
    key: &str,
    version_id: Option<&str>,
    tags: Vec<(String, String)>,
) -> S3Result<()> {
    let bucket = front.account.bucket(bucket)?;
    let change = |about: &mut crate::stored::object::About| about.tags = tags;
    front.account.change_object(&bucket, key, version_id, None, change).await?;
    Ok(())
}
