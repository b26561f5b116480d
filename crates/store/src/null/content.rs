//! Content of the null server's answers to reads: fixed bytes, or payload that verifies.

use std::fs::File;

use loadstone_loadgen::dataset::Dataset;
use loadstone_loadgen::payload::{self, ObjectId, PayloadSpec};
use loadstone_loadgen::trial::Trial;

use super::poll;
use crate::chance;
use crate::error::StoreError;

/// Length of the fixed bytes; longer objects repeat them.
pub(super) const PATTERN_BYTES: usize = 4 << 20;

/// The source of all bodies.
#[derive(Debug)]
pub(super) enum Content {
    /// Every object has the same size and the same bytes.
    Fixed { bytes: u64, pattern: Vec<u8>, file: File },
    /// Objects of a trial's dataset, generated when they are read.
    Payload { dataset: Box<Dataset>, spec: PayloadSpec, version: u64 },
}

/// An object to read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Object {
    pub(super) bytes: u64,
    key_hash: u64,
}

impl Content {
    pub(super) fn fixed(bytes: u64) -> Result<Content, StoreError> {
        let words = (0..PATTERN_BYTES as u64 / 8).map(|n| chance::bits(0, &[], n));
        let pattern: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let file = poll::memory_file(&pattern)
            .map_err(|source| StoreError::System { action: "make a file in memory", source })?;
        Ok(Content::Fixed { bytes, pattern, file })
    }

    /// Answers reads with the payload that a trial document describes.
    pub(super) fn payload(trial_json: &str) -> Result<Content, StoreError> {
        let trial = Trial::parse(trial_json).map_err(|error| StoreError::Config {
            key: "trial",
            problem: error.to_string(),
            hint: "give the trial document whose objects are to be read",
        })?;
        Ok(Content::Payload {
            dataset: Box::new(Dataset::new(&trial)),
            spec: PayloadSpec::of_trial(&trial),
            version: trial.dataset.version,
        })
    }

    /// Returns the object with a key, or `None` if the dataset has none.
    pub(super) fn object(&self, key: &str, bytes_asked: Option<u64>) -> Option<Object> {
        match self {
            Content::Fixed { bytes, .. } => {
                Some(Object { bytes: bytes_asked.unwrap_or(*bytes), key_hash: 0 })
            }
            Content::Payload { dataset, .. } => {
                let index = dataset.index_of(key)?;
                Some(Object { bytes: dataset.size(index), key_hash: dataset.key_hash(index) })
            }
        }
    }

    /// Returns the default size of objects.
    pub(super) fn usual_bytes(&self) -> Option<u64> {
        match self {
            Content::Fixed { bytes, .. } => Some(*bytes),
            Content::Payload { .. } => None,
        }
    }

    /// Writes the bytes of an object from `offset` on.
    pub(super) fn fill(&self, object: Object, offset: u64, out: &mut [u8]) {
        match self {
            Content::Fixed { pattern, .. } => {
                let mut at = (offset % PATTERN_BYTES as u64) as usize;
                let mut rest = out;
                while !rest.is_empty() {
                    let piece = rest.len().min(PATTERN_BYTES - at);
                    let (now, later) = rest.split_at_mut(piece);
                    now.copy_from_slice(&pattern[at..at + piece]);
                    (rest, at) = (later, 0);
                }
            }
            Content::Payload { spec, version, .. } => {
                let id = ObjectId::new(object.key_hash, *version, object.bytes);
                payload::fill(spec, &id, offset, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_bytes_do_not_depend_on_the_size_of_pieces() {
        let content = Content::fixed(10 << 20).unwrap();
        let object = content.object("any", None).unwrap();
        let mut whole = vec![0; 9 << 20];
        content.fill(object, 0, &mut whole);
        let mut piece = vec![0; 3 << 20];
        content.fill(object, 3_000_001, &mut piece);
        assert_eq!(piece, whole[3_000_001..3_000_001 + piece.len()]);
    }
}
