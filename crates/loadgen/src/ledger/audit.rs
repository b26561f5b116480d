//! What an audit has found, as all load threads of a host see it: listings first, then objects one by one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use loadstone_history::Damage;
use serde::Serialize;

use super::owed::{Allowed, Noted, Owed};
use super::spec::OwedSpec;
use super::{Entry, OBJECTS_PER_PAGE};
use crate::chance::mix64;
use crate::error::Error;
use crate::portion::Portion;

/// Findings that are kept whole; what is beyond them is only counted.
const FINDINGS_MAX: usize = 10_000;
/// At most this many listed keys without a recorded put are read one by one.
const UNEXPECTED_MAX: usize = 1000;

/// What is wrong with an object, against what was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FindingKind {
    Lost,
    Stale,
    Resurrected,
    Damaged(Damage),
    Phantom,
    Ghost,
    ListMissing,
    ListedTwice,
}

impl FindingKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Stale => "stale",
            Self::Resurrected => "resurrected",
            Self::Damaged(damage) => damage.name(),
            Self::Phantom => "phantom",
            Self::Ghost => "ghost",
            Self::ListMissing => "list_missing",
            Self::ListedTwice => "listed_twice",
        }
    }
}

/// One call of the proof of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Call {
    /// What was asked for.
    pub operation: String,
    /// The trial that asked, where it was another one than the audit itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<String>,
    /// How it ended; `failed` where a ledger says no more.
    pub outcome: String,
    /// The version that it wrote, or that had to be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The version that had to be there, where it was conditional on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// The client that asked, where a history knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<u32>,
    /// It began after this, in nanoseconds since 1970 by its host's clock.
    pub from_unix_ns: u64,
    /// It had ended by then.
    pub to_unix_ns: u64,
}

/// An object that is not as was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// What is wrong: `lost`, `stale`, `resurrected` …
    pub kind: String,
    /// The bucket of the object.
    pub bucket: String,
    /// Its key.
    pub key: String,
    /// Its number.
    pub number: u64,
    /// How long it is.
    pub size_bytes: u64,
    /// How many calls of a history show the same.
    pub times: u64,
    /// The calls that prove it, in their order.
    pub calls: Vec<Call>,
    /// The path, in the run folder, of the campaign that repeats these calls; absent until it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
}

impl Finding {
    /// Makes a finding of which no replay is written yet.
    pub(crate) fn new(kind: &str, number: u64, place: Place, times: u64, calls: Vec<Call>) -> Self {
        let Place { bucket, key, size_bytes } = place;
        Self { kind: kind.into(), bucket, key, number, size_bytes, times, calls, replay: None }
    }
}

/// What was judged of histories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HistorySummary {
    /// What the target had to keep to.
    pub model: String,
    /// How many calls were judged.
    pub calls: u64,
    /// On how many objects.
    pub objects: u64,
    /// Objects of which it could not be decided.
    pub undecided: u64,
    /// Reads that saw less than had been there before they began.
    pub stale_reads: u64,
    /// How long something newer had been there by then, of those reads.
    pub behind_ns: Spread,
    /// How many newer writes had been acknowledged by then.
    pub behind_versions: Spread,
}

/// How a sample is distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spread {
    /// Half are up to this.
    pub p50: u64,
    /// 99 of 100 are up to this.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

/// What an audit looked at, and what it found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AuditSummary {
    /// Objects that must be there, since their put was acknowledged.
    pub written: u64,
    /// Objects that must be gone, since their delete was acknowledged.
    pub deleted: u64,
    /// Objects of which a request failed or was cut off, so that more than one state is right.
    pub unknown: u64,
    /// Objects of the first two kinds that were asked for and answered.
    pub read_back: u64,
    /// Objects of which no answer told anything.
    pub unanswered: u64,
    /// Keys in the listings of all buckets.
    pub listed: u64,
    /// Buckets whose listing failed, so that nothing is said of it.
    pub listings_failed: u64,
    /// Findings by kind, all of them.
    pub counts: BTreeMap<String, u64>,
    /// The findings, as many as are kept.
    pub findings: Vec<Finding>,
    /// What was judged of the calls, where a history was kept of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<HistorySummary>,
}

/// Two bits an object: listed, and listed again.
const LISTED: u8 = 1;
const LISTED_AGAIN: u8 = 2;

