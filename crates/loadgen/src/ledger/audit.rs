//! The state and findings of an audit, shared by all load threads of a host. Buckets are listed
//! first, then objects are read one by one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use loadstone_history::Damage;
use serde::Serialize;

use super::owed::{Allowed, Noted, Owed};
use super::spec::OwedSpec;
use super::{COPIES, Entry, OBJECTS_PER_PAGE};
use crate::chance::mix64;
use crate::error::Error;
use crate::portion::Portion;

/// Maximum number of findings kept in full; findings beyond that are only counted.
const FINDINGS_MAX: usize = 10_000;
/// Maximum number of listed keys without a recorded put that are read one by one.
const UNEXPECTED_MAX: usize = 1000;

/// How an object differs from what was acknowledged.
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
    MetadataWrong,
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
            Self::MetadataWrong => "metadata_wrong",
        }
    }
}

/// One call in the proof of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Call {
    /// Operation of the call.
    pub operation: String,
    /// Trial of the call, if it is not the audit itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trial: Option<String>,
    /// Outcome of the call; `failed` if a ledger records no more than that.
    pub outcome: String,
    /// Version that the call wrote or expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Version that the call's condition required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// Client of the call, if a history records it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<u32>,
    /// Lower bound of its begin, in nanoseconds since 1970 by its host's clock.
    pub from_unix_ns: u64,
    /// Upper bound of its end, in nanoseconds since 1970 by the same clock.
    pub to_unix_ns: u64,
}

/// An object that differs from what was acknowledged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Finding {
    /// Kind of the finding: `lost`, `stale`, `resurrected` …
    pub kind: String,
    /// Bucket of the object.
    pub bucket: String,
    /// Key of the object.
    pub key: String,
    /// Number of the object, or of the object from which it was copied.
    pub number: u64,
    /// Length of the object, in bytes.
    pub size_bytes: u64,
    /// Number of calls of a history that show the same.
    pub times: u64,
    /// Calls that prove the finding, in order.
    pub calls: Vec<Call>,
    /// Path, in the run folder, of the campaign that repeats these calls; absent until it is
    /// written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
}

impl Finding {
    /// Creates a finding without a replay.
    pub(crate) fn new(kind: &str, number: u64, place: Place, times: u64, calls: Vec<Call>) -> Self {
        let Place { bucket, key, size_bytes } = place;
        Self { kind: kind.into(), bucket, key, number, size_bytes, times, calls, replay: None }
    }
}

/// Result of judging histories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct HistorySummary {
    /// Consistency model that the target had to satisfy.
    pub model: String,
    /// Number of judged calls.
    pub calls: u64,
    /// Number of objects in those calls.
    pub objects: u64,
    /// Objects for which the judge could not decide.
    pub undecided: u64,
    /// Reads that returned an older state than one that had been visible before they began.
    pub stale_reads: u64,
    /// For those reads, how long the newer state had been visible, in nanoseconds.
    pub behind_ns: Spread,
    /// For those reads, how many newer writes had been acknowledged.
    pub behind_versions: Spread,
}

/// Distribution of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Spread {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Maximum.
    pub max: u64,
}

/// Scope and results of an audit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct AuditSummary {
    /// Objects that must exist, because their put was acknowledged.
    pub written: u64,
    /// Objects that must not exist, because their delete was acknowledged.
    pub deleted: u64,
    /// Objects of which a request failed or was interrupted, so that several states are right.
    pub unknown: u64,
    /// Objects of the first two kinds for which a read was answered.
    pub read_back: u64,
    /// Objects for which no read was answered.
    pub unanswered: u64,
    /// Objects of the first kind that a `post` has touched, and whose metadata has one right value.
    pub metadata: u64,
    /// Those of them whose metadata was read.
    pub metadata_read_back: u64,
    /// Keys in the listings of all buckets.
    pub listed: u64,
    /// Buckets whose listing failed, so that it was not judged.
    pub listings_failed: u64,
    /// Number of all findings, by kind.
    pub counts: BTreeMap<String, u64>,
    /// Findings kept in full, up to a maximum.
    pub findings: Vec<Finding>,
    /// Result of judging the calls, if their history was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<HistorySummary>,
}

/// Two bits per object: listed, and listed again.
const LISTED: u8 = 1;
const LISTED_AGAIN: u8 = 2;

/// State that all load threads of an audit share.
#[derive(Debug)]
pub(crate) struct Audit {
    pub(crate) owed: Owed,
    /// Objects whose hash is at most this are read.
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
    /// Numbers of listed objects that no ledger contains.
    unexpected: Vec<u64>,
}

/// Location and length of an object.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) size_bytes: u64,
}

