//! Multipart uploads.

use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;
use md5::{Digest, Md5};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result, s3_error};

use super::Front;
use super::checksum::{
    self, Promise, checksums_in, checksums_out, shown_algorithm, shown_type, with_checksums,
};
use super::listing::Writer;
use super::object::{body_length, header_text, shown_version};
use super::translate::{count, described, etag, owner, precondition, take_in_upload, timestamp};
use crate::clock;
use crate::error::Refusal;
use crate::hex::hex;
use crate::stored::body::Body;
use crate::stored::bucket::Bucket;
use crate::stored::listing::{self, Entry, Query};
use crate::stored::object::{About, Algorithm, Checksums, Draft, Object};
use crate::stored::upload::{self, Upload, UploadFacts, place};

const PART_NUMBER_MAX: i32 = 10_000;

/// Minimum size of a part other than the last.
const PART_BYTES_MIN: u64 = 5 << 20;

pub(super) async fn create(
    front: &Front,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let input = request.input;
    let bucket = front.account.bucket(&input.bucket)?;
    let described = described!(input);
    let rule = checksum::rule(input.checksum_algorithm.as_ref(), input.checksum_type.as_ref())?;
    let facts = UploadFacts {
        key: input.key.as_str().into(),
        started_us: clock::now_us(),
        about: described.into_about()?,
        rule,
    };
    let upload = front.account.open_upload(&bucket, facts).await?;
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(upload.id.to_string()),
        checksum_algorithm: rule.map(shown_algorithm),
        checksum_type: rule.map(|rule| shown_type(rule.is_composite)),
        ..Default::default()
    }))
}

pub(super) fn find(
    front: &Front,
    bucket: &str,
    key: &str,
    upload_id: &str,
) -> S3Result<(Arc<Bucket>, Arc<Upload>)> {
    let bucket = front.account.bucket(bucket)?;
    let upload = bucket.uploads().get(&place(key, upload_id)).cloned();
    Ok((bucket, upload.ok_or(Refusal::NoSuchUpload)?))
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
    let md5 = header_text(&request.headers, "content-md5").map(str::to_owned);
    let trailer_names = header_text(&request.headers, "x-amz-trailer");
    let input = request.input;
    check_number(input.part_number)?;
    let promise = Promise {
        md5,
        checksums: checksums_in!(input),
        algorithm: checksum::algorithm(input.checksum_algorithm.as_ref()),
        trailer: request.trailing_headers,
    };
    let (bucket, upload) = find(front, &input.bucket, &input.key, &input.upload_id)?;
    let rule = upload.facts.rule;
    promise.fits(rule)?;
    let hasher = promise.hasher(trailer_names, rule.map(|rule| rule.algorithm));
    let storage = &front.account.storage;
    let taken = take_in_upload(storage, input.body, length, hasher).await?;
    promise.check(&taken.md5, &taken.checksums)?;
    let shown = checksums_out(&taken.checksums);
    let tag = taken.etag();
    let part = upload::Part {
        body: taken.body,
        md5: taken.md5,
        modified_us: clock::now_us(),
        checksums: taken.checksums,
    };
    front.account.add_part(&bucket, &upload, input.part_number, part).await?;
    Ok(S3Response::new(with_checksums!(shown => UploadPartOutput {
        e_tag: Some(etag(&tag)),
        ..Default::default()
    })))
}

/// Adds stored bytes as a part.
pub(super) async fn add_copied(
    front: &Front,
    bucket: &Arc<Bucket>,
    upload: &Arc<Upload>,
    number: i32,
    body: Body,
) -> S3Result<upload::Part> {
    check_number(number)?;
    let mut md5 = Md5::new();
    let mut stream = body.stream();
    while let Some(piece) =
        std::future::poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await
    {
        md5.update(piece.map_err(|error| Refusal::Body(error.to_string()))?);
    }
    let checksums = match upload.facts.rule {
        Some(rule) => checksum::of_body(rule.algorithm, &body).await?,
        None => Checksums::default(),
    };
    let md5 = md5.finalize().into();
    let part = upload::Part { body, md5, modified_us: clock::now_us(), checksums };
    front.account.add_part(bucket, upload, number, part.clone()).await?;
    Ok(part)
}

