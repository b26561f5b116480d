//! One page of a ledger: the state of 4,096 objects, in one bit each plus some bytes for
//! exceptional ones.
//!
//! Most requests of a trial have the same effect: they put an object, or they delete it. One bit
//! records that, and is set without a lock. Exceptional states are in two sets behind the page's
//! lock and take precedence over the bit. If a bit is set while the object becomes exceptional, the
//! result is that of either order of the two requests, or claims less.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Effect, Entry, OBJECTS_PER_PAGE, PAGE_BYTES, entry_after};

const WORDS: usize = OBJECTS_PER_PAGE as usize / 64;
/// With more places than this, a list of numbers takes as much memory as a bit for each place of
/// the page.
const FEW: usize = WORDS * 8 / size_of::<u16>();

#[derive(Debug)]
pub(super) struct Page {
    pub(super) number: u64,
    /// Effect of most requests of the trial.
    pub(super) usual: Effect,
    bits: [AtomicU64; WORDS],
    /// A bit for each word that has, or had, an exceptional object.
    odd: AtomicU64,
    others: Mutex<Others>,
    is_changed: AtomicBool,
}

/// The exceptional objects of a page.
#[derive(Debug, Default)]
struct Others {
    /// Objects whose last request had the opposite effect.
    reversed: Places,
    unknown: Places,
}

impl Page {
    pub(super) fn new(number: u64, usual: Effect) -> Self {
        Self {
            number,
            usual,
            bits: std::array::from_fn(|_| AtomicU64::new(0)),
            odd: AtomicU64::new(0),
            others: Mutex::default(),
            is_changed: AtomicBool::new(false),
        }
    }

    /// Records how a request that changes the object at a place ended. Returns whether one of its
    /// requests has failed although the entry says that another was acknowledged.
    pub(super) fn note(&self, place: u16, effect: Effect, is_ok: bool) -> bool {
        let (word, bit) = (usize::from(place) / 64, 1 << (place % 64));
        let is_usual = is_ok && effect == self.usual;
        // Sequentially consistent with the flag; otherwise a flush could miss both.
        let (is_new, is_doubtful) = if is_usual && self.odd.load(Ordering::SeqCst) >> word & 1 == 0
        {
            (self.bits[word].fetch_or(bit, Ordering::SeqCst) & bit == 0, false)
        } else {
            self.note_other(place, effect, is_ok)
        };
        if is_new && !self.is_changed.load(Ordering::SeqCst) {
            self.is_changed.store(true, Ordering::SeqCst);
        }
        is_doubtful
    }

    #[cold]
    fn note_other(&self, place: u16, effect: Effect, is_ok: bool) -> (bool, bool) {
        let mut others = self.others.lock().expect("no holder panics");
        let before = self.entry(place, &others);
        let after = entry_after(before, effect, is_ok);
        let word = usize::from(place) / 64;
        if after == self.usual.done() {
            self.bits[word].fetch_or(1 << (place % 64), Ordering::SeqCst);
        } else {
            self.odd.fetch_or(1 << word, Ordering::SeqCst);
        }
        others.unknown.set(place, after == Entry::Unknown);
        others.reversed.set(place, after == self.usual.reversed().done());
        let is_doubtful = after != Entry::Unknown && (!is_ok || before == Entry::Unknown);
        (after != before, is_doubtful)
    }

    fn entry(&self, place: u16, others: &Others) -> Entry {
        let word = self.bits[usize::from(place) / 64].load(Ordering::SeqCst);
        if others.unknown.has(place) {
            Entry::Unknown
        } else if others.reversed.has(place) {
            self.usual.reversed().done()
        } else if word >> (place % 64) & 1 == 1 {
            self.usual.done()
        } else {
            Entry::Untouched
        }
    }

    /// Returns two bits for each object, if any has changed since the last call.
    pub(super) fn take_changed(&self) -> Option<[u8; PAGE_BYTES]> {
        if !self.is_changed.swap(false, Ordering::SeqCst) {
            return None;
        }
        let others = self.others.lock().expect("no holder panics");
        let mut content = [0; PAGE_BYTES];
        let done = u64::from(self.usual.done() as u8);
        for (bytes, bits) in content.as_chunks_mut::<16>().0.iter_mut().zip(&self.bits) {
            let bits = bits.load(Ordering::SeqCst);
            bytes[..8].copy_from_slice(&(spread(bits as u32) * done).to_le_bytes());
            bytes[8..].copy_from_slice(&(spread((bits >> 32) as u32) * done).to_le_bytes());
        }
        let reversed = self.usual.reversed().done();
        for (places, entry) in [(&others.reversed, reversed), (&others.unknown, Entry::Unknown)] {
            places.for_each(|place| {
                let shift = place % 4 * 2;
                let byte = &mut content[usize::from(place) / 4];
                *byte = *byte & !(3 << shift) | (entry as u8) << shift;
            });
        }
        Some(content)
    }
}

/// Spreads bits so that each becomes the lower bit of a pair.
fn spread(bits: u32) -> u64 {
    let masks = [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ];
    masks.iter().fold(u64::from(bits), |bits, (shift, mask)| (bits | bits << shift) & mask)
}

/// A set of places in a page.
#[derive(Debug)]
enum Places {
    /// In ascending order.
    Few(Vec<u16>),
    Many(Box<[u64; WORDS]>),
}

impl Default for Places {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Places {
    fn has(&self, place: u16) -> bool {
        match self {
            Self::Few(places) => places.binary_search(&place).is_ok(),
            Self::Many(bits) => bits[usize::from(place) / 64] >> (place % 64) & 1 == 1,
        }
    }

    /// Inserts or removes a place.
    fn set(&mut self, place: u16, is_in: bool) {
        match self {
            Self::Many(bits) => {
                let (word, bit) = (&mut bits[usize::from(place) / 64], 1 << (place % 64));
                *word = if is_in { *word | bit } else { *word & !bit };
            }
            Self::Few(places) => match (places.binary_search(&place), is_in) {
                (Err(at), true) if places.len() < FEW => {
                    // Not grown by doubling: the list is short and seldom grows.
                    places.reserve_exact(1);
                    places.insert(at, place);
                }
                (Err(_), true) => {
                    let mut bits = Box::new([0; WORDS]);
                    for place in places.iter().chain([&place]) {
                        bits[usize::from(*place) / 64] |= 1 << (place % 64);
                    }
                    *self = Self::Many(bits);
                }
                (Ok(at), false) => drop(places.remove(at)),
                (Ok(_), true) | (Err(_), false) => {}
            },
        }
    }

    fn for_each(&self, mut take: impl FnMut(u16)) {
        match self {
            Self::Few(places) => places.iter().for_each(|place| take(*place)),
            Self::Many(_) => {
                (0..OBJECTS_PER_PAGE as u16).filter(|place| self.has(*place)).for_each(take);
            }
        }
    }
}
