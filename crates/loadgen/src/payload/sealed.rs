//! Objects that the client encrypts: an envelope, and segments of 64 KiB that are sealed one by one.
//!
//! A stored object has exactly the length that its dataset gives it. What is encrypted is the
//! ordinary payload of an object of the same key and version that is shorter by what envelope and
//! cipher need, so a reader sees whose the bytes are as soon as it has decrypted them. As each segment
//! stands alone, any part of an upload can be made again, and reads need no more than a segment.
//!
//! Each object has a key of its own for its content, in each of its versions. The first segment begins
//! with the envelope, which holds this key wrapped for the object's reader (`envelope.rs`); the rest of
//! it, and every other segment, is a piece that this key seals (`content.rs`). The last segment is as
//! short as the object makes it; one without room for a plaintext is filler only. Filler is random
//! bytes and checked by making it again.
//!
//! All keys and nonces are functions of run and seed. They can be found out by anyone who has the
//! record: this is test data, made to cost what encryption costs, not secrets.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::{ObjectId, PayloadSpec, fill, random};
use crate::chance::mix64;
use crate::cryptography::{Kind, spend};
use crate::trial::{Cipher, Trial};

mod content;
mod envelope;
mod keys;
mod opener;

pub use content::ContentKey;
pub(crate) use keys::KeySource;
pub use opener::Opener;

use content::{PIECE_BYTES_MIN_MAX, nonce_bytes, piece_bytes};
use envelope::{ENVELOPE_BYTES_MAX, KeyRing, envelope_bytes};

/// The unit of encryption.
pub const SEGMENT_BYTES: usize = 64 << 10;

/// More than any filler has.
const FILLER_BYTES_MAX: usize = ENVELOPE_BYTES_MAX + PIECE_BYTES_MIN_MAX;

/// Page numbers that no object reaches: nonces and filler share no seeds with pages.
const NONCE_PAGES: u64 = 1 << 62;
const FILLER_PAGES: u64 = 1 << 61;

/// Seals and opens the objects of a trial; one value serves all threads.
pub struct SealingKey {
    spec: PayloadSpec,
    cipher: Cipher,
    ring: KeyRing,
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SealingKey")
    }
}

impl SealingKey {
    /// Makes the keys of a run and a seed, with so many users among the readers.
    #[must_use]
    pub fn new(spec: &PayloadSpec, cipher: Cipher, users: u32) -> Self {
        Self { spec: *spec, cipher, ring: KeyRing::new(spec, cipher, users) }
    }

    /// Returns the keys of a trial whose objects are encrypted.
    #[must_use]
    pub fn of_trial(trial: &Trial) -> Option<Arc<Self>> {
        let cipher = trial.dataset.encryption?;
        let users = trial.open_script.as_ref().map_or(0, |script| script.subjects.users());
        Some(Arc::new(Self::new(&PayloadSpec::of_trial(trial), cipher, users)))
    }

    /// Returns the key that the content of an object has.
    #[must_use]
    pub fn content_key(&self, stored: &ObjectId) -> ContentKey {
        self.ring.content_key(stored)
    }

    /// Returns where in a segment of so many bytes the sealed piece has its room.
    #[inline]
    fn room(&self, stored: &ObjectId, segment: u64, stored_bytes: usize) -> Range<usize> {
        let start = if segment == 0 { envelope_bytes(self.cipher, stored.reader) } else { 0 };
        start.min(stored_bytes)..stored_bytes
    }

    /// Returns where in a segment of so many bytes the plaintext stands, if it has room for any.
    #[inline]
    fn plain_range(
        &self,
        stored: &ObjectId,
        segment: u64,
        stored_bytes: usize,
    ) -> Option<Range<usize>> {
        let room = self.room(stored, segment, stored_bytes);
        let plain = content::plain_range(self.cipher, room.len())?;
        Some(room.start + plain.start..room.start + plain.end)
    }

    fn plain_bytes(&self, stored: &ObjectId, segment: u64, stored_bytes: usize) -> u64 {
        self.plain_range(stored, segment, stored_bytes).map_or(0, |range| range.len() as u64)
    }

    /// Returns where in the plaintext a segment begins.
    fn plain_start(&self, stored: &ObjectId, segment: u64) -> u64 {
        match segment {
            0 => 0,
            later => {
                self.plain_bytes(stored, 0, SEGMENT_BYTES)
                    + (later - 1) * self.plain_bytes(stored, 1, SEGMENT_BYTES)
            }
        }
    }

    /// Returns the object that is inside a stored object.
    #[must_use]
    pub fn plain_object(&self, stored: &ObjectId) -> ObjectId {
        let last = stored.length / SEGMENT_BYTES as u64;
        let last_bytes = (stored.length % SEGMENT_BYTES as u64) as usize;
        let length = self.plain_start(stored, last) + self.plain_bytes(stored, last, last_bytes);
        ObjectId { length, ..*stored }
    }

    fn write_nonce(&self, stored: &ObjectId, segment: u64, out: &mut [u8]) {
        let first = self.spec.page_seed(stored, NONCE_PAGES + segment);
        let bytes = (u128::from(mix64(first)) << 64 | u128::from(first)).to_le_bytes();
        let nonce_bytes = nonce_bytes(self.cipher);
        out[..nonce_bytes].copy_from_slice(&bytes[..nonce_bytes]);
    }

