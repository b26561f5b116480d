//! Payload that a buffer already contains, so that it need not be generated again.

use std::ops::Range;

use super::{DUPLICATES, ObjectId, PAGE_BYTES, PayloadSpec, fill};

/// Which pages of the duplicate set a buffer contains from its start on, if any.
///
/// It belongs to one buffer and one payload. Any other writer to the buffer must call
/// [forget](Held::forget).
#[derive(Debug, Default)]
pub struct Held(Range<u64>);

impl Held {
    /// Writes the bytes of an object from `offset` on like [`fill`], unless the buffer contains
    /// them already.
    ///
    /// # Panics
    /// The range ends beyond the object.
    #[inline]
    pub fn fill(&mut self, spec: &PayloadSpec, object: &ObjectId, offset: u64, out: &mut [u8]) {
        let wanted = repeated_pages(spec, object, offset, out.len());
        let is_held =
            !wanted.is_empty() && wanted.start == self.0.start && wanted.end <= self.0.end;
        if !is_held {
            fill(spec, object, offset, out);
            self.0 = wanted;
        }
    }

    /// Records that the buffer has been overwritten.
    #[inline]
    pub fn forget(&mut self) {
        self.0 = 0..0;
    }
}

/// Returns the indexes in the duplicate set of the range's pages, without wrapping around; empty if
/// another object or version would have other bytes here.
fn repeated_pages(spec: &PayloadSpec, object: &ObjectId, offset: u64, bytes: usize) -> Range<u64> {
    let page_bytes = PAGE_BYTES as u64;
    let end = offset + bytes as u64;
    let is_whole = offset.is_multiple_of(page_bytes) && end.is_multiple_of(page_bytes);
    if spec.duplicate < 1.0 || !is_whole || end > object.length {
        return 0..0;
    }
    let first = offset / page_bytes % DUPLICATES;
    first..first + bytes as u64 / page_bytes
}
