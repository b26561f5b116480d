//! The history of a trial: encodes each call on an object with its times for a file, and judges
//! such files.

use std::collections::BTreeMap;
use std::path::PathBuf;

use loadstone_history::{
    ABSENT, Action, Anomaly, CALL_BYTES, Damage, Initial, Initials, Judgement, LISTING_KEYS,
    Listing, Model, Quantiles, UNANSWERED, judge_files,
};

use crate::dataset::Dataset;
use crate::error::Error;
use crate::ledger::{AuditSummary, Call, Finding, HistorySpec, HistorySummary, Spread};
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::requests::{Request, Subject};
use crate::trial::Trial;

/// Maximum number of calls in memory while a history is judged: 400 MB.
const CALLS_MAX: usize = 8 << 20;
/// Maximum number of buckets for which listings are judged: each page scans the objects of all
/// buckets.
const BUCKETS_MAX: u64 = 64;
/// Maximum number of findings kept in full.
const FINDINGS_MAX: usize = 10_000;

fn spread_of(Quantiles { p50, p99, max }: Quantiles) -> Spread {
    Spread { p50, p99, max }
}

/// Returns what a request did to an object, as a call of the history, and whether an answer
/// confirms that. `version` is the one that it read or had in its condition.
fn action_of(request: &Request, outcome: Outcome, version: u64) -> Option<(Action, bool)> {
    let Subject::Object(object) = request.subject else { return None };
    let is_ok = outcome.is_ok();
    let is_absent = outcome.is_absent() || matches!(outcome, Outcome::ABSENT | Outcome::UNWRITTEN);
    let swap = |expected, value| Some((Action::Swap { expected, value }, true));
    match request.operation {
        Operation::Get if is_ok => Some((Action::Read(version), true)),
        // For a delete, this means that there was nothing to delete.
        Operation::Get | Operation::Delete if is_absent => Some((Action::Read(ABSENT), true)),
        // Wrong bytes of a failed read may still be evidence; a short answer may be the fault of
        // the connection.
        Operation::Get => outcome
            .damage()
            .filter(|damage| *damage != Damage::Short)
            .map(|damage| (Action::Damaged(damage), true)),
        // The condition did not hold, and nothing was changed.
        Operation::PutIfAbsent
        | Operation::PutIfMatch
        | Operation::DeleteIfMatch
        | Operation::CompareAndSwap
            if is_absent || outcome == Outcome::LOST_RACE =>
        {
            None
        }
        Operation::Put | Operation::MultipartPut => Some((Action::Write(object.version), is_ok)),
        Operation::Delete => Some((Action::Write(ABSENT), is_ok)),
        Operation::PutIfAbsent if is_ok => swap(ABSENT, object.version),
        Operation::PutIfMatch | Operation::CompareAndSwap if is_ok => swap(version, object.version),
        Operation::DeleteIfMatch if is_ok => swap(version, ABSENT),
        Operation::PutIfAbsent => {
            Some((Action::Swap { expected: ABSENT, value: object.version }, false))
        }
        Operation::PutIfMatch | Operation::CompareAndSwap => {
            Some((Action::Write(object.version), false))
        }
        Operation::DeleteIfMatch => Some((Action::Write(ABSENT), false)),
        _ => None,
    }
}

/// Appends a request to a history, with the version that it read or had in its condition. Times in
/// the history are nanoseconds since 1970: monotonic times plus an offset.
pub(crate) fn note(
    request: &Request,
    completion: &Completion,
    version: u64,
    client: u32,
    since_1970_ns: i64,
    out: &mut Vec<u8>,
) {
    let Some((action, is_answered)) = action_of(request, completion.outcome, version) else {
        return;
    };
    let since_1970 = |time_ns: u64| time_ns.saturating_add_signed(since_1970_ns);
    let answered_ns = if is_answered { since_1970(completion.ended_ns) } else { UNANSWERED };
    let key = request.subject.number();
    let called_ns = since_1970(completion.sent_ns);
    loadstone_history::Call { key, client, action, called_ns, answered_ns }.encode(out);
}