/// The next step of a client of an audit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    List(u64),
    /// Wait for the listings of other clients.
    Wait,
    /// Read the objects of a page, then those of the next one.
    Page(u64),
    /// Read an object that a listing contains and no ledger does.
    Unexpected(u64),
    Over,
}

/// An object to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) index: u64,
    pub(crate) allowed: Allowed,
    /// How often its bucket's listing contained it; `None` if the listing failed.
    pub(crate) listed: Option<u32>,
    /// The possible values of its metadata, if these are to be read.
    pub(crate) metadata: Option<Allowed>,
    /// Whether only a listing contains it.
    is_unexpected: bool,
}

impl Reading {
    /// Returns the reading of an object that a listing contains and no ledger does.
    pub(crate) fn unexpected(index: u64) -> Self {
        let allowed = Allowed::absent();
        Self { index, allowed, listed: None, metadata: None, is_unexpected: true }
    }

    /// Returns the kind of finding if the object exists although it must not.
    pub(crate) fn kind_of_surplus(&self) -> FindingKind {
        if self.is_unexpected { FindingKind::Phantom } else { FindingKind::Resurrected }
    }

    /// Returns the kind of finding for the listing, if the object itself is right.
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
    /// Reads the ledgers of a run that an audit names; `buckets` is the number of buckets.
    ///
    /// # Errors
    /// A ledger is missing, or its digest differs.
    pub(crate) fn open(
        spec: &OwedSpec,
        run: &str,
        portion: Portion,
        buckets: u64,
        seed: u64,
    ) -> Result<Self, Error> {
        let owed = Owed::open(spec, run)?;
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
                    Some(_) => {
                        summary.written += 1;
                        let metadata = owed.metadata(index);
                        summary.metadata += u64::from(metadata.is_some_and(|m| m.is_determined()));
                    }
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

    /// Returns the next step of a client without work.
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

    /// Returns the reading of the object with this number, if it is to be read.
    pub(crate) fn reading(&self, index: u64) -> Option<Reading> {
        let allowed = self.owed.allowed(index).filter(|allowed| !allowed.anything)?;
        let bucket = (index & !COPIES) % self.buckets;
        // The set contains failed listings only, so it is mostly empty.
        let is_listing_known = !self.state().failed_buckets.contains(&bucket);
        let listed = is_listing_known.then(|| self.times_listed(index));
        let is_odd = listed.is_some_and(|times| {
            times > 1 || (allowed.is_determined() && (times > 0) == allowed.absent)
        });
        let is_chosen = mix64(self.seed ^ mix64(index)) <= self.sampled;
        let metadata = self.owed.metadata(index).filter(|_| !allowed.versions().is_empty());
        let reading = Reading { index, allowed, listed, metadata, is_unexpected: false };
        (is_odd || is_chosen).then_some(reading)
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

    /// Records that a listing has ended.
    pub(crate) fn end_listing(&self, bucket: u64, is_ok: bool) {
        if !is_ok {
            let mut state = self.state();
            state.failed_buckets.insert(bucket);
            state.summary.listings_failed += 1;
        }
        self.listings_done.fetch_add(1, Ordering::Release);
    }

    /// Records an object for which no read was answered.
    pub(crate) fn give_up(&self) {
        self.state().summary.unanswered += 1;
    }

    /// Records an object for which a read was answered.
    pub(crate) fn note_read(&self, allowed: &Allowed) {
        if allowed.is_determined() {
            self.state().summary.read_back += 1;
        }
    }

    /// Records an object whose metadata was read.
    pub(crate) fn note_metadata(&self, reading: &Reading) {
        let is_determined = |allowed: Option<Allowed>| allowed.is_some_and(|a| a.is_determined());
        if reading.allowed.is_determined() && is_determined(reading.metadata) {
            self.state().summary.metadata_read_back += 1;
        }
    }

    /// Records a finding, with the reads that prove it.
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
        let changes = self.owed.history(index, kind == FindingKind::MetadataWrong);
        let calls = changes.map(|noted| call_of(&noted)).chain(reads).collect();
        state.summary.findings.push(Finding::new(kind.name(), index & !COPIES, place(), 1, calls));
    }

    /// Records that a bucket's listing contains an object.
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

    /// Adds the number of keys in a listing.
    pub(crate) fn note_keys(&self, count: u64) {
        self.state().summary.listed += count;
    }

    /// Returns the results so far.
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
        Entry::Written if noted.is_post => ("post", "ok"),
        _ if noted.is_post => ("post", "failed"),
        Entry::Written if noted.is_copy => ("copy", "ok"),
        _ if noted.is_copy => ("copy", "failed"),
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
        version: noted.version.filter(|_| matches!(operation, "put" | "copy")),
        expected: None,
        client: None,
        from_unix_ns: noted.from_unix_ns,
        to_unix_ns: noted.to_unix_ns,
    }
}
