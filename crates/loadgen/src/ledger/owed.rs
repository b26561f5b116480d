//! The state that a target must have: the ledgers of all trials that changed a dataset, combined.

use std::collections::{BTreeSet, HashMap};
use std::io::Read;

use loadstone_wire::digest::sha256;

use super::metadata::{MetadataValues, NO_METADATA};
use super::spec::{LedgerSpec, OwedSpec};
use super::{COPIES, DOUBTS, Entry, HEADER_BYTES, METADATA, OBJECTS_PER_PAGE, PAGE_BYTES};
use super::{checksum, kind};
use crate::error::Error;

/// Maximum number of possible versions of an object; with more, any version counts as possible.
const VERSIONS_MAX: usize = 4;
/// Pages above this limit contain objects without a valid number. An attacker could give such a
/// frame a valid checksum, so the limit is checked.
const PAGES_MAX: u64 = u64::MAX / OBJECTS_PER_PAGE;

/// Possible states of an object, or of its metadata, according to all acknowledged requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Allowed {
    /// Whether the object may be absent.
    pub(crate) absent: bool,
    /// Whether every state is possible.
    pub(crate) anything: bool,
    versions: [u64; VERSIONS_MAX],
    count: usize,
}

impl Allowed {
    /// The object must be absent.
    pub(crate) fn absent() -> Self {
        Self { absent: true, ..Self::default() }
    }

    /// Returns the possible versions, or values of metadata; that of the newest trial first.
    pub(crate) fn versions(&self) -> &[u64] {
        &self.versions[..self.count]
    }

    /// Returns whether exactly one state is possible: one version, or absent.
    pub(crate) fn is_determined(&self) -> bool {
        !self.anything && self.count + usize::from(self.absent) == 1
    }

    fn allow(&mut self, version: u64) {
        if self.versions().contains(&version) {
            return;
        }
        if self.count == VERSIONS_MAX {
            self.anything = true;
            return;
        }
        self.versions[self.count] = version;
        self.count += 1;
    }
}

/// The entry of an object in one attempt at a trial, and its time bounds.
#[derive(Debug, Clone)]
pub(crate) struct Noted<'a> {
    pub(crate) spec: &'a LedgerSpec,
    pub(crate) entry: Entry,
    /// Version that it put or copied, if that is known.
    pub(crate) version: Option<u64>,
    /// Whether it is about the object's copy, or about the object's metadata.
    pub(crate) is_copy: bool,
    pub(crate) is_post: bool,
    pub(crate) from_unix_ns: u64,
    pub(crate) to_unix_ns: u64,
}

#[derive(Debug, Clone)]
enum Content {
    Fill(u8),
    Bits(Box<[u8; PAGE_BYTES]>),
}

#[derive(Debug, Clone)]
struct StoredPage {
    content: Content,
    from_ns: u64,
    to_ns: u64,
}

impl StoredPage {
    fn entry(&self, place: u64) -> Entry {
        let byte = match &self.content {
            Content::Fill(byte) => *byte,
            Content::Bits(bits) => bits[(place / 4) as usize],
        };
        Entry::of_bits(byte >> (place % 4 * 2))
    }

    /// Merges the page of another writer. No two writers change the same objects.
    fn join(&mut self, other: &Self) {
        let mut bits = self.bits();
        bits.iter_mut().zip(other.bits().iter()).for_each(|(bits, more)| *bits |= more);
        self.content = Content::Bits(bits);
        self.from_ns = self.from_ns.min(other.from_ns);
        self.to_ns = self.to_ns.max(other.to_ns);
    }

    fn bits(&self) -> Box<[u8; PAGE_BYTES]> {
        match &self.content {
            Content::Fill(byte) => Box::new([*byte; PAGE_BYTES]),
            Content::Bits(bits) => bits.clone(),
        }
    }
}

/// One attempt at a trial.
#[derive(Debug)]
struct Layer {
    spec: LedgerSpec,
    values: MetadataValues,
    pages: HashMap<u64, StoredPage>,
    /// Whether it finished, so that no request was in flight when it ended.
    is_whole: bool,
}

impl Layer {
    fn noted(&self, index: u64) -> (Entry, Option<&StoredPage>) {
        let page = self.pages.get(&(index / OBJECTS_PER_PAGE));
        (page.map_or(Entry::Untouched, |page| page.entry(index % OBJECTS_PER_PAGE)), page)
    }

