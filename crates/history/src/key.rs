//! Judges one key: prepares its calls, and decides whether the model allows them.

use crate::call::{ABSENT, Action, Call, take_out};
use crate::explain::{self, Anomaly, Kind, Staleness};
use crate::lists;
use crate::search::{SearchResult, search};
use crate::zones;

/// Consistency model of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Model {
    /// Each call takes effect at one moment between its begin and its end.
    #[default]
    Linear,
    /// A read sees the last write that ended before it began, or one that was concurrent with that
    /// write or with the read.
    ReadAfterWrite,
    /// A read sees some written value; once all writes have ended, all reads see the same value.
    LastWriterWins,
}

impl Model {
    /// Every model, with the name that campaigns use.
    pub const ALL: [(&'static str, Self); 3] = [
        ("linear", Self::Linear),
        ("read-after-write", Self::ReadAfterWrite),
        ("last-writer-wins", Self::LastWriterWins),
    ];

    /// Returns the model with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, model)| *model)
    }
}

/// The value before the first call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initial {
    /// This value, perhaps [`ABSENT`].
    Value(u64),
    /// Any value.
    Unknown,
}

/// Whether the model allows the history of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It allows the history.
    Right,
    /// It does not allow the history.
    Wrong,
    /// The search reached its limit, and no call contradicts another.
    Undecided,
}

/// The result for one key.
#[derive(Debug, Clone)]
pub struct KeyJudgement {
    /// Whether the model allows its history.
    pub standing: Standing,
    /// Calls that the model does not allow, with proof.
    pub anomalies: Vec<Anomaly>,
    /// Staleness of each stale read.
    pub staleness: Vec<Staleness>,
}

/// Judges the calls on one key.
#[must_use]
pub fn judge_key(mut calls: Vec<Call>, initial: Initial, model: Model) -> KeyJudgement {
    let mut right =
        KeyJudgement { standing: Standing::Right, anomalies: Vec::new(), staleness: Vec::new() };
    calls.sort_unstable_by_key(|call| (call.called_ns, call.answered_ns));
    let listed = lists::taken_from(&mut calls);
    let first =
        Call { client: 0, called_ns: 0, answered_ns: 0, key: 0, action: Action::Write(ABSENT) };
    if let Initial::Value(value) = initial {
        calls.insert(0, Call { action: Action::Write(value), ..first });
    }
    let of_lists = match model {
        Model::Linear | Model::ReadAfterWrite => lists::judge(&listed, &calls),
        Model::LastWriterWins => Vec::new(),
    };
    let mut anomalies = without_damage(&mut calls);
    anomalies.extend(without_origin(&mut calls, initial));
    bound_unanswered(&mut calls);
    if model == Model::Linear {
        match decide(&calls, initial) {
            Decision::Right if anomalies.is_empty() && of_lists.is_empty() => return right,
            Decision::Right => {}
            Decision::Wrong(_) => {
                let (explained, staleness) = explain::linear(&mut calls);
                anomalies.extend(explained);
                right.staleness = staleness;
                // Without the explained calls, the rest of the history may still be wrong.
                match decide(&calls, initial) {
                    Decision::Wrong(proof) => anomalies.push(Anomaly::of_order(proof)),
                    Decision::Undecided if anomalies.is_empty() && of_lists.is_empty() => {
                        right.standing = Standing::Undecided;
                        return right;
                    }
                    Decision::Right | Decision::Undecided => {}
                }
            }
            Decision::Undecided => {
                let (explained, staleness) = explain::linear(&mut calls);
                anomalies.extend(explained);
                right.staleness = staleness;
                right.standing = Standing::Undecided;
            }
        }
    } else {
        let (explained, staleness) = match model {
            Model::ReadAfterWrite => explain::read_after_write(&mut calls),
            Model::LastWriterWins | Model::Linear => explain::last_writer_wins(&calls),
        };
        anomalies.extend(explained);
        right.staleness = staleness;
    }
    if anomalies.is_empty() {
        // A lost key is missing in listings too.
        anomalies = of_lists;
    }
    if !anomalies.is_empty() {
        right.standing = Standing::Wrong;
        right.anomalies = anomalies;
    }
    right
}

enum Decision {
    Right,
    /// With some of the calls that prove it.
    Wrong(Vec<Call>),
    Undecided,
}

