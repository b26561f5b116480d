//! The ledger of a trial: the state of each object, as far as the target has acknowledged it.
//!
//! Requests are functions of the seed and a ticket's number, so two bits per object are enough on
//! disk. In memory, an object takes one bit, plus some bytes if its state is exceptional. The bits
//! lie in pages of 4,096 objects, which are allocated when one of their objects is first changed. A
//! load thread sets bits. The collector emits changed pages as frames, before it emits the seconds
//! in which they changed.
//!
//! | bytes | frame, little-endian |
//! |---|---|
//! | 0 | kind: 1 page, 2 page that repeats one byte, 3 page compressed by zlib, 4 begin, 5 end |
//! | 4–7 | writer: the number of the host's portion |
//! | 8–15 | page: numbers of objects divided by 4,096 |
//! | 16–23 | last time of the state in the previous frame (or untouched): nanoseconds since 1970 |
//! | 24–31 | time of the state in this frame |
//! | 32–35 | bytes of content |
//! | 36–39 | CRC-32 of the other 36 and of the content |
//!
//! The last frame of a writer and page is the valid one. The writer of the run folder puts a begin
//! frame before each attempt, and an end frame after a trial that finished. Without the end frame,
//! entries that are in no frame are unknown.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use crate::operation::Operation;

mod audit;
mod metadata;
mod owed;
mod page;
mod spec;

pub(crate) use audit::{Audit, FindingKind, Place, Reading, Step};
pub use audit::{AuditSummary, Call, Finding, HistorySummary, Spread};
pub(crate) use metadata::{MetadataValues, NO_METADATA, OTHER_METADATA};
pub(crate) use metadata::{metadata_text, metadata_value};
pub(crate) use owed::Allowed;
use page::Page;
pub use spec::{HistoryFile, HistorySpec, LedgerSpec, OwedSpec};

pub(crate) const OBJECTS_PER_PAGE: u64 = 4096;
const PAGE_BYTES: usize = OBJECTS_PER_PAGE as usize / 4;
const HEADER_BYTES: usize = 40;
/// Bit that turns the number of an object into that of its copy.
pub(crate) const COPIES: u64 = 1 << 63;
/// Bit that turns the number of an object into that of its metadata, which a post writes.
const METADATA: u64 = 1 << 62;
/// Bit that turns such a number into that of a doubt: a request failed, and another one in the same
/// trial was acknowledged. The failed one may still be executed, in a later trial.
const DOUBTS: u64 = 1 << 61;
const LEAF_PAGES: usize = 1024;

/// The state of an object after a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Entry {
    /// No request for the object was recorded.
    Untouched,
    /// A put was acknowledged, and no delete was sent after it.
    Written,
    /// A delete was acknowledged.
    Deleted,
    /// The last request that changes it failed: it may or may not have been executed, or may be
    /// executed later.
    Unknown,
}

impl Entry {
    pub(crate) fn of_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Untouched,
            1 => Self::Written,
            2 => Self::Deleted,
            _ => Self::Unknown,
        }
    }
}

/// Effect of an operation on its objects, as far as a ledger records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Writes,
    Deletes,
    /// Writes the copy of the object, whose number has the bit [`COPIES`].
    Copies,
    /// Writes the metadata of the object, whose number has the bit [`METADATA`].
    Describes,
}

impl Effect {
    /// Returns the effect of an operation; `None` if it leaves objects as they are.
    pub(crate) fn of(operation: Operation) -> Option<Self> {
        match operation {
            Operation::Put | Operation::MultipartPut => Some(Self::Writes),
            Operation::Delete | Operation::BulkDelete => Some(Self::Deletes),
            Operation::Copy => Some(Self::Copies),
            Operation::Post => Some(Self::Describes),
            _ => None,
        }
    }

    /// Returns the bit in the numbers that this effect is recorded under.
    pub(crate) fn bit(self) -> u64 {
        match self {
            Self::Writes | Self::Deletes => 0,
            Self::Copies => COPIES,
            Self::Describes => METADATA,
        }
    }

    /// Returns the opposite effect.
    fn reversed(self) -> Self {
        match self {
            Self::Writes | Self::Copies | Self::Describes => Self::Deletes,
            Self::Deletes => Self::Writes,
        }
    }

    /// Returns the entry after this effect was acknowledged.
    fn done(self) -> Entry {
        match self {
            Self::Writes | Self::Copies | Self::Describes => Entry::Written,
            Self::Deletes => Entry::Deleted,
        }
    }
}

/// Returns the entry of an object after a request that changes it.
fn entry_after(before: Entry, effect: Effect, is_ok: bool) -> Entry {
    match (effect, is_ok) {
        // A copy that failed may still be executed, and then copies whatever the object holds.
        (Effect::Copies, _) if before == Entry::Unknown => Entry::Unknown,
        (effect, true) => effect.done(),
        // All puts of a trial write the same bytes, and all posts the same value, so it does not
        // matter whether this one was executed.
        (Effect::Writes | Effect::Describes, false) if before == Entry::Written => Entry::Written,
        (_, false) => Entry::Unknown,
    }
}

