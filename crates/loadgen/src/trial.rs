//! The trial document: all inputs of one trial, as JSON.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::chance::mix64;
use crate::ledger::Audit;
use crate::object_list::ObjectList;
use crate::operation::Operation;
use crate::script::Script;
use crate::transport::retries::Retries;

mod dataset;
mod division;
mod mistakes;
mod planned;
mod script;

pub use crate::ledger::{HistoryFile, HistorySpec, LedgerSpec, OwedSpec};
pub use crate::portion::Portion;
pub use dataset::{Cipher, DatasetSpec, Origin, PathCipher, Shards, SizeLaw};
pub(crate) use division::Division;
pub use planned::{Case, Goal, Intervention, Kind, Loads, Search};
pub use script::{NamedFile, ScriptSpec};

/// The version of the document format that this code reads.
pub const FORMAT: u32 = 1;

/// How many objects the mix of one trial may put beyond the dataset, over all its stages. The
/// `ticket_base` values of two trials are at least this far apart.
pub const BEYOND_MAX: u64 = 1 << 34;

/// One phase of one case on one round's dataset.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Trial {
    /// Version of the document.
    pub format: u32,
    /// Kind of work, which decides the executor.
    #[serde(default)]
    pub kind: Kind,
    /// ID of the trial: its position in the plan, such as `0007`.
    pub id: String,
    /// The run that the trial belongs to: 32 hex digits. Payloads contain it.
    pub run: String,
    /// Seed of all random choices.
    pub seed: u64,
    /// Name of the phase; `prepare` and `clean-up` are special.
    pub phase: String,
    /// Round of the campaign, from 1.
    #[serde(default = "one")]
    pub round: u32,
    /// Block of interleaved repetitions, from 1.
    #[serde(default = "one")]
    pub block: u32,
    /// Whether the trial counts in results; trials that prepare or clean up do not.
    #[serde(default = "yes")]
    pub measured: bool,
    /// The cell of the campaign's matrix that the trial repeats.
    #[serde(default)]
    pub case: Case,
    /// Set if the trial is a search for a capacity, or one of its steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
    /// A deliberate change in comparison with another phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervention: Option<Intervention>,
    /// Who makes the load; rows of intervals carry this name.
    #[serde(default = "local")]
    pub agent: String,
    /// Number of client hosts that execute the trial together; `load` and `stop` are totals over
    /// all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// This host's portion of the trial. Rates and numbers of requests stay those of the whole
    /// trial; clients are this host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portion: Option<Portion>,
    /// The target of the load.
    pub target: Target,
    /// The objects that the load works on.
    pub dataset: DatasetSpec,
    /// Operations and their shares.
    pub mix: Vec<Share>,
    /// Actions that depend on each other, executed instead of the mix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<ScriptSpec>,
    /// The opened script.
    #[serde(skip)]
    pub(crate) open_script: Option<Arc<Script>>,
    /// The opened list of objects, if others wrote them.
    #[serde(skip)]
    pub(crate) open_list: Option<Arc<ObjectList>>,
    /// The mapped file with the content of objects, if the dataset has one.
    #[serde(skip)]
    pub(crate) open_content: Option<&'static [u8]>,
    /// Retry state shared by the requests outside the measurement; `None` if nothing is retried.
    #[serde(skip)]
    pub(crate) retries: Option<Arc<Retries>>,
    /// Settings of single operations beyond the dataset.
    #[serde(default)]
    pub options: Options,
    /// How requests arrive.
    pub load: Load,
    /// Maximum rate of a closed load, in requests per second over all clients.
    #[serde(default)]
    pub rate_limit_per_s: Option<f64>,
    /// How requests choose objects.
    #[serde(default)]
    pub keys: Keys,
    /// Limits that end an iteration; the first one reached ends it.
    pub stop: Stop,
    /// Duration of load before the measured part.
    #[serde(default)]
    pub warm_up_ns: u64,
    /// Duration of load after the measured part.
    #[serde(default)]
    pub cool_down_ns: u64,
    /// How many times the measured part is repeated.
    #[serde(default = "one")]
    pub iterations: u32,
    /// Whether connections are reused.
    #[serde(default)]
    pub connections: Connections,
    /// Timeout of one request.
    #[serde(default = "minute_ns")]
    pub timeout_ns: u64,
    /// Reaction to failed requests.
    #[serde(default)]
    pub on_error: OnError,
    /// Share of reads whose content is checked, 0 to 1.
    #[serde(default = "all")]
    pub verify: f64,
    /// Whether the trial may write to buckets that loadstone did not mark.
    #[serde(default)]
    pub allow_foreign: bool,
    /// Places and objects of earlier trials and runs that this trial may treat as its own.
    #[serde(default)]
    pub ownership: Ownership,
    /// Mixes number objects beyond the dataset from `dataset.objects` plus this. Each trial of a
    /// plan has its own value, so that none overwrites another's objects.
    #[serde(default)]
    pub ticket_base: u64,
    /// Number of load threads; all cores that the process may use when absent.
    #[serde(default)]
    pub cores: Option<u32>,
    /// CPUs to bind load threads to, one for each thread in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// NUMA nodes to bind load threads to: each thread to the CPUs of one node, in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numa_nodes: Vec<u32>,
    /// Whether each request is logged.
    #[serde(default)]
    pub log_requests: bool,
    /// Whether the trial keeps a ledger of what the target acknowledged.
    #[serde(default)]
    pub keeps_ledger: bool,
    /// Ledgers of earlier trials whose objects this trial reads back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owed: Option<OwedSpec>,
    /// Whether the trial keeps the history of its calls. Its requests then read, write and delete
    /// the same objects, those of the dataset or of a script, and each write has a version of its
    /// own.
    #[serde(default)]
    pub keeps_history: bool,
    /// Histories that are judged together with this trial's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<HistorySpec>,
    /// The opened ledgers.
    #[serde(skip)]
    pub(crate) open_audit: Option<Arc<Audit>>,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

