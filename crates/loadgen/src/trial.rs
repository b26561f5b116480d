//! The trial document: everything that decides one trial, as JSON.

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

/// The version of the document that this code reads.
pub const FORMAT: u32 = 1;

/// Objects that a mix of one trial may put beyond the dataset, over all its stages: the bases of
/// two trials are this far apart or more.
pub const BEYOND_MAX: u64 = 1 << 34;

/// One phase of one case on one round's dataset.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Trial {
    /// Version of the document.
    pub format: u32,
    /// What kind of work it is, and so who carries it out.
    #[serde(default)]
    pub kind: Kind,
    /// The trial's place in its plan, such as `0007`.
    pub id: String,
    /// The run it belongs to: 32 hex digits. Payloads carry it.
    pub run: String,
    /// All chance comes from here.
    pub seed: u64,
    /// The phase's name; `prepare` and `clean-up` have a meaning of their own.
    pub phase: String,
    /// Which round of the campaign it belongs to, from 1.
    #[serde(default = "one")]
    pub round: u32,
    /// Which block of interleaved repetitions it belongs to, from 1.
    #[serde(default = "one")]
    pub block: u32,
    /// Whether it counts in results; what prepares and cleans up does not.
    #[serde(default = "yes")]
    pub measured: bool,
    /// The cell of the campaign's matrix that it repeats.
    #[serde(default)]
    pub case: Case,
    /// The search for a capacity that it is, or is a step of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<Search>,
    /// What was changed on purpose against another phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intervention: Option<Intervention>,
    /// Who makes the load: rows of intervals carry the name.
    #[serde(default = "local")]
    pub agent: String,
    /// How many client hosts carry it out together; `load` and `stop` are those of all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<u32>,
    /// Which portion of it this host carries out. Rates and numbers of requests stay the whole's;
    /// clients are this host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portion: Option<Portion>,
    /// Where the load goes.
    pub target: Target,
    /// What the load works on.
    pub dataset: DatasetSpec,
    /// Which operations, in which shares.
    pub mix: Vec<Share>,
    /// What is asked for instead of the mix: actions that depend on each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<ScriptSpec>,
    /// The script, once it is open.
    #[serde(skip)]
    pub(crate) open_script: Option<Arc<Script>>,
    /// The list of the objects, where others wrote them, once it is open.
    #[serde(skip)]
    pub(crate) open_list: Option<Arc<ObjectList>>,
    /// What objects hold, where a file says it, once it is open.
    #[serde(skip)]
    pub(crate) open_content: Option<&'static [u8]>,
    /// What its requests outside the measurement share; none where nothing is retried.
    #[serde(skip)]
    pub(crate) retries: Option<Arc<Retries>>,
    /// What single operations need to know beyond the dataset.
    #[serde(default)]
    pub options: Options,
    /// How requests arrive.
    pub load: Load,
    /// Bound on the rate of a closed load, per second over all clients.
    #[serde(default)]
    pub rate_limit_per_s: Option<f64>,
    /// Which objects requests choose.
    #[serde(default)]
    pub keys: Keys,
    /// When an iteration ends; whichever comes first.
    pub stop: Stop,
    /// Load before the measured part.
    #[serde(default)]
    pub warm_up_ns: u64,
    /// Load after the measured part.
    #[serde(default)]
    pub cool_down_ns: u64,
    /// How often the measured part is repeated.
    #[serde(default = "one")]
    pub iterations: u32,
    /// Whether connections are kept.
    #[serde(default)]
    pub connections: Connections,
    /// How long one request may take.
    #[serde(default = "minute_ns")]
    pub timeout_ns: u64,
    /// What a failed request does to the trial.
    #[serde(default)]
    pub on_error: OnError,
    /// Share of reads whose bytes are checked, 0 to 1.
    #[serde(default = "all")]
    pub verify: f64,
    /// Whether buckets that loadstone did not mark may be written to.
    #[serde(default)]
    pub allow_foreign: bool,
    /// What runs before this one left, and what this one may take for its own.
    #[serde(default)]
    pub ownership: Ownership,
    /// Objects that mixes put beyond the dataset are numbered from `dataset.objects` and this on:
    /// each trial of a plan has its own, so that none writes over what another has put.
    #[serde(default)]
    pub ticket_base: u64,
    /// Load threads; all the cores we may use when absent.
    #[serde(default)]
    pub cores: Option<u32>,
    /// CPUs that load threads are bound to: each to one of them, in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// NUMA nodes that load threads are bound to: each to the CPUs of one of them, in turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numa_nodes: Vec<u32>,
    /// Whether every request is logged.
    #[serde(default)]
    pub log_requests: bool,
    /// Whether a ledger is kept of what the target acknowledged.
    #[serde(default)]
    pub keeps_ledger: bool,
    /// The ledgers of earlier trials, of whose objects this one reads back what there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owed: Option<OwedSpec>,
    /// Whether the history of its calls is kept. Its requests then read, write and delete the same objects, those
    /// of the dataset or of a script, and each of its writes has a version of its own.
    #[serde(default)]
    pub keeps_history: bool,
    /// The histories that are judged with this trial's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<HistorySpec>,
    /// The ledgers, once they are read.
    #[serde(skip)]
    pub(crate) open_audit: Option<Arc<Audit>>,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

