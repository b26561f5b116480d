//! Multipart uploads: parts that will become an object. They survive a restart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};

use crate::budget::Reservation;
use crate::error::Refusal;
use crate::hex::hex;
use crate::stored::body::Body;
use crate::stored::object::{About, ChecksumRule, Checksums};

/// Memory of a part in addition to its content: itself, its reservation, its entries in two trees.
const PART_BYTES: usize = 384;

/// Facts that are fixed when an upload begins; stored unchanged on the disk.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct UploadFacts {
    pub(crate) key: Box<str>,
    pub(crate) started_us: u64,
    pub(crate) about: About,
    /// Checksum rule of the whole object.
    pub(crate) rule: Option<ChecksumRule>,
}

/// An open multipart upload.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) number: u64,
    /// The number in the format of the API.
    pub(crate) id: Box<str>,
    pub(crate) facts: UploadFacts,
    parts: Mutex<BTreeMap<i32, Part>>,
    /// Memory of the records of parts.
    part_records: Mutex<BTreeMap<i32, Reservation>>,
    /// Whether it was completed or aborted. Parts arrive concurrently; the upload ends when none is
    /// arriving.
    pub(crate) is_closed: RwLock<bool>,
    _record: Reservation,
}

/// A part of an upload.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) body: Body,
    pub(crate) md5: [u8; 16],
    pub(crate) modified_us: u64,
    pub(crate) checksums: Checksums,
}

impl Part {
    /// Returns the bytes to reserve for the record of the part.
    pub(crate) fn record_bytes(&self) -> u64 {
        let sums = &self.checksums;
        let texts = [&sums.crc32, &sums.crc32c, &sums.crc64nvme, &sums.sha1, &sums.sha256];
        let texts: usize = texts.into_iter().flatten().map(|text| text.len() + 24).sum();
        let extents = size_of_val(self.body.extents());
        (PART_BYTES + texts + extents) as u64
    }
}

/// The joined parts of a completed upload.
pub(crate) struct Completed {
    pub(crate) body: Body,
    pub(crate) etag: Box<str>,
    pub(crate) part_bytes: Vec<u64>,
    pub(crate) part_checksums: Vec<Checksums>,
}

impl UploadFacts {
    /// Returns the bytes to reserve for the record of the upload.
    pub(crate) fn record_bytes(&self) -> u64 {
        self.about.record_bytes(&self.key)
    }
}

impl Upload {
    pub(crate) fn new(number: u64, facts: UploadFacts, record: Reservation) -> Arc<Upload> {
        Arc::new(Upload {
            number,
            id: format!("{number:016x}").into(),
            facts,
            parts: Mutex::default(),
            part_records: Mutex::default(),
            is_closed: RwLock::default(),
            _record: record,
        })
    }

    /// Returns its position in the order of uploads: by key, then by age.
    pub(crate) fn place(&self) -> Box<str> {
        place(&self.facts.key, &self.id)
    }

    pub(crate) fn parts(&self) -> MutexGuard<'_, BTreeMap<i32, Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a part, for which memory was reserved; returns the part that it replaces.
    pub(crate) fn insert(&self, number: i32, part: Part, record: Reservation) -> Option<Part> {
        let mut records = self.part_records.lock().unwrap_or_else(PoisonError::into_inner);
        records.insert(number, record);
        self.parts().insert(number, part)
    }

    /// Joins the parts that the client lists, each by number and entity tag.
    pub(crate) fn join(&self, named: &[(i32, String)]) -> Result<Completed, Refusal> {
        if named.is_empty() {
            return Err(Refusal::InvalidPart);
        }
        if !named.is_sorted_by(|(before, _), (after, _)| before < after) {
            return Err(Refusal::InvalidPartOrder);
        }
        let parts = self.parts();
        let mut digests = Vec::with_capacity(named.len());
        let mut bodies = Vec::with_capacity(named.len());
        let mut part_checksums = Vec::with_capacity(named.len());
        for (number, etag) in named {
            let part = parts.get(number).ok_or(Refusal::InvalidPart)?;
            if *etag != hex(&part.md5) {
                return Err(Refusal::InvalidPart);
            }
            digests.push(part.md5);
            bodies.push(&part.body);
            part_checksums.push(part.checksums.clone());
        }
        Ok(Completed {
            etag: joined_etag(&digests),
            part_bytes: bodies.iter().map(|body| body.length()).collect(),
            part_checksums,
            body: Body::join(bodies),
        })
    }
}

/// Returns the entity tag of joined parts.
pub(crate) fn joined_etag(digests: &[[u8; 16]]) -> Box<str> {
    format!("{}-{}", hex(&Md5::digest(digests.concat())), digests.len()).into()
}

/// Parses the digest in a part's entity tag.
pub(crate) fn digest(etag: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(etag, 16).ok().filter(|_| etag.len() == 32).map(u128::to_be_bytes)
}

/// Returns an upload's position in the order of uploads.
pub(crate) fn place(key: &str, id: &str) -> Box<str> {
    // No key contains the character 0, because XML cannot represent it.
    format!("{key}\0{id}").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[test]
    fn parts_join_only_in_ascending_order_and_with_the_right_entity_tags() {
        let about = About::default();
        let facts = UploadFacts { key: "k".into(), started_us: 0, about, rule: None };
        let upload = Upload::new(1, facts, Budget::new(1).reserve(0).unwrap());
        let part = Part {
            body: Body::empty(),
            md5: [7; 16],
            modified_us: 0,
            checksums: Checksums::default(),
        };
        upload.parts().insert(1, part.clone());
        upload.parts().insert(2, part);
        let etag = hex(&[7; 16]);
        let named = |numbers: &[i32]| {
            let list: Vec<_> = numbers.iter().map(|number| (*number, etag.clone())).collect();
            upload.join(&list)
        };
        assert!(named(&[1, 2]).unwrap().etag.ends_with("-2"));
        assert!(matches!(named(&[2, 1]), Err(Refusal::InvalidPartOrder)));
        assert!(matches!(named(&[1, 1]), Err(Refusal::InvalidPartOrder)));
        assert!(matches!(named(&[1, 3]), Err(Refusal::InvalidPart)));
        assert!(matches!(named(&[]), Err(Refusal::InvalidPart)));
        assert!(matches!(upload.join(&[(1, "no".into())]), Err(Refusal::InvalidPart)));
    }
}