/// Appends what a page of a listing showed, and when it was requested, to a history.
pub(crate) fn note_listed(
    listed: &[Listing],
    completion: &Completion,
    client: u32,
    since_1970_ns: i64,
    out: &mut Vec<u8>,
) {
    let since_1970 = |time_ns: u64| time_ns.saturating_add_signed(since_1970_ns);
    let (called_ns, answered_ns) =
        (since_1970(completion.sent_ns), since_1970(completion.ended_ns));
    listed.iter().for_each(|part| part.encode(client, called_ns, answered_ns, out));
}

/// Returns the objects that a page of a bucket's listing covers, and those that it shows. It covers
/// the keys after the last key of the previous page, up to its own last key if another page
/// follows. Returns `None` if the keys do not allow that conclusion.
pub(crate) fn listed_of(
    dataset: &Dataset,
    bucket: u64,
    after: Option<&str>,
    keys: &[String],
    is_last: bool,
) -> Option<Vec<Listing>> {
    let (objects, buckets) = (dataset.spec().objects, dataset.spec().buckets);
    if !dataset.is_numbered() || buckets > BUCKETS_MAX {
        return None;
    }
    let number_of = |key: &str| dataset.index_of(key).filter(|index| *index < objects);
    let mut next = match after {
        None => Some(0),
        Some(key) => number_after(number_of(key)?, objects),
    };
    let end = if is_last { None } else { Some(number_of(keys.last()?)?) };
    let mut shown = keys.iter().filter_map(|key| number_of(key)).peekable();
    let mut parts: BTreeMap<u64, Listing> = BTreeMap::new();
    while let Some(index) = next {
        let is_listed = shown.next_if_eq(&index).is_some();
        if index % buckets == bucket {
            let (number, place) = (index / buckets / LISTING_KEYS, index / buckets % LISTING_KEYS);
            let first = number * LISTING_KEYS * buckets + bucket;
            let part = Listing { first, step: buckets, covered: 0, listed: 0 };
            let part = parts.entry(number).or_insert(part);
            part.covered |= 1 << place;
            part.listed |= u64::from(is_listed) << place;
        }
        next = if Some(index) == end { None } else { number_after(index, objects) };
    }
    // Keys that are left over are out of order.
    shown.next().is_none().then(|| parts.into_values().collect())
}

/// Returns the next number below `end` in the lexicographic order of decimal digits.
fn number_after(mut number: u64, end: u64) -> Option<u64> {
    if number > 0 && number.checked_mul(10).is_some_and(|longer| longer < end) {
        return Some(number * 10);
    }
    while number % 10 == 9 || number + 1 >= end {
        number /= 10;
        if number == 0 {
            return None;
        }
    }
    Some(number + 1)
}

/// Converts calls of a host to another clock, given the offset of its own clock and the maximum
/// error of that offset. Each call is taken to have begun earlier and ended later by that error.
/// Returns `None` if the bytes are not calls.
#[must_use]
pub fn on_clock(calls: &[u8], offset_ns: i64, bound_ns: u64) -> Option<Vec<u8>> {
    let mut out = calls.to_vec();
    let (records, rest) = out.as_chunks_mut::<CALL_BYTES>();
    let by_other = |time_ns: u64| time_ns.saturating_add_signed(offset_ns.saturating_neg());
    for record in records {
        if !loadstone_history::Call::decode(record, |_| ()) {
            return None;
        }
        let [called_ns, answered_ns] = loadstone_history::times_of(record);
        let called_ns = by_other(called_ns).saturating_sub(bound_ns);
        let answered_ns = match answered_ns {
            UNANSWERED => UNANSWERED,
            answered_ns => by_other(answered_ns).saturating_add(bound_ns),
        };
        loadstone_history::set_times(record, [called_ns, answered_ns]);
    }
    rest.is_empty().then_some(out)
}

/// Judges the histories that a trial names.
///
/// # Errors
/// A file cannot be read.
pub fn judge_history(trial: &Trial) -> Result<AuditSummary, Error> {
    let Some(spec) = &trial.judged else { return Ok(AuditSummary::default()) };
    let model = Model::of_name(&spec.model)
        .ok_or_else(|| Error::Trial(vec![format!("judged.model: found \"{}\"", spec.model)]))?;
    let files: Vec<PathBuf> = spec.files.iter().map(|file| PathBuf::from(&file.path)).collect();
    let initials = Initials {
        usual: spec.version.map_or(Initial::Unknown, Initial::Value),
        unknown: trial.ownership.unwritten.clone(),
    };
    let judgement = judge_files(&files, &initials, model, CALLS_MAX, FINDINGS_MAX)
        .map_err(|source| Error::Host { what: "read a history", source })?;
    let named = Trial { open_script: trial.open_script()?, ..trial.clone() };
    Ok(summary_of(&judgement, spec, &Dataset::new(&named)))
}

