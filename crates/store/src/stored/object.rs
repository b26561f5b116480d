//! One version of an object: its bytes and its metadata.

use std::sync::Arc;

use s3s::dto::Checksum;
use serde::{Deserialize, Serialize};

use crate::budget::Reservation;
use crate::error::Refusal;
use crate::stored::body::Body;

/// Bytes charged for an object's entry in the index, in addition to its key and metadata.
const RECORD_BYTES: usize = 512;

/// One stored version, which is immutable.
#[derive(Debug)]
pub(crate) struct Object {
    /// Number in the order of all writes, and ID of the version.
    pub(crate) id: u64,
    /// Whether it was written while the bucket kept no versions.
    pub(crate) is_null_version: bool,
    pub(crate) body: Body,
    /// Without quotes.
    pub(crate) etag: Box<str>,
    pub(crate) modified_us: u64,
    pub(crate) about: About,
    pub(crate) _record: Reservation,
}

/// An object to be written, which has no number in the order of writes yet.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) body: Body,
    pub(crate) etag: Box<str>,
    pub(crate) about: About,
}

/// The client's description of an object; stored unchanged in the sidecar.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct About {
    pub(crate) content_type: Option<Arc<str>>,
    /// Headers that are stored and returned: cache-control, content-encoding and the like.
    pub(crate) headers: Vec<(String, String)>,
    /// User metadata, names in lower case and without the protocol's prefix.
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) checksums: Option<Box<Checksums>>,
    /// Sizes of the parts of a multipart upload.
    pub(crate) part_bytes: Vec<u64>,
    /// Checksums of those parts, by the algorithm of the object's own; empty without one.
    pub(crate) part_checksums: Vec<String>,
    pub(crate) form: Form,
    pub(crate) lock: Option<Lock>,
}

/// A lock that keeps a version from being deleted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Lock {
    pub(crate) retention: Option<Retention>,
    /// Whether it has a legal hold.
    pub(crate) is_held: bool,
}

/// Until when a version is locked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Retention {
    /// Whether a client with the right to bypass can lift it; a compliance retention cannot be
    /// lifted.
    pub(crate) is_governance: bool,
    pub(crate) until_us: u64,
}

impl Retention {
    pub(crate) fn is_in_force(self, now_us: u64, bypasses_governance: bool) -> bool {
        now_us < self.until_us && !(self.is_governance && bypasses_governance)
    }
}

impl Lock {
    pub(crate) fn is_in_force(&self, now_us: u64, bypasses_governance: bool) -> bool {
        let is_retained = |retention: Retention| retention.is_in_force(now_us, bypasses_governance);
        self.is_held || self.retention.is_some_and(is_retained)
    }
}

/// Kind of object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Form {
    #[default]
    Plain,
    /// The record of a delete in a bucket that keeps versions.
    DeleteMarker,
    /// Swift: composed of the listed segments, which are looked up when it is read.
    StaticLarge(Vec<Segment>),
}

/// A segment of a static large object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Segment {
    pub(crate) container: String,
    pub(crate) object: String,
    pub(crate) etag: String,
    pub(crate) bytes: u64,
}

/// Checksums that the client requested, in base64 as in S3.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Checksums {
    pub(crate) crc32: Option<String>,
    pub(crate) crc32c: Option<String>,
    pub(crate) crc64nvme: Option<String>,
    pub(crate) sha1: Option<String>,
    pub(crate) sha256: Option<String>,
    /// Whether it is computed over the parts' checksums instead of the bytes.
    pub(crate) is_composite: bool,
}

/// A checksum algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64nvme,
    Sha1,
    Sha256,
}

/// The checksum with which a multipart upload was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChecksumRule {
    pub(crate) algorithm: Algorithm,
    /// Whether it is computed over the parts' checksums instead of the bytes.
    pub(crate) is_composite: bool,
}

impl Algorithm {
    pub(crate) const ALL: [Algorithm; 5] = [
        Algorithm::Crc32,
        Algorithm::Crc32c,
        Algorithm::Crc64nvme,
        Algorithm::Sha1,
        Algorithm::Sha256,
    ];

