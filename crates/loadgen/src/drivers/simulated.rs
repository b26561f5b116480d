//! Driver `simulated`: known latencies on a virtual clock, to calibrate loadstone with.

use std::rc::Rc;
use std::sync::Arc;

use serde::Deserialize;

use crate::chance::{mix64, unit};
use crate::clock::{Clock, monotonic_ns};
use crate::driver::{Client, Driver};
use crate::error::Error;
use crate::facts::Facts;
use crate::operation::Operation;
use crate::outcome::{Completion, Outcome};
use crate::ownership::{BucketState, Swept};
use crate::reactor::{Reactor, Sleep};
use crate::requests::Request;
use crate::settings::{Setting, SettingKind, setting};
use crate::trial::Trial;

/// What the simulated target does, in its settings.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Law {
    /// `fixed`, `exponential` or `uniform`.
    latency: String,
    /// Its mean.
    mean_ns: f64,
    /// A stall begins so long after the start; whatever is in flight or arrives waits for its end.
    stall_at_ns: u64,
    /// How long the stall lasts.
    stall_ns: u64,
    /// Requests served at once; 0 for any number.
    servers: usize,
    /// Share of requests that fail with status 503.
    failures: f64,
}

impl Default for Law {
    fn default() -> Self {
        Self {
            latency: "fixed".into(),
            mean_ns: 1e6,
            stall_at_ns: 0,
            stall_ns: 0,
            servers: 0,
            failures: 0.0,
        }
    }
}

/// A target whose truth is known.
#[derive(Debug)]
pub(super) struct Simulated {
    law: Law,
    size: crate::dataset::Dataset,
    /// When the virtual clock was started.
    start_ns: std::sync::OnceLock<u64>,
    /// When each server is free again; only one thread ever uses it.
    free_ns: std::sync::Mutex<Vec<u64>>,
}

/// A client of [`Simulated`].
#[derive(Debug)]
pub(super) struct SimulatedClient {
    reactor: Rc<Reactor>,
    target: Arc<Simulated>,
}

fn law_of(trial: &Trial) -> Result<Law, serde_json::Error> {
    serde_json::from_value(serde_json::Value::Object(trial.target.settings.clone()))
}

impl Driver for Simulated {
    const NAME: &'static str = "simulated";
    const SUMMARY: &'static str = "known latencies on a virtual clock: calibrates loadstone";
    const OPERATIONS: &'static [Operation] =
        &[Operation::Put, Operation::Get, Operation::Head, Operation::Delete];
    const SETTINGS: &'static [Setting] = &[
        setting("latency", SettingKind::Choice(&["fixed", "exponential", "uniform"]), "its law"),
        setting("mean_ns", SettingKind::Number, "mean latency"),
        setting("stall_at_ns", SettingKind::Number, "when everything stalls"),
        setting("stall_ns", SettingKind::Number, "for how long"),
        setting("servers", SettingKind::Number, "requests served at once, 0 for any number"),
        setting("failures", SettingKind::Number, "share that fails with status 503"),
    ];
    const ON_VIRTUAL_CLOCK: bool = true;
    const FACTS: Facts = Facts { keeps: false, ..Facts::PLAIN };
    type Thread = Rc<Reactor>;
    type Client = SimulatedClient;

    fn check(trial: &Trial) -> Vec<String> {
        let mut mistakes = Vec::new();
        if trial.cores != Some(1) {
            mistakes.push("cores: a virtual clock has one thread, so set it to 1".into());
        }
        if let Err(error) = law_of(trial) {
            mistakes.push(format!("target.settings: {error}"));
        }
        mistakes
    }

    fn open(trial: &Trial) -> Result<Self, Error> {
        let law = law_of(trial).map_err(|error| Error::Trial(vec![error.to_string()]))?;
        let free_ns = std::sync::Mutex::new(vec![0; law.servers]);
        let size = crate::dataset::Dataset::new(trial);
        Ok(Self { law, size, start_ns: std::sync::OnceLock::new(), free_ns })
    }

    fn thread(self: &Arc<Self>) -> Result<Rc<Reactor>, Error> {
        Ok(Reactor::new(Box::new(Sleep), Clock::virtual_at(self.start_ns())))
    }

    fn client(self: &Arc<Self>, reactor: &Rc<Reactor>, _: u32) -> Result<SimulatedClient, Error> {
        Ok(SimulatedClient { reactor: Rc::clone(reactor), target: Arc::clone(self) })
    }
}

impl Simulated {
    fn start_ns(&self) -> u64 {
        *self.start_ns.get_or_init(monotonic_ns)
    }

    /// Returns when a request that arrives now will have been answered.
    fn answered_ns(&self, now_ns: u64, chance: u64) -> u64 {
        let law = &self.law;
        let draw = unit(chance);
        let service_ns = match law.latency.as_str() {
            "exponential" => -law.mean_ns * (1.0 - draw).ln(),
            "uniform" => 2.0 * law.mean_ns * draw,
            _ => law.mean_ns,
        } as u64;
        let stall_ns = self.start_ns() + law.stall_at_ns;
        let stall = stall_ns..stall_ns + law.stall_ns;
        let begin_ns = if stall.contains(&now_ns) { stall.end } else { now_ns };
        let mut free_ns = self.free_ns.lock().expect("one thread");
        let Some(server) = free_ns.iter_mut().min() else { return begin_ns + service_ns };
        *server = begin_ns.max(*server) + service_ns;
        *server
    }
}

impl Client for SimulatedClient {
    async fn execute(&mut self, request: &Request) -> Completion {
        let sent_ns = self.reactor.now_ns();
        self.reactor.sleep_until(self.target.answered_ns(sent_ns, request.chance)).await;
        let ended_ns = self.reactor.now_ns();
        let fails = unit(mix64(request.chance)) < self.target.law.failures;
        let outcome = if fails { Outcome::http(503) } else { Outcome::OK };
        let bytes = self.target.size.length(request.object());
        Completion { bytes, ..Completion::plain(outcome, sent_ns, ended_ns, ended_ns) }
    }

    async fn ready_bucket(&mut self, _: &str, _: bool) -> Result<BucketState, Error> {
        Ok(BucketState::Created)
    }

    async fn sweep_bucket(&mut self, _: &str) -> Result<Swept, Error> {
        Ok(Swept::default())
    }
}
