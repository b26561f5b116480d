//! Objects: write, read, metadata, delete.

use std::ops::Range;
use std::sync::Arc;

use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use super::Front;
use super::checksum::{self, Promise, checksums_in, checksums_out, shown_type, with_checksums};
use super::lock;
use super::translate::{
    ReadCondition, described, etag, header, marked_deleted, metadata, precondition, take_in_upload,
    timestamp,
};
use crate::error::Refusal;
use crate::stored::body::Body;
use crate::stored::bucket::Bucket;
use crate::stored::object::{Draft, Object};

pub(super) async fn put(
    front: &Front,
    request: S3Request<PutObjectInput>,
) -> S3Result<S3Response<PutObjectOutput>> {
    let length = body_length(&request.headers, request.input.content_length)?;
    let md5 = header_text(&request.headers, "content-md5").map(str::to_owned);
    let trailer_names = header_text(&request.headers, "x-amz-trailer");
    let input = request.input;
    let promise = Promise {
        md5,
        checksums: checksums_in!(input),
        algorithm: checksum::algorithm(input.checksum_algorithm.as_ref()),
        trailer: request.trailing_headers,
    };
    let described = described!(input);
    let precondition = precondition(input.if_match, input.if_none_match);
    let bucket = front.account.bucket(&input.bucket)?;
    front.account.refuse_early(&bucket, &input.key, &precondition)?;
    let mut about = described.into_about()?;
    let hasher = promise.hasher(trailer_names, None);
    let storage = &front.account.storage;
    let taken = take_in_upload(storage, input.body, length, hasher).await?;
    promise.check(&taken.md5, &taken.checksums)?;
    about.checksums = taken.checksums.clone().into_option();
    let draft = Draft { etag: taken.etag(), body: taken.body, about };
    let object = front.account.put(&bucket, &input.key, draft, &precondition).await?;
    let about_type = object.about.checksums.as_deref().map(|sums| shown_type(sums.is_composite));
    let checksums = checksums_out(&taken.checksums);
    Ok(S3Response::new(with_checksums!(checksums => PutObjectOutput {
        e_tag: Some(etag(&object.etag)),
        version_id: shown_version(&object),
        checksum_type: about_type,
        ..Default::default()
    })))
}

/// Returns the length of the body itself, without the framing in which it is sent.
pub(super) fn body_length(
    headers: &http::HeaderMap,
    content_length: Option<i64>,
) -> S3Result<Option<u64>> {
    let invalid = || s3_error!(InvalidArgument, "the length of the body is not a number");
    match header_text(headers, "x-amz-decoded-content-length") {
        Some(text) => text.parse().map(Some).map_err(|_| invalid()),
        None => content_length.map(|n| u64::try_from(n).map_err(|_| invalid())).transpose(),
    }
}

pub(super) fn header_text<'h>(headers: &'h http::HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the version's ID if the bucket keeps versions.
pub(super) fn shown_version(object: &Object) -> Option<String> {
    (!object.is_null_version).then(|| object.version_id())
}

/// An object that a read has found.
struct FoundObject {
    object: Arc<Object>,
    body: Body,
    /// The requested range, if not the whole object.
    range: Option<Range<u64>>,
    parts_count: Option<i32>,
}

impl FoundObject {
    /// Returns the number of requested bytes.
    fn length(&self) -> u64 {
        self.range.as_ref().map_or(self.body.length(), |range| range.end - range.start)
    }

    fn content_range(&self) -> Option<String> {
        let (range, length) = (self.range.as_ref()?, self.body.length());
        Some(format!("bytes {}-{}/{length}", range.start, range.end.saturating_sub(1)))
    }

    /// Returns the checksum of the whole object or of the requested part; other ranges have none.
    fn checksum(&self, part_number: Option<i32>) -> Option<Checksum> {
        let about = &self.object.about;
        match (part_number, &self.range) {
            (Some(number), Some(_)) if !about.part_bytes.is_empty() => {
                checksum::of_part(about, usize::try_from(number - 1).ok()?)
            }
            (None, Some(_)) => None,
            _ => about.checksums.as_deref().map(checksums_out),
        }
    }
}

/// The object that a read names.
struct Wanted<'a> {
    bucket: &'a str,
    key: &'a str,
    version_id: Option<&'a str>,
    part_number: Option<i32>,
    range: Option<s3s::dto::Range>,
}

