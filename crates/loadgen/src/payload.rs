//! The content of objects: pages that identify their object and reveal damage.
//!
//! Every 4 KiB of an object is a separate page. It starts with a header that names the run, the
//! object, the version and the page, and holds a CRC-32C of the whole page. The rest is random
//! bytes, which are a function of the header. So any range can be generated without the preceding
//! data, reads can be checked without a stored copy, and a wrong page reveals where it belongs.
//!
//! | bytes | header of a page of 64 bytes and more, little-endian |
//! |---|---|
//! | 0–3   | `LDS` and the form: 1 own, 2 duplicate |
//! | 4–19  | run |
//! | 20–27 | hash of bucket and key |
//! | 28–35 | version |
//! | 36–39 | writer |
//! | 40–43 | page number, modulo 2^32 |
//! | 44–51 | length of the object |
//! | 52–59 | seed |
//! | 60–63 | CRC-32C of the page, with these four bytes as zero |
//!
//! The last page of an object may be shorter. One of 16 to 63 bytes starts with 16 bytes: version
//! (8), a check of run, key, page and length (4), and the CRC-32C of everything else (4). One below
//! 16 bytes consists of random bytes only, and is checked by generating it again.
//!
//! A duplicate page must be the same at every position, so its header names no object: hash,
//! version, writer and length are zero, and the page number is its index in a small set. That is
//! the price of the `duplicate` share: such a page reveals damage, but not a swap with its twin.
//! Duplicates are aligned to 4 KiB; a target that deduplicates larger blocks finds fewer. With a
//! share of 1, the pages of the set repeat in order, so that a buffer that has been filled once can
//! be written again unchanged, as fio and rados bench do.
//!
//! Instead of random bytes, pages can contain the bytes of a user's file. An object then contains a
//! section of the file, with a header before each 4,032 bytes. Object and version determine where
//! the section begins; it wraps around at the end of the file.

mod blocks;
pub(crate) mod content;
mod held;
mod random;
pub mod sealed;
mod verifier;

pub use crate::script::Reader;
pub use blocks::{SECTOR_BYTES, check_blocks};
pub use held::Held;
pub use verifier::{Evidence, Verdict, Verifier};

use std::ops::Range;

use crate::chance::mix64;
use crate::trial::{DatasetSpec, Trial};

/// Size of a page, the unit of payload.
pub const PAGE_BYTES: usize = 4096;

const HEADER_BYTES: usize = 64;
/// Position of the CRC in a header.
const CRC: Range<usize> = 60..64;
/// The shorter header of a page that is too short for a whole header.
pub(crate) const TAG_BYTES: usize = 16;

/// Placeholder for any version of an object.
pub const ANY_VERSION: u64 = u64::MAX;
const MAGIC: [u8; 3] = *b"LDS";
/// Number of distinct duplicate pages in a run.
const DUPLICATES: u64 = 64;

/// Parameters that all payload of a trial shares.
#[derive(Debug, Clone, Copy)]
pub struct PayloadSpec {
    run: [u8; 16],
    seed: u64,
    compressible: f64,
    duplicate: f64,
    /// Hash of run and seed, an input of the seeds of pages.
    source: u64,
    /// Content of pages instead of random bytes.
    content: Option<&'static [u8]>,
    /// Oldest version that a reader accepts of an object, if that is older than the expected one.
    oldest_version: u64,
}

/// Identifies the payload of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectId {
    /// Hash of bucket and key.
    pub key_hash: u64,
    /// Version, which grows with each rewrite.
    pub version: u64,
    /// Length of the whole object, in bytes.
    pub length: u64,
    /// The writer. A reader need not know it: checks ignore it.
    pub writer: u32,
    /// For whom the object is encrypted, if objects are encrypted.
    pub reader: Reader,
}

impl ObjectId {
    /// Returns the ID of an object that writer 0 writes, readable by any client of the run.
    #[must_use]
    pub fn new(key_hash: u64, version: u64, length: u64) -> Self {
        Self { key_hash, version, length, writer: 0, reader: Reader::Run }
    }
}

impl PayloadSpec {
    /// Creates the parameters; `compressible` and `duplicate` are shares from 0 to 1.
    #[must_use]
    pub fn new(run: [u8; 16], seed: u64, compressible: f64, duplicate: f64) -> Self {
        let (low, high) =
            (u128::from_le_bytes(run) as u64, (u128::from_le_bytes(run) >> 64) as u64);
        // Hashed before anything is added: otherwise similar small seeds would collide.
        let source = mix64(mix64(mix64(seed) ^ low) ^ high);
        Self { run, seed, compressible, duplicate, source, content: None, oldest_version: u64::MAX }
    }

