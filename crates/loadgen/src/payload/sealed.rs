//! Objects that the client encrypts: segments of 64 KiB, each of which is sealed by itself.
//!
//! A stored object has exactly the length that its dataset gives it. What is encrypted is the
//! ordinary payload of an object of the same key and version that is shorter by what the cipher
//! needs, so a reader sees whose the bytes are as soon as it has decrypted them. As each segment
//! stands alone, any part of an upload can be made again, and reads need no more than a segment.
//!
//! | a segment of | begins with | then | then |
//! |---|---|---|---|
//! | aes-256-gcm | nonce (12 bytes) | ciphertext, as long as the plaintext | tag (16), no further data authenticated |
//! | aes-256-cbc | IV (16 bytes) | ciphertext of the plaintext and 16 bytes of PKCS#7 padding | filler up to 15 bytes, so that the ciphertext is whole blocks |
//!
//! The last segment is as short as the object makes it; one below 28 bytes (GCM) or 32 (CBC) has
//! no room and is filler only. Filler is random bytes and checked by making it again.
//!
//! The key is SHA-256 of `loadstone test key`, the run (16 bytes) and the seed (8, little-endian);
//! nonces are a function of seed, run, object, version and segment. All of it can be found out by
//! anyone who has the record: this is test data, made to cost what encryption costs, not secrets.

use std::ops::Range;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::digest;

use super::{ObjectId, PayloadSpec, fill, random};
use crate::chance::mix64;
use crate::cryptography::{Kind, spend};
use crate::trial::{Cipher, Trial};

mod opener;

pub use opener::Opener;

/// The unit of encryption.
pub const SEGMENT_BYTES: usize = 64 << 10;

const TAG_BYTES: usize = 16;
const BLOCK_BYTES: usize = 16;
const IV_BYTES: usize = 16;
const NONCE_BYTES: usize = 12;
/// What the padding's bytes say: that there are so many.
const PADDING: [u8; BLOCK_BYTES] = [BLOCK_BYTES as u8; BLOCK_BYTES];

/// Page numbers that no object reaches: nonces and filler share no seeds with pages.
const NONCE_PAGES: u64 = 1 << 62;
const FILLER_PAGES: u64 = 1 << 61;

/// Seals and opens the segments of a trial's objects; one value serves all threads.
#[derive(Debug)]
pub struct SealingKey {
    spec: PayloadSpec,
    cipher: Cipher,
    keys: CipherKeys,
}

enum CipherKeys {
    Gcm(Box<LessSafeKey>),
    Cbc(Box<(EncryptingKey, DecryptingKey)>),
}

impl std::fmt::Debug for CipherKeys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("CipherKeys")
    }
}

impl SealingKey {
    /// Makes the key of a run and a seed.
    ///
    /// # Panics
    /// Never: the library takes keys of this length.
    #[must_use]
    pub fn new(spec: &PayloadSpec, cipher: Cipher) -> Self {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(b"loadstone test key");
        context.update(&spec.run);
        context.update(&spec.seed.to_le_bytes());
        let bytes = context.finish();
        let block_key = || UnboundCipherKey::new(&AES_256, bytes.as_ref()).expect("32 bytes");
        let keys = match cipher {
            Cipher::Aes256Gcm => {
                let key = UnboundKey::new(&AES_256_GCM, bytes.as_ref()).expect("32 bytes");
                CipherKeys::Gcm(Box::new(LessSafeKey::new(key)))
            }
            Cipher::Aes256Cbc => CipherKeys::Cbc(Box::new((
                EncryptingKey::cbc(block_key()).expect("AES has this mode"),
                DecryptingKey::cbc(block_key()).expect("AES has this mode"),
            ))),
        };
        Self { spec: *spec, cipher, keys }
    }

    /// Returns the key of a trial whose objects are encrypted.
    #[must_use]
    pub fn of_trial(trial: &Trial) -> Option<Arc<Self>> {
        let cipher = trial.dataset.encryption?;
        Some(Arc::new(Self::new(&PayloadSpec::of_trial(trial), cipher)))
    }

    /// Returns where the plaintext of a segment of so many bytes stands, if it has room for any.
    #[inline]
    fn plain_range(&self, stored_bytes: usize) -> Option<Range<usize>> {
        let (start, end) = match self.cipher {
            Cipher::Aes256Gcm => (NONCE_BYTES, stored_bytes.checked_sub(TAG_BYTES)?),
            Cipher::Aes256Cbc => {
                let whole_bytes = stored_bytes - stored_bytes % BLOCK_BYTES;
                (IV_BYTES, whole_bytes.checked_sub(PADDING.len())?)
            }
        };
        (start <= end).then_some(start..end)
    }

    fn plain_bytes(&self, stored_bytes: usize) -> u64 {
        self.plain_range(stored_bytes).map_or(0, |range| range.len() as u64)
    }

    /// Returns the object that is inside a stored object.
    #[must_use]
    pub fn plain_object(&self, stored: &ObjectId) -> ObjectId {
        let segment_bytes = SEGMENT_BYTES as u64;
        let whole = stored.length / segment_bytes * self.plain_bytes(SEGMENT_BYTES);
        let last = self.plain_bytes((stored.length % segment_bytes) as usize);
        ObjectId { length: whole + last, ..*stored }
    }

