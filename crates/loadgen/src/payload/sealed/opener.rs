//! Decrypts the content of reads, segment by segment, and passes it to a verifier.

use std::ops::Range;
use std::sync::Arc;

use super::{ContentKey, SEGMENT_BYTES, SealingKey, segment_bytes};
use crate::cryptography::{Kind, spend};
use crate::payload::{Evidence, ObjectId, Verdict, Verifier};

/// Decrypts one read after another, and passes the plaintext to a verifier if there is one. It
/// buffers one segment, whose memory is allocated with the first read.
#[derive(Debug)]
pub struct Opener {
    key: Arc<SealingKey>,
    stored: ObjectId,
    /// The content key, once the envelope has arrived and was unwrapped.
    content: Option<ContentKey>,
    segment: Vec<u8>,
    /// Bytes of the segment that have arrived.
    filled: usize,
    /// Stored bytes that have arrived.
    at: u64,
    extra_bytes: u64,
    verifier: Option<Verifier>,
    worst: Verdict,
    evidence: Option<Evidence>,
}

impl Opener {
    /// Creates an opener; each client has one.
    #[must_use]
    pub fn new(key: &Arc<SealingKey>) -> Self {
        Self {
            key: Arc::clone(key),
            stored: ObjectId::new(0, 0, 0),
            content: None,
            segment: Vec::new(),
            filled: 0,
            at: 0,
            extra_bytes: 0,
            verifier: None,
            worst: Verdict::Ok,
            evidence: None,
        }
    }

    /// Starts with another object.
    pub fn start(&mut self, stored: &ObjectId, is_verified: bool) {
        let plain = self.key.plain_object(stored);
        self.verifier = is_verified.then(|| Verifier::new(&self.key.spec, &plain, 0));
        (self.stored, self.content) = (*stored, None);
        (self.filled, self.at, self.extra_bytes) = (0, 0, 0);
        (self.worst, self.evidence) = (Verdict::Ok, None);
        let needed = segment_bytes(stored.length, 0);
        if self.segment.len() < needed {
            self.segment.resize(needed, 0);
        }
    }

    /// Processes the next bytes that arrived.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.at >= self.stored.length {
                self.extra_bytes += bytes.len() as u64;
                return;
            }
            let segment = self.at / SEGMENT_BYTES as u64;
            let whole_bytes = segment_bytes(self.stored.length, segment);
            let (piece, rest) = bytes.split_at((whole_bytes - self.filled).min(bytes.len()));
            self.segment[self.filled..self.filled + piece.len()].copy_from_slice(piece);
            self.filled += piece.len();
            if self.filled == whole_bytes {
                self.end_segment(segment, whole_bytes);
                self.filled = 0;
            }
            self.at += piece.len() as u64;
            bytes = rest;
        }
    }

    fn end_segment(&mut self, segment: u64, whole_bytes: usize) {
        if self.worst == Verdict::Corrupt {
            // No verdict is worse, and the verifier has lost its position.
            return;
        }
        let has_plaintext = self.key.plain_range(&self.stored, segment, whole_bytes).is_some();
        let plain = if has_plaintext { self.open(segment, whole_bytes) } else { None };
        let mut is_sound = plain.is_some() == has_plaintext;
        if let Some(verifier) = &mut self.verifier {
            let filler = self.key.filler_range(&self.stored, segment, whole_bytes);
            is_sound &= self.key.is_filler(&self.stored, segment, &self.segment[filler]);
            if let Some(plain) = plain {
                verifier.update(&self.segment[plain]);
            }
        }
        if !is_sound {
            self.blame(Verdict::Corrupt, segment * SEGMENT_BYTES as u64);
        }
    }

    /// Decrypts a segment of this length in place; the first one unwraps the content key from its
    /// envelope. Returns the range of the plaintext, or `None` if it has none, the key cannot be
    /// unwrapped, or authentication fails.
    fn open(&mut self, segment: u64, stored_bytes: usize) -> Option<Range<usize>> {
        let room = self.key.room(&self.stored, segment, stored_bytes);
        let (envelope, sealed) = self.segment[..stored_bytes].split_at_mut(room.start);
        if segment == 0 {
            let ring = &self.key.ring;
            self.content = spend(Kind::Wrapping, || ring.unwrap(self.stored.reader, envelope));
        }
        let content = self.content.as_ref()?;
        let plain = spend(Kind::Encryption, || content.open(sealed))?;
        Some(room.start + plain.start..room.start + plain.end)
    }

    fn blame(&mut self, verdict: Verdict, offset: u64) {
        if verdict > self.worst {
            self.worst = verdict;
            self.evidence = Some(Evidence::new(verdict, offset, &self.stored, None));
        }
    }

    /// Returns the verdict on all bytes, which should have been the whole object.
    pub fn finish(&mut self) -> Verdict {
        if self.filled > 0 && self.worst < Verdict::Corrupt {
            // A shorter object may end with this segment. Otherwise, the read was truncated.
            if let Some(plain) = self.open(self.at / SEGMENT_BYTES as u64, self.filled)
                && let Some(verifier) = &mut self.verifier
            {
                verifier.update(&self.segment[plain]);
            }
        }
        if self.extra_bytes > 0 {
            self.blame(Verdict::Overlong, self.stored.length);
        }
        if self.at < self.stored.length {
            self.blame(Verdict::Truncated, self.at);
        }
        if let Some(verifier) = &mut self.verifier {
            let verdict = verifier.finish();
            if verdict > self.worst {
                (self.worst, self.evidence) = (verdict, verifier.evidence());
            }
        }
        self.worst
    }

    /// Returns how many stored bytes of the object have arrived.
    #[must_use]
    pub fn opened_bytes(&self) -> u64 {
        self.at
    }

    /// Returns the first of the worst pages; complete after [`Opener::finish`].
    #[must_use]
    pub fn evidence(&self) -> Option<Evidence> {
        self.evidence
    }
}