    /// Returns whether a request failed, although the entry says that another was acknowledged.
    fn is_in_doubt(&self, index: u64) -> bool {
        self.noted(index | DOUBTS).0 != Entry::Untouched
    }

    /// Returns whether a request of one kind may still be executed: `is_settled` tells whether a
    /// later trial has had one acknowledged.
    fn is_open(&self, index: u64, is_settled: bool) -> bool {
        // A failed request may still be executed, whatever was acknowledged since. Within its trial,
        // that changes nothing.
        self.noted(index).0 == Entry::Unknown || (is_settled && self.is_in_doubt(index))
    }
}

/// The combined ledgers of a dataset.
#[derive(Debug)]
pub(crate) struct Owed {
    /// Attempts at trials, the earliest first.
    layers: Vec<Layer>,
    is_absent_before: bool,
    /// Pages with at least one touched object or copy, in order.
    pub(crate) pages: Vec<u64>,
    has_posts: bool,
}

impl Owed {
    /// Reads the ledgers of a run that a trial names.
    ///
    /// # Errors
    /// A file is missing, or its digest differs.
    pub(crate) fn open(spec: &OwedSpec, run: &str) -> Result<Self, Error> {
        let mut layers = Vec::new();
        for ledger in &spec.ledgers {
            read(ledger, run, &mut layers)?;
        }
        let is_of_objects = |page: &u64| (page * OBJECTS_PER_PAGE) & (METADATA | DOUBTS) == 0;
        let pages: BTreeSet<u64> = layers
            .iter()
            .flat_map(|layer| layer.pages.keys().copied().filter(is_of_objects))
            .collect();
        Ok(Self {
            has_posts: layers.iter().any(|layer| layer.spec.posts),
            layers,
            is_absent_before: spec.is_absent_before,
            pages: pages.into_iter().collect(),
        })
    }

    /// Returns the possible states of an object; `None` if no trial has touched it.
    pub(crate) fn allowed(&self, index: u64) -> Option<Allowed> {
        let (allowed, is_touched) = match index.checked_sub(COPIES) {
            Some(source) => self.allowed_copy(source),
            None => self.after(&self.layers, index),
        };
        is_touched.then_some(allowed)
    }

    /// Returns the possible states of an object's copy, and whether any trial made one. It holds
    /// what the object held when it was copied last: no trial that copies writes the dataset.
    ///
    /// Copies are not claimed if a request for one failed, since that may be executed whenever the
    /// object holds something else, or if the last trial that copies was interrupted.
    fn allowed_copy(&self, source: u64) -> (Allowed, bool) {
        let (mut copied, mut is_touched, mut is_open) = (None, false, false);
        for (place, layer) in self.layers.iter().enumerate().rev() {
            let entry = layer.noted(source | COPIES).0;
            is_touched |= entry != Entry::Untouched;
            let is_cut_off = !layer.is_whole && layer.spec.copies;
            is_open |= entry == Entry::Unknown || (is_cut_off && copied.is_none());
            if entry == Entry::Written && copied.is_none() {
                copied = Some(self.after(&self.layers[..=place], source).0);
            }
        }
        // A copy was acknowledged, so the object was there.
        let copied = copied.map(|state| Allowed { absent: false, ..state });
        let known = copied.filter(|state| !is_open && state.count > 0);
        (known.unwrap_or(Allowed { anything: true, ..Allowed::default() }), is_touched)
    }

    /// Returns the possible states of an object after some attempts at trials, and whether any of
    /// them has touched it.
    fn after(&self, layers: &[Layer], index: u64) -> (Allowed, bool) {
        let mut allowed = Allowed::default();
        let (mut is_settled, mut is_touched) = (false, false);
        for layer in layers.iter().rev() {
            let LedgerSpec { version, puts, deletes, first, end, tears, repeats, .. } = layer.spec;
            let entry = layer.noted(index).0;
            is_touched |= entry != Entry::Untouched;
            // A post may be a copy of the object onto itself: one that failed may still write what
            // the object held then.
            is_settled &= !(layer.spec.posts && layer.is_open(index | METADATA, is_settled));
            // After an interrupted attempt, requests may have been in flight: puts of untouched
            // objects, deletes of any object that was put, and puts that have left a part.
            let is_cut_off = !layer.is_whole && (first..end).contains(&index) && !is_settled;
            let is_doubtful = layer.is_open(index, is_settled)
                || match entry {
                    Entry::Untouched => is_cut_off,
                    Entry::Written => is_cut_off && (deletes || (tears && repeats)),
                    Entry::Deleted | Entry::Unknown => false,
                };
            // Of two requests at once, the one that failed may have ended last, with a part.
            let is_torn = tears && (is_doubtful || layer.is_in_doubt(index));
            allowed.anything |= is_torn && puts;
            if is_doubtful {
                if puts {
                    allowed.allow(version);
                }
                allowed.absent |= deletes;
            }
            match entry {
                Entry::Written if is_cut_off && deletes => {}
                Entry::Written if !is_settled => {
                    allowed.allow(version);
                    is_settled = true;
                }
                Entry::Deleted if !is_settled => {
                    allowed.absent = true;
                    is_settled = true;
                }
                _ => {}
            }
        }
        if !is_settled {
            allowed.absent |= self.is_absent_before;
            allowed.anything |= !self.is_absent_before;
        }
        (allowed, is_touched)
    }

