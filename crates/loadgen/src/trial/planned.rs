//! What a trial is part of. The planner writes it for readers of the record; no load depends on it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What kind of work a trial is. Trials of other kinds are not for the load generator.
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
    /// The target's name in the campaign.
    pub target: String,
    /// The workload's name in the campaign.
    pub workload: String,
    /// A value for each parameter, such as `threads` and `size`.
    pub parameters: Map<String, Value>,
}

/// A search for a capacity, or one of its steps.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Search {
    /// The search, whose trials follow from one another. It has no record of its own.
    Planned {
        /// What is searched for: `threads` or `rate`.
        vary: String,
        /// The quantile of latency that has an objective, such as `p99`.
        quantile: String,
        /// Rest between two steps.
        pause_ns: u64,
        /// What counts as capacity.
        goal: Goal,
        /// The loads to search between.
        loads: Loads,
    },
    /// A step of a search.
    Step {
        /// The search's `id`.
        of: String,
        /// From 1.
        step: u32,
        /// Which part of the search it belongs to.
        stage: String,
        /// The load that was tried: clients, or requests per second.
        load: f64,
        /// How long it was measured.
        duration_s: f64,
    },
}

/// What counts as capacity, and how hard to look.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Goal {
    /// The objective.
    pub latency_ns_max: u64,
    /// The quantile that the objective is for, 0 to 1.
    pub quantile: f64,
    /// Share of requests that may fail.
    pub errors_max: f64,
    /// Share of the load that must be achieved.
    pub achieved_min: f64,
    /// How far apart the bounds may end up, relative to the load.
    pub width: f64,
    /// Length of a trial.
    pub trial_s: f64,
    /// Length of a trial while the bounds are still coarse.
    pub coarse_trial_s: f64,
    /// Time that is needed at a load before it passes or fails.
    pub duration_sum_s: f64,
    /// Share of that time that may be bad.
    pub exceed: f64,
    /// Trials that confirm the result.
    pub confirm_trials: u32,
    /// How many of them must be good.
    pub confirm_good_min: u32,
    /// Bound on the trials of the search.
    pub trials_max: u32,
    /// Bound on its time.
    pub time_max_s: f64,
}

/// The loads to search between; a bound that is absent is searched for, outwards from `start`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Loads {
    /// The first load.
    pub start: f64,
    /// The lowest.
    pub low: Option<f64>,
    /// The highest.
    pub high: Option<f64>,
    /// Whether loads are counts, such as threads, and not rates.
    pub is_whole: bool,
}

/// What was changed on purpose against another phase.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Intervention {
    /// Which change.
    pub kind: String,
    /// The parameters of the case without it.
    pub of: Map<String, Value>,
}