/// Decides whether a linearization exists.
fn decide(calls: &[Call], initial: Initial) -> Decision {
    let is_plain = initial != Initial::Unknown
        && calls[1..].iter().all(|call| {
            matches!(call.action, Action::Read(_))
                || call.expected().is_none() && call.value_after() != ABSENT
        });
    // Without deletes, only the first value can be absent.
    let begins_absent = initial == Initial::Value(ABSENT);
    if is_plain && (begins_absent || calls.iter().all(|call| call.value_after() != ABSENT)) {
        return match zones::conflict(calls) {
            None => Decision::Right,
            Some(conflict) => {
                let places = [conflict.a_first, conflict.b_last, conflict.b_first, conflict.a_last];
                Decision::Wrong(chosen(calls, places))
            }
        };
    }
    let (behind_first, values) = match initial {
        Initial::Value(value) => (&calls[1..], vec![value]),
        Initial::Unknown => (calls, unwritten(calls)),
    };
    match search(behind_first, &values) {
        SearchResult::Order => Decision::Right,
        SearchResult::Nothing => Decision::Undecided,
        SearchResult::NoOrder(stuck_at) => {
            let stuck = behind_first[stuck_at];
            let around = (0..).zip(behind_first).filter(|(place, call)| {
                *place == stuck_at
                    || !call.is_before(&stuck) && !stuck.is_before(call) && call.written().is_some()
                    || call.written().is_some() && call.written() == stuck.expected()
            });
            Decision::Wrong(chosen(behind_first, around.map(|(place, _)| place)))
        }
    }
}

/// Returns the calls at these positions in order, each once, up to a maximum.
fn chosen(calls: &[Call], places: impl IntoIterator<Item = usize>) -> Vec<Call> {
    let mut places: Vec<usize> = places.into_iter().collect();
    places.sort_unstable();
    places.dedup();
    places.truncate(8);
    places.into_iter().map(|place| calls[place]).collect()
}

/// Returns the candidates for an unknown first value: absent, and each value that was read and
/// never written.
fn unwritten(calls: &[Call]) -> Vec<u64> {
    let written = writes_by_value(calls);
    let is_written = |value: u64| written.binary_search_by_key(&value, |(value, _)| *value).is_ok();
    let seen = calls.iter().filter_map(Call::expected);
    let mut values: Vec<u64> = seen.filter(|value| !is_written(*value)).collect();
    values.push(ABSENT);
    values.sort_unstable();
    values.dedup();
    values
}

/// Returns values and the positions of their writes, sorted, without deletes.
fn writes_by_value(calls: &[Call]) -> Vec<(u64, u32)> {
    let mut written: Vec<(u64, u32)> = (0..)
        .zip(calls)
        .filter_map(|(place, call)| Some((call.written().filter(|value| *value != ABSENT)?, place)))
        .collect();
    written.sort_unstable();
    written
}

/// Removes reads without a valid value, and returns the first of each kind as an anomaly.
fn without_damage(calls: &mut Vec<Call>) -> Vec<Anomaly> {
    let mut anomalies: Vec<Anomaly> = Vec::new();
    calls.retain(|call| {
        let Action::Damaged(damage) = call.action else { return true };
        let kind = Kind::Damaged(damage);
        match anomalies.iter_mut().find(|anomaly| anomaly.kind == kind) {
            Some(anomaly) => anomaly.times += 1,
            None => anomalies.push(Anomaly { kind, calls: vec![*call], times: 1 }),
        }
        false
    });
    anomalies
}

/// Removes reads of values that were never written, or not yet, and returns them as anomalies. A
/// write with such a condition becomes an unconditional one.
fn without_origin(calls: &mut Vec<Call>, initial: Initial) -> Vec<Anomaly> {
    let written = writes_by_value(calls);
    let mut anomalies = Vec::new();
    let mut is_out = vec![false; calls.len()];
    for place in 0..calls.len() {
        let call = calls[place];
        let Some(value) = call.expected().filter(|value| *value != ABSENT) else { continue };
        let origin = written.binary_search_by_key(&value, |(value, _)| *value).ok();
        let origin = origin.map(|at| calls[written[at].1 as usize]);
        let is_wrong = match origin {
            Some(write) => call.is_before(&write),
            None => initial != Initial::Unknown,
        };
        if !is_wrong {
            continue;
        }
        let proof = origin.into_iter().chain([call]).collect();
        anomalies.push(Anomaly { kind: Kind::Phantom, calls: proof, times: 1 });
        match call.action {
            Action::Swap { value, .. } => calls[place].action = Action::Write(value),
            _ => is_out[place] = true,
        }
    }
    take_out(calls, &is_out);
    anomalies
}

/// Bounds the time of unanswered writes by the calls that saw them. Removes those that no call saw
/// and that could not explain anything: all except deletes, and writes of absent keys.
fn bound_unanswered(calls: &mut Vec<Call>) {
    if calls.iter().all(Call::is_answered) {
        return;
    }
    // A write that was seen proves in turn the write that its condition names.
    loop {
        let seers = calls.iter().filter(|call| call.is_answered());
        let mut witnesses: Vec<(u64, u64)> =
            seers.filter_map(|call| Some((call.expected()?, call.answered_ns))).collect();
        witnesses.sort_unstable();
        let mut is_bounded = false;
        for call in calls.iter_mut() {
            if call.is_answered() || call.value_after() == ABSENT {
                continue;
            }
            let first = witnesses.partition_point(|(value, _)| *value < call.value_after());
            let first = witnesses.get(first).filter(|(value, _)| *value == call.value_after());
            if let Some((_, answered_ns)) = first {
                call.answered_ns = *answered_ns;
                is_bounded = true;
            }
        }
        if !is_bounded {
            break;
        }
    }
    calls.retain(|call| call.is_answered() || call.value_after() == ABSENT);
}