    /// Returns the possible values of the metadata of an object that is there; `None` if no post
    /// has touched it, or if any value is possible.
    pub(crate) fn metadata(&self, index: u64) -> Option<Allowed> {
        let source = index & !COPIES;
        let is_posted = |layer: &Layer| layer.noted(source | METADATA).0 != Entry::Untouched;
        if !self.has_posts || !self.layers.iter().any(is_posted) {
            return None;
        }
        let allowed = if index == source {
            self.metadata_after(&self.layers, source)
        } else {
            let is_copied = |layer: &Layer| layer.noted(index).0 == Entry::Written;
            let place = self.layers.iter().rposition(is_copied)?;
            let mut allowed = self.metadata_after(&self.layers[..=place], source);
            let Layer { spec, .. } = &self.layers[place];
            allowed.anything |= !spec.metadata_follows;
            if spec.posts {
                // It was copied before or after the post.
                let before = self.metadata_after(&self.layers[..place], source);
                before.versions().iter().for_each(|value| allowed.allow(*value));
                allowed.anything |= before.anything;
            }
            allowed
        };
        (!allowed.anything).then_some(allowed)
    }

    /// Returns the possible values of an object's metadata after some attempts at trials.
    fn metadata_after(&self, layers: &[Layer], index: u64) -> Allowed {
        let mut allowed = Allowed::default();
        let mut is_settled = false;
        for layer in layers.iter().rev() {
            let LedgerSpec { puts, posts, metadata_follows, first, end, .. } = layer.spec;
            let (entry, posted) = (layer.noted(index).0, layer.noted(index | METADATA).0);
            // In one trial, no object is both put and posted to.
            let is_cut_off = !layer.is_whole && !is_settled;
            let may_be_posted = layer.is_open(index | METADATA, is_settled)
                || (is_cut_off && posted == Entry::Untouched);
            if posts && (may_be_posted || (posted == Entry::Written && !is_settled)) {
                allowed.allow(layer.values.of_object(index));
            }
            let may_be_put = layer.is_open(index, is_settled)
                || (is_cut_off && entry == Entry::Untouched && (first..end).contains(&index));
            let is_replaced = matches!(entry, Entry::Written | Entry::Deleted);
            if (puts && may_be_put) || (is_replaced && !is_settled) {
                allowed.allow(NO_METADATA);
                // Without this, it may still be what it was before the put.
                allowed.anything |= puts && !metadata_follows;
            }
            is_settled |= is_replaced || posted == Entry::Written;
        }
        if !is_settled && self.is_absent_before {
            allowed.allow(NO_METADATA);
        }
        allowed.anything |= !is_settled && !self.is_absent_before;
        allowed
    }

    /// Returns whether it is certain that no object was written under a number that no ledger
    /// contains.
    pub(crate) fn is_surely_unwritten(&self, index: u64) -> bool {
        let may_be =
            |layer: &Layer| !layer.is_whole && (layer.spec.first..layer.spec.end).contains(&index);
        // Ledgers of earlier builds do not contain copies.
        index < COPIES && self.is_absent_before && !self.layers.iter().any(may_be)
    }