/// The name of the host that runs the trial itself.
fn local() -> String {
    "local".into()
}

fn minute_ns() -> u64 {
    60_000_000_000
}

fn all() -> f64 {
    1.0
}

/// A target: its name, its driver, and that driver's own settings.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Target {
    /// The name in the campaign.
    pub name: String,
    /// A name in the table of drivers.
    pub driver: String,
    /// Checked by the driver.
    #[serde(default)]
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// What the campaign says is true of the target; no load depends on it.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub facts: serde_json::Map<String, serde_json::Value>,
}

/// What of the places that are there is this run's: a *place* is a bucket, a container, a namespace,
/// a directory or a device.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Ownership {
    /// Places that the run's journal says it was about to make: one that is there, empty and
    /// without a mark, is marked and used.
    pub adopt: Vec<String>,
    /// Other runs, whose places may be used and swept like this run's own.
    pub runs: Vec<String>,
    /// Numbers of objects, each range from its first to before its end, that mixes may have put
    /// beyond the dataset: what a clean-up may delete beside `[0, dataset.objects)`.
    pub written: Vec<(u64, u64)>,
    /// Numbers of objects of the dataset, as ranges too, that are not there because their put
    /// failed: that they are not found is no further failure.
    pub unwritten: Vec<(u64, u64)>,
    /// Devices and file systems on which the run has claimed its places, as its drivers told of them:
    /// a name that leads to another by now is not used, and a place absent there is not gone.
    pub volumes: Vec<String>,
}

impl Ownership {
    /// Tells whether the run has claimed its places on other volumes than this one.
    pub(crate) fn is_elsewhere(&self, volume: &str) -> bool {
        !self.volumes.is_empty() && self.volumes.iter().all(|claimed| claimed != volume)
    }
}

/// One operation of a mix and its share.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Share {
    /// Which operation.
    pub operation: Operation,
    /// Its weight against the others.
    #[serde(default = "all")]
    pub weight: f64,
}

/// What single operations need to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Options {
    /// Length of a range; for `read`, `write` and `append` the block size.
    pub range_bytes: Option<u64>,
    /// Ranges in a `multi_range_get`.
    pub range_count: u32,
    /// Part size of a `multipart_put` and a `multipart_get`.
    pub part_bytes: Option<u64>,
    /// Parts of one object that a client has in flight at once.
    pub part_concurrency: u32,
    /// Keys asked for in one `list`.
    pub page_keys: u32,
    /// Prefix that `list` asks for; the dataset's own when absent.
    pub prefix: Option<String>,
    /// Delimiter that `list` asks for.
    pub delimiter: Option<String>,
    /// Keys in one `bulk_delete`.
    pub bulk_keys: u32,
    /// Of how many objects, the first of the dataset, each `compare_and_swap` writes one.
    pub contended_keys: u64,
    /// In which order the parts of a begun upload are sent.
    pub part_order: PartOrder,
    /// How long an upload rests after each part.
    pub part_pause_ns: u64,
    /// Share of the begun uploads that are ended a second time, 0 to 1: at the same time where a
    /// client is free.
    pub ended_twice: f64,
}