fn find(front: &Front, wanted: &Wanted<'_>, condition: ReadCondition) -> S3Result<FoundObject> {
    let account = &front.account;
    let bucket = account.bucket(wanted.bucket)?;
    let object = account.object(&bucket, wanted.key, wanted.version_id);
    let object = object.map_err(|refusal| missing(&bucket, wanted.key, refusal))?;
    if object.is_delete_marker() {
        return Err(marked_deleted(&object));
    }
    condition.check(&object)?;
    let body = account.content(&object)?;
    let length = body.length();
    let unsatisfiable = || {
        let mut error = s3_error!(InvalidRange);
        let mut headers = http::HeaderMap::new();
        headers.extend(
            format!("bytes */{length}").parse().ok().map(|v| (http::header::CONTENT_RANGE, v)),
        );
        error.set_headers(headers);
        error
    };
    let mut parts_count = None;
    let range = match (wanted.part_number, wanted.range) {
        (Some(_), Some(_)) => {
            return Err(s3_error!(InvalidRequest, "partNumber and Range exclude each other"));
        }
        (None, None) => None,
        (None, Some(range)) => Some(range.check(length).map_err(|_| unsatisfiable())?),
        (Some(number), None) => {
            parts_count = part_count(&object);
            Some(part_range(&object, number, length)?)
        }
    };
    Ok(FoundObject { object, body, range, parts_count })
}

/// Adds to an error the headers that S3 sends for a key with a delete marker.
fn missing(bucket: &Bucket, key: &str, refusal: Refusal) -> S3Error {
    let is_marked = matches!(refusal, Refusal::DeleteMarker);
    let mut error = S3Error::from(refusal);
    if is_marked && let Some(marker) = bucket.index().current(key) {
        let mut marked = marked_deleted(marker);
        marked.set_code(S3ErrorCode::NoSuchKey);
        error = marked;
    }
    error
}

fn part_count(object: &Object) -> Option<i32> {
    let count = object.about.part_bytes.len();
    (count > 0).then_some(count as i32)
}

fn part_range(object: &Object, number: i32, length: u64) -> S3Result<Range<u64>> {
    let parts = &object.about.part_bytes;
    let index = usize::try_from(number - 1).map_err(|_| s3_error!(InvalidArgument))?;
    if parts.is_empty() && index == 0 {
        return Ok(0..length);
    }
    let size = parts.get(index).ok_or_else(|| {
        let code = S3ErrorCode::Custom("InvalidPartNumber".into());
        let mut error = S3Error::with_message(code, format!("the object has no part {number}"));
        error.set_status_code(http::StatusCode::RANGE_NOT_SATISFIABLE);
        error
    })?;
    let start: u64 = parts[..index].iter().sum();
    Ok(start..start + size)
}

/// Finds the object of a GET or HEAD.
macro_rules! find {
    ($front:ident, $input:ident) => {{
        let wanted = Wanted {
            bucket: &$input.bucket,
            key: &$input.key,
            version_id: $input.version_id.as_deref(),
            part_number: $input.part_number,
            range: $input.range,
        };
        let condition = ReadCondition {
            if_match: $input.if_match,
            if_none_match: $input.if_none_match,
            if_modified_since: $input.if_modified_since,
            if_unmodified_since: $input.if_unmodified_since,
        };
        find($front, &wanted, condition)?
    }};
}

/// Builds the common part of the answers to GET and HEAD.
macro_rules! answer {
    ($input:ident, $found:ident => $output:ident { $($fields:tt)* }) => {{
        let (object, about) = (&$found.object, &$found.object.about);
        let checksum = $input.checksum_mode.and_then(|_| $found.checksum($input.part_number));
        let shown = checksum.unwrap_or_default();
        let (mode, until, hold) = lock::shown(about.lock.as_ref());
        with_checksums!(shown => $output {
            accept_ranges: Some("bytes".to_owned()),
            content_length: Some($found.length() as i64),
            content_range: $found.content_range(),
            content_type: Some(object.content_type().to_owned()),
            cache_control: header(about, "cache-control"),
            content_disposition: header(about, "content-disposition"),
            content_encoding: header(about, "content-encoding"),
            content_language: header(about, "content-language"),
            e_tag: Some(etag(&object.etag)),
            expires: expires(object),
            last_modified: Some(timestamp(object.modified_us)),
            metadata: metadata(&about.metadata),
            object_lock_legal_hold_status: hold,
            object_lock_mode: mode,
            object_lock_retain_until_date: until,
            parts_count: $found.parts_count,
            version_id: shown_version(object),
            checksum_type: shown.checksum_type,
            $($fields)*
            ..Default::default()
        })
    }};
}

pub(super) async fn get(
    front: &Front,
    request: S3Request<GetObjectInput>,
) -> S3Result<S3Response<GetObjectOutput>> {
    let input = request.input;
    let found = find!(front, input);
    let body = match &found.range {
        Some(range) => found.body.slice(range.clone()),
        None => found.body.clone(),
    };
    Ok(S3Response::new(answer!(input, found => GetObjectOutput {
        body: Some(StreamingBlob::new(body.stream())),
    })))
}

fn expires(object: &Object) -> Option<Timestamp> {
    Timestamp::parse(TimestampFormat::HttpDate, &header(&object.about, "expires")?).ok()
}

pub(super) async fn head(
    front: &Front,
    request: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    let input = request.input;
    let found = find!(front, input);
    Ok(S3Response::new(answer!(input, found => HeadObjectOutput {})))
}