/// The agent's name where the run itself makes the load.
fn local() -> String {
    "local".into()
}

fn minute_ns() -> u64 {
    60_000_000_000
}

fn all() -> f64 {
    1.0
}

/// A target: its name, its driver, and the driver's settings.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Target {
    /// Name in the campaign.
    pub name: String,
    /// Name in the table of drivers.
    pub driver: String,
    /// Settings, which the driver checks.
    #[serde(default)]
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// Facts about the target that the campaign states; no load depends on them.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub facts: serde_json::Map<String, serde_json::Value>,
}

/// Which of the existing places belong to this run. A *place* is a bucket, a container, a
/// namespace, a directory or a device.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Ownership {
    /// Places that the run was about to create, according to its journal. Such a place is marked
    /// and used if it exists, is empty and has no mark.
    pub adopt: Vec<String>,
    /// Other runs whose places may be used and swept like this run's own.
    pub runs: Vec<String>,
    /// Numbers of objects that mixes may have put beyond the dataset, as ranges from the first to
    /// before the end. A clean-up may delete them in addition to `[0, dataset.objects)`.
    pub written: Vec<(u64, u64)>,
    /// Numbers of objects of the dataset that do not exist because their put failed, as ranges. A
    /// read that does not find one is not another failure.
    pub unwritten: Vec<(u64, u64)>,
    /// Devices and file systems on which the run has claimed places, as its drivers reported. A
    /// name that now leads to another volume is not used, and a place absent there does not count
    /// as deleted.
    pub volumes: Vec<String>,
}

impl Ownership {
    /// Returns whether the run has claimed its places on volumes other than this one.
    pub(crate) fn is_elsewhere(&self, volume: &str) -> bool {
        !self.volumes.is_empty() && self.volumes.iter().all(|claimed| claimed != volume)
    }
}

/// One operation of a mix and its weight.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Share {
    /// The operation.
    pub operation: Operation,
    /// Weight relative to the other operations.
    #[serde(default = "all")]
    pub weight: f64,
}

/// Settings of single operations.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Options {
    /// Length of a range; for `read`, `write` and `append`, the block size.
    pub range_bytes: Option<u64>,
    /// Ranges in a `multi_range_get`.
    pub range_count: u32,
    /// Part size of a `multipart_put` and a `multipart_get`.
    pub part_bytes: Option<u64>,
    /// Maximum number of parts of one object that a client has in flight.
    pub part_concurrency: u32,
    /// Maximum number of keys in the answer to one `list`.
    pub page_keys: u32,
    /// Prefix of `list`; the dataset's prefix when absent.
    pub prefix: Option<String>,
    /// Delimiter of `list`.
    pub delimiter: Option<String>,
    /// Keys in one `bulk_delete`.
    pub bulk_keys: u32,
    /// Number of objects, from the first of the dataset, among which each `compare_and_swap`
    /// chooses one.
    pub contended_keys: u64,
    /// Order in which the parts of an upload are sent.
    pub part_order: PartOrder,
    /// Pause of an upload after each part.
    pub part_pause_ns: u64,
    /// Share of begun uploads that are ended a second time, 0 to 1; concurrently if a client is
    /// free.
    pub ended_twice: f64,
}