    /// Returns the name in headers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Algorithm::Crc32 => "crc32",
            Algorithm::Crc32c => "crc32c",
            Algorithm::Crc64nvme => "crc64nvme",
            Algorithm::Sha1 => "sha1",
            Algorithm::Sha256 => "sha256",
        }
    }
}

impl From<Checksum> for Checksums {
    fn from(checksum: Checksum) -> Checksums {
        Checksums {
            crc32: checksum.checksum_crc32,
            crc32c: checksum.checksum_crc32c,
            crc64nvme: checksum.checksum_crc64nvme,
            sha1: checksum.checksum_sha1,
            sha256: checksum.checksum_sha256,
            is_composite: false,
        }
    }
}

impl Checksums {
    pub(crate) fn of(&self, algorithm: Algorithm) -> Option<&str> {
        match algorithm {
            Algorithm::Crc32 => self.crc32.as_deref(),
            Algorithm::Crc32c => self.crc32c.as_deref(),
            Algorithm::Crc64nvme => self.crc64nvme.as_deref(),
            Algorithm::Sha1 => self.sha1.as_deref(),
            Algorithm::Sha256 => self.sha256.as_deref(),
        }
    }

    /// Returns checksums with a single value.
    pub(crate) fn one(rule: ChecksumRule, value: String) -> Checksums {
        let mut checksums = Checksums { is_composite: rule.is_composite, ..Checksums::default() };
        let slot = match rule.algorithm {
            Algorithm::Crc32 => &mut checksums.crc32,
            Algorithm::Crc32c => &mut checksums.crc32c,
            Algorithm::Crc64nvme => &mut checksums.crc64nvme,
            Algorithm::Sha1 => &mut checksums.sha1,
            Algorithm::Sha256 => &mut checksums.sha256,
        };
        *slot = Some(value);
        checksums
    }

    /// Returns this, boxed, or `None` when no checksum is set.
    pub(crate) fn into_option(self) -> Option<Box<Checksums>> {
        (self != Checksums { is_composite: self.is_composite, ..Checksums::default() })
            .then(|| Box::new(self))
    }
}

/// Refuses a text that cannot be the ID of any version.
pub(crate) fn check_version_id(text: &str) -> Result<(), Refusal> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    match text == "null" || (text.len() == 16 && text.bytes().all(is_digit)) {
        true => Ok(()),
        false => Err(Refusal::NoVersionName),
    }
}

impl Object {
    /// Returns the version's ID in the format of the APIs.
    pub(crate) fn version_id(&self) -> String {
        if self.is_null_version { "null".to_owned() } else { format!("{:016x}", self.id) }
    }

    /// Returns the number of bytes that a reader gets, without looking up segments.
    pub(crate) fn length(&self) -> u64 {
        match &self.about.form {
            Form::StaticLarge(segments) => segments.iter().map(|segment| segment.bytes).sum(),
            _ => self.body.length(),
        }
    }

    pub(crate) fn is_delete_marker(&self) -> bool {
        self.about.form == Form::DeleteMarker
    }

    /// Returns the content type, or the default of S3.
    pub(crate) fn content_type(&self) -> &str {
        self.about.content_type.as_deref().unwrap_or("binary/octet-stream")
    }
}

impl About {
    /// Returns the bytes to reserve for the index's record of an object with this key.
    pub(crate) fn record_bytes(&self, key: &str) -> u64 {
        let pairs = self.headers.iter().chain(&self.metadata);
        let text: usize = pairs.map(|(name, value)| name.len() + value.len() + 48).sum();
        let form = match &self.form {
            Form::StaticLarge(segments) => segments
                .iter()
                .map(|segment| segment.container.len() + segment.object.len() + 160)
                .sum(),
            Form::Plain | Form::DeleteMarker => 0,
        };
        let checksums: usize = self.part_checksums.iter().map(|text| text.len() + 24).sum();
        let parts = self.part_bytes.len() * 8 + checksums;
        let content_type = self.content_type.as_ref().map_or(0, |text| text.len());
        (RECORD_BYTES + key.len() + content_type + text + form + parts) as u64
    }
}
