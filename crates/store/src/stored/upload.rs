//! Multipart uploads: parts that wait to become an object. They survive a restart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};

use crate::budget::Reservation;
use crate::error::Refusal;
use crate::hex::hex;
use crate::stored::body::Body;
use crate::stored::object::{About, ChecksumRule, Checksums};

/// What a part takes besides its content: itself, the count of its memory, their places in two trees.
const PART_BYTES: usize = 384;

/// What is known of an upload from its beginning; kept on the disk as it is here.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct UploadFacts {
    pub(crate) key: Box<str>,
    pub(crate) started_us: u64,
    pub(crate) about: About,
    /// The checksum that the whole will have; fixed when the upload begins.
    pub(crate) rule: Option<ChecksumRule>,
}

/// An open multipart upload.
#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) number: u64,
    /// The number as clients name it.
    pub(crate) id: Box<str>,
    pub(crate) facts: UploadFacts,
    parts: Mutex<BTreeMap<i32, Part>>,
    /// The memory of what is known of each part.
    part_records: Mutex<BTreeMap<i32, Reservation>>,
    /// It was completed or aborted. Parts arrive side by side; it ends when none is arriving.
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
    /// Returns the bytes to reserve for what is known of the part besides its content.
    pub(crate) fn record_bytes(&self) -> u64 {
        let sums = &self.checksums;
        let texts = [&sums.crc32, &sums.crc32c, &sums.crc64nvme, &sums.sha1, &sums.sha256];
        let texts: usize = texts.into_iter().flatten().map(|text| text.len() + 24).sum();
        let extents = size_of_val(self.body.extents());
        (PART_BYTES + texts + extents) as u64
    }
}

/// The parts of a finished upload, joined.
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

    /// Returns its place in the order of uploads: by key, then by age.
    pub(crate) fn place(&self) -> Box<str> {
        place(&self.facts.key, &self.id)
    }

    pub(crate) fn parts(&self) -> MutexGuard<'_, BTreeMap<i32, Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a part in, for which room was made; returns the one whose place it takes.
    pub(crate) fn insert(&self, number: i32, part: Part, record: Reservation) -> Option<Part> {
        let mut records = self.part_records.lock().unwrap_or_else(PoisonError::into_inner);
        records.insert(number, record);
        self.parts().insert(number, part)
    }

    /// Joins the parts that the client names, each by number and entity tag.
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

/// Returns the entity tag of parts that were joined.
pub(crate) fn joined_etag(digests: &[[u8; 16]]) -> Box<str> {
    format!("{}-{}", hex(&Md5::digest(digests.concat())), digests.len()).into()
}

/// Reads the digest that a part's entity tag is.
pub(crate) fn digest(etag: &str) -> Option<[u8; 16]> {
    u128::from_str_radix(etag, 16).ok().filter(|_| etag.len() == 32).map(u128::to_be_bytes)
}

/// Returns an upload's place in the order of uploads.
pub(crate) fn place(key: &str, id: &str) -> Box<str> {
    // No key holds the character 0: XML has no form for it.
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
