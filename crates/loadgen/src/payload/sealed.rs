//! Objects that the client encrypts: an envelope, and segments of 64 KiB, each encrypted
//! separately.
//!
//! A stored object has exactly the length that its dataset defines. The plaintext is the ordinary
//! payload of an object of the same key and version, shorter by the overhead of envelope and
//! cipher, so a reader can check the identity of the bytes once they are decrypted. Segments are
//! independent, so any part of an upload can be generated again, and a read needs no more than a
//! segment of memory.
//!
//! Each version of each object has its own content key. The first segment begins with the envelope,
//! which contains this key, wrapped for the object's reader (`envelope.rs`). The rest of the first
//! segment, and every other segment, is a piece encrypted with the content key (`content.rs`). The
//! last segment may be shorter; one without room for plaintext consists of filler. Filler is random
//! bytes, checked by generating it again.
//!
//! All keys and nonces are functions of run and seed, so anyone who has the record can derive them.
//! This is test data that costs as much as encryption does; it contains no secrets.

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

/// Size of a segment, the unit of encryption.
pub const SEGMENT_BYTES: usize = 64 << 10;

/// An upper bound for the length of filler.
const FILLER_BYTES_MAX: usize = ENVELOPE_BYTES_MAX + PIECE_BYTES_MIN_MAX;

/// Page numbers that no object reaches, so that nonces and filler share no seeds with pages.
const NONCE_PAGES: u64 = 1 << 62;
const FILLER_PAGES: u64 = 1 << 61;

/// Encrypts and decrypts the objects of a trial; one value serves all threads.
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
    /// Creates the keys for a run and a seed, with this many users among the readers.
    #[must_use]
    pub fn new(spec: &PayloadSpec, cipher: Cipher, users: u32) -> Self {
        Self { spec: *spec, cipher, ring: KeyRing::new(spec, cipher, users) }
    }

    /// Returns the keys of a trial that encrypts objects.
    #[must_use]
    pub fn of_trial(trial: &Trial) -> Option<Arc<Self>> {
        let cipher = trial.dataset.encryption?;
        let users = trial.open_script.as_ref().map_or(0, |script| script.subjects.users());
        Some(Arc::new(Self::new(&PayloadSpec::of_trial(trial), cipher, users)))
    }

    /// Returns the content key of an object.
    #[must_use]
    pub fn content_key(&self, stored: &ObjectId) -> ContentKey {
        self.ring.content_key(stored)
    }

    /// Returns the range in a segment of this length that the encrypted piece may use.
    #[inline]
    fn room(&self, stored: &ObjectId, segment: u64, stored_bytes: usize) -> Range<usize> {
        let start = if segment == 0 { envelope_bytes(self.cipher, stored.reader) } else { 0 };
        start.min(stored_bytes)..stored_bytes
    }

    /// Returns the range of the plaintext in a segment of this length, if it has room for any.
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

    /// Returns the offset in the plaintext at which a segment begins.
    fn plain_start(&self, stored: &ObjectId, segment: u64) -> u64 {
        match segment {
            0 => 0,
            later => {
                self.plain_bytes(stored, 0, SEGMENT_BYTES)
                    + (later - 1) * self.plain_bytes(stored, 1, SEGMENT_BYTES)
            }
        }
    }

    /// Returns the plaintext object inside a stored object.
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

    /// Returns the range of a segment that is filler.
    fn filler_range(&self, stored: &ObjectId, segment: u64, stored_bytes: usize) -> Range<usize> {
        if self.plain_range(stored, segment, stored_bytes).is_none() {
            return 0..stored_bytes;
        }
        let room = self.room(stored, segment, stored_bytes);
        room.start + piece_bytes(self.cipher, room.len())..stored_bytes
    }

    fn fill_rest(&self, stored: &ObjectId, segment: u64, out: &mut [u8]) {
        if !out.is_empty() {
            // Next to plaintext, filler has no version, so that the plaintext decides whether an
            // object is stale.
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

/// Returns the length of one stored segment of an object.
fn segment_bytes(length: u64, segment: u64) -> usize {
    let left = length.saturating_sub(segment * SEGMENT_BYTES as u64);
    usize::try_from(left).unwrap_or(SEGMENT_BYTES).min(SEGMENT_BYTES)
}

/// Generates stored bytes from any offset. It remembers the last segment of which it generated a
/// part, because the kernel often accepts less than it is offered, and the keys of the last object.
#[derive(Debug)]
pub struct Sealer {
    key: Arc<SealingKey>,
    scratch: Vec<u8>,
    held: Option<(ObjectId, u64)>,
    last: Option<Sealed>,
}

/// An object being generated: its content key, and its envelope once that was needed.
#[derive(Debug)]
struct Sealed {
    stored: ObjectId,
    content: ContentKey,
    envelope: Option<Vec<u8>>,
}

impl Sealer {
    /// Creates a sealer; one serves all clients of a thread.
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

    /// Generates a whole segment.
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