    /// Returns the payload parameters of a trial.
    #[must_use]
    pub fn of_trial(trial: &Trial) -> Self {
        let DatasetSpec { compressible, duplicate, oldest_version, .. } = trial.dataset;
        let oldest_version = oldest_version.unwrap_or(u64::MAX);
        let spec = Self::new(trial.run_bytes(), trial.content_seed(), compressible, duplicate)
            .with_content(trial.open_content);
        Self { oldest_version, ..spec }
    }

    /// Takes the content of pages from a file, which must not be empty, instead of random bytes.
    #[must_use]
    pub fn with_content(self, content: Option<&'static [u8]>) -> Self {
        Self { content, ..self }
    }

    fn page_seed(&self, object: &ObjectId, page: u64) -> u64 {
        mix64(mix64(mix64(self.source ^ object.key_hash) ^ object.version) ^ mix64(page))
    }

    /// Returns the index of the duplicate page at this position, or `None` for a page of the
    /// object's own.
    fn duplicate_at(&self, page: u64, page_seed: u64, page_bytes: usize) -> Option<u64> {
        if self.duplicate <= 0.0 || page_bytes < PAGE_BYTES {
            return None;
        }
        if self.duplicate >= 1.0 {
            return Some(page % DUPLICATES);
        }
        let draw = mix64(page_seed ^ 0x6475_706c);
        (draw < (self.duplicate * u64::MAX as f64) as u64).then(|| mix64(draw) % DUPLICATES)
    }

    /// Returns where the random part of a page ends and zeros begin.
    fn random_end(&self, header_bytes: usize, page_bytes: usize) -> usize {
        let random = page_bytes as f64 * (1.0 - self.compressible);
        (random.round() as usize).clamp(header_bytes, page_bytes)
    }

    /// Returns the check that a page of 16 to 63 bytes has instead of its identity.
    fn tag_check(&self, object: &ObjectId, page: u64) -> u32 {
        mix64(mix64(mix64(self.source ^ object.key_hash) ^ object.length) ^ page) as u32
    }

    fn make_page(&self, object: &ObjectId, page: u64, out: &mut [u8]) {
        let page_seed = self.page_seed(object, page);
        if out.len() >= HEADER_BYTES {
            self.make_headed_page(object, page, page_seed, out);
        } else if out.len() >= TAG_BYTES {
            self.fill_body(object, page, page_seed, &mut out[TAG_BYTES..]);
            out[0..8].copy_from_slice(&object.version.to_le_bytes());
            out[8..12].copy_from_slice(&self.tag_check(object, page).to_le_bytes());
            let crc = tagged_crc(out);
            out[12..16].copy_from_slice(&crc.to_le_bytes());
        } else {
            self.fill_body(object, page, page_seed, out);
        }
    }

    /// Writes the bytes after the header of a page of the object's own.
    #[inline]
    fn fill_body(&self, object: &ObjectId, page: u64, page_seed: u64, out: &mut [u8]) {
        match self.content {
            None => random::fill(page_seed, out),
            Some(content) => {
                let begin = self.page_seed(object, 0) % content.len() as u64;
                let place = begin + page * (PAGE_BYTES - HEADER_BYTES) as u64;
                content::copy(content, place, out);
            }
        }
    }