pub(super) async fn complete(
    front: &Front,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    let input = request.input;
    let bucket = front.account.bucket(&input.bucket)?;
    let parts = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
    let named: Option<Vec<_>> = parts
        .iter()
        .map(|part| Some((part.part_number?, part.e_tag.as_ref()?.value().to_owned())))
        .collect();
    let named = named.ok_or_else(|| s3_error!(MalformedXML))?;
    let upload = match find(front, &input.bucket, &input.key, &input.upload_id) {
        Ok((_, upload)) => upload,
        Err(missing) => {
            let object = completed_before(&bucket, &input.key, &named).ok_or(missing)?;
            return Ok(S3Response::new(completed(input.bucket, input.key, &object)));
        }
    };
    let joined = upload.join(&named)?;
    check_parts(&parts, &joined)?;
    if input.mpu_object_size.is_some_and(|size| size as u64 != joined.body.length()) {
        return Err(s3_error!(InvalidRequest, "the size announced is not that of the parts"));
    }
    let promised = checksums_in!(input);
    let kind = input.checksum_type.as_ref();
    let sums = &joined.part_checksums;
    let rule = upload.facts.rule;
    let computed = checksum::of_parts(rule, &promised, kind, &joined.body, sums).await?;
    let (checksums, part_checksums) = match computed {
        None => (None, Vec::new()),
        Some((rule, whole)) => {
            let of_part = |part: &Checksums| part.of(rule.algorithm).map(str::to_owned);
            (Some(Box::new(whole)), sums.iter().filter_map(of_part).collect())
        }
    };
    let part_bytes = joined.part_bytes;
    let about = About { part_bytes, part_checksums, checksums, ..upload.facts.about.clone() };
    let draft = Draft { body: joined.body, etag: joined.etag, about };
    let precondition = precondition(input.if_match, input.if_none_match);
    let done = front.account.complete_upload(&bucket, &upload, draft, &precondition).await;
    let object = match done {
        // Another client was first with the same parts.
        Err(Refusal::NoSuchUpload) => {
            completed_before(&bucket, &input.key, &named).ok_or(Refusal::NoSuchUpload)?
        }
        done => done?,
    };
    Ok(S3Response::new(completed(input.bucket, input.key, &object)))
}

fn completed(bucket: String, key: String, object: &Object) -> CompleteMultipartUploadOutput {
    let shown = object.about.checksums.as_deref().map(checksums_out).unwrap_or_default();
    with_checksums!(shown => CompleteMultipartUploadOutput {
        e_tag: Some(etag(&object.etag)),
        location: Some(format!("/{bucket}/{key}")),
        version_id: shown_version(object),
        bucket: Some(bucket),
        key: Some(key),
        checksum_type: shown.checksum_type,
        ..Default::default()
    })
}

/// Returns the object that these parts have already become, if the client did not receive the
/// answer.
fn completed_before(bucket: &Bucket, key: &str, named: &[(i32, String)]) -> Option<Arc<Object>> {
    let current = bucket.index().current(key).cloned()?;
    let tags: Option<Vec<_>> = named.iter().map(|(_, etag)| upload::digest(etag)).collect();
    (*current.etag == *upload::joined_etag(&tags?)).then_some(current)
}

