//! Finds the calls that contradict others, and proves each contradiction by two or three calls.

use std::collections::{HashMap, HashSet};

use crate::call::{ABSENT, Action, Call, Damage, take_out};

/// How a call contradicts others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A write was acknowledged, and no read ever returned its value.
    Lost,
    /// A read returned an older value than an earlier call had shown.
    Stale,
    /// A delete was acknowledged, and a later read returned a deleted value.
    Resurrected,
    /// A read returned no valid value.
    Damaged(Damage),
    /// A read returned a value that was never written, or not yet.
    Phantom,
    /// Two concurrent writes on the same condition both succeeded.
    TwoWinners,
    /// A conditional write overwrote an acknowledged write that its condition excludes.
    LostUpdate,
    /// A conditional write succeeded although its condition did not hold.
    ConditionIgnored,
    /// A page of a listing showed a key that had been deleted or never written.
    Ghost,
    /// A page of a listing did not show a key that existed.
    ListMissing,
    /// The calls have no linearization, although no three of them contradict each other.
    Unordered,
}

impl Kind {
    /// Returns the name in documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Stale => "stale",
            Self::Resurrected => "resurrected",
            Self::Damaged(damage) => damage.name(),
            Self::Phantom => "phantom",
            Self::TwoWinners => "two_winners",
            Self::LostUpdate => "lost_update",
            Self::ConditionIgnored => "condition_ignored",
            Self::Ghost => "ghost",
            Self::ListMissing => "list_missing",
            Self::Unordered => "unordered",
        }
    }
}

/// A contradiction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anomaly {
    /// Its kind.
    pub kind: Kind,
    /// Calls that prove it, in the order of their begins.
    pub calls: Vec<Call>,
    /// Number of calls that show the same contradiction.
    pub times: u64,
}

impl Anomaly {
    pub(crate) fn of_order(calls: Vec<Call>) -> Self {
        Self { kind: Kind::Unordered, calls, times: 1 }
    }
}

/// How stale a read was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staleness {
    /// Minimum time for which a newer value had been visible when the read began, in nanoseconds.
    pub behind_ns: u64,
    /// Minimum number of newer writes that had been acknowledged by then.
    pub versions: u64,
}

/// The calls of a key that ended before the current call began.
#[derive(Debug)]
struct Known<'a> {
    calls: &'a [Call],
    /// Calls in the order of their ends, and how many of them have ended.
    ended: Vec<u32>,
    passed: usize,
    /// For each value, the first ended call that shows it.
    first_of: HashMap<u64, u32>,
    /// The call that began last, and the last one of those that show a different value.
    latest: Option<u32>,
    latest_other: Option<u32>,
    /// The call that began last among those that show that the key exists.
    latest_present: Option<u32>,
    /// For each value, the first ended write whose condition names it.
    swapped: HashMap<u64, u32>,
    /// Deletes in the order of their begins, each with the latest end so far.
    deletes: Vec<(u64, u64)>,
    writes_only: bool,
}

impl<'a> Known<'a> {
    fn new(calls: &'a [Call], writes_only: bool) -> Self {
        let mut ended: Vec<u32> =
            (0..).zip(calls).filter(|(_, call)| call.is_answered()).map(|(at, _)| at).collect();
        ended.sort_unstable_by_key(|at| calls[*at as usize].answered_ns);
        let mut latest_ns = 0;
        let deletes = calls.iter().filter(|call| call.written() == Some(ABSENT)).map(|call| {
            latest_ns = latest_ns.max(call.answered_ns);
            (call.called_ns, latest_ns)
        });
        Self {
            calls,
            ended,
            passed: 0,
            first_of: HashMap::new(),
            latest: None,
            latest_other: None,
            latest_present: None,
            swapped: HashMap::new(),
            deletes: deletes.collect(),
            writes_only,
        }
    }

