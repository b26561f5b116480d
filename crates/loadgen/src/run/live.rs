//! The live state of a running trial.

use std::collections::{BTreeMap, VecDeque};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::outcome::Outcome;
use crate::recorder::{RowKey, Second, Stage, histogram};
use crate::trial::Trial;

/// Live state of a running trial.
#[derive(Debug, Clone, Serialize)]
pub struct Live {
    /// Nanoseconds since the trial's start.
    pub elapsed_ns: u64,
    /// Current iteration, from 1.
    pub iteration: u32,
    /// Total number of iterations.
    pub iterations: u32,
    /// The stage of the last complete second.
    pub stage: &'static str,
    /// Requests completed so far.
    pub requests: u64,
    /// Failed requests so far.
    pub failed: u64,
    /// Requests so far for objects whose put had failed.
    pub unwritten: u64,
    /// Requests so far whose condition did not hold because another write came first.
    pub lost_races: u64,
    /// Payload bytes of successful requests so far.
    pub bytes: u64,
    /// Completed requests per second: over the last complete second, or over a longer time where
    /// requests take longer. Large objects complete in bursts, and a burst is not a rate.
    pub requests_last_s: u64,
    /// Payload bytes per second, over the same time.
    pub bytes_last_s: u64,
    /// Median latency in the last complete second.
    pub p50_ns: u64,
    /// 99th percentile in the last complete second.
    pub p99_ns: u64,
    /// Completed share of the trial, if it is known.
    pub progress: Option<f64>,
}

/// Sums complete seconds.
#[derive(Debug)]
pub(crate) struct Progress {
    start_ns: u64,
    requests_planned: Option<u64>,
    duration_planned_ns: Option<u64>,
    iterations: u32,
    iteration: u32,
    stage: Stage,
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    pub(crate) unwritten: u64,
    pub(crate) lost_races: u64,
    pub(crate) bytes: u64,
    /// Reads with wrong content, by outcome.
    pub(crate) mismatches: BTreeMap<String, u64>,
    /// Seconds in which requests completed: number of the second, requests, payload bytes.
    seconds: VecDeque<(u64, u64, u64)>,
    last: Histogram<u64>,
}

/// The longest time, in seconds, over which a live rate is computed.
const SECONDS_MAX: u64 = 600;

impl Progress {
    pub(crate) fn new(trial: &Trial, start_ns: u64) -> Self {
        let iterations = u64::from(trial.iterations);
        let outside_ns = trial.warm_up_ns + trial.cool_down_ns;
        let rows = trial.open_script.as_ref().and_then(|script| script.rows.as_ref());
        let portion = trial.portion();
        let of_whole = |requests| portion.share(requests);
        Self {
            start_ns,
            requests_planned: trial
                .stop
                .requests
                .map(|requests| {
                    rows.map_or_else(|| of_whole(requests), |rows| rows.requests_of(portion))
                })
                .map(|requests| requests * iterations),
            duration_planned_ns: trial
                .stop
                .duration_ns
                .map(|duration_ns| (duration_ns + outside_ns) * iterations),
            iterations: trial.iterations,
            iteration: 1,
            stage: Stage::WarmUp,
            requests: 0,
            failed: 0,
            unwritten: 0,
            lost_races: 0,
            bytes: 0,
            mismatches: BTreeMap::new(),
            seconds: VecDeque::new(),
            last: histogram(),
        }
    }

    /// Adds a second. A partial second adds to the counts, but not to rates and latencies if there
    /// is a complete one.
    pub(crate) fn count(&mut self, second: u64, rows: &Second, is_cut: bool) {
        let (mut requests, mut bytes) = (0, 0);
        let is_shown = !is_cut || self.seconds.is_empty();
        if is_shown {
            self.last.reset();
        }
        let of_requests = |key: &RowKey| key.doing.action_number().is_none();
        for (key, row) in rows.iter().filter(|(key, _)| of_requests(key)) {
            self.requests += row.requests;
            requests += row.requests;
            (self.iteration, self.stage) = (key.iteration, key.stage);
            if key.outcome.is_ok() {
                self.bytes += row.bytes;
                bytes += row.bytes;
            } else if key.outcome == Outcome::UNWRITTEN {
                self.unwritten += row.requests;
            } else if key.outcome == Outcome::LOST_RACE {
                self.lost_races += row.requests;
            } else if key.outcome != Outcome::ABSENT {
                self.failed += row.requests;
                if key.outcome.is_mismatch() {
                    *self.mismatches.entry(key.outcome.name().into()).or_default() += row.requests;
                }
            }
            let latency = row.response.as_deref().unwrap_or(&row.service);
            if is_shown {
                self.last.add(latency).expect("all histograms have the same bounds");
            }
        }
        if !is_shown {
            return;
        }
        self.seconds.push_back((second, requests, bytes));
        while self.seconds.front().is_some_and(|(first, ..)| first + SECONDS_MAX <= second) {
            self.seconds.pop_front();
        }
    }