/// In which order the parts of an upload are sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PartOrder {
    /// By their numbers.
    #[default]
    Ascending,
    /// The last one first.
    Descending,
    /// By chance.
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
    /// So many clients, each of which waits for its answer.
    Closed {
        /// How many.
        clients: u32,
    },
    /// So many requests a second, whatever is outstanding.
    Open {
        /// The rate over all clients.
        rate_per_s: f64,
        /// The law of arrivals.
        #[serde(default)]
        arrivals: Arrivals,
        /// Bound on the requests in flight.
        clients_max: u32,
    },
}

impl Load {
    /// Returns the largest number of requests in flight.
    #[must_use]
    pub fn clients(&self) -> u32 {
        match self {
            Self::Closed { clients } => *clients,
            Self::Open { clients_max, .. } => *clients_max,
        }
    }
}

/// The law of arrivals of an open load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Independent of each other.
    #[default]
    Poisson,
    /// Evenly spaced.
    Constant,
}

/// Which objects requests choose.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Keys {
    /// The order.
    #[serde(default)]
    pub order: Order,
    /// The exponent of a zipf law; 0.99 when absent.
    #[serde(default)]
    pub theta: Option<f64>,
}

/// The order in which objects are chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// One after another, each as often as the others.
    #[default]
    Sequential,
    /// Each as likely as the others.
    Uniform,
    /// A few much more likely than the rest.
    Zipf,
}

/// When an iteration ends.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stop {
    /// After so many requests.
    #[serde(default)]
    pub requests: Option<u64>,
    /// After so long.
    #[serde(default)]
    pub duration_ns: Option<u64>,
}

/// Whether a connection serves more than one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Connections {
    /// It stays open.
    #[default]
    KeepAlive,
    /// Each request opens its own.
    PerRequest,
}

/// What failed requests do to the trial.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OnError {
    /// Go on or stop.
    #[serde(default)]
    pub action: OnErrorAction,
    /// Failures borne before the trial stops.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// Go on or stop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnErrorAction {
    /// Count and go on.
    #[default]
    Continue,
    /// Stop at the limit, or at the first.
    Stop,
}

impl OnError {
    /// Returns how many failures the trial bears.
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
    /// Returns the portion that this host carries out: all of it, unless the document says less.
    #[must_use]
    pub fn portion(&self) -> Portion {
        self.portion.unwrap_or_default()
    }

    /// Tells whether this trial removes its dataset and measures nothing.
    #[must_use]
    pub fn is_clean_up(&self) -> bool {
        self.phase == "clean-up"
    }

    /// Tells whether buckets must be there, and be ours, before load starts.
    #[must_use]
    pub fn changes_objects(&self) -> bool {
        !self.is_clean_up() && self.mix.iter().any(|share| share.operation.changes_objects())
    }

    /// Returns the seed of what a trial draws anew: its arrivals and its choice of requests. Were
    /// it the same for all trials, repetitions would repeat one draw and not show how draws differ.
    /// What objects are, their sizes and payload, comes from the campaign's seed alone.
    #[must_use]
    pub fn chance_seed(&self) -> u64 {
        self.id.bytes().fold(self.seed, |seed, byte| mix64(seed ^ u64::from(byte)))
    }

    /// Returns the number of the first object beyond the dataset that a mix of this trial puts, if
    /// all that it may put can be numbered.
    #[must_use]
    pub fn first_beyond(&self) -> Option<u64> {
        let first = self.dataset.objects.checked_add(self.ticket_base)?;
        first.checked_add(BEYOND_MAX).map(|_| first)
    }

    /// Returns the identity of the run that the objects come from as bytes, for payloads.
    #[must_use]
    pub fn run_bytes(&self) -> [u8; 16] {
        let run = self.dataset.written_by.as_ref().map_or(&self.run, |origin| &origin.run);
        u128::from_str_radix(run, 16).unwrap_or_default().to_be_bytes()
    }

    /// Returns the seed that the objects' sizes and payload come from.
    #[must_use]
    pub fn content_seed(&self) -> u64 {
        self.dataset.written_by.as_ref().map_or(self.seed, |origin| origin.seed)
    }
}