    fn call(&self, place: u32) -> &'a Call {
        &self.calls[place as usize]
    }

    /// Adds the calls that ended before a time, except those that are wrong themselves.
    fn pass(&mut self, time_ns: u64, is_wrong: &[bool]) {
        while let Some(place) = self.ended.get(self.passed).copied() {
            let call = self.call(place);
            if call.answered_ns >= time_ns {
                return;
            }
            self.passed += 1;
            let is_read = call.written().is_none();
            if is_read && (self.writes_only || is_wrong[place as usize]) {
                continue;
            }
            self.first_of.entry(call.value_after()).or_insert(place);
            if let Action::Swap { expected, .. } = call.action
                && !is_wrong[place as usize]
            {
                self.first_of.entry(expected).or_insert(place);
                self.swapped.entry(expected).or_insert(place);
            }
            self.note_latest(place);
        }
    }

    fn note_latest(&mut self, place: u32) {
        let calls = self.calls;
        let Call { called_ns, .. } = calls[place as usize];
        let value = calls[place as usize].value_after();
        let is_later =
            |than: Option<u32>| than.is_none_or(|than| calls[than as usize].called_ns < called_ns);
        if value != ABSENT && is_later(self.latest_present) {
            self.latest_present = Some(place);
        }
        let is_same =
            self.latest.is_some_and(|latest| calls[latest as usize].value_after() == value);
        if is_later(self.latest) {
            if !is_same {
                self.latest_other = self.latest;
            }
            self.latest = Some(place);
        } else if !is_same && is_later(self.latest_other) {
            self.latest_other = Some(place);
        }
    }

    /// Returns the calls that prove that a value had been replaced: one that shows it, and a later
    /// one, already ended, that shows another value.
    fn proof_of_older(&self, value: u64) -> Option<(u32, u32)> {
        let first = *self.first_of.get(&value)?;
        if let Some(swap) = self.swapped.get(&value) {
            return Some((first, *swap));
        }
        let is_other = |place: &u32| self.call(*place).value_after() != value;
        let newer = self.latest.filter(is_other).or(self.latest_other)?;
        self.call(first).is_before(self.call(newer)).then_some((first, newer))
    }

    /// Returns a call that proves that the key existed and was not deleted before the end of
    /// another call.
    fn proof_of_presence(&self, call: &Call) -> Option<u32> {
        let place = self.latest_present?;
        let behind = self.deletes.partition_point(|(called_ns, _)| *called_ns <= call.answered_ns);
        let latest_ns = behind.checked_sub(1).map(|last| self.deletes[last].1);
        latest_ns.is_none_or(|latest_ns| latest_ns < self.call(place).called_ns).then_some(place)
    }
}

/// Finds answers that no register could give, and removes them: reads as a whole, and only the
/// condition of other calls.
pub(crate) fn linear(calls: &mut Vec<Call>) -> (Vec<Anomaly>, Vec<Staleness>) {
    let mut explained = Explained::of(calls, false);
    explained.find_winners();
    let Explained { mut is_wrong, anomalies, staleness, .. } = explained;
    for (call, is_wrong) in calls.iter_mut().zip(&mut is_wrong) {
        if let (true, Some(value)) = (*is_wrong, call.written()) {
            call.action = Action::Write(value);
            *is_wrong = false;
        }
    }
    take_out(calls, &is_wrong);
    (in_order(anomalies), staleness)
}

/// Finds reads that contradict a write that had ended before they began.
pub(crate) fn read_after_write(calls: &mut [Call]) -> (Vec<Anomaly>, Vec<Staleness>) {
    // This model makes no promise about conditions.
    for call in calls.iter_mut() {
        call.action = call.written().map_or(call.action, Action::Write);
    }
    let Explained { anomalies, staleness, .. } = Explained::of(calls, true);
    (in_order(anomalies), staleness)
}

