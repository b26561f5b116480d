//! Objects of the dataset that are absent because their own put failed. A later request for such an
//! object finds nothing, which is not a failure of that request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::chance::mix64;

/// Maximum number of ranges to remember; failures beyond them are only counted.
const RANGES_MAX: usize = 1 << 14;
/// Words of the filter that successful puts check, once a put has failed: 128 KiB.
const FILTER_WORDS: usize = 1 << 14;

/// Objects whose put failed and that no later put wrote. All threads of a trial share it. It costs
/// a request nothing while no put has failed.
#[derive(Debug, Default)]
pub(crate) struct Unwritten {
    filter: OnceLock<Box<[AtomicU64]>>,
    ranges: Mutex<Ranges>,
    more: AtomicU64,
}

impl Unwritten {
    /// Starts with the objects that earlier trials left unwritten.
    pub(crate) fn after(ranges: &[(u64, u64)]) -> Self {
        let unwritten = Self::default();
        for &(first, end) in ranges {
            unwritten.insert(first, end);
        }
        unwritten
    }

    /// Records an object whose put failed. If it may have been put before, the put is only counted.
    #[cold]
    pub(crate) fn note(&self, index: u64, is_first_put: bool) {
        let is_remembered = self.contains(index) || (is_first_put && self.insert(index, index + 1));
        if !is_remembered {
            self.more.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records a successful put of an object.
    #[inline]
    pub(crate) fn fill(&self, index: u64) {
        if let Some(filter) = self.filter.get()
            && is_set(filter, index)
        {
            self.ranges.lock().expect("the lock is not poisoned").remove(index);
        }
    }

    pub(crate) fn contains(&self, index: u64) -> bool {
        self.filter.get().is_some_and(|filter| is_set(filter, index))
            && self.ranges.lock().expect("the lock is not poisoned").contains(index)
    }

    /// Returns ranges of numbers, each from its first to before its end.
    pub(crate) fn ranges(&self) -> Vec<(u64, u64)> {
        let ranges = self.ranges.lock().expect("the lock is not poisoned");
        ranges.0.iter().map(|(first, end)| (*first, *end)).collect()
    }

    /// Returns how many failed puts are not in the ranges: of objects that may have been put
    /// before, or too many to remember.
    pub(crate) fn more(&self) -> u64 {
        self.more.load(Ordering::Relaxed)
    }

    fn insert(&self, first: u64, end: u64) -> bool {
        let filter = self.filter.get_or_init(|| {
            std::iter::repeat_with(AtomicU64::default).take(FILTER_WORDS).collect()
        });
        // The bits are set before the range, so that a thread that sees the range also sees the
        // bits.
        if end.saturating_sub(first) < FILTER_WORDS as u64 * 64 {
            for index in first..end {
                let (word, bit) = place(index);
                filter[word].fetch_or(bit, Ordering::Relaxed);
            }
        } else {
            filter.iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        }
        self.ranges.lock().expect("the lock is not poisoned").insert(first, end)
    }
}

fn is_set(filter: &[AtomicU64], index: u64) -> bool {
    let (word, bit) = place(index);
    filter[word].load(Ordering::Relaxed) & bit != 0
}

fn place(index: u64) -> (usize, u64) {
    let mixed = mix64(index);
    (mixed as usize % FILTER_WORDS, 1 << (mixed >> 58))
}

/// Ranges that neither overlap nor touch: first → end (exclusive).
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    fn contains(&self, index: u64) -> bool {
        self.0.range(..=index).next_back().is_some_and(|(_, end)| index < *end)
    }

    /// Adds a range; returns false if that exceeds the limit.
    fn insert(&mut self, mut first: u64, mut end: u64) -> bool {
        while let Some((&before, &until)) = self.0.range(..=end).next_back() {
            if until < first {
                break;
            }
            (first, end) = (first.min(before), end.max(until));
            self.0.remove(&before);
        }
        let has_room = self.0.len() < RANGES_MAX;
        if has_room && first < end {
            self.0.insert(first, end);
        }
        has_room
    }

    fn remove(&mut self, index: u64) {
        let Some((&first, &end)) = self.0.range(..=index).next_back() else { return };
        if index >= end {
            return;
        }
        self.0.remove(&first);
        for (first, end) in [(first, index), (index + 1, end)] {
            if first < end {
                self.0.insert(first, end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ranges_contain_failed_numbers_that_were_not_put_later() {
        let unwritten = Unwritten::after(&[(10, 20), (30, 31)]);
        let mut expected: BTreeSet<u64> = (10..20).chain([30]).collect();
        for step in 0..20_000_u64 {
            let index = mix64(step) % 200;
            if mix64(step ^ 7).is_multiple_of(3) {
                unwritten.note(index, true);
                expected.insert(index);
            } else {
                unwritten.fill(index);
                expected.remove(&index);
            }
            assert_eq!(unwritten.contains(index), expected.contains(&index));
        }
        let ranges = unwritten.ranges();
        assert!(ranges.windows(2).all(|pair| pair[0].1 < pair[1].0), "they touch: {ranges:?}");
        let numbers: BTreeSet<u64> = ranges.iter().flat_map(|(first, end)| *first..*end).collect();
        assert_eq!((numbers, unwritten.more()), (expected, 0));
    }

    #[test]
    fn failed_puts_without_a_range_are_counted() {
        let unwritten = Unwritten::default();
        unwritten.note(1, false);
        for index in 0..RANGES_MAX as u64 + 10 {
            unwritten.note(index * 2, true);
        }
        assert_eq!((unwritten.ranges().len(), unwritten.more()), (RANGES_MAX, 11));
        assert!(!unwritten.contains(1));
    }

    #[test]
    fn an_unwritten_dataset_is_one_range() {
        let unwritten = Unwritten::after(&[(0, 1 << 40)]);
        for index in 0..100_000 {
            unwritten.note(index, true);
        }
        assert_eq!((unwritten.ranges(), unwritten.more()), (vec![(0, 1 << 40)], 0));
    }
}
