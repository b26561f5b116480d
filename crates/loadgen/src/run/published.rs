//! Checks the published schemas of files, `docs/reference/{trial,record}.schema.json`, against the
//! types that the load generator reads and writes.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;

use crate::run::Summary;
use crate::trial::Trial;

/// The record of one trial: `trials/NNNN.json` of a run folder.
#[derive(Serialize, JsonSchema)]
struct Record {
    /// Version of the record format.
    record_format: u32,
    /// The trial document that was executed.
    trial: Trial,
    /// The load generator's summary. It may be empty if the trial was interrupted.
    summary: Observed,
    /// Labels of the runner: `INTERRUPTED`, `STOPPED` or `STOPPED_ON_LOSS`.
    labels: Vec<String>,
    /// Probes that could not be read, each with the reason.
    absent_probes: BTreeMap<String, String>,
    /// State of the target `before` and `after` the load.
    target_state: BTreeMap<String, serde_json::Value>,
    /// Size and digest of each of the trial's tables, by its name in the run folder.
    files: BTreeMap<String, Digest>,
}

/// The load generator's summary, and observations of its caller.
#[derive(Serialize, JsonSchema)]
struct Observed {
    #[serde(flatten)]
    summary: Summary,
    /// Whether the target is served by the host that made the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_on_own_host: Option<bool>,
    /// State of the host that made the load, and of the target as seen from there, before the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    host_state: Option<HostState>,
    /// Whether the trial was stopped because a client host was lost, not because of failed
    /// requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_on_loss: Option<bool>,
    /// The part of each client host, where several made the load together.
    #[serde(skip_serializing_if = "Option::is_none")]
    hosts: Option<Vec<LoadHost>>,
}

/// The part of one client host in a trial, and how it ended.
#[derive(Serialize, JsonSchema)]
struct LoadHost {
    /// Name of the host; its rows of intervals have it as their agent.
    name: String,
    /// `finished`, `lost`, or `idle` if it had no client or no request.
    state: String,
    /// Why the host was lost.
    reason: Option<String>,
    /// Number of clients on this host.
    clients: Option<u32>,
    /// Requests of all stages; for a lost host, those that it had reported.
    requests: u64,
    /// Failed requests of all stages.
    failed: u64,
    /// Payload bytes of successful requests.
    bytes: u64,
    /// Connections that this host opened for its own load.
    #[serde(skip_serializing_if = "Option::is_none")]
    connections_opened: Option<u64>,
    /// Bytes that this host sent for its own load, headers included.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_sent: Option<u64>,
    /// Bytes that this host received for its own load, headers included.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_received: Option<u64>,
    /// CPU time of each load thread of this host, without what it spent awake.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_cpu_ns: Option<Vec<u64>>,
    /// CPU time that each load thread of this host spent awake until a request was due.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_awake_ns: Option<Vec<u64>>,
    /// How long each load thread of this host was ready to run and had no core.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_run_delay_ns: Option<Vec<Option<u64>>>,
    /// One error message of this host for each kind of failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_examples: Option<BTreeMap<String, String>>,
    /// Whether this host serves the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_on_own_host: Option<bool>,
    /// State of this host before the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    host_state: Option<HostState>,
    /// When the host was found lost, in nanoseconds from the common start.
    lost_ns: Option<u64>,
    /// Longest delay between the common start and the start of its load, on its own clock.
    start_error_ns_max: Option<u64>,
    /// Its clock minus the controller's.
    clock_offset_ns: Option<i64>,
    /// Maximum error of that offset.
    clock_bound_ns: Option<u64>,
    /// Shortest round trip between the controller and the host.
    round_trip_ns: Option<u64>,
    /// By how much its clock was set during the trial. Times of the load are on a monotonic clock,
    /// which does not follow.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_step_ns: Option<i64>,
}

/// Residues of earlier trials on a host before a load, and how long the load waited for them to
/// settle.
#[derive(Serialize, JsonSchema)]
struct HostState {
    /// How long the load was held back.
    waited_ns: u64,
    /// Each quantity that was checked.
    residues: Vec<Residue>,
}

/// Residue of earlier trials in one quantity.
#[derive(Serialize, JsonSchema)]
struct Residue {
    /// `ports_resting`, `connections_closing`, `dirty_bytes` or `target_disk_requests`.
    quantity: String,
    /// Value before the wait.
    before_wait: f64,
    /// Value when the load began.
    before_load: f64,
    /// Largest value that counts as settled.
    settled_max: f64,
}

/// Size and digest of a file when it was written.
#[derive(Serialize, JsonSchema)]
struct Digest {
    /// Size of the file.
    bytes: u64,
    /// SHA-256 of the content, in hex.
    sha256: String,
}

fn check(name: &str, of: fn(schemars::SchemaGenerator) -> Schema) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    let schema = of(SchemaSettings::draft2020_12().into_generator());
    let text = serde_json::to_string_pretty(&schema).expect("a schema is JSON") + "\n";
    if std::env::var_os("LOADSTONE_RENEW").is_some() {
        std::fs::write(&path, &text).expect("the schema can be written");
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == text,
        "{name} is of other types; renew it: LOADSTONE_RENEW=1 cargo test -p loadstone-loadgen published"
    );
}

#[test]
fn the_published_schema_of_a_trial_matches_its_type() {
    check("trial.schema.json", |generator| generator.into_root_schema_for::<Trial>());
}

#[test]
fn the_published_schema_of_a_record_matches_its_types() {
    check("record.schema.json", |generator| generator.into_root_schema_for::<Record>());
}