/// What all load threads of an audit share.
#[derive(Debug)]
pub(crate) struct Audit {
    pub(crate) owed: Owed,
    /// Objects whose hash is up to this are read.
    sampled: u64,
    seed: u64,
    portion: Portion,
    buckets: u64,
    listed: HashMap<u64, Box<[AtomicU8]>>,
    listings: AtomicU64,
    listings_done: AtomicU64,
    next_page: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    summary: AuditSummary,
    failed_buckets: BTreeSet<u64>,
    /// Numbers in listings that no ledger has.
    unexpected: Vec<u64>,
}

/// Where an object lies, and how long it is.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) size_bytes: u64,
}

/// What a client of an audit does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    List(u64),
    /// Other clients' listings have not ended.
    Wait,
    /// Objects of a page, and then of the next one.
    Page(u64),
    /// An object that a listing names, and no ledger.
    Unexpected(u64),
    Over,
}

/// An object that is to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) index: u64,
    pub(crate) allowed: Allowed,
    /// Whether its bucket's listing named it, and how often; nothing where the listing failed.
    pub(crate) listed: Option<u32>,
    /// Whether only a listing knows of it.
    is_unexpected: bool,
}

impl Reading {
    /// Returns an object that a listing names, and that no ledger knows of.
    pub(crate) fn unexpected(index: u64) -> Self {
        let allowed = Allowed::absent();
        Self { index, allowed, listed: None, is_unexpected: true }
    }

    /// Returns what it is that an object is there which must not be.
    pub(crate) fn kind_of_surplus(&self) -> FindingKind {
        if self.is_unexpected { FindingKind::Phantom } else { FindingKind::Resurrected }
    }

    /// Returns what is wrong with the listing, where the object itself is right.
    pub(crate) fn kind_of_listing(&self, is_absent: bool) -> Option<FindingKind> {
        match (is_absent, self.listed) {
            (true, _) if self.is_unexpected => Some(FindingKind::Ghost),
            (_, None) => None,
            (true, Some(1..)) if self.allowed.is_determined() => Some(FindingKind::Ghost),
            (false, Some(0)) if self.allowed.is_determined() => Some(FindingKind::ListMissing),
            (false, Some(2..)) => Some(FindingKind::ListedTwice),
            _ => None,
        }
    }
}

impl Audit {
    /// Reads the ledgers that an audit names; `buckets` is how many there are.
    ///
    /// # Errors
    /// A ledger is missing, or is another one than was meant.
    pub(crate) fn open(
        spec: &OwedSpec,
        portion: Portion,
        buckets: u64,
        seed: u64,
    ) -> Result<Self, Error> {
        let owed = Owed::open(spec)?;
        let mut summary = AuditSummary::default();
        let mut listed = HashMap::new();
        for (rank, page) in owed.pages.iter().enumerate() {
            let bits: Box<[AtomicU8]> = std::iter::repeat_with(|| AtomicU8::new(0))
                .take(OBJECTS_PER_PAGE as usize / 4)
                .collect();
            listed.insert(*page, bits);
            if rank as u64 % u64::from(portion.of) != u64::from(portion.index) {
                continue;
            }
            for index in page * OBJECTS_PER_PAGE..(page + 1) * OBJECTS_PER_PAGE {
                match owed.allowed(index) {
                    None => {}
                    Some(allowed) if !allowed.is_determined() => summary.unknown += 1,
                    Some(allowed) if allowed.absent => summary.deleted += 1,
                    Some(_) => summary.written += 1,
                }
            }
        }
        let all = summary.written + summary.deleted + summary.unknown;
        let sampled = match spec.sample {
            Some(sample) if portion.share(sample) < all => {
                (portion.share(sample) as f64 / all as f64 * u64::MAX as f64) as u64
            }
            _ => u64::MAX,
        };
        Ok(Self {
            owed,
            sampled,
            seed: mix64(seed ^ 0x6175_6469),
            portion,
            buckets,
            listed,
            listings: AtomicU64::new(0),
            listings_done: AtomicU64::new(0),
            next_page: AtomicU64::new(0),
            state: Mutex::new(State { summary, ..State::default() }),
        })
    }

    /// Returns what a client without work does next.
    pub(crate) fn next(&self) -> Step {
        let bucket = self.listings.load(Ordering::Relaxed);
        if bucket < self.buckets {
            let bucket = self.listings.fetch_add(1, Ordering::Relaxed);
            if bucket < self.buckets {
                return Step::List(bucket);
            }
        }
        if self.listings_done.load(Ordering::Acquire) < self.buckets {
            return Step::Wait;
        }
        if let Some(index) = self.state().unexpected.pop() {
            return Step::Unexpected(index);
        }
        let rank = self.portion.number(self.next_page.fetch_add(1, Ordering::Relaxed));
        match self.owed.pages.get(rank as usize) {
            Some(page) => Step::Page(*page),
            None => Step::Over,
        }
    }

