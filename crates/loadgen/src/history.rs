//! The history of a trial: each call on an object with its times, as bytes for a file; and what is judged of it.

use std::path::PathBuf;

use loadstone_history::{
    ABSENT, Action, Anomaly, CALL_BYTES, Damage, Initial, Initials, Judgement, Model, Quantiles,
    UNANSWERED, judge_files,
};

use crate::dataset::Dataset;
use crate::error::Error;
use crate::ledger::{AuditSummary, Call, Finding, HistorySpec, HistorySummary, Spread};
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::requests::{Request, Subject};
use crate::trial::Trial;

/// Calls that are held at once while a history is judged: 400 MB.
const CALLS_MAX: usize = 8 << 20;
/// Findings that are kept whole.
const FINDINGS_MAX: usize = 10_000;

fn spread_of(Quantiles { p50, p99, max }: Quantiles) -> Spread {
    Spread { p50, p99, max }
}

/// Returns what a request did to an object, as its history has it, and whether an answer says so. `version` is
/// the one that it read, or that its condition was on.
fn action_of(request: &Request, outcome: Outcome, version: u64) -> Option<(Action, bool)> {
    let Subject::Object(object) = request.subject else { return None };
    let (is_ok, is_absent) = (outcome.is_ok(), outcome == Outcome::ABSENT);
    let swap = |expected, value| Some((Action::Swap { expected, value }, true));
    match request.operation {
        Operation::Get if is_ok => Some((Action::Read(version), true)),
        // Of a delete, it says that nothing was there to delete.
        Operation::Get | Operation::Delete if is_absent => Some((Action::Read(ABSENT), true)),
        // Of a read that failed, its bytes may still say something; that few came may be the connection's fault.
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

/// Appends a request to a history, with the version that it read or that its condition was on. Times there are
/// nanoseconds since 1970: the monotonic ones plus an offset.
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

/// Returns calls of a host by another clock, from which its own differs by an offset that is known to this bound:
/// each is taken to have begun so much earlier and ended so much later. `None`: they are no calls.
#[must_use]
pub fn on_clock(calls: &[u8], offset_ns: i64, bound_ns: u64) -> Option<Vec<u8>> {
    let (calls, rest) = calls.as_chunks();
    let mut out = Vec::with_capacity(calls.len() * CALL_BYTES);
    let by_other = |time_ns: u64| time_ns.saturating_add_signed(offset_ns.saturating_neg());
    for bytes in calls {
        let call = loadstone_history::Call::decode(bytes)?;
        let answered_ns = if call.is_answered() {
            by_other(call.answered_ns).saturating_add(bound_ns)
        } else {
            UNANSWERED
        };
        let called_ns = by_other(call.called_ns).saturating_sub(bound_ns);
        loadstone_history::Call { called_ns, answered_ns, ..call }.encode(&mut out);
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
    Ok(summary_of(&judgement, spec, &Dataset::new(trial)))
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
    let calls = anomaly.calls.iter().map(call_of).collect();
    Finding::new(anomaly.kind.name(), number, dataset.place_of(number), anomaly.times, calls)
}

fn call_of(call: &loadstone_history::Call) -> Call {
    let operation = match call.action {
        Action::Read(_) | Action::Damaged(_) => Operation::Get,
        Action::Write(ABSENT) => Operation::Delete,
        Action::Write(_) => Operation::Put,
        Action::Swap { value: ABSENT, .. } => Operation::DeleteIfMatch,
        Action::Swap { expected: ABSENT, .. } => Operation::PutIfAbsent,
        Action::Swap { .. } => Operation::PutIfMatch,
    };
    let outcome = match call.action {
        _ if !call.is_answered() => "unanswered",
        Action::Read(ABSENT) => "absent",
        Action::Damaged(damage) => damage.name(),
        _ => "ok",
    };
    let known = |value: u64| (value != ABSENT).then_some(value);
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

    fn noted(operation: Operation, outcome: Outcome) -> Option<loadstone_history::Call> {
        let subject = Subject::Object(Object { index: 5, version: 9 });
        let request = Request { operation, subject, chance: 0, is_verified: true };
        let completion = Completion::plain(outcome, 10, 15, 20);
        let mut bytes = Vec::new();
        note(&request, &completion, 4, 3, 100, &mut bytes);
        bytes.as_chunks().0.first().and_then(loadstone_history::Call::decode)
    }

    #[test]
    fn only_what_an_answer_says_is_in_a_history() {
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
    fn calls_by_another_clock_are_wider_by_its_bound() {
        let call = noted(Operation::Get, Outcome::OK).expect("a read");
        let open = noted(Operation::Put, Outcome::TIMEOUT).expect("a write");
        let mut bytes = Vec::new();
        [call, open].iter().for_each(|call| call.encode(&mut bytes));
        let moved = on_clock(&bytes, -50, 7).expect("they are whole");
        let moved: Vec<_> =
            moved.as_chunks().0.iter().filter_map(loadstone_history::Call::decode).collect();
        assert_eq!(moved[0], loadstone_history::Call { called_ns: 153, answered_ns: 177, ..call });
        assert_eq!(moved[1].answered_ns, UNANSWERED);
        assert_eq!(on_clock(&bytes[1..], 0, 0), None);
    }
}
