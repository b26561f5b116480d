//! Between the types of S3 and those of the store.

use s3s::checksum::ChecksumHasher;
use s3s::crypto::Checksum as _;
use s3s::dto::{Checksum, ETag, ETagCondition, Metadata, ObjectCannedACL, Tag, Timestamp};
use s3s::{S3Error, S3Result, TrailingHeaders, s3_error};

use crate::clock;
use crate::index::{EtagRule, Precondition};
use crate::object::{About, Checksums, Object};

/// The most bytes that one PUT or one part may have.
pub(super) const UPLOAD_BYTES_MAX: u64 = 5 << 30;

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

/// What a read asks of the object's state.
pub(super) struct ReadCondition {
    pub(super) if_match: Option<ETagCondition>,
    pub(super) if_none_match: Option<ETagCondition>,
    pub(super) if_modified_since: Option<Timestamp>,
    pub(super) if_unmodified_since: Option<Timestamp>,
}

impl ReadCondition {
    /// Refuses with 412 or 304, in the order that HTTP gives.
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
        if is_unchanged { Err(s3_error!(NotModified)) } else { Ok(()) }
    }
}

pub(super) fn metadata(pairs: &[(String, String)]) -> Option<Metadata> {
    (!pairs.is_empty()).then(|| pairs.iter().cloned().collect())
}

/// Headers that S3 stores with an object, as a client gave them.
#[derive(Default)]
pub(super) struct Described {
    pub(super) content_type: Option<String>,
    pub(super) cache_control: Option<String>,
    pub(super) content_disposition: Option<String>,
    pub(super) content_encoding: Option<String>,
    pub(super) content_language: Option<String>,
    pub(super) expires: Option<Timestamp>,
    pub(super) metadata: Option<Metadata>,
    pub(super) tagging: Option<String>,
    pub(super) acl: Option<ObjectCannedACL>,
}

impl Described {
    pub(super) fn into_about(self) -> S3Result<About> {
        if self.acl.is_some_and(|acl| acl.as_str() != ObjectCannedACL::PRIVATE) {
            return Err(s3_error!(NotImplemented, "this store keeps every object private"));
        }
        let mut headers = Vec::new();
        let mut keep = |name: &str, value: Option<String>| {
            headers.extend(value.map(|value| (name.to_owned(), value)));
        };
        keep("cache-control", self.cache_control);
        keep("content-disposition", self.content_disposition);
        // "aws-chunked" is how the body travels, not what it is.
        keep("content-encoding", self.content_encoding.and_then(without_aws_chunked));
        keep("content-language", self.content_language);
        let expires = self.expires.map(|at| time::OffsetDateTime::from(at).unix_timestamp());
        keep("expires", expires.map(|at| clock::format_http_date(at.max(0) as u64 * 1_000_000)));
        Ok(About {
            content_type: self.content_type.map(Into::into),
            headers,
            metadata: self.metadata.into_iter().flatten().collect(),
            tags: self.tagging.map(|text| parse_tags(&text)).unwrap_or_default(),
            ..About::default()
        })
    }
}

fn without_aws_chunked(encoding: String) -> Option<String> {
    let rest: Vec<_> =
        encoding.split(',').map(str::trim).filter(|part| *part != "aws-chunked").collect();
    (!rest.is_empty()).then(|| rest.join(","))
}

/// Reads `a=b&c=d`.
fn parse_tags(text: &str) -> Vec<(String, String)> {
    let decode = |part: &str| {
        let spaced = part.replace('+', " ");
        percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
    };
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}

pub(super) fn tags_in(tags: Vec<Tag>) -> Vec<(String, String)> {
    tags.into_iter()
        .map(|tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default()))
        .collect()
}

pub(super) fn tags_out(tags: &[(String, String)]) -> Vec<Tag> {
    tags.iter()
        .map(|(key, value)| Tag { key: Some(key.clone()), value: Some(value.clone()) })
        .collect()
}

/// Returns the stored header of that name.
pub(super) fn header(about: &About, name: &str) -> Option<String> {
    about.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
}