/// The ledger of one host's portion of a trial, while the trial runs.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// Ranges of numbers: the dataset, for a mix the objects beyond it, by stage, and what has a bit
    /// of its own. In ascending order.
    regions: Vec<Region>,
    pages: Mutex<Vec<Arc<Page>>>,
    writer: u32,
    /// The effect of most requests of the trial that change objects.
    usual: Effect,
    flushed_ns: AtomicU64,
}

/// A range of pages. A leaf or a page is allocated when an object in it is first changed.
#[derive(Debug)]
struct Region {
    first_page: u64,
    leaves: Box<[OnceLock<Box<Leaf>>]>,
}

type Leaf = [OnceLock<Arc<Page>>; LEAF_PAGES];

impl Region {
    fn new(first: u64, objects: u64) -> Self {
        let first_page = first / OBJECTS_PER_PAGE;
        let pages = (first + objects) / OBJECTS_PER_PAGE - first_page + 1;
        let leaves = (pages as usize).div_ceil(LEAF_PAGES);
        Self { first_page, leaves: std::iter::repeat_with(OnceLock::new).take(leaves).collect() }
    }
}

impl Ledger {
    /// Creates the ledger of a host's portion for ranges of objects: first number and count.
    pub(crate) fn new(
        stretches: &[(u64, u64)],
        writer: u32,
        usual: Effect,
        now_unix_ns: u64,
    ) -> Self {
        let doubts = stretches.iter().map(|(first, objects)| (first | DOUBTS, *objects));
        let mut all: Vec<_> = stretches.iter().copied().chain(doubts).collect();
        all.sort_unstable();
        Self {
            regions: all.into_iter().map(|(first, objects)| Region::new(first, objects)).collect(),
            pages: Mutex::default(),
            writer,
            usual,
            flushed_ns: AtomicU64::new(now_unix_ns),
        }
    }

    /// Records how a request that changes an object ended.
    pub(crate) fn note(&self, index: u64, effect: Effect, is_ok: bool) {
        let index = index | effect.bit();
        let page = self.page(index / OBJECTS_PER_PAGE);
        if page.note((index % OBJECTS_PER_PAGE) as u16, effect, is_ok) {
            let doubts = self.page((index | DOUBTS) / OBJECTS_PER_PAGE);
            doubts.note((index % OBJECTS_PER_PAGE) as u16, doubts.usual, true);
        }
    }

    fn page(&self, number: u64) -> &Page {
        let region = self.regions.iter().rev().find(|region| region.first_page <= number);
        let region = region.expect("the first begins at 0");
        let place = (number - region.first_page) as usize;
        let leaf = region.leaves[place / LEAF_PAGES]
            .get_or_init(|| Box::new(std::array::from_fn(|_| OnceLock::new())));
        leaf[place % LEAF_PAGES].get_or_init(|| {
            let usual = match number * OBJECTS_PER_PAGE {
                COPIES.. => Effect::Copies,
                METADATA.. => Effect::Describes,
                DOUBTS.. => Effect::Writes,
                _ => self.usual,
            };
            let page = Arc::new(Page::new(number, usual));
            self.pages.lock().expect("no holder panics").push(Arc::clone(&page));
            page
        })
    }

    /// Returns the frames of all pages that have changed since the last call; empty if none has.
    pub(crate) fn take_frames(&self, now_unix_ns: u64) -> Vec<u8> {
        let from_ns = self.flushed_ns.swap(now_unix_ns, Ordering::Relaxed);
        let mut frames = Vec::new();
        // Load threads wait for this lock only when they allocate a page.
        let count = self.pages.lock().expect("no holder panics").len();
        for place in 0..count {
            let page = Arc::clone(&self.pages.lock().expect("no holder panics")[place]);
            if let Some(content) = page.take_changed() {
                let times = (from_ns, now_unix_ns);
                write_frame(&mut frames, self.writer, page.number, times, &content);
            }
        }
        frames
    }
}

/// Kinds of frames.
mod kind {
    pub(super) const PAGE: u8 = 1;
    pub(super) const FILL: u8 = 2;
    pub(super) const PACKED: u8 = 3;
    pub(super) const BEGIN: u8 = 4;
    pub(super) const END: u8 = 5;
}

fn write_frame(
    out: &mut Vec<u8>,
    writer: u32,
    page: u64,
    (from_ns, to_ns): (u64, u64),
    content: &[u8; PAGE_BYTES],
) {
    let is_one_byte = content.iter().all(|byte| *byte == content[0]);
    let (kind, content) =
        if is_one_byte { (kind::FILL, &content[..1]) } else { (kind::PAGE, &content[..]) };
    let begin = out.len();
    out.extend_from_slice(&[kind, 0, 0, 0]);
    out.extend_from_slice(&writer.to_le_bytes());
    out.extend_from_slice(&page.to_le_bytes());
    out.extend_from_slice(&from_ns.to_le_bytes());
    out.extend_from_slice(&to_ns.to_le_bytes());
    out.extend_from_slice(&(content.len() as u32).to_le_bytes());
    let crc = checksum(&out[begin..], content);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(content);
}

fn checksum(head: &[u8], content: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32IsoHdlc);
    digest.update(head);
    digest.update(content);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests;