    /// Returns the object to read under this number, if it is one to be read.
    pub(crate) fn reading(&self, index: u64) -> Option<Reading> {
        let allowed = self.owed.allowed(index).filter(|allowed| !allowed.anything)?;
        let bucket = index % self.buckets;
        // Only listings that failed are in the set, mostly none.
        let is_listing_known = !self.state().failed_buckets.contains(&bucket);
        let listed = is_listing_known.then(|| self.times_listed(index));
        let is_odd = listed.is_some_and(|times| {
            times > 1 || (allowed.is_determined() && (times > 0) == allowed.absent)
        });
        let is_chosen = mix64(self.seed ^ mix64(index)) <= self.sampled;
        (is_odd || is_chosen).then_some(Reading { index, allowed, listed, is_unexpected: false })
    }

    fn times_listed(&self, index: u64) -> u32 {
        let (bits, shift) = self.listed_bits(index).expect("it is in a page of a ledger");
        (bits.load(Ordering::Relaxed) >> shift & (LISTED | LISTED_AGAIN)).count_ones()
    }

    fn listed_bits(&self, index: u64) -> Option<(&AtomicU8, u64)> {
        let bits = self.listed.get(&(index / OBJECTS_PER_PAGE))?;
        let place = index % OBJECTS_PER_PAGE;
        Some((&bits[(place / 4) as usize], place % 4 * 2))
    }

    /// Takes note that a listing has ended.
    pub(crate) fn end_listing(&self, bucket: u64, is_ok: bool) {
        if !is_ok {
            let mut state = self.state();
            state.failed_buckets.insert(bucket);
            state.summary.listings_failed += 1;
        }
        self.listings_done.fetch_add(1, Ordering::Release);
    }

    /// Takes note of an object that no answer told anything of.
    pub(crate) fn give_up(&self) {
        self.state().summary.unanswered += 1;
    }

    /// Takes note of an object that was asked for and answered.
    pub(crate) fn note_read(&self, allowed: &Allowed) {
        if allowed.is_determined() {
            self.state().summary.read_back += 1;
        }
    }

    /// Takes note of a finding, with the reads that show it.
    pub(crate) fn note_finding(
        &self,
        kind: FindingKind,
        index: u64,
        place: impl FnOnce() -> Place,
        reads: Vec<Call>,
    ) {
        let mut state = self.state();
        *state.summary.counts.entry(kind.name().into()).or_default() += 1;
        if state.summary.findings.len() >= FINDINGS_MAX {
            return;
        }
        let calls = self.owed.history(index).map(|noted| call_of(&noted)).chain(reads).collect();
        state.summary.findings.push(Finding::new(kind.name(), index, place(), 1, calls));
    }

    /// Takes note of an object that its bucket's listing names.
    pub(crate) fn note_listed(&self, index: u64) {
        if let Some((bits, shift)) = self.listed_bits(index)
            && self.owed.allowed(index).is_some()
        {
            let before = bits.fetch_or(LISTED << shift, Ordering::Relaxed) >> shift;
            if before & LISTED != 0 {
                bits.fetch_or(LISTED_AGAIN << shift, Ordering::Relaxed);
            }
        } else if self.owed.is_surely_unwritten(index) {
            let mut state = self.state();
            if state.unexpected.len() < UNEXPECTED_MAX {
                state.unexpected.push(index);
            }
        }
    }

    /// Takes note of how many keys a listing had.
    pub(crate) fn note_keys(&self, count: u64) {
        self.state().summary.listed += count;
    }

    /// Returns what was found so far.
    pub(crate) fn summary(&self) -> AuditSummary {
        let mut summary = self.state().summary.clone();
        summary.findings.sort_by_key(|finding| finding.number);
        summary
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

fn call_of(noted: &Noted<'_>) -> Call {
    let spec = noted.spec;
    let (operation, outcome) = match noted.entry {
        Entry::Written => ("put", "ok"),
        Entry::Deleted => ("delete", "ok"),
        _ if spec.puts && spec.deletes => ("put or delete", "failed"),
        _ if spec.puts => ("put", "failed"),
        _ => ("delete", "failed"),
    };
    Call {
        operation: operation.into(),
        trial: Some(spec.trial.clone()),
        outcome: outcome.into(),
        version: (operation == "put").then_some(spec.version),
        expected: None,
        client: None,
        from_unix_ns: noted.from_unix_ns,
        to_unix_ns: noted.to_unix_ns,
    }
}
