//! How things stand while a trial runs.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::recorder::{Second, Stage, histogram};
use crate::trial::Trial;

/// What the live view shows.
#[derive(Debug, Clone, Serialize)]
pub struct Live {
    /// Since the trial's start.
    pub elapsed_ns: u64,
    /// From 1.
    pub iteration: u32,
    /// How many there will be.
    pub iterations: u32,
    /// The stage of the last complete second.
    pub stage: &'static str,
    /// Requests ended so far.
    pub requests: u64,
    /// Of these, failed.
    pub failed: u64,
    /// Payload bytes of good requests so far.
    pub bytes: u64,
    /// Requests ended in the last complete second.
    pub requests_last_s: u64,
    /// Payload bytes of the last complete second.
    pub bytes_last_s: u64,
    /// Median latency in the last complete second.
    pub p50_ns: u64,
    /// 99th percentile in the last complete second.
    pub p99_ns: u64,
    /// Done share of the trial, where it is known.
    pub progress: Option<f64>,
}

/// Adds up complete seconds.
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
    pub(crate) bytes: u64,
    /// Wrong bytes that came back, by kind.
    pub(crate) mismatches: BTreeMap<String, u64>,
    last_requests: u64,
    last_bytes: u64,
    last: Histogram<u64>,
}

impl Progress {
    pub(crate) fn new(trial: &Trial, start_ns: u64) -> Self {
        let iterations = u64::from(trial.iterations);
        let outside_ns = trial.warm_up_ns + trial.cool_down_ns;
        Self {
            start_ns,
            requests_planned: trial.stop.requests.map(|requests| requests * iterations),
            duration_planned_ns: trial
                .stop
                .duration_ns
                .map(|duration_ns| (duration_ns + outside_ns) * iterations),
            iterations: trial.iterations,
            iteration: 1,
            stage: Stage::WarmUp,
            requests: 0,
            failed: 0,
            bytes: 0,
            mismatches: BTreeMap::new(),
            last_requests: 0,
            last_bytes: 0,
            last: histogram(),
        }
    }

    pub(crate) fn count(&mut self, rows: &Second) {
        (self.last_requests, self.last_bytes) = (0, 0);
        self.last.reset();
        for (key, row) in rows {
            self.requests += row.requests;
            self.last_requests += row.requests;
            (self.iteration, self.stage) = (key.iteration, key.stage);
            if key.outcome.is_ok() {
                self.bytes += row.bytes;
                self.last_bytes += row.bytes;
            } else {
                self.failed += row.requests;
                if key.outcome.is_mismatch() {
                    *self.mismatches.entry(key.outcome.name().into()).or_default() += row.requests;
                }
            }
            let latency = row.response.as_deref().unwrap_or(&row.service);
            self.last.add(latency).expect("all histograms have the same bounds");
        }
    }

    pub(crate) fn live(&self, now_ns: u64) -> Live {
        let elapsed_ns = now_ns.saturating_sub(self.start_ns);
        let share = |done: u64, planned: Option<u64>| {
            planned.filter(|planned| *planned > 0).map(|planned| done as f64 / planned as f64)
        };
        let by_count = share(self.requests, self.requests_planned);
        let by_time = share(elapsed_ns, self.duration_planned_ns);
        // Whichever end is nearer will be the end.
        let progress = match (by_count, by_time) {
            (Some(count), Some(time)) => Some(count.max(time)),
            (count, time) => count.or(time),
        };
        Live {
            elapsed_ns,
            iteration: self.iteration,
            iterations: self.iterations,
            stage: self.stage.name(),
            requests: self.requests,
            failed: self.failed,
            bytes: self.bytes,
            requests_last_s: self.last_requests,
            bytes_last_s: self.last_bytes,
            p50_ns: self.last.value_at_quantile(0.5),
            p99_ns: self.last.value_at_quantile(0.99),
            progress: progress.map(|share| share.min(1.0)),
        }
    }
}
