//! How an object is divided into parts.

use std::ops::Range;

/// The parts of an object: all of the same length except the last.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Division {
    bytes: u64,
    part_bytes: u64,
}

impl Division {
    pub(crate) fn new(bytes: u64, part_bytes: Option<u64>) -> Self {
        Self { bytes, part_bytes: part_bytes.unwrap_or(bytes).max(1) }
    }

    /// Returns the number of parts; an empty object has none.
    pub(crate) fn count(&self) -> u64 {
        self.bytes.div_ceil(self.part_bytes)
    }

    /// Returns the byte range of a part; empty for a part beyond the end.
    pub(crate) fn range(&self, part: u64) -> Range<u64> {
        let start = self.bytes.min(part.saturating_mul(self.part_bytes));
        start..self.bytes.min(start.saturating_add(self.part_bytes))
    }
}
