//! Keys that are only read and overwritten, where every value is written once.
//!
//! The calls of one value, its write and its reads, must be executed without calls of another value
//! between them. So if some call of A ended before one of B began, all of A come before all of B. A
//! history is linearizable if and only if no two values must each come before the other. Overlaps
//! of zones show whether that is the case.

use crate::call::Call;

/// The zone of one value: its call that ended first, and its call that began last.
#[derive(Debug, Clone, Copy)]
struct Zone {
    first_ended: usize,
    ended_ns: u64,
    last_begun: usize,
    begun_ns: u64,
}

/// Two values, each of which must come before the other: a call of A ended before one of B began,
/// and a call of B ended before one of A began. Calls are given by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) a_first: usize,
    pub(crate) b_last: usize,
    pub(crate) b_first: usize,
    pub(crate) a_last: usize,
}

impl Conflict {
    fn of(a: &Zone, b: &Zone) -> Self {
        Self {
            a_first: a.first_ended,
            b_last: b.last_begun,
            b_first: b.first_ended,
            a_last: a.last_begun,
        }
    }
}

/// Returns two values that contradict each other, or `None` if the history is linearizable. The
/// write of each value that was read is among the calls.
pub(crate) fn conflict(calls: &[Call]) -> Option<Conflict> {
    let mut zones = zones(calls);
    zones.sort_unstable_by_key(|zone| zone.ended_ns);
    // The zone that began last among those that had ended by then.
    let mut latest: Option<Zone> = None;
    let mut forward = Vec::new();
    for zone in &zones {
        if zone.ended_ns >= zone.begun_ns {
            continue;
        }
        if let Some(before) = latest.filter(|before| zone.ended_ns < before.begun_ns) {
            return Some(Conflict::of(&before, zone));
        }
        latest = Some(*zone);
        forward.push(*zone);
    }
    // Forward zones do not overlap at this point. Among those that end first before another began,
    // the last one extends farthest.
    zones.iter().filter(|zone| zone.ended_ns >= zone.begun_ns).find_map(|backward| {
        let behind = forward.partition_point(|zone| zone.ended_ns < backward.begun_ns);
        let around = forward[..behind].last()?;
        (backward.ended_ns < around.begun_ns).then(|| Conflict::of(around, backward))
    })
}

fn zones(calls: &[Call]) -> Vec<Zone> {
    let mut places: Vec<(u64, u32)> =
        (0..).zip(calls).map(|(at, call)| (call.value_after(), at)).collect();
    places.sort_unstable();
    places
        .chunk_by(|a, b| a.0 == b.0)
        .map(|of_value| {
            let at = || of_value.iter().map(|(_, at)| *at as usize);
            let first_ended = at().min_by_key(|at| calls[*at].answered_ns).expect("at least one");
            let last_begun = at().max_by_key(|at| calls[*at].called_ns).expect("at least one");
            Zone {
                first_ended,
                ended_ns: calls[first_ended].answered_ns,
                last_begun,
                begun_ns: calls[last_begun].called_ns,
            }
        })
        .collect()
}
