//! Multipart uploads.

use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use md5::{Digest, Md5};
use s3s::checksum::ChecksumHasher;
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::Front;
use super::object::{body_length, header_text, shown_version};
use super::translate::{
    Described, Promise, UPLOAD_BYTES_MAX, checksums_out, count, etag, precondition, timestamp,
};
use crate::body::Body;
use crate::clock;
use crate::error::Refusal;
use crate::intake::{hex, take_in};
use crate::listing::{self, Entry, Query};
use crate::object::{About, Checksums, Draft};
use crate::upload::{self, Upload};

const PART_NUMBER_MAX: i32 = 10_000;

pub(super) async fn create(
    front: &Front,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let input = request.input;
    let bucket = front.account.bucket(&input.bucket)?;
    let described = Described {
        content_type: input.content_type,
        cache_control: input.cache_control,
        content_disposition: input.content_disposition,
        content_encoding: input.content_encoding,
        content_language: input.content_language,
        expires: input.expires,
        metadata: input.metadata,
        tagging: input.tagging,
        acl: input.acl,
    };
    let id = front.account.storage.next_id();
    let upload = Upload::new(id, &input.key, clock::now_us(), described.into_about()?);
    bucket.uploads().insert(place(&input.key, &upload.id), upload.clone());
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(upload.id.to_string()),
        checksum_algorithm: input.checksum_algorithm,
        checksum_type: input.checksum_type,
        ..Default::default()
    }))
}

/// Returns an upload's place in the order of uploads: by key, then by age.
fn place(key: &str, id: &str) -> Box<str> {
    // XML has no form for the character 0: no key that a client lists holds it.
    format!("{key}\0{id}").into()
}

pub(super) fn find(
    front: &Front,
    bucket: &str,
    key: &str,
    upload_id: &str,
) -> S3Result<Arc<Upload>> {
    let bucket = front.account.bucket(bucket)?;
    let found = bucket.uploads().get(&place(key, upload_id)).cloned();
    Ok(found.ok_or(Refusal::NoSuchUpload)?)
}

fn check_number(number: i32) -> S3Result<()> {
    if (1..=PART_NUMBER_MAX).contains(&number) {
        return Ok(());
    }
    Err(s3_error!(InvalidArgument, "part numbers go from 1 to {PART_NUMBER_MAX}"))
}

pub(super) async fn part(
    front: &Front,
    request: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let length = body_length(&request.headers, request.input.content_length)?;
    let trailer_names = header_text(&request.headers, "x-amz-trailer");
    let input = request.input;
    check_number(input.part_number)?;
    let promise = Promise {
        md5: input.content_md5,
        checksums: Checksums {
            crc32: input.checksum_crc32,
            crc32c: input.checksum_crc32c,
            crc64nvme: input.checksum_crc64nvme,
            sha1: input.checksum_sha1,
            sha256: input.checksum_sha256,
            is_composite: false,
        },
        algorithm: input.checksum_algorithm.map(|algorithm| algorithm.as_str().to_owned()),
        trailer: request.trailing_headers,
    };
    let upload = find(front, &input.bucket, &input.key, &input.upload_id)?;
    let hasher = promise.hasher(trailer_names);
    let body = input.body.map_or_else(s3s::Body::empty, s3s::Body::from);
    let taken = take_in(&front.account.storage, body, length, UPLOAD_BYTES_MAX, hasher).await?;
    promise.check(&taken.md5, &taken.checksums)?;
    let shown = checksums_out(&taken.checksums);
    let tag = taken.etag();
    let part = upload::Part {
        body: taken.body,
        md5: taken.md5,
        modified_us: clock::now_us(),
        checksums: taken.checksums,
    };
    upload.parts().insert(input.part_number, part);
    Ok(S3Response::new(UploadPartOutput {
        e_tag: Some(etag(&tag)),
        checksum_crc32: shown.checksum_crc32,
        checksum_crc32c: shown.checksum_crc32c,
        checksum_crc64nvme: shown.checksum_crc64nvme,
        checksum_sha1: shown.checksum_sha1,
        checksum_sha256: shown.checksum_sha256,
        ..Default::default()
    }))
}

