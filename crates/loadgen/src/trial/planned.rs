//! A trial's position in its campaign. The planner writes this for readers of the record; no load
//! depends on it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Kind of work. The load generator executes no trials of other kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Storage operations.
    #[default]
    Operations,
}

/// One cell of a campaign's matrix.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Case {
    /// Name of the target in the campaign.
    pub target: String,
    /// Name of the workload in the campaign.
    pub workload: String,
    /// A value for each parameter, such as `threads` and `size`.
    pub parameters: Map<String, Value>,
}

/// A search for a capacity, or one of its steps.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Search {
    /// The search, whose trials depend on each other. It has no record of its own.
    Planned {
        /// Parameter that is varied: `threads` or `rate`.
        vary: String,
        /// Quantile of latency that has an objective, such as `p99`.
        quantile: String,
        /// Pause between two steps.
        pause_ns: u64,
        /// Objective and precision of the search.
        goal: Goal,
        /// Loads to search between.
        loads: Loads,
    },
    /// A step of a search.
    Step {
        /// `id` of the search.
        of: String,
        /// Number of the step, from 1.
        step: u32,
        /// Stage of the search.
        stage: String,
        /// Load of the step: clients, or requests per second.
        load: f64,
        /// Measured duration.
        duration_s: f64,
    },
}

/// Objective of a search, and the effort to spend on it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Goal {
    /// Latency objective.
    pub latency_ns_max: u64,
    /// Quantile of the objective, 0 to 1.
    pub quantile: f64,
    /// Maximum share of failed requests.
    pub errors_max: f64,
    /// Minimum share of the requested load that must be achieved.
    pub achieved_min: f64,
    /// Final distance between the bounds, relative to the load.
    pub width: f64,
    /// Duration of a trial.
    pub trial_s: f64,
    /// Duration of a trial while the bounds are still coarse.
    pub coarse_trial_s: f64,
    /// Total time at a load that is needed to decide whether it passes.
    pub duration_sum_s: f64,
    /// Share of that time in which the objective may be missed.
    pub exceed: f64,
    /// Number of trials that confirm the result.
    pub confirm_trials: u32,
    /// How many of those trials must pass.
    pub confirm_good_min: u32,
    /// Maximum number of trials.
    pub trials_max: u32,
    /// Maximum duration of the search.
    pub time_max_s: f64,
}

/// Loads to search between. An absent bound is searched for, outwards from `start`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Loads {
    /// First load to try.
    pub start: f64,
    /// Lower bound.
    pub low: Option<f64>,
    /// Upper bound.
    pub high: Option<f64>,
    /// Whether loads are integers, such as threads, rather than rates.
    pub is_whole: bool,
}

/// A deliberate change in comparison with another phase.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Intervention {
    /// Kind of change.
    pub kind: String,
    /// Parameters of the case without the change.
    pub of: Map<String, Value>,
}