    /// Returns requests and payload bytes per second.
    fn rates(&self) -> (u64, u64) {
        let Some((last, ..)) = self.seconds.back() else { return (0, 0) };
        let took_s = (self.last.mean() / 1e9).ceil() as u64;
        let count = took_s.clamp(1, SECONDS_MAX).min(last + 1);
        let within = self.seconds.iter().filter(|(second, ..)| second + count > *last);
        let (requests, bytes) =
            within.fold((0, 0), |sum, counts| (sum.0 + counts.1, sum.1 + counts.2));
        (requests / count, bytes / count)
    }

    pub(crate) fn live(&self, now_ns: u64) -> Live {
        let elapsed_ns = now_ns.saturating_sub(self.start_ns);
        let share = |done: u64, planned: Option<u64>| {
            planned.filter(|planned| *planned > 0).map(|planned| done as f64 / planned as f64)
        };
        let by_count = share(self.requests, self.requests_planned);
        let by_time = share(elapsed_ns, self.duration_planned_ns);
        // The trial ends at whichever limit it reaches first.
        let progress = match (by_count, by_time) {
            (Some(count), Some(time)) => Some(count.max(time)),
            (count, time) => count.or(time),
        };
        let (requests_last_s, bytes_last_s) = self.rates();
        Live {
            elapsed_ns,
            iteration: self.iteration,
            iterations: self.iterations,
            stage: self.stage.name(),
            requests: self.requests,
            failed: self.failed,
            unwritten: self.unwritten,
            lost_races: self.lost_races,
            bytes: self.bytes,
            requests_last_s,
            bytes_last_s,
            p50_ns: self.last.value_at_quantile(0.5),
            p99_ns: self.last.value_at_quantile(0.99),
            progress: progress.map(|share| share.min(1.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation;
    use crate::outcome::Completion;
    use crate::recorder::{Collector, Doing, Intended};

    const MIB: u64 = 1 << 20;

    fn live(requests: impl Iterator<Item = (u64, u64, u64)>, cut: Option<u64>) -> Live {
        let trial = serde_json::from_str(
            r#"{"format":1,"id":"0001","run":"00000000000000000000000000000001","seed":7,
                "phase":"put","target":{"name":"t","driver":"null"},
                "dataset":{"bucket_prefix":"b","buckets":1,"objects":1,"object_prefix":"o",
                           "size":{"kind":"fixed","bytes":1}},
                "mix":[{"operation":"put"}],"stop":{"requests":1},
                "load":{"kind":"closed","clients":1}}"#,
        )
        .expect("the test's document is sound");
        let (mut collector, mut recorders) = Collector::new(1, 0);
        let key = RowKey {
            stage: Stage::Measure,
            iteration: 1,
            doing: Doing::request(Operation::Put),
            outcome: Outcome::OK,
        };
        for (sent_ns, ended_ns, bytes) in requests {
            let completion =
                Completion { bytes, ..Completion::plain(Outcome::OK, sent_ns, 0, ended_ns) };
            recorders[0].record(key, Intended::WhenFree, &completion);
        }
        recorders[0].finish();
        let mut progress = Progress::new(&trial, 0);
        for (second, rows) in collector.collect() {
            progress.count(second, &rows, cut == Some(second));
        }
        progress.live(0)
    }

    #[test]
    fn a_burst_of_large_objects_does_not_raise_the_rate() {
        let ended_ns = |client: u64| 63_200_000_000 + client;
        let found = live((0..88).map(|client| (0, ended_ns(client), 64 * MIB)), None);
        assert_eq!(found.bytes, 5632 * MIB);
        assert_eq!((found.bytes_last_s / MIB, found.requests_last_s), (88, 1));
    }

    #[test]
    fn short_requests_are_counted_in_the_last_second() {
        let ended_ns = |number: u64| number * 1_000_000;
        let slower = |number: u64| if number < 3000 { 1 } else { number % 2 };
        let all = (1..4000).filter(|number| slower(*number) == 1);
        let found = live(all.map(|number| (ended_ns(number) - 1000, ended_ns(number), MIB)), None);
        assert_eq!((found.requests_last_s, found.bytes_last_s), (500, 500 * MIB));
    }

    #[test]
    fn a_partial_last_second_does_not_lower_the_rate() {
        let all = || (1..2100_u64).map(|number| (number * 1_000_000 - 10, number * 1_000_000, MIB));
        let found = live(all(), Some(2));
        assert_eq!(
            (found.requests, found.requests_last_s, found.bytes_last_s),
            (2099, 1000, 1000 * MIB)
        );
        // A trial that ends within a second has no other rate to show.
        assert_eq!(live(all().take(300), Some(0)).requests_last_s, 300);
    }
}