/// Order in which the parts of an upload are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PartOrder {
    /// By part number.
    #[default]
    Ascending,
    /// By part number, the last one first.
    Descending,
    /// In random order.
    Shuffled,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            range_bytes: None,
            range_count: 2,
            part_bytes: None,
            part_concurrency: 1,
            page_keys: 1000,
            prefix: None,
            delimiter: None,
            bulk_keys: 1000,
            contended_keys: 16,
            part_order: PartOrder::Ascending,
            part_pause_ns: 0,
            ended_twice: 0.0,
        }
    }
}

/// How requests arrive.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Load {
    /// A fixed number of clients, each of which waits for its answer.
    Closed {
        /// Number of clients.
        clients: u32,
    },
    /// A fixed rate of requests, however many are outstanding.
    Open {
        /// Requests per second over all clients.
        rate_per_s: f64,
        /// Distribution of arrivals.
        #[serde(default)]
        arrivals: Arrivals,
        /// Maximum number of requests in flight.
        clients_max: u32,
    },
}

impl Load {
    /// Returns the maximum number of requests in flight.
    #[must_use]
    pub fn clients(&self) -> u32 {
        match self {
            Self::Closed { clients } => *clients,
            Self::Open { clients_max, .. } => *clients_max,
        }
    }
}

/// Distribution of the arrivals of an open load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// A Poisson process: arrivals independent of each other.
    #[default]
    Poisson,
    /// Evenly spaced arrivals.
    Constant,
}

/// How requests choose objects.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Keys {
    /// Order of choice.
    #[serde(default)]
    pub order: Order,
    /// Exponent of a Zipf distribution; 0.99 when absent.
    #[serde(default)]
    pub theta: Option<f64>,
}

/// Order in which objects are chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// One after another, each equally often.
    #[default]
    Sequential,
    /// At random, each with the same probability.
    Uniform,
    /// At random, few objects much more often than the rest.
    Zipf,
}

/// Limits that end an iteration.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stop {
    /// Number of requests.
    #[serde(default)]
    pub requests: Option<u64>,
    /// Duration.
    #[serde(default)]
    pub duration_ns: Option<u64>,
}

/// Whether a connection serves more than one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Connections {
    /// Connections stay open.
    #[default]
    KeepAlive,
    /// Each request opens a connection.
    PerRequest,
}

/// Reaction to failed requests.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OnError {
    /// Whether to continue or stop.
    #[serde(default)]
    pub action: OnErrorAction,
    /// Number of failures after which the trial stops.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// Whether to continue or stop after failed requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnErrorAction {
    /// Count failures and continue.
    #[default]
    Continue,
    /// Stop at the limit, or at the first failure if there is none.
    Stop,
}

impl OnError {
    /// Returns how many failures the trial tolerates.
    #[must_use]
    pub fn failures_max(&self) -> u64 {
        match (self.action, self.limit) {
            (_, Some(limit)) => limit,
            (OnErrorAction::Continue, None) => u64::MAX,
            (OnErrorAction::Stop, None) => 0,
        }
    }
}

impl Trial {
    /// Returns this host's portion: the whole trial, unless the document says less.
    #[must_use]
    pub fn portion(&self) -> Portion {
        self.portion.unwrap_or_default()
    }

    /// Returns whether this trial deletes its dataset and measures nothing.
    #[must_use]
    pub fn is_clean_up(&self) -> bool {
        self.phase == "clean-up"
    }

    /// Returns whether buckets must exist and be ours before the load starts.
    #[must_use]
    pub fn changes_objects(&self) -> bool {
        !self.is_clean_up() && self.mix.iter().any(|share| share.operation.changes_objects())
    }

    /// Returns the seed of arrivals and of the choice of requests. It differs between trials:
    /// otherwise all repetitions would be the same sample and not show the variance between
    /// samples. Sizes and payload of objects come from the campaign's seed only.
    #[must_use]
    pub fn chance_seed(&self) -> u64 {
        self.id.bytes().fold(self.seed, |seed, byte| mix64(seed ^ u64::from(byte)))
    }

    /// Returns the number of the first object that a mix of this trial puts beyond the dataset, or
    /// `None` if the numbers would overflow.
    #[must_use]
    pub fn first_beyond(&self) -> Option<u64> {
        let first = self.dataset.objects.checked_add(self.ticket_base)?;
        first.checked_add(BEYOND_MAX).map(|_| first)
    }

    /// Returns the ID of the run that wrote the objects as bytes, for payloads.
    #[must_use]
    pub fn run_bytes(&self) -> [u8; 16] {
        let run = self.dataset.written_by.as_ref().map_or(&self.run, |origin| &origin.run);
        u128::from_str_radix(run, 16).unwrap_or_default().to_be_bytes()
    }

    /// Returns the seed of the objects' sizes and payload.
    #[must_use]
    pub fn content_seed(&self) -> u64 {
        self.dataset.written_by.as_ref().map_or(self.seed, |origin| origin.seed)
    }
}