fn summary_of(judgement: &Judgement, spec: &HistorySpec, dataset: &Dataset) -> AuditSummary {
    let findings = judgement.anomalies.iter().map(|anomaly| finding_of(anomaly, dataset));
    AuditSummary {
        counts: judgement.counts.iter().map(|(kind, count)| ((*kind).into(), *count)).collect(),
        findings: findings.collect(),
        history: Some(HistorySummary {
            model: spec.model.clone(),
            calls: judgement.calls,
            objects: judgement.keys,
            undecided: judgement.undecided_keys,
            stale_reads: judgement.stale_reads,
            behind_ns: spread_of(judgement.behind_ns),
            behind_versions: spread_of(judgement.versions),
        }),
        ..AuditSummary::default()
    }
}

fn finding_of(anomaly: &Anomaly, dataset: &Dataset) -> Finding {
    let number = anomaly.calls.first().map_or(0, |call| call.key);
    let version = anomaly.calls.iter().map(loadstone_history::Call::value_after).max();
    let place = dataset.place_of(number, version.unwrap_or(ABSENT));
    let calls = anomaly.calls.iter().map(|call| call_of(call, dataset)).collect();
    Finding::new(anomaly.kind.name(), number, place, anomaly.times, calls)
}

fn call_of(call: &loadstone_history::Call, dataset: &Dataset) -> Call {
    let operation = match call.action {
        Action::Read(_) | Action::Damaged(_) => Operation::Get,
        Action::Listed(_) => Operation::List,
        Action::Write(ABSENT) => Operation::Delete,
        Action::Write(_) => Operation::Put,
        Action::Swap { value: ABSENT, .. } => Operation::DeleteIfMatch,
        Action::Swap { expected: ABSENT, .. } => Operation::PutIfAbsent,
        Action::Swap { .. } => Operation::PutIfMatch,
    };
    let outcome = match call.action {
        _ if !call.is_answered() => "unanswered",
        Action::Read(ABSENT) | Action::Listed(false) => "absent",
        Action::Damaged(damage) => damage.name(),
        _ => "ok",
    };
    let known = |value: u64| (value != ABSENT).then(|| dataset.write_of(value));
    Call {
        operation: operation.name().into(),
        trial: None,
        outcome: outcome.into(),
        version: known(call.value_after()),
        expected: call.written().and(call.expected()).and_then(known),
        client: Some(call.client),
        from_unix_ns: call.called_ns,
        to_unix_ns: call.answered_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::Object;

    fn decoded(bytes: &[u8]) -> Vec<loadstone_history::Call> {
        let mut calls = Vec::new();
        for record in bytes.as_chunks().0 {
            loadstone_history::Call::decode(record, |call| calls.push(call));
        }
        calls
    }

    fn noted(operation: Operation, outcome: Outcome) -> Option<loadstone_history::Call> {
        let subject = Subject::Object(Object { index: 5, version: 9 });
        let request = Request { operation, subject, chance: 0, is_verified: true };
        let completion = Completion::plain(outcome, 10, 15, 20);
        let mut bytes = Vec::new();
        note(&request, &completion, 4, 3, 100, &mut bytes);
        decoded(&bytes).pop()
    }

    #[test]
    fn a_history_contains_only_what_answers_prove() {
        let failed = Outcome::http(500);
        let swap = |expected, value| Action::Swap { expected, value };
        for (operation, outcome, expected) in [
            (Operation::Get, Outcome::OK, Some((Action::Read(4), 120))),
            (Operation::Get, Outcome::ABSENT, Some((Action::Read(ABSENT), 120))),
            (Operation::Get, Outcome::TORN, Some((Action::Damaged(Damage::Torn), 120))),
            (Operation::Get, failed, None),
            (Operation::Put, Outcome::OK, Some((Action::Write(9), 120))),
            (Operation::Put, Outcome::TIMEOUT, Some((Action::Write(9), UNANSWERED))),
            (Operation::Delete, Outcome::OK, Some((Action::Write(ABSENT), 120))),
            (Operation::Delete, Outcome::ABSENT, Some((Action::Read(ABSENT), 120))),
            (Operation::Delete, failed, Some((Action::Write(ABSENT), UNANSWERED))),
            (Operation::PutIfAbsent, Outcome::OK, Some((swap(ABSENT, 9), 120))),
            (Operation::PutIfAbsent, Outcome::LOST_RACE, None),
            (Operation::PutIfAbsent, failed, Some((swap(ABSENT, 9), UNANSWERED))),
            (Operation::CompareAndSwap, Outcome::OK, Some((swap(4, 9), 120))),
            (Operation::CompareAndSwap, Outcome::LOST_RACE, None),
            (Operation::PutIfMatch, failed, Some((Action::Write(9), UNANSWERED))),
            (Operation::DeleteIfMatch, Outcome::OK, Some((swap(4, ABSENT), 120))),
            (Operation::Head, Outcome::OK, None),
        ] {
            let call = noted(operation, outcome);
            assert_eq!(call.map(|call| (call.action, call.answered_ns)), expected, "{operation:?}");
            assert!(call.is_none_or(|call| (call.key, call.client, call.called_ns) == (5, 3, 110)));
        }
    }

    #[test]
    fn calls_on_another_clock_are_widened_by_its_error() {
        let call = noted(Operation::Get, Outcome::OK).expect("a read");
        let open = noted(Operation::Put, Outcome::TIMEOUT).expect("a write");
        let mut bytes = Vec::new();
        [call, open].iter().for_each(|call| call.encode(&mut bytes));
        let moved = on_clock(&bytes, -50, 7).expect("they are whole");
        let moved = decoded(&moved);
        assert_eq!(moved[0], loadstone_history::Call { called_ns: 153, answered_ns: 177, ..call });
        assert_eq!(moved[1].answered_ns, UNANSWERED);
        assert_eq!(on_clock(&bytes[1..], 0, 0), None);
    }

    #[test]
    fn a_page_covers_the_keys_between_its_bounds_in_lexicographic_order() {
        let trial = r#"{"format":1,"id":"0001","run":"00000000000000000000000000000001","seed":7,"phase":"mix",
            "target":{"name":"t","driver":"null"},"mix":[{"operation":"list","weight":1}],
            "stop":{"requests":1},"load":{"kind":"closed","clients":1},
            "dataset":{"bucket_prefix":"b","buckets":2,"objects":25,"object_prefix":"o",
                       "size":{"kind":"fixed","bytes":4096}}}"#;
        let trial: Trial = serde_json::from_str(trial).expect("the test's document is sound");
        let dataset = Dataset::new(&trial);
        let covered = |bucket, after, keys: &[&str], is_last| {
            let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
            let parts = listed_of(&dataset, bucket, after, &keys, is_last)?;
            let mut bytes = Vec::new();
            parts.iter().for_each(|part| part.encode(0, 1, 2, &mut bytes));
            let calls = decoded(&bytes).into_iter();
            Some(
                calls
                    .map(|call| (call.key, call.action == Action::Listed(true)))
                    .collect::<Vec<_>>(),
            )
        };
        let shown = |keys: &[u64], absent: &[u64]| {
            let mut all: Vec<(u64, bool)> = keys.iter().map(|key| (*key, true)).collect();
            all.extend(absent.iter().map(|key| (*key, false)));
            all.sort_unstable();
            Some(all)
        };
        // Even numbers in lexicographic order: 0, 10, 12, 14, 16, 18, 2, 20, 22, 24, 4, 6, 8.
        let first = ["o0", "o12", "o18", "o2"];
        assert_eq!(covered(0, None, &first, false), shown(&[0, 12, 18, 2], &[10, 14, 16]));
        let second = ["o20", "o24", "o4", "o6", "o8"];
        assert_eq!(covered(0, Some("o2"), &second, true), shown(&[20, 24, 4, 6, 8], &[22]));
        assert_eq!(covered(0, Some("o8"), &[], true), Some(Vec::new()));
        // Keys out of order, and a page that ends at a foreign key.
        assert_eq!(covered(0, None, &["o2", "o10"], true), None);
        assert_eq!(covered(0, None, &["o2", "other"], false), None);
    }
}