    /// Returns what of a segment is filler.
    fn filler_range(&self, stored: &ObjectId, segment: u64, stored_bytes: usize) -> Range<usize> {
        if self.plain_range(stored, segment, stored_bytes).is_none() {
            return 0..stored_bytes;
        }
        let room = self.room(stored, segment, stored_bytes);
        room.start + piece_bytes(self.cipher, room.len())..stored_bytes
    }

    fn fill_rest(&self, stored: &ObjectId, segment: u64, out: &mut [u8]) {
        if !out.is_empty() {
            // Beside a plaintext filler has no version, so that an old one is seen as old.
            let has_plaintext = self.plain_object(stored).length > 0;
            let version = if has_plaintext { 0 } else { stored.version };
            let object = ObjectId { version, ..*stored };
            random::fill(self.spec.page_seed(&object, FILLER_PAGES + segment), out);
        }
    }

    fn is_filler(&self, stored: &ObjectId, segment: u64, bytes: &[u8]) -> bool {
        let mut expected = [0; FILLER_BYTES_MAX];
        let expected = &mut expected[..bytes.len()];
        self.fill_rest(stored, segment, expected);
        bytes == expected
    }
}

/// Returns the stored bytes of one segment of an object.
fn segment_bytes(length: u64, segment: u64) -> usize {
    let left = length.saturating_sub(segment * SEGMENT_BYTES as u64);
    usize::try_from(left).unwrap_or(SEGMENT_BYTES).min(SEGMENT_BYTES)
}

/// Makes stored bytes from anywhere on. It remembers the last segment that it made a part of, as
/// the kernel often takes less of it than it is offered, and the keys of the last object.
#[derive(Debug)]
pub struct Sealer {
    key: Arc<SealingKey>,
    scratch: Vec<u8>,
    held: Option<(ObjectId, u64)>,
    last: Option<Sealed>,
}

/// An object that is being made: the key of its content, and its envelope once it was needed.
#[derive(Debug)]
struct Sealed {
    stored: ObjectId,
    content: ContentKey,
    envelope: Option<Vec<u8>>,
}

impl Sealer {
    /// Makes a sealer; one serves all clients of a thread.
    #[must_use]
    pub fn new(key: &Arc<SealingKey>) -> Self {
        Self { key: Arc::clone(key), scratch: Vec::new(), held: None, last: None }
    }

    /// Writes the bytes of a stored object from `offset` on.
    pub fn write(&mut self, stored: &ObjectId, offset: u64, mut out: &mut [u8]) {
        let mut at = offset;
        while !out.is_empty() {
            let segment = at / SEGMENT_BYTES as u64;
            let inside = (at % SEGMENT_BYTES as u64) as usize;
            let whole_bytes = segment_bytes(stored.length, segment);
            let (piece, rest) = out.split_at_mut((whole_bytes - inside).min(out.len()));
            if piece.len() == whole_bytes {
                self.make_segment(stored, segment, piece);
            } else {
                self.hold(stored, segment, whole_bytes);
                piece.copy_from_slice(&self.scratch[inside..inside + piece.len()]);
            }
            at += piece.len() as u64;
            out = rest;
        }
    }

    fn hold(&mut self, stored: &ObjectId, segment: u64, whole_bytes: usize) {
        if self.held != Some((*stored, segment)) {
            let mut scratch = std::mem::take(&mut self.scratch);
            scratch.resize(SEGMENT_BYTES, 0);
            self.make_segment(stored, segment, &mut scratch[..whole_bytes]);
            self.scratch = scratch;
            self.held = Some((*stored, segment));
        }
    }

    /// Makes a whole segment.
    fn make_segment(&mut self, stored: &ObjectId, segment: u64, out: &mut [u8]) {
        let key = Arc::clone(&self.key);
        if let Some(plain) = key.plain_range(stored, segment, out.len()) {
            let first = key.plain_start(stored, segment);
            fill(&key.spec, &key.plain_object(stored), first, &mut out[plain]);
            let room = key.room(stored, segment, out.len());
            key.write_nonce(stored, segment, &mut out[room.clone()]);
            let sealed = self.sealed(stored);
            spend(Kind::Encryption, || sealed.content.seal(&mut out[room.clone()]));
            if segment == 0 {
                let wrap = || spend(Kind::Wrapping, || key.ring.wrap(stored));
                let envelope = sealed.envelope.get_or_insert_with(wrap);
                out[..room.start].copy_from_slice(envelope);
            }
        }
        let filler = key.filler_range(stored, segment, out.len());
        key.fill_rest(stored, segment, &mut out[filler]);
    }

    fn sealed(&mut self, stored: &ObjectId) -> &mut Sealed {
        let key = &self.key;
        let make = || Sealed {
            stored: *stored,
            content: spend(Kind::Wrapping, || key.content_key(stored)),
            envelope: None,
        };
        self.last.take_if(|last| last.stored != *stored);
        self.last.get_or_insert_with(make)
    }
}