    fn make_headed_page(&self, object: &ObjectId, page: u64, page_seed: u64, out: &mut [u8]) {
        let duplicate = self.duplicate_at(page, page_seed, out.len());
        let header = match duplicate {
            None => Header::own(self, object, page),
            Some(place) => Header::duplicate(self, place),
        };
        // The header comes before the body: its small stores must have reached the cache when the
        // CRC reads them.
        header.write(out.first_chunk_mut().expect("the page is longer than a header"));
        let random_end = self.random_end(HEADER_BYTES, out.len());
        let body = &mut out[HEADER_BYTES..random_end];
        match duplicate {
            None => self.fill_body(object, page, page_seed, body),
            Some(place) => random::fill(mix64(self.source ^ mix64(place)), body),
        }
        if random_end < out.len() {
            out[random_end..].fill(0);
        }
        let crc = crc_fast::crc32_iscsi(out);
        out[CRC].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Writes the bytes of an object from `offset` on.
///
/// Whole pages are generated in place. A page that `out` covers in part is generated whole and
/// copied in part.
///
/// # Panics
/// The range ends beyond the object: a bug of the caller.
pub fn fill(spec: &PayloadSpec, object: &ObjectId, offset: u64, mut out: &mut [u8]) {
    assert!(offset + out.len() as u64 <= object.length, "a range lies inside its object");
    let mut at = offset;
    while !out.is_empty() {
        let (page, inside) = locate(at);
        let page_bytes = page_bytes(object.length, page);
        let taken = (page_bytes - inside).min(out.len());
        let (piece, rest) = out.split_at_mut(taken);
        if taken == page_bytes {
            spec.make_page(object, page, piece);
        } else {
            let mut whole = [0; PAGE_BYTES];
            spec.make_page(object, page, &mut whole[..page_bytes]);
            piece.copy_from_slice(&whole[inside..inside + taken]);
        }
        at += taken as u64;
        out = rest;
    }
}

/// Returns the page of a byte and its offset in the page.
fn locate(at: u64) -> (u64, usize) {
    (at / PAGE_BYTES as u64, (at % PAGE_BYTES as u64) as usize)
}

fn page_bytes(length: u64, page: u64) -> usize {
    let left = length.saturating_sub(page * PAGE_BYTES as u64);
    usize::try_from(left).unwrap_or(PAGE_BYTES).min(PAGE_BYTES)
}

/// The identity of a page of 64 bytes and more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    is_duplicate: bool,
    run: [u8; 16],
    key_hash: u64,
    version: u64,
    writer: u32,
    page: u32,
    length: u64,
    seed: u64,
}

impl Header {
    fn own(spec: &PayloadSpec, object: &ObjectId, page: u64) -> Self {
        Self {
            is_duplicate: false,
            run: spec.run,
            key_hash: object.key_hash,
            version: object.version,
            writer: object.writer,
            page: page as u32,
            length: object.length,
            seed: spec.seed,
        }
    }

    fn duplicate(spec: &PayloadSpec, place: u64) -> Self {
        let no_one = ObjectId::new(0, 0, 0);
        Self { is_duplicate: true, ..Self::own(spec, &no_one, place) }
    }

    /// Returns whether a page of the object's own form is this page of the object, in any version.
    fn is_of(&self, object: &ObjectId, page: u64) -> bool {
        self.key_hash == object.key_hash && self.page == page as u32 && self.length == object.length
    }

    /// Writes the header, with a CRC of zero.
    fn write(&self, bytes: &mut [u8; HEADER_BYTES]) {
        bytes[0..3].copy_from_slice(&MAGIC);
        bytes[3] = if self.is_duplicate { 2 } else { 1 };
        bytes[4..20].copy_from_slice(&self.run);
        bytes[20..28].copy_from_slice(&self.key_hash.to_le_bytes());
        bytes[28..36].copy_from_slice(&self.version.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.writer.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.page.to_le_bytes());
        bytes[44..52].copy_from_slice(&self.length.to_le_bytes());
        bytes[52..60].copy_from_slice(&self.seed.to_le_bytes());
        bytes[CRC].fill(0);
    }

    /// Parses a header; `None` if the bytes are not one.
    fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let is_duplicate = match (bytes[0..3] == MAGIC, bytes[3]) {
            (true, 1) => false,
            (true, 2) => true,
            _ => return None,
        };
        Some(Self {
            is_duplicate,
            run: array(&bytes[4..20]),
            key_hash: u64::from_le_bytes(array(&bytes[20..28])),
            version: u64::from_le_bytes(array(&bytes[28..36])),
            writer: u32::from_le_bytes(array(&bytes[36..40])),
            page: u32::from_le_bytes(array(&bytes[40..44])),
            length: u64::from_le_bytes(array(&bytes[44..52])),
            seed: u64::from_le_bytes(array(&bytes[52..60])),
        })
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the caller cut as many bytes as it names")
}

fn tagged_crc(page: &[u8]) -> u32 {
    Crc::new().and(&page[..12]).and(&page[TAG_BYTES..]).value()
}

/// An incremental CRC-32C.
#[derive(Debug, Clone, Copy)]
struct Crc(u64);

impl Crc {
    const ALGORITHM: crc_fast::CrcAlgorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;

    fn new() -> Self {
        Self(0xffff_ffff)
    }

    /// Starts with a header, whose own CRC counts as zero.
    #[inline]
    fn of_head(head: &[u8; HEADER_BYTES]) -> Self {
        let mut head = *head;
        head[CRC].fill(0);
        Self::new().and(&head)
    }

    #[inline]
    fn and(self, bytes: &[u8]) -> Self {
        let mut digest = crc_fast::Digest::new_with_init_state(Self::ALGORITHM, self.0);
        digest.update(bytes);
        Self(digest.get_state())
    }

    fn value(self) -> u32 {
        !(self.0 as u32)
    }
}