    /// Makes a whole segment.
    ///
    /// # Panics
    /// When `out` is not as long as the object's segment.
    pub fn make_segment(&self, stored: &ObjectId, segment: u64, out: &mut [u8]) {
        assert_eq!(out.len(), segment_bytes(stored.length, segment), "a whole segment");
        if let Some(plain) = self.plain_range(out.len()) {
            let first = segment * self.plain_bytes(SEGMENT_BYTES);
            fill(&self.spec, &self.plain_object(stored), first, &mut out[plain]);
            self.write_nonce(stored, segment, out);
            spend(Kind::Encryption, || self.seal(out));
        }
        let filler = self.filler_range(out.len());
        self.fill_rest(stored, segment, &mut out[filler]);
    }

    fn write_nonce(&self, stored: &ObjectId, segment: u64, out: &mut [u8]) {
        let first = self.spec.page_seed(stored, NONCE_PAGES + segment);
        let bytes = (u128::from(mix64(first)) << 64 | u128::from(first)).to_le_bytes();
        let nonce_bytes = match self.cipher {
            Cipher::Aes256Gcm => NONCE_BYTES,
            Cipher::Aes256Cbc => IV_BYTES,
        };
        out[..nonce_bytes].copy_from_slice(&bytes[..nonce_bytes]);
    }

    /// Encrypts a segment in place: nonce and plaintext stand where they belong.
    ///
    /// # Panics
    /// When the segment has no room for a plaintext.
    #[inline]
    pub fn seal(&self, segment: &mut [u8]) {
        let plain = self.plain_range(segment.len()).expect("a segment with a plaintext");
        match &self.keys {
            CipherKeys::Gcm(key) => {
                let nonce = nonce_of(segment);
                let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut segment[plain]);
                let tag = tag.expect("a segment is far below what the mode can do");
                let tag_start = segment.len() - TAG_BYTES;
                segment[tag_start..].copy_from_slice(tag.as_ref());
            }
            CipherKeys::Cbc(keys) => {
                let padded = plain.start..plain.end + PADDING.len();
                segment[plain.end..padded.end].copy_from_slice(&PADDING);
                let context = EncryptionContext::Iv128(iv_of(segment).into());
                let done = keys.0.less_safe_encrypt(&mut segment[padded], context);
                done.expect("whole blocks");
            }
        }
    }

    /// Decrypts a segment in place; returns where its plaintext stands, or `None` if the tag does
    /// not fit or the padding is none.
    #[inline]
    #[must_use]
    pub fn open(&self, segment: &mut [u8]) -> Option<Range<usize>> {
        let plain = self.plain_range(segment.len())?;
        match &self.keys {
            CipherKeys::Gcm(key) => {
                let nonce = nonce_of(segment);
                key.open_in_place(nonce, Aad::empty(), &mut segment[NONCE_BYTES..]).ok()?;
            }
            CipherKeys::Cbc(keys) => {
                let padded = plain.start..plain.end + PADDING.len();
                let context = DecryptionContext::Iv128(iv_of(segment).into());
                keys.1.decrypt(&mut segment[padded.clone()], context).ok()?;
                if segment[plain.end..padded.end] != PADDING {
                    return None;
                }
            }
        }
        Some(plain)
    }

    /// Returns what of a segment is filler.
    fn filler_range(&self, stored_bytes: usize) -> Range<usize> {
        let start = match (self.plain_range(stored_bytes), self.cipher) {
            (None, _) => 0,
            (Some(_), Cipher::Aes256Gcm) => stored_bytes,
            (Some(_), Cipher::Aes256Cbc) => stored_bytes - stored_bytes % BLOCK_BYTES,
        };
        start..stored_bytes
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
        let mut expected = [0; IV_BYTES + BLOCK_BYTES];
        let expected = &mut expected[..bytes.len()];
        self.fill_rest(stored, segment, expected);
        bytes == expected
    }
}

fn nonce_of(segment: &[u8]) -> Nonce {
    let nonce = segment.first_chunk::<NONCE_BYTES>().expect("a segment begins with its nonce");
    Nonce::assume_unique_for_key(*nonce)
}

fn iv_of(segment: &[u8]) -> [u8; IV_BYTES] {
    *segment.first_chunk().expect("a segment begins with its IV")
}

/// Returns the stored bytes of one segment of an object.
fn segment_bytes(length: u64, segment: u64) -> usize {
    let left = length.saturating_sub(segment * SEGMENT_BYTES as u64);
    usize::try_from(left).unwrap_or(SEGMENT_BYTES).min(SEGMENT_BYTES)
}

/// Makes stored bytes from anywhere on. It remembers the last segment that it made a part of, as
/// the kernel often takes less of it than it is offered.
#[derive(Debug)]
pub struct Sealer {
    key: Arc<SealingKey>,
    scratch: Vec<u8>,
    held: Option<(ObjectId, u64)>,
}

impl Sealer {
    /// Makes a sealer; one serves all clients of a thread.
    #[must_use]
    pub fn new(key: &Arc<SealingKey>) -> Self {
        Self { key: Arc::clone(key), scratch: Vec::new(), held: None }
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
                self.key.make_segment(stored, segment, piece);
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
            self.scratch.resize(SEGMENT_BYTES, 0);
            self.key.make_segment(stored, segment, &mut self.scratch[..whole_bytes]);
            self.held = Some((*stored, segment));
        }
    }
}
