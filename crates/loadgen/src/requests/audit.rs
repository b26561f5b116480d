//! The requests of an audit: it lists each bucket, then reads each object that a ledger contains,
//! or a sample of them. The acknowledged state decides which answers are right.

use std::sync::Arc;

use crate::clock::{monotonic_ns, unix_ns};
use crate::dataset::{COPY_SUFFIX, Dataset, Object};
use crate::ledger::{Allowed, Audit, COPIES, Call, FindingKind, OBJECTS_PER_PAGE, Reading, Step};
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::requests::{Next, Request, Subject};
use crate::trial::Trial;

/// Maximum number of retries of a failed read or listing.
const REPEATS_MAX: u32 = 3;
/// How long a client sleeps while other clients finish their listings.
const LOOK_NS: u64 = 1_000_000;

/// The requests of one load thread's share of an audit.
#[derive(Debug)]
pub(crate) struct ReadBack {
    audit: Arc<Audit>,
    dataset: Dataset,
    version: u64,
    /// Objects of the page that this thread has drawn and not processed yet.
    page: std::ops::Range<u64>,
    under_way: Vec<UnderWay>,
    /// Offset from this host's monotonic time to time since 1970.
    since_1970_ns: i128,
}

/// The listing or read that a client has begun.
#[derive(Debug, Default)]
enum UnderWay {
    #[default]
    Nothing,
    Listing {
        bucket: u64,
        repeats: u32,
    },
    Reading(Box<UnderRead>),
}

/// An object that a client reads, possibly several times.
#[derive(Debug)]
struct UnderRead {
    reading: Reading,
    /// Index of the expected version among the possible ones.
    at: usize,
    /// Whether its content was right, so that its metadata is read.
    is_at_metadata: bool,
    repeats: u32,
    finding: Option<FindingKind>,
    calls: Vec<Call>,
}

impl ReadBack {
    pub(super) fn new(trial: &Trial, audit: Arc<Audit>, threads: usize, clients: u32) -> Self {
        Self {
            audit,
            dataset: Dataset::new(trial),
            version: trial.dataset.version,
            page: 0..0,
            under_way: std::iter::repeat_with(UnderWay::default)
                .take((clients as usize).div_ceil(threads))
                .collect(),
            since_1970_ns: i128::from(unix_ns()) - i128::from(monotonic_ns()),
        }
    }

    /// Returns the next request of a client: a retry, a read of another version, or another object.
    pub(super) fn next(&mut self, client: usize, now_ns: u64) -> Next {
        if let UnderWay::Nothing = self.under_way[client] {
            match self.begin() {
                Ok(begun) => self.under_way[client] = begun,
                Err(next) => {
                    return if let Next::Later(_) = next {
                        Next::Later(now_ns + LOOK_NS)
                    } else {
                        next
                    };
                }
            }
        }
        let (operation, subject) = match &self.under_way[client] {
            UnderWay::Nothing => return Next::Over,
            UnderWay::Listing { bucket, .. } => (Operation::List, Subject::Bucket(*bucket)),
            UnderWay::Reading(read) => {
                let (index, version) = (read.reading.index, self.expected(read));
                let object = Object { index: index & !COPIES, version };
                let is_copy = index >= COPIES;
                let subject = if is_copy { Subject::Copy(object) } else { Subject::Object(object) };
                (read.operation(), subject)
            }
        };
        Next::Request(Request { operation, subject, chance: 0, is_verified: true })
    }

    /// Returns whether this thread has objects left to read, or requests in progress.
    pub(super) fn has_work(&self) -> bool {
        !self.page.is_empty() || self.under_way.iter().any(|job| !matches!(job, UnderWay::Nothing))
    }

    fn expected(&self, read: &UnderRead) -> u64 {
        read.reading.allowed.versions().get(read.at).copied().unwrap_or(self.version)
    }

    fn begin(&mut self) -> Result<UnderWay, Next> {
        loop {
            for index in self.page.by_ref() {
                if let Some(reading) = self.audit.reading(index) {
                    return Ok(UnderWay::Reading(UnderRead::of(reading)));
                }
            }
            match self.audit.next() {
                Step::List(bucket) => return Ok(UnderWay::Listing { bucket, repeats: 0 }),
                Step::Wait => return Err(Next::Later(0)),
                Step::Unexpected(index) => {
                    let reading = Reading::unexpected(index);
                    return Ok(UnderWay::Reading(UnderRead::of(reading)));
                }
                Step::Page(page) => {
                    self.page = page * OBJECTS_PER_PAGE..(page + 1) * OBJECTS_PER_PAGE
                }
                Step::Over => return Err(Next::Over),
            }
        }
    }

    /// Compares an answer with the acknowledged state, and sets the request's outcome accordingly.
    /// `value` is that of the metadata, if the request read it.
    pub(super) fn judge(&mut self, client: usize, value: u64, completion: &mut Completion) {
        match std::mem::take(&mut self.under_way[client]) {
            UnderWay::Nothing => {}
            UnderWay::Listing { bucket, repeats } => {
                if completion.outcome.is_ok() || repeats >= REPEATS_MAX {
                    self.audit.end_listing(bucket, completion.outcome.is_ok());
                } else {
                    self.under_way[client] = UnderWay::Listing { bucket, repeats: repeats + 1 };
                }
            }
            UnderWay::Reading(read) if read.is_at_metadata => {
                self.under_way[client] = self.judge_metadata(read, value, completion);
            }
            UnderWay::Reading(read) => {
                self.under_way[client] = self.judge_read(read, completion);
            }
        }
    }

