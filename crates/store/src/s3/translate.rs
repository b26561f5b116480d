//! Conversions between the types of S3 and those of the store.

use s3s::checksum::ChecksumHasher;
use s3s::dto::{ETag, ETagCondition, Metadata, Owner, StreamingBlob, Timestamp};
use s3s::{S3Error, S3Result, s3_error};

use super::door::OWNER;
use crate::account::Storage;
use crate::account::intake::{Taken, take_in};
use crate::clock;
use crate::error::Refusal;
use crate::stored::index::{EtagRule, Precondition};
use crate::stored::object::{About, Object};

/// Maximum size of one PUT or one part, in bytes.
const UPLOAD_BYTES_MAX: u64 = 5 << 30;

/// Maximum size of names and values of an object's user metadata, in bytes.
const METADATA_BYTES_MAX: usize = 2048;

/// Returns the owner of everything in this store.
pub(super) fn owner() -> Owner {
    Owner { id: Some(OWNER.to_owned()), display_name: Some(OWNER.to_owned()) }
}

pub(super) fn etag(text: &str) -> ETag {
    ETag::Strong(text.to_owned())
}

pub(super) fn timestamp(unix_us: u64) -> Timestamp {
    Timestamp::from(clock::moment(unix_us))
}

pub(super) fn rule(condition: Option<ETagCondition>) -> Option<EtagRule> {
    condition.map(|condition| match condition {
        ETagCondition::Any => EtagRule::Any,
        ETagCondition::ETag(etag) => EtagRule::OneOf(vec![etag.into_value()]),
    })
}

pub(super) fn precondition(
    if_match: Option<ETagCondition>,
    if_none_match: Option<ETagCondition>,
) -> Precondition {
    Precondition { if_match: rule(if_match), if_none_match: rule(if_none_match) }
}

/// The conditions of a read.
pub(super) struct ReadCondition {
    pub(super) if_match: Option<ETagCondition>,
    pub(super) if_none_match: Option<ETagCondition>,
    pub(super) if_modified_since: Option<Timestamp>,
    pub(super) if_unmodified_since: Option<Timestamp>,
}

impl ReadCondition {
    /// Refuses with 412 or 304, in the order of precedence of HTTP.
    pub(super) fn check(self, object: &Object) -> S3Result<()> {
        // HTTP dates have whole seconds.
        let modified = timestamp(object.modified_us / 1_000_000 * 1_000_000);
        if let Some(rule) = rule(self.if_match) {
            if !rule.matches(&object.etag) {
                return Err(s3_error!(PreconditionFailed));
            }
        } else if self.if_unmodified_since.is_some_and(|since| modified > since) {
            return Err(s3_error!(PreconditionFailed));
        }
        let is_unchanged = match rule(self.if_none_match) {
            Some(rule) => rule.matches(&object.etag),
            None => self.if_modified_since.is_some_and(|since| modified <= since),
        };
        if is_unchanged { Err(not_modified(object)) } else { Ok(()) }
    }
}

/// Returns the answer 304, with the headers for caches.
fn not_modified(object: &Object) -> S3Error {
    let mut error = s3_error!(NotModified);
    let mut headers = http::HeaderMap::new();
    let modified = clock::format_http_date(object.modified_us);
    headers.extend(format!("\"{}\"", object.etag).parse().map(|v| (http::header::ETAG, v)));
    headers.extend(modified.parse().map(|v| (http::header::LAST_MODIFIED, v)));
    error.set_headers(headers);
    error
}

pub(super) fn metadata(pairs: &[(String, String)]) -> Option<Metadata> {
    (!pairs.is_empty()).then(|| pairs.iter().cloned().collect())
}

/// Headers that S3 stores with an object, as the client sent them.
#[derive(Default)]
pub(super) struct Described {
    pub(super) content_type: Option<String>,
    pub(super) cache_control: Option<String>,
    pub(super) content_disposition: Option<String>,
    pub(super) content_encoding: Option<String>,
    pub(super) content_language: Option<String>,
    pub(super) expires: Option<Timestamp>,
    pub(super) metadata: Option<Metadata>,
}

/// Returns the description of an object in an input: each type of S3's inputs has its own fields
/// for it.
macro_rules! described {
    ($input:ident) => {
        $crate::s3::translate::Described {
            content_type: $input.content_type,
            cache_control: $input.cache_control,
            content_disposition: $input.content_disposition,
            content_encoding: $input.content_encoding,
            content_language: $input.content_language,
            expires: $input.expires,
            metadata: $input.metadata,
        }
    };
}

pub(super) use described;

impl Described {
    pub(super) fn into_about(self) -> S3Result<About> {
        let metadata: Vec<_> = self.metadata.into_iter().flatten().collect();
        let bytes: usize = metadata.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > METADATA_BYTES_MAX {
            return Err(s3_error!(
                MetadataTooLarge,
                "the metadata has {bytes} bytes, and at most {METADATA_BYTES_MAX} are kept"
            ));
        }
        let mut headers = Vec::new();
        let mut keep = |name: &str, value: Option<String>| {
            headers.extend(value.map(|value| (name.to_owned(), value)));
        };
        keep("cache-control", self.cache_control);
        keep("content-disposition", self.content_disposition);
        // "aws-chunked" is a transfer encoding, not a property of the object.
        keep("content-encoding", self.content_encoding.and_then(without_aws_chunked));
        keep("content-language", self.content_language);
        let expires = self.expires.map(|at| time::OffsetDateTime::from(at).unix_timestamp());
        keep("expires", expires.map(|at| clock::format_http_date(at.max(0) as u64 * 1_000_000)));
        Ok(About {
            content_type: self.content_type.map(Into::into),
            headers,
            metadata,
            ..About::default()
        })
    }
}

fn without_aws_chunked(encoding: String) -> Option<String> {
    let rest: Vec<_> =
        encoding.split(',').map(str::trim).filter(|part| *part != "aws-chunked").collect();
    (!rest.is_empty()).then(|| rest.join(", "))
}

/// Returns the stored header with this name.
pub(super) fn header(about: &About, name: &str) -> Option<String> {
    about.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
}

pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

pub(super) fn encode_base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Receives the body of a put or a part.
pub(super) async fn take_in_upload(
    storage: &Storage,
    body: Option<StreamingBlob>,
    length: Option<u64>,
    hasher: ChecksumHasher,
) -> Result<Taken, Refusal> {
    let body = body.map_or_else(s3s::Body::empty, s3s::Body::from);
    take_in(storage, body, length, UPLOAD_BYTES_MAX, hasher).await
}

/// Converts a number that S3 allows to be negative to a count.
pub(super) fn count(number: Option<i32>, default: i32) -> S3Result<usize> {
    usize::try_from(number.unwrap_or(default))
        .map_err(|_| s3_error!(InvalidArgument, "a count must not be negative"))
}

/// Returns the error for an object that is a delete marker, with the headers that S3 adds.
pub(super) fn marked_deleted(object: &Object) -> S3Error {
    let mut error = s3_error!(MethodNotAllowed);
    let mut headers = http::HeaderMap::new();
    headers.insert("x-amz-delete-marker", http::HeaderValue::from_static("true"));
    if let Ok(value) = http::HeaderValue::from_str(&object.version_id()) {
        headers.insert("x-amz-version-id", value);
    }
    error.set_headers(headers);
    error
}