/// The digests that a client sent with a body, to be compared with the body's own.
pub(super) struct Promise {
    pub(super) md5: Option<String>,
    pub(super) checksums: Checksums,
    /// Of the form `CRC32`: the algorithm that is named, its value perhaps in the trailer.
    pub(super) algorithm: Option<String>,
    pub(super) trailer: Option<TrailingHeaders>,
}

impl Promise {
    /// Returns a hasher for what was promised.
    pub(super) fn hasher(&self, trailer_names: Option<&str>) -> ChecksumHasher {
        let trailer_names = trailer_names.unwrap_or_default().to_ascii_lowercase();
        let algorithm = self.algorithm.as_deref().unwrap_or_default();
        let wants = |given: bool, name: &str| {
            given
                || algorithm.eq_ignore_ascii_case(name)
                || trailer_names
                    .split(',')
                    .filter_map(|known| known.trim().strip_prefix("x-amz-checksum-"))
                    .any(|known| known.eq_ignore_ascii_case(name))
        };
        let given = &self.checksums;
        ChecksumHasher {
            crc32: wants(given.crc32.is_some(), "CRC32").then(s3s::crypto::Crc32::new),
            crc32c: wants(given.crc32c.is_some(), "CRC32C").then(s3s::crypto::Crc32c::new),
            crc64nvme: wants(given.crc64nvme.is_some(), "CRC64NVME")
                .then(s3s::crypto::Crc64Nvme::new),
            sha1: wants(given.sha1.is_some(), "SHA1").then(s3s::crypto::Sha1::new),
            sha256: wants(given.sha256.is_some(), "SHA256").then(s3s::crypto::Sha256::new),
        }
    }

    /// Refuses a body that is not what was promised.
    pub(super) fn check(self, md5: &[u8; 16], found: &Checksums) -> S3Result<()> {
        if let Some(promised) = self.md5 {
            let promised = decode_base64(&promised).filter(|bytes| bytes.len() == 16);
            let promised = promised.ok_or_else(|| s3_error!(InvalidDigest))?;
            if promised != md5 {
                return Err(s3_error!(BadDigest, "the Content-MD5 does not match the body"));
            }
        }
        let trailer = self.trailer.and_then(|trailer| trailer.take());
        let in_trailer = |name: &str| {
            let value = trailer.as_ref()?.get(format!("x-amz-checksum-{name}"))?;
            value.to_str().ok().map(str::to_owned)
        };
        let pairs = [
            ("crc32", &self.checksums.crc32, &found.crc32),
            ("crc32c", &self.checksums.crc32c, &found.crc32c),
            ("crc64nvme", &self.checksums.crc64nvme, &found.crc64nvme),
            ("sha1", &self.checksums.sha1, &found.sha1),
            ("sha256", &self.checksums.sha256, &found.sha256),
        ];
        for (name, promised, found) in pairs {
            let promised = promised.clone().or_else(|| in_trailer(name));
            if promised.is_some() && promised != *found {
                return Err(s3_error!(BadDigest, "the {name} checksum does not match the body"));
            }
        }
        Ok(())
    }
}

pub(super) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).ok()
}

pub(super) fn encode_base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// Returns the checksums as S3 shows them.
pub(super) fn checksums_out(checksums: &Checksums) -> Checksum {
    let mut shown = Checksum::default();
    shown.checksum_crc32.clone_from(&checksums.crc32);
    shown.checksum_crc32c.clone_from(&checksums.crc32c);
    shown.checksum_crc64nvme.clone_from(&checksums.crc64nvme);
    shown.checksum_sha1.clone_from(&checksums.sha1);
    shown.checksum_sha256.clone_from(&checksums.sha256);
    shown
}

/// Turns a number that S3 allows to be negative into a count.
pub(super) fn count(number: Option<i32>, default: i32) -> S3Result<usize> {
    usize::try_from(number.unwrap_or(default))
        .map_err(|_| s3_error!(InvalidArgument, "a count must not be negative"))
}

/// Returns the error of an object that is a delete marker, with the headers S3 adds.
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