/// Refuses parts that are too small, and parts for which the client sends another checksum.
fn check_parts(named: &[CompletedPart], joined: &upload::Completed) -> S3Result<()> {
    let but_last = &joined.part_bytes[..joined.part_bytes.len() - 1];
    if but_last.iter().any(|bytes| *bytes < PART_BYTES_MIN) {
        return Err(s3_error!(EntityTooSmall, "a part has less than {PART_BYTES_MIN} bytes"));
    }
    for (named, found) in named.iter().zip(&joined.part_checksums) {
        let promised = Checksums {
            crc32: named.checksum_crc32.clone(),
            crc32c: named.checksum_crc32c.clone(),
            crc64nvme: named.checksum_crc64nvme.clone(),
            sha1: named.checksum_sha1.clone(),
            sha256: named.checksum_sha256.clone(),
            is_composite: false,
        };
        let differs =
            |algorithm| promised.of(algorithm).is_some_and(|p| found.of(algorithm) != Some(p));
        if Algorithm::ALL.into_iter().any(differs) {
            return Err(s3_error!(InvalidPart, "a part's checksum is not the one announced"));
        }
    }
    Ok(())
}

pub(super) async fn abort(
    front: &Front,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let input = request.input;
    let (bucket, upload) = find(front, &input.bucket, &input.key, &input.upload_id)?;
    front.account.abort_upload(&bucket, &upload).await?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

pub(super) async fn list_parts(
    front: &Front,
    request: S3Request<ListPartsInput>,
) -> S3Result<S3Response<ListPartsOutput>> {
    let input = request.input;
    let (_, upload) = find(front, &input.bucket, &input.key, &input.upload_id)?;
    let limit = count(input.max_parts, 1000)?.min(1000);
    let marker = input.part_number_marker.unwrap_or(0);
    let known = upload.parts();
    let mut parts: Vec<_> = known
        .range(marker.saturating_add(1)..)
        .take(limit + 1)
        .map(|(number, part)| {
            let shown = checksums_out(&part.checksums);
            with_checksums!(shown => Part {
                part_number: Some(*number),
                e_tag: Some(etag(&hex(&part.md5))),
                last_modified: Some(timestamp(part.modified_us)),
                size: Some(part.body.length() as i64),
            })
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
        checksum_algorithm: upload.facts.rule.map(shown_algorithm),
        checksum_type: upload.facts.rule.map(|rule| shown_type(rule.is_composite)),
        owner: Some(owner()),
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
        // After every upload of that key, because IDs are hexadecimal digits.
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
        },
        |upload| Some(upload.clone()),
    );
    let asked = [&input.prefix, &input.delimiter, &input.key_marker].into_iter().flatten();
    let keys = page.entries.iter().map(|entry| match entry {
        Entry::Prefix(prefix) => &**prefix,
        Entry::Key(_, upload) => &*upload.facts.key,
    });
    let names = keys.chain(asked.map(String::as_str));
    let writer = Writer::new(input.encoding_type.as_ref(), names);
    let mut output = ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        encoding_type: writer.encoding(),
        key_marker: input.key_marker.map(|key| writer.write(&key)),
        upload_id_marker: input.upload_id_marker,
        max_uploads: Some(input.max_uploads.unwrap_or(1000)),
        is_truncated: Some(page.is_truncated),
        prefix: input.prefix.map(|prefix| writer.write(&prefix)),
        delimiter: input.delimiter.map(|delimiter| writer.write(&delimiter)),
        ..Default::default()
    };
    for entry in page.entries {
        match entry {
            Entry::Prefix(prefix) => {
                let prefix = CommonPrefix { prefix: Some(writer.write(&prefix)) };
                output.common_prefixes.get_or_insert_default().push(prefix);
            }
            Entry::Key(_, upload) => {
                output.next_key_marker = Some(writer.write(&upload.facts.key));
                output.next_upload_id_marker = Some(upload.id.to_string());
                output.uploads.get_or_insert_default().push(MultipartUpload {
                    key: Some(writer.write(&upload.facts.key)),
                    upload_id: Some(upload.id.to_string()),
                    initiated: Some(timestamp(upload.facts.started_us)),
                    checksum_algorithm: upload.facts.rule.map(shown_algorithm),
                    checksum_type: upload.facts.rule.map(|rule| shown_type(rule.is_composite)),
                    owner: Some(owner()),
                    ..Default::default()
                });
            }
        }
    }
    Ok(S3Response::new(output))
}