    /// Returns the entries of an object in all attempts, the earliest first; `with_posts` adds those
    /// of its metadata.
    pub(crate) fn history(&self, index: u64, with_posts: bool) -> impl Iterator<Item = Noted<'_>> {
        let posted = with_posts.then_some(index & !COPIES | METADATA);
        self.layers.iter().enumerate().flat_map(move |(place, layer)| {
            let numbers = std::iter::once(index).chain(posted);
            numbers.filter_map(move |number| self.noted_in(place, layer, number))
        })
    }

    fn noted_in<'a>(&self, place: usize, layer: &'a Layer, index: u64) -> Option<Noted<'a>> {
        let (entry, page) = layer.noted(index);
        let page = page.filter(|_| entry != Entry::Untouched)?;
        let (from_unix_ns, to_unix_ns) = (page.from_ns, page.to_ns);
        let source = index.checked_sub(COPIES);
        let version = source.map_or(Some(layer.spec.version), |source| {
            let (state, _) = self.after(&self.layers[..=place], source);
            state.versions().first().copied().filter(|_| state.is_determined())
        });
        let is_copy = source.is_some();
        let is_post = index & METADATA != 0;
        Some(Noted {
            spec: &layer.spec,
            entry,
            version,
            is_copy,
            is_post,
            from_unix_ns,
            to_unix_ns,
        })
    }
}

/// Reads the attempts of one ledger.
fn read(spec: &LedgerSpec, run: &str, layers: &mut Vec<Layer>) -> Result<(), Error> {
    let shown = &spec.path;
    let wrong = |reason: String| Error::Trial(vec![format!("ledger \"{shown}\": {reason}")]);
    let bytes = std::fs::read(shown).map_err(|error| wrong(error.to_string()))?;
    let digest: String = sha256(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if digest != spec.sha256 {
        let wanted = &spec.sha256;
        return Err(wrong(format!("found SHA-256 {digest}, the trial names {wanted}")));
    }
    let mut attempts = Vec::new();
    let mut pages: HashMap<(u32, u64), StoredPage> = HashMap::new();
    let (mut has_begun, mut is_whole) = (false, false);
    let mut rest = bytes.as_slice();
    // Data behind a truncated frame cannot be trusted.
    while let Some((frame, behind)) = Frame::split(rest) {
        rest = behind;
        match frame.kind {
            kind::BEGIN => {
                if has_begun {
                    attempts.push((std::mem::take(&mut pages), is_whole));
                }
                (has_begun, is_whole) = (true, false);
            }
            kind::END => is_whole = true,
            _ => {
                let Some(mut page) = frame.page() else { break };
                if let Some(earlier) = pages.get(&(frame.writer, frame.number)) {
                    page.from_ns = earlier.from_ns;
                }
                pages.insert((frame.writer, frame.number), page);
            }
        }
    }
    attempts.push((pages, is_whole && rest.is_empty()));
    for (by_writer, is_whole) in attempts {
        let mut pages: HashMap<u64, StoredPage> = HashMap::new();
        for ((_, number), page) in by_writer {
            match pages.get_mut(&number) {
                Some(joined) => joined.join(&page),
                None => {
                    pages.insert(number, page);
                }
            }
        }
        let values = MetadataValues::of_trial(run, &spec.trial);
        layers.push(Layer { spec: spec.clone(), values, pages, is_whole });
    }
    Ok(())
}

/// A frame as stored in a file.
struct Frame<'a> {
    kind: u8,
    writer: u32,
    number: u64,
    from_ns: u64,
    to_ns: u64,
    content: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Returns the first frame of these bytes, if it is complete, and the rest.
    fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let head: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let long =
            |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
        let end = HEADER_BYTES + word(32) as usize;
        let content = bytes.get(HEADER_BYTES..end)?;
        if checksum(&head[..36], content) != word(36) {
            return None;
        }
        let (writer, number) = (word(4), long(8));
        let (from_ns, to_ns) = (long(16), long(24));
        Some((Self { kind: head[0], writer, number, from_ns, to_ns, content }, &bytes[end..]))
    }

    fn page(&self) -> Option<StoredPage> {
        let content = match (self.kind, self.content) {
            _ if self.number >= PAGES_MAX => return None,
            (kind::FILL, &[byte]) => Content::Fill(byte),
            (kind::PAGE, content) => Content::Bits(Box::new(content.try_into().ok()?)),
            (kind::PACKED, content) => {
                let mut bits = Box::new([0; PAGE_BYTES]);
                flate2::read::ZlibDecoder::new(content).read_exact(&mut *bits).ok()?;
                Content::Bits(bits)
            }
            _ => return None,
        };
        Some(StoredPage { content, from_ns: self.from_ns, to_ns: self.to_ns })
    }
}