fn in_order(anomalies: HashMap<(Kind, u64, u64), Anomaly>) -> Vec<Anomaly> {
    let mut anomalies: Vec<Anomaly> = anomalies.into_values().collect();
    let last_ns = |anomaly: &Anomaly| anomaly.calls.last().map(|call| call.called_ns);
    anomalies.sort_by_key(|anomaly| (last_ns(anomaly), anomaly.kind));
    anomalies
}

/// Finds reads that differ although all writes have ended, and keys that are absent although
/// nothing was deleted.
pub(crate) fn last_writer_wins(calls: &[Call]) -> (Vec<Anomaly>, Vec<Staleness>) {
    let is_delete = |call: &Call| call.written() == Some(ABSENT);
    let writes = || calls.iter().filter(|call| call.written().is_some());
    let Some(written) =
        writes().filter(|call| !is_delete(call)).min_by_key(|call| call.answered_ns)
    else {
        return (Vec::new(), Vec::new());
    };
    let mut anomalies = Vec::new();
    let mut add = |kind, proof: [&Call; 2]| {
        let calls: Vec<Call> = proof.into_iter().copied().collect();
        anomalies.push(Anomaly { kind, calls, times: 1 });
    };
    let reads = || calls.iter().filter(|call| call.written().is_none());
    // An absent first value is a write of ABSENT at time zero.
    if !writes().any(|call| is_delete(call) && call.called_ns > 0) {
        let mut lost =
            reads().filter(|call| call.value_after() == ABSENT && written.is_before(call));
        if let Some(read) = lost.next() {
            add(Kind::Lost, [written, read]);
        }
    }
    let ended_ns = writes().map(|call| call.answered_ns).max().unwrap_or_default();
    let mut last = reads().filter(|call| call.called_ns > ended_ns);
    if let Some(first) = last.next()
        && let Some(other) = last.find(|call| call.value_after() != first.value_after())
    {
        add(Kind::Stale, [first, other]);
    }
    (anomalies, Vec::new())
}

/// Contradictions among the calls of a key, which are sorted by their begins.
struct Explained<'a> {
    calls: &'a [Call],
    /// Calls that saw a value that could not be there.
    is_wrong: Vec<bool>,
    /// By kind, seen value, and the value that contradicts it.
    anomalies: HashMap<(Kind, u64, u64), Anomaly>,
    staleness: Vec<Staleness>,
    /// Writes in the order of their begins, each with the earliest end from it on; and the ends of
    /// writes, sorted.
    begins: Vec<(u64, u64)>,
    ends: Vec<u64>,
}

impl<'a> Explained<'a> {
    fn of(calls: &'a [Call], writes_only: bool) -> Self {
        let writes = calls.iter().filter(|call| call.written().is_some());
        let mut begins: Vec<(u64, u64)> =
            writes.map(|call| (call.called_ns, call.answered_ns)).collect();
        let mut ends: Vec<u64> = begins.iter().map(|(_, answered_ns)| *answered_ns).collect();
        ends.sort_unstable();
        let mut earliest_ns = u64::MAX;
        for (_, answered_ns) in begins.iter_mut().rev() {
            earliest_ns = earliest_ns.min(*answered_ns);
            *answered_ns = earliest_ns;
        }
        let is_wrong = vec![false; calls.len()];
        let (anomalies, staleness) = (HashMap::new(), Vec::new());
        let mut explained = Self { calls, is_wrong, anomalies, staleness, begins, ends };
        explained.find_reads(writes_only);
        explained
    }