    fn judge_metadata(
        &self,
        mut read: Box<UnderRead>,
        value: u64,
        completion: &mut Completion,
    ) -> UnderWay {
        let is_allowed = |allowed: Allowed| allowed.versions().contains(&value);
        let is_answered = completion.outcome.is_ok();
        if is_answered && !read.reading.metadata.is_some_and(is_allowed) {
            completion.outcome = Outcome::METADATA_WRONG;
        }
        read.calls.push(self.call(&read, completion, None));
        if let Some(kind) = read.finding {
            self.end(kind, *read);
            return UnderWay::Nothing;
        }
        if !is_answered {
            read.repeats += 1;
            return if read.repeats <= REPEATS_MAX {
                UnderWay::Reading(read)
            } else {
                UnderWay::Nothing
            };
        }
        self.audit.note_metadata(&read.reading);
        if completion.outcome.is_ok() {
            return UnderWay::Nothing;
        }
        read.finding = Some(FindingKind::MetadataWrong);
        UnderWay::Reading(read)
    }

    fn judge_read(&self, mut read: Box<UnderRead>, completion: &mut Completion) -> UnderWay {
        let answer = Answer::of(completion.outcome);
        let allowed = read.reading.allowed;
        let version = allowed.versions().get(read.at).copied();
        read.calls.push(self.call(&read, completion, version));
        if let Some(kind) = read.finding {
            // The object was read again, so that the finding shows whether the state persists.
            self.end(kind, *read);
            return UnderWay::Nothing;
        }
        let finding = match answer {
            Answer::None if read.repeats < REPEATS_MAX => {
                read.repeats += 1;
                return UnderWay::Reading(read);
            }
            Answer::None => {
                self.audit.give_up();
                return UnderWay::Nothing;
            }
            Answer::Right if version.is_some() => None,
            Answer::Right => Some(read.reading.kind_of_surplus()),
            Answer::Absent if allowed.absent => None,
            Answer::Absent => Some(FindingKind::Lost),
            Answer::Wrong(_) if version.is_none() => Some(read.reading.kind_of_surplus()),
            Answer::Wrong(FindingKind::Stale | FindingKind::Phantom)
                if read.at + 1 < allowed.versions().len() =>
            {
                read.at += 1;
                completion.outcome = Outcome::OK;
                return UnderWay::Reading(read);
            }
            Answer::Wrong(kind) => Some(kind),
        };
        self.audit.note_read(&allowed);
        let finding = finding.or_else(|| read.reading.kind_of_listing(answer == Answer::Absent));
        completion.outcome = outcome_of(finding, completion.outcome);
        match finding {
            // A finding from the listing does not apply to this read.
            Some(
                kind @ (FindingKind::ListMissing | FindingKind::ListedTwice | FindingKind::Ghost),
            ) => {
                self.end(kind, *read);
                UnderWay::Nothing
            }
            Some(kind) => {
                read.finding = Some(kind);
                read.at = 0;
                UnderWay::Reading(read)
            }
            None if answer == Answer::Right && read.reading.metadata.is_some() => {
                (read.is_at_metadata, read.repeats) = (true, 0);
                UnderWay::Reading(read)
            }
            None => UnderWay::Nothing,
        }
    }

    fn end(&self, kind: FindingKind, read: UnderRead) {
        let index = read.reading.index;
        let place = || {
            let mut place = self.dataset.place_of(index & !COPIES, self.version);
            if index >= COPIES {
                place.key.push_str(COPY_SUFFIX);
            }
            place
        };
        self.audit.note_finding(kind, index, place, read.calls);
    }

    fn call(&self, read: &UnderRead, completion: &Completion, version: Option<u64>) -> Call {
        let since_1970 = |time_ns: u64| {
            u64::try_from(i128::from(time_ns) + self.since_1970_ns).unwrap_or_default()
        };
        Call {
            operation: read.operation().name().into(),
            trial: None,
            outcome: completion.outcome.name().into_owned(),
            version,
            expected: None,
            client: None,
            from_unix_ns: since_1970(completion.sent_ns),
            to_unix_ns: since_1970(completion.ended_ns),
        }
    }
}

impl UnderRead {
    fn of(reading: Reading) -> Box<Self> {
        let (finding, calls) = (None, Vec::new());
        Box::new(Self { reading, at: 0, is_at_metadata: false, repeats: 0, finding, calls })
    }

    fn operation(&self) -> Operation {
        if self.is_at_metadata { Operation::Head } else { Operation::Get }
    }
}

/// Conclusion from an answer about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Nothing: the request failed.
    None,
    /// The object exists in the expected version.
    Right,
    Absent,
    Wrong(FindingKind),
}

impl Answer {
    fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::OK => Self::Right,
            Outcome::UNWRITTEN => Self::Absent,
            _ if outcome.is_absent() => Self::Absent,
            Outcome::STALE => Self::Wrong(FindingKind::Stale),
            Outcome::PHANTOM => Self::Wrong(FindingKind::Phantom),
            _ => outcome
                .damage()
                .map_or(Self::None, |damage| Self::Wrong(FindingKind::Damaged(damage))),
        }
    }
}

/// Returns the outcome under which a read is counted.
fn outcome_of(finding: Option<FindingKind>, outcome: Outcome) -> Outcome {
    match finding {
        None => Outcome::OK,
        Some(FindingKind::Lost | FindingKind::ListMissing) => Outcome::MISSING,
        Some(
            FindingKind::Resurrected
            | FindingKind::Phantom
            | FindingKind::Ghost
            | FindingKind::ListedTwice,
        ) => Outcome::EXTRA,
        Some(_) => outcome,
    }
}
