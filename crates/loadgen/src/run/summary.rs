//! What a trial leaves beside its intervals.

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
    /// As planned.
    Finished,
    /// It was ended from outside, or because nothing was heard from there any more.
    Interrupted,
    /// Too many requests failed.
    Stopped,
}

/// What a trial leaves beside its intervals. Observed, never concluded.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Summary {
    /// How it ended.
    pub state: State,
    /// Why it ended early, if it did and that is known.
    pub reason: Option<String>,
    /// When its load began, since 1970.
    pub started_unix_ns: u64,
    /// The same on the host's monotonic clock.
    pub started_monotonic_ns: u64,
    /// By how much the load began after the given start, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_error_ns: Option<u64>,
    /// When it ended, since 1970.
    pub ended_unix_ns: u64,
    /// When each iteration began, was measured and ended; from the start of the trial.
    pub iterations: Vec<IterationTimes>,
    /// All requests of all stages.
    pub requests: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Those of them that asked for an object that was not there because its own put had failed;
    /// they are not among the failed ones.
    pub unwritten: u64,
    /// Those of them whose condition did not hold, for another write had come first; they are not
    /// among the failed ones either.
    pub lost_races: u64,
    /// Payload that good requests moved.
    pub bytes: u64,
    /// Reads whose content was checked.
    pub verified_requests: u64,
    /// Payload that was checked.
    pub verified_bytes: u64,
    /// Reads with wrong content, by outcome.
    pub mismatches: BTreeMap<String, u64>,
    /// Connections that were opened.
    pub connections_opened: u64,
    /// Bytes sent, headers too.
    pub bytes_sent: u64,
    /// Bytes received, headers too.
    pub bytes_received: u64,
    /// Requests that were sent again on a new connection, because the first was closed.
    pub requests_repeated: u64,
    /// Requests outside the measurement that were sent again after a temporary answer, by what came
    /// back: of making buckets, of filling and of cleaning up.
    pub retries: BTreeMap<String, u64>,
    /// How long those waited before they were sent again, all together.
    pub retries_paused_ns: u64,
    /// How much of the dataset that is read was looked at in this host's page cache before the load,
    /// where that can be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_sampled_bytes: Option<u64>,
    /// How much of that was there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_resident_bytes: Option<u64>,
    /// Log-ins while load was on.
    #[serde(flatten)]
    pub log_ins: LogIns,
    /// Load threads.
    pub cores: usize,
    /// The most requests that could be in flight.
    pub clients: u32,
    /// Processor time of each load thread, without what it spent awake.
    pub thread_cpu_ns: Vec<u64>,
    /// Processor time that each load thread spent awake until a request was due.
    pub thread_awake_ns: Vec<u64>,
    /// How long each load thread was ready to run and had no core.
    pub thread_run_delay_ns: Vec<Option<u64>>,
    /// How punctual the host was.
    #[serde(flatten)]
    pub jitter: Jitter,
    /// The clock that times were read from.
    pub clock: ClockFacts,
    /// What the driver used, and what the host refused it, by name.
    pub features: BTreeMap<String, String>,
    /// Requests of the client that made the fewest.
    pub clients_requests_min: u64,
    /// Requests of the client that made the most.
    pub clients_requests_max: u64,
    /// The sum of the squares of what each client did of them: with their sum it tells how fairly
    /// the target served the clients.
    pub clients_requests_squares: f64,
    /// One message for each kind of failure.
    pub error_examples: BTreeMap<String, String>,
    /// Numbers of objects, each range from its first to before its end, that are not there because
    /// their put failed, in this trial or before it.
    pub objects_unwritten: Vec<(u64, u64)>,
    /// Puts that failed beside those: of objects that may have been put before, or too many to
    /// remember.
    pub puts_failed_more: u64,
    /// Places that the trial made.
    pub buckets_created: Vec<String>,
    /// Places without a mark of loadstone that it used all the same.
    pub buckets_foreign: Vec<String>,
    /// Places that a clean-up removed.
    pub buckets_deleted: Vec<String>,
    /// Places that a clean-up did not find.
    pub buckets_absent: Vec<String>,
    /// Places that a clean-up left.
    pub buckets_left: Vec<String>,
    /// The same, each with the reason.
    pub places_left: Vec<Left>,
    /// Objects that a clean-up found and deleted.
    pub objects_swept: u64,
    /// Those of them that were listed after all had been deleted once, and perhaps counted twice: a
    /// listing that is behind shows what is gone.
    pub objects_swept_again: u64,
    /// What an audit found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditSummary>,
}