    fn find_reads(&mut self, writes_only: bool) {
        let mut known = Known::new(self.calls, writes_only);
        let mut wrong = Vec::new();
        for (place, call) in (0..).zip(self.calls) {
            let Some(value) = call.expected().filter(|_| call.is_answered()) else { continue };
            known.pass(call.called_ns, &self.is_wrong);
            let proof = if value == ABSENT {
                known.proof_of_presence(call).map(|present| (None, present))
            } else {
                known.proof_of_older(value).map(|(first, newer)| (Some(first), newer))
            };
            if let Some((first, newer)) = proof {
                self.is_wrong[place as usize] = true;
                wrong.push((place, first, newer));
            }
        }
        let expected_values: HashSet<u64> = self.calls.iter().filter_map(Call::expected).collect();
        for (place, first, newer) in wrong {
            let (call, newer) = (self.calls[place as usize], self.calls[newer as usize]);
            let first = first.map(|first: u32| self.calls[first as usize]);
            let is_swap = call.written().is_some();
            let kind = match newer.action {
                Action::Swap { expected, .. } if is_swap && call.expected() == Some(expected) => {
                    Kind::LostUpdate
                }
                _ if is_swap => Kind::ConditionIgnored,
                _ if newer.value_after() == ABSENT => Kind::Resurrected,
                _ if newer.written().is_some()
                    && !expected_values.contains(&newer.value_after()) =>
                {
                    Kind::Lost
                }
                _ => Kind::Stale,
            };
            if kind == Kind::Stale || kind == Kind::Lost {
                let since_ns = first.map_or(newer.answered_ns, |first| first.answered_ns);
                self.staleness.push(self.behind(&call, since_ns, &newer));
            }
            let calls = first.into_iter().chain([newer, call]).collect();
            self.add(kind, call.expected().unwrap_or_default(), newer.value_after(), calls);
        }
    }

    fn add(&mut self, kind: Kind, expected: u64, other: u64, mut calls: Vec<Call>) {
        calls.sort_by_key(|call| (call.called_ns, call.answered_ns));
        calls.dedup();
        let anomaly = self.anomalies.entry((kind, expected, other));
        anomaly.or_insert_with(|| Anomaly { kind, calls, times: 0 }).times += 1;
    }

    /// Returns how stale a read was that saw a value last visible at `since_ns`.
    fn behind(&self, read: &Call, since_ns: u64, newer: &Call) -> Staleness {
        let begun_by = self.begins.partition_point(|(called_ns, _)| *called_ns <= since_ns);
        let earliest_ns = self.begins.get(begun_by).map_or(u64::MAX, |(_, ended_ns)| *ended_ns);
        let ended_by = self.ends.partition_point(|ended_ns| *ended_ns < read.called_ns);
        Staleness {
            behind_ns: read.called_ns.saturating_sub(earliest_ns.min(newer.answered_ns)),
            versions: (ended_by.saturating_sub(begun_by) as u64).max(1),
        }
    }

    /// Finds concurrent writes with the same condition that all succeeded.
    fn find_winners(&mut self) {
        let mut swaps: Vec<(u64, u32)> = (0..)
            .zip(self.calls)
            .filter(|(place, call)| call.is_answered() && !self.is_wrong[*place as usize])
            .filter_map(|(place, call)| match call.action {
                Action::Swap { expected, .. } => Some((expected, place)),
                Action::Read(_) | Action::Write(_) | Action::Damaged(_) | Action::Listed(_) => None,
            })
            .collect();
        swaps.sort_unstable();
        let deletes = Known::new(self.calls, false).deletes;
        for pair in swaps.windows(2) {
            let [(expected, first), (other, second)] = pair else { continue };
            let (a, b) = (self.calls[*first as usize], self.calls[*second as usize]);
            let is_possible = *expected == ABSENT && {
                let end_ns = a.answered_ns.max(b.answered_ns);
                let behind = deletes.partition_point(|(called_ns, _)| *called_ns <= end_ns);
                behind > 0 && deletes[behind - 1].1 >= a.called_ns
            };
            if expected == other && !is_possible {
                self.is_wrong[*second as usize] = true;
                let of_first = if *expected == ABSENT { a.value_after() } else { 0 };
                self.add(Kind::TwoWinners, *expected, of_first, vec![a, b]);
            }
        }
    }
}
