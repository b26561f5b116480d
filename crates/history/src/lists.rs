//! Judges listings: for each key, whether a page showed it although it did not exist, or missed it
//! although it existed.
//!
//! A page need not show all its keys as of the same moment. So each key is judged separately, and
//! only if it existed, or did not exist, during the whole request for the page.

use crate::call::{ABSENT, Action, Call};
use crate::explain::{Anomaly, Kind};

/// Removes the listings from a key's calls, and returns them.
pub(crate) fn taken_from(calls: &mut Vec<Call>) -> Vec<Call> {
    let listed: Vec<Call> =
        calls.iter().filter(|call| matches!(call.action, Action::Listed(_))).copied().collect();
    if !listed.is_empty() {
        calls.retain(|call| !matches!(call.action, Action::Listed(_)));
    }
    listed
}

/// Finds pages that contradict the writes and deletes of a key. Calls are sorted by their begins;
/// the first one is the first value, if that is known.
pub(crate) fn judge(listed: &[Call], calls: &[Call]) -> Vec<Anomaly> {
    if listed.is_empty() {
        return Vec::new();
    }
    let changes = calls.iter().filter(|call| call.written().is_some()).copied();
    let (deletes, writes): (Vec<Call>, Vec<Call>) =
        changes.partition(|call| call.written() == Some(ABSENT));
    let (deletes, writes) = (Changes::of(deletes), Changes::of(writes));
    let mut anomalies: Vec<Anomaly> = Vec::new();
    for call in listed {
        let is_listed = call.action == Action::Listed(true);
        let (kind, last, others) = if is_listed {
            (Kind::Ghost, &deletes, &writes)
        } else {
            (Kind::ListMissing, &writes, &deletes)
        };
        let Some(proof) = last.last_before(call.called_ns) else { continue };
        let is_settled = others
            .latest_end_of_begun_by(call.answered_ns)
            .is_none_or(|latest_ns| latest_ns < proof.called_ns);
        if !is_settled {
            continue;
        }
        match anomalies.iter_mut().find(|anomaly| anomaly.kind == kind) {
            Some(anomaly) => anomaly.times += 1,
            None => anomalies.push(Anomaly { kind, calls: vec![proof, *call], times: 1 }),
        }
    }
    anomalies
}

/// Either the writes or the deletes of a key.
struct Changes {
    /// Answered ones in the order of their ends, each with the one that began last so far.
    ended: Vec<(u64, Call)>,
    /// Begins in order, each with the latest end so far.
    begun: Vec<(u64, u64)>,
}

impl Changes {
    /// Takes calls that are sorted by their begins.
    fn of(calls: Vec<Call>) -> Self {
        let mut latest_ns = 0;
        let begun = calls.iter().map(|call| {
            latest_ns = latest_ns.max(call.answered_ns);
            (call.called_ns, latest_ns)
        });
        let begun = begun.collect();
        let mut answered: Vec<Call> = calls.into_iter().filter(Call::is_answered).collect();
        answered.sort_by_key(|call| call.answered_ns);
        let mut last: Option<Call> = None;
        let ended = answered.into_iter().map(|call| {
            let later = last.filter(|last| last.called_ns > call.called_ns).unwrap_or(call);
            last = Some(later);
            (call.answered_ns, later)
        });
        Self { ended: ended.collect(), begun }
    }

    /// Returns the call that began last among those that had ended before a time.
    fn last_before(&self, time_ns: u64) -> Option<Call> {
        let count = self.ended.partition_point(|(ended_ns, _)| *ended_ns < time_ns);
        Some(self.ended[count.checked_sub(1)?].1)
    }

    /// Returns the latest end of the calls that began up to a time.
    fn latest_end_of_begun_by(&self, time_ns: u64) -> Option<u64> {
        let count = self.begun.partition_point(|(begun_ns, _)| *begun_ns <= time_ns);
        Some(self.begun[count.checked_sub(1)?].1)
    }
}
