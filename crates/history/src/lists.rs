//! Listings: of each key, whether a page showed it although it was gone, or missed it although it was there.
//!
//! A page need not show one moment of all its keys. So each key is judged by itself, and only where it was there, or
//! was not, for the whole time of the page's request.

use crate::call::{ABSENT, Action, Call};
use crate::explain::{Anomaly, Kind};

/// Takes out what listings showed of a key.
pub(crate) fn taken_from(calls: &mut Vec<Call>) -> Vec<Call> {
    let listed: Vec<Call> =
        calls.iter().filter(|call| matches!(call.action, Action::Listed(_))).copied().collect();
    if !listed.is_empty() {
        calls.retain(|call| !matches!(call.action, Action::Listed(_)));
    }
    listed
}

/// Finds pages that contradict the writes and deletes of a key, which are sorted by when they were made; the first
/// call is the first value, if that is known.
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

/// Writes, or deletes, of a key.
struct Changes {
    /// Those that were answered, as they ended, each with the last made of those up to it.
    ended: Vec<(u64, Call)>,
    /// When each was made, with the latest end up to it.
    begun: Vec<(u64, u64)>,
}

impl Changes {
    /// Takes calls that are sorted by when they were made.
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

    /// Returns the last made of those that had ended before a time.
    fn last_before(&self, time_ns: u64) -> Option<Call> {
        let count = self.ended.partition_point(|(ended_ns, _)| *ended_ns < time_ns);
        Some(self.ended[count.checked_sub(1)?].1)
    }

    /// Returns the latest end of those made up to a time.
    fn latest_end_of_begun_by(&self, time_ns: u64) -> Option<u64> {
        let count = self.begun.partition_point(|(begun_ns, _)| *begun_ns <= time_ns);
        Some(self.begun[count.checked_sub(1)?].1)
    }
}
