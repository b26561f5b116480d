//! The published schemas of what stands on disk, `docs/reference/{trial,record}.schema.json`: made
//! from the types that the load generator reads and writes.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Serialize;

use crate::run::Summary;
use crate::trial::Trial;

/// What one trial left behind: `trials/NNNN.json` of a run folder.
#[derive(Serialize, JsonSchema)]
struct Record {
    /// Version of the record.
    record_format: u32,
    /// The document that was carried out.
    trial: Trial,
    /// What the load generator tells of it. An interrupted trial may have an empty one.
    summary: Observed,
    /// What the runner noted: `INTERRUPTED`, `STOPPED` or `STOPPED_ON_LOSS`.
    labels: Vec<String>,
    /// Probes that could not be read, each with the reason.
    absent_probes: BTreeMap<String, String>,
    /// What was seen of the target `before` and `after` the load.
    target_state: BTreeMap<String, serde_json::Value>,
    /// Size and digest of each of the trial's tables, by its name in the run folder.
    files: BTreeMap<String, Digest>,
}

/// The summary of the load generator, and what its caller saw beside it.
#[derive(Serialize, JsonSchema)]
struct Observed {
    #[serde(flatten)]
    summary: Summary,
    /// Whether the target is served by the host that made the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_on_own_host: Option<bool>,
    /// What was looked at on the host that made the load, before that, and at the target from there.
    #[serde(skip_serializing_if = "Option::is_none")]
    host_state: Option<HostState>,
    /// Whether it was stopped because a client host was lost, and not by failed requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_on_loss: Option<bool>,
    /// What each client host did, where several made the load together.
    #[serde(skip_serializing_if = "Option::is_none")]
    hosts: Option<Vec<LoadHost>>,
}

/// What one client host did of a trial, and how it ended.
#[derive(Serialize, JsonSchema)]
struct LoadHost {
    /// Its name, which its rows of intervals carry as their agent.
    name: String,
    /// `finished`, `lost`, or `idle` where it had no client or no request.
    state: String,
    /// Why it was lost.
    reason: Option<String>,
    /// Its own clients.
    clients: Option<u32>,
    /// Requests of all stages; of a lost host those that it had told of.
    requests: u64,
    /// Those of them that failed.
    failed: u64,
    /// Payload that good requests moved.
    bytes: u64,
    /// As in the summary, of its own load alone: what its own counters are judged by.
    #[serde(skip_serializing_if = "Option::is_none")]
    connections_opened: Option<u64>,
    /// Likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_sent: Option<u64>,
    /// Likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_received: Option<u64>,
    /// Likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_cpu_ns: Option<Vec<u64>>,
    /// Likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_awake_ns: Option<Vec<u64>>,
    /// Likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_run_delay_ns: Option<Vec<Option<u64>>>,
    /// Likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    error_examples: Option<BTreeMap<String, String>>,
    /// Whether the target is served by this very host.
    #[serde(skip_serializing_if = "Option::is_none")]
    target_on_own_host: Option<bool>,
    /// What was looked at on this host before the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    host_state: Option<HostState>,
    /// When it was found lost, from the common start.
    lost_ns: Option<u64>,
    /// By how much its load began after the common start, on its own clock.
    start_error_ns_max: Option<u64>,
    /// Its clock less the controller's.
    clock_offset_ns: Option<i64>,
    /// The most by which that offset may be wrong.
    clock_bound_ns: Option<u64>,
    /// The shortest way there and back.
    round_trip_ns: Option<u64>,
    /// By how much its clock was set during the trial; the load's own times do not follow that.
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_step_ns: Option<i64>,
}

/// What earlier trials had left on a host before a load, and for how long it waited to settle.
#[derive(Serialize, JsonSchema)]
struct HostState {
    /// How long the load was held back.
    waited_ns: u64,
    /// Each quantity that was looked at.
    residues: Vec<Residue>,
}

/// How much an earlier trial had left of one quantity.
#[derive(Serialize, JsonSchema)]
struct Residue {
    /// `ports_resting`, `connections_closing`, `dirty_bytes` or `target_disk_requests`.
    quantity: String,
    /// When it was first looked at.
    before_wait: f64,
    /// When the load began.
    before_load: f64,
    /// Up to how much counts as settled.
    settled_max: f64,
}

/// Which content a file had when it was written.
#[derive(Serialize, JsonSchema)]
struct Digest {
    /// Its size.
    bytes: u64,
    /// The SHA-256 of its content, in hex.
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
fn the_published_schema_of_a_trial_is_that_of_its_type() {
    check("trial.schema.json", |generator| generator.into_root_schema_for::<Trial>());
}

#[test]
fn the_published_schema_of_a_record_is_that_of_its_types() {
    check("record.schema.json", |generator| generator.into_root_schema_for::<Record>());
}
