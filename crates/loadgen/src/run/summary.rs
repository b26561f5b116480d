//! The summary of a trial: its results beside the intervals.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::clock::ClockFacts;
use crate::driver::LogIns;
use crate::ledger::AuditSummary;
use crate::ownership::Left;
use crate::run::hiccup::Jitter;
use crate::run::shared::IterationTimes;

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The trial ended as planned.
    Finished,
    /// The trial was ended from outside, or its lease expired.
    Interrupted,
    /// Too many requests failed.
    Stopped,
}

/// The summary of a trial: observations, no conclusions. Times are in nanoseconds.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary {
    /// How the trial ended.
    pub state: State,
    /// Why the trial ended early, if it did and the reason is known.
    pub reason: Option<String>,
    /// Start of the load, since 1970.
    pub started_unix_ns: u64,
    /// Start of the load on the host's monotonic clock.
    pub started_monotonic_ns: u64,
    /// Delay between the given start and the start of the load, if a start was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_error_ns: Option<u64>,
    /// End of the load, since 1970.
    pub ended_unix_ns: u64,
    /// Times of each iteration, from the start of the trial.
    pub iterations: Vec<IterationTimes>,
    /// Requests of all stages.
    pub requests: u64,
    /// Failed requests of all stages.
    pub failed: u64,
    /// Requests for objects that were absent because their own put had failed. They do not count as
    /// failed.
    pub unwritten: u64,
    /// Requests whose condition did not hold because another write came first. They do not count as
    /// failed.
    pub lost_races: u64,
    /// Payload bytes of successful requests.
    pub bytes: u64,
    /// Reads whose content was checked.
    pub verified_requests: u64,
    /// Payload bytes whose content was checked.
    pub verified_bytes: u64,
    /// Reads with wrong content, by outcome.
    pub mismatches: BTreeMap<String, u64>,
    /// Connections opened.
    pub connections_opened: u64,
    /// Bytes sent, headers included.
    pub bytes_sent: u64,
    /// Bytes received, headers included.
    pub bytes_received: u64,
    /// Requests that were sent again on a new connection because the first was closed.
    pub requests_repeated: u64,
    /// Retries of requests outside the measurement (making buckets, filling, cleaning up), by the
    /// temporary error that caused them.
    pub retries: BTreeMap<String, u64>,
    /// Total pause before those retries.
    pub retries_paused_ns: u64,
    /// How much of the data to be read was sampled in this host's page cache before the load, if
    /// that is possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_sampled_bytes: Option<u64>,
    /// How much of the sample was in the page cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_resident_bytes: Option<u64>,
    /// Log-ins during the load.
    #[serde(flatten)]
    pub log_ins: LogIns,
    /// Number of load threads.
    pub cores: usize,
    /// Maximum number of requests in flight.
    pub clients: u32,
    /// CPU time of each load thread, without the time it spent awake before due times.
    pub thread_cpu_ns: Vec<u64>,
    /// CPU time that each load thread spent awake until a request was due.
    pub thread_awake_ns: Vec<u64>,
    /// How long each load thread was ready to run and had no core.
    pub thread_run_delay_ns: Vec<Option<u64>>,
    /// Wake-up delays and stalls of the host.
    #[serde(flatten)]
    pub jitter: Jitter,
    /// The clock that times were read from.
    pub clock: ClockFacts,
    /// Features that the driver used, and those that the host refused, by name.
    pub features: BTreeMap<String, String>,
    /// Requests of the client with the fewest requests.
    pub clients_requests_min: u64,
    /// Requests of the client with the most requests.
    pub clients_requests_max: u64,
    /// Sum of the squares of each client's requests. With their sum, it tells how fairly the target
    /// served the clients.
    pub clients_requests_squares: f64,
    /// One error message for each kind of failure.
    pub error_examples: BTreeMap<String, String>,
    /// Objects that are absent because their put failed, in this trial or before it: ranges of
    /// numbers, from the first to before the end.
    pub objects_unwritten: Vec<(u64, u64)>,
    /// Failed puts that are not in those ranges: of objects that may have been put before, or too
    /// many to remember.
    pub puts_failed_more: u64,
    /// Places that the trial created.
    pub buckets_created: Vec<String>,
    /// Places without a loadstone mark that the trial used nevertheless.
    pub buckets_foreign: Vec<String>,
    /// Places that a clean-up deleted.
    pub buckets_deleted: Vec<String>,
    /// Places that a clean-up found absent.
    pub buckets_absent: Vec<String>,
    /// Places that a clean-up left.
    pub buckets_left: Vec<String>,
    /// Places that a clean-up left, each with the reason.
    pub places_left: Vec<Left>,
    /// Objects that a clean-up found and deleted.
    pub objects_swept: u64,
    /// Swept objects that were listed again after all had been deleted once. They may be counted
    /// twice, because a delayed listing shows objects that are already deleted.
    pub objects_swept_again: u64,
    /// Results of an audit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditSummary>,
}