/// Adds bytes that are in the store already as a part; returns its entity tag and time.
pub(super) async fn add_copied(
    upload: &Upload,
    number: i32,
    body: Body,
) -> S3Result<(String, u64)> {
    check_number(number)?;
    let mut md5 = Md5::new();
    let mut stream = body.stream();
    while let Some(piece) =
        std::future::poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await
    {
        md5.update(piece.map_err(|error| Refusal::Body(error.to_string()))?);
    }
    let part = upload::Part {
        body,
        md5: md5.finalize().into(),
        modified_us: clock::now_us(),
        checksums: Checksums::default(),
    };
    let facts = (hex(&part.md5), part.modified_us);
    upload.parts().insert(number, part);
    Ok(facts)
}

pub(super) async fn complete(
    front: &Front,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let input = request.input;
    let bucket = front.account.bucket(&input.bucket)?;
    let upload = find(front, &input.bucket, &input.key, &input.upload_id)?;
    let parts = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
    let named: Option<Vec<_>> =
        parts.into_iter().map(|part| Some((part.part_number?, part.e_tag?.into_value()))).collect();
    let joined = upload.join(&named.ok_or_else(|| s3_error!(MalformedXML))?)?;
    if input.mpu_object_size.is_some_and(|size| size as u64 != joined.body.length()) {
        return Err(s3_error!(InvalidRequest, "the size announced is not that of the parts"));
    }
    let promised = Checksums {
        crc32: input.checksum_crc32,
        crc32c: input.checksum_crc32c,
        crc64nvme: input.checksum_crc64nvme,
        sha1: input.checksum_sha1,
        sha256: input.checksum_sha256,
        is_composite: input
            .checksum_type
            .is_some_and(|kind| kind.as_str() == ChecksumType::COMPOSITE),
    };
    let checksums = promised.into_option();
    if let Some(promised) = checksums.as_ref().filter(|promised| !promised.is_composite) {
        check_whole(&joined.body, promised).await?;
    }
    let about = About { part_bytes: joined.part_bytes, checksums, ..upload.about.clone() };
    let draft = Draft { body: joined.body, etag: joined.etag, about };
    let precondition = precondition(input.if_match, input.if_none_match);
    let object = front.account.put(&bucket, &input.key, draft, &precondition).await?;
    bucket.uploads().remove(&place(&input.key, &input.upload_id));
    let shown = object.about.checksums.as_deref().map(checksums_out).unwrap_or_default();
    Ok(S3Response::new(CompleteMultipartUploadOutput {
        e_tag: Some(etag(&object.etag)),
        location: Some(format!("/{}/{}", input.bucket, input.key)),
        version_id: shown_version(&object),
        bucket: Some(input.bucket),
        key: Some(input.key),
        checksum_crc32: shown.checksum_crc32,
        checksum_crc32c: shown.checksum_crc32c,
        checksum_crc64nvme: shown.checksum_crc64nvme,
        checksum_sha1: shown.checksum_sha1,
        checksum_sha256: shown.checksum_sha256,
        ..Default::default()
    }))
}

/// Refuses a whole that does not have the checksum the client announced for it.
async fn check_whole(body: &Body, promised: &Checksums) -> S3Result<()> {
    use s3s::crypto::Checksum as _;
    let mut hasher = ChecksumHasher {
        crc32: promised.crc32.as_ref().map(|_| s3s::crypto::Crc32::new()),
        crc32c: promised.crc32c.as_ref().map(|_| s3s::crypto::Crc32c::new()),
        crc64nvme: promised.crc64nvme.as_ref().map(|_| s3s::crypto::Crc64Nvme::new()),
        sha1: promised.sha1.as_ref().map(|_| s3s::crypto::Sha1::new()),
        sha256: promised.sha256.as_ref().map(|_| s3s::crypto::Sha256::new()),
    };
    let mut stream = body.stream();
    while let Some(piece) =
        std::future::poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await
    {
        hasher.update(&piece.map_err(|error| Refusal::Body(error.to_string()))?);
    }
    let found = Checksums::from(hasher.finalize());
    // A value of the form "…-2" is a checksum of checksums, which announces itself.
    let is_composite = [&promised.crc32, &promised.crc32c, &promised.sha1, &promised.sha256]
        .iter()
        .any(|value| value.as_ref().is_some_and(|value| value.contains('-')));
    if is_composite || found == *promised {
        return Ok(());
    }
    Err(s3_error!(BadDigest, "the checksum announced is not that of the parts joined"))
}

pub(super) async fn abort(
    front: &Front,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let input = request.input;
    let bucket = front.account.bucket(&input.bucket)?;
    let removed = bucket.uploads().remove(&place(&input.key, &input.upload_id));
    removed.ok_or(Refusal::NoSuchUpload)?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

pub(super) async fn list_parts(
    front: &Front,
    request: S3Request<ListPartsInput>,
) -> S3Result<S3Response<ListPartsOutput>> {
    let input = request.input;
    let upload = find(front, &input.bucket, &input.key, &input.upload_id)?;
    let limit = count(input.max_parts, 1000)?.min(1000);
    let marker = input.part_number_marker.unwrap_or(0);
    let known = upload.parts();
    let mut parts: Vec<_> = known
        .range(marker.saturating_add(1)..)
        .take(limit + 1)
        .map(|(number, part)| Part {
            part_number: Some(*number),
            e_tag: Some(etag(&hex(&part.md5))),
            last_modified: Some(timestamp(part.modified_us)),
            size: Some(part.body.length() as i64),
            checksum_crc32: part.checksums.crc32.clone(),
            checksum_crc32c: part.checksums.crc32c.clone(),
            checksum_crc64nvme: part.checksums.crc64nvme.clone(),
            checksum_sha1: part.checksums.sha1.clone(),
            checksum_sha256: part.checksums.sha256.clone(),
        })
        .collect();
    let is_truncated = parts.len() > limit;
    parts.truncate(limit);
    Ok(S3Response::new(ListPartsOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(input.upload_id),
        part_number_marker: Some(marker),
        next_part_number_marker: parts.last().and_then(|part| part.part_number),
        max_parts: Some(input.max_parts.unwrap_or(1000)),
        is_truncated: Some(is_truncated),
        parts: (!parts.is_empty()).then_some(parts),
        ..Default::default()
    }))
}

pub(super) async fn list_uploads(
    front: &Front,
    request: S3Request<ListMultipartUploadsInput>,
) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
    let input = request.input;
    let bucket = front.account.bucket(&input.bucket)?;
    let key_marker = input.key_marker.as_deref().unwrap_or_default();
    let after = match &input.upload_id_marker {
        Some(id) => place(key_marker, id),
        // Behind every upload of that key: identities are hexadecimal digits.
        None if !key_marker.is_empty() => place(key_marker, "g"),
        None => "".into(),
    };
    let page = listing::list(
        &bucket.uploads(),
        Query {
            prefix: input.prefix.as_deref().unwrap_or_default(),
            delimiter: input.delimiter.as_deref().unwrap_or_default(),
            after: &after,
            limit: count(input.max_uploads, 1000)?.min(1000),
            ..Query::default()
        },
        |upload| Some(upload.clone()),
    );
    let mut output = ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        key_marker: input.key_marker,
        upload_id_marker: input.upload_id_marker,
        max_uploads: Some(input.max_uploads.unwrap_or(1000)),
        is_truncated: Some(page.is_truncated),
        prefix: input.prefix,
        delimiter: input.delimiter,
        ..Default::default()
    };
    for entry in page.entries {
        match entry {
            Entry::Prefix(prefix) => {
                let prefix = CommonPrefix { prefix: Some(prefix.to_string()) };
                output.common_prefixes.get_or_insert_default().push(prefix);
            }
            Entry::Key(_, upload) => {
                output.next_key_marker = Some(upload.key.to_string());
                output.next_upload_id_marker = Some(upload.id.to_string());
                output.uploads.get_or_insert_default().push(MultipartUpload {
                    key: Some(upload.key.to_string()),
                    upload_id: Some(upload.id.to_string()),
                    initiated: Some(timestamp(upload.started_us)),
                    ..Default::default()
                });
            }
        }
    }
    Ok(S3Response::new(output))
}
