//! Driver `simulated`: known latencies on a virtual clock, to calibrate loadstone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
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

/// Behaviour of the simulated target, from its settings. Times are in nanoseconds.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Law {
    /// `fixed`, `exponential` or `uniform`.
    latency: String,
    /// Mean latency.
    mean_ns: f64,
    /// Start of the stall, relative to the start. All requests in flight, and all that arrive, wait
    /// for its end.
    stall_at_ns: u64,
    /// Duration of the stall.
    stall_ns: u64,
    /// Time from the start of one stall to the start of the next; 0 for a single stall.
    stall_every_ns: u64,
    /// Number of requests served at a time; 0 for any number.
    servers: usize,
    /// Share of requests that fail with status 503.
    failures: f64,
    /// Rate limit in requests per second, above which requests are throttled; 0 for none.
    admits_per_s: f64,
    /// Duration of a throttled answer. Throttled requests go no further.
    refusal_ns: u64,
    /// CPU time of the load thread per request.
    client_ns: u64,
    /// Stations that requests pass on their way to the target, in the order of their names.
    stations: BTreeMap<String, Station>,
}

/// A station that serves a number of requests at a time; others wait in order of arrival.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Station {
    /// `fixed`, `exponential` or `uniform`.
    latency: String,
    /// Mean service time.
    mean_ns: f64,
    /// Number of requests served at a time; 0 for any number.
    servers: usize,
    /// Number of other clients that send it one request after another.
    others: usize,
}

impl Default for Law {
    fn default() -> Self {
        Self {
            latency: "fixed".into(),
            mean_ns: 1e6,
            stall_at_ns: 0,
            stall_ns: 0,
            stall_every_ns: 0,
            servers: 0,
            failures: 0.0,
            admits_per_s: 0.0,
            refusal_ns: 0,
            client_ns: 0,
            stations: BTreeMap::new(),
        }
    }
}

impl Default for Station {
    fn default() -> Self {
        Self { latency: "fixed".into(), mean_ns: 0.0, servers: 0, others: 0 }
    }
}

impl Station {
    fn service_ns(&self, chance: u64) -> u64 {
        let draw = unit(chance);
        let service_ns = match self.latency.as_str() {
            "exponential" => -self.mean_ns * (1.0 - draw).ln(),
            "uniform" => 2.0 * self.mean_ns * draw,
            _ => self.mean_ns,
        };
        service_ns as u64
    }
}

/// When a station stalls.
#[derive(Debug, Default, Clone, Copy)]
struct Stalls {
    first_ns: u64,
    length_ns: u64,
    every_ns: u64,
}

impl Stalls {
    /// Returns the first time from `time_ns` on at which a service can begin.
    fn after(self, time_ns: u64) -> u64 {
        let Some(since_ns) = time_ns.checked_sub(self.first_ns) else { return time_ns };
        let past_ns = since_ns.checked_rem(self.every_ns).unwrap_or(since_ns);
        time_ns + self.length_ns.saturating_sub(past_ns)
    }
}

/// The servers of a station and its waiting requests; only one thread uses it.
#[derive(Debug)]
struct Queue {
    station: Station,
    stalls: Stalls,
    /// When each server becomes free.
    free_ns: Vec<u64>,
    /// When each other client sends its next request.
    others_ns: BinaryHeap<Reverse<u64>>,
    chance: u64,
}

impl Queue {
    fn new(station: Station) -> Self {
        let others = if station.servers == 0 { 0 } else { station.others };
        Self {
            free_ns: vec![0; station.servers],
            others_ns: std::iter::repeat_n(Reverse(0), others).collect(),
            chance: 0,
            stalls: Stalls::default(),
            station,
        }
    }

    /// Returns the completion time of a request that arrives now. Calls come in order of arrival.
    fn served_ns(&mut self, now_ns: u64, chance: u64) -> u64 {
        while let Some(&Reverse(arrives_ns)) = self.others_ns.peek() {
            if arrives_ns > now_ns {
                break;
            }
            self.others_ns.pop();
            self.chance = mix64(self.chance.wrapping_add(1));
            let service_ns = self.station.service_ns(self.chance);
            // The load of other clients before the first request has no effect.
            let served_ns = self.take(arrives_ns, service_ns).max(now_ns.saturating_sub(SINCE_NS));
            // With a service time of zero, time would never advance.
            let served_ns = served_ns.max(arrives_ns + 1_000);
            self.others_ns.push(Reverse(served_ns));
        }
        self.take(now_ns, self.station.service_ns(chance))
    }

    fn take(&mut self, now_ns: u64, service_ns: u64) -> u64 {
        let Some(server) = self.free_ns.iter_mut().min() else {
            return self.stalls.after(now_ns) + service_ns;
        };
        *server = self.stalls.after(now_ns.max(*server)) + service_ns;
        *server
    }
}

/// Requests of other clients are simulated this far back at most.
const SINCE_NS: u64 = 1_000_000_000;

/// A target with known behaviour.
#[derive(Debug)]
pub(super) struct Simulated {
    law: Law,
    size: crate::dataset::Dataset,
    /// When the virtual clock was started.
    start_ns: std::sync::OnceLock<u64>,
    /// The queues that a request passes before the target's.
    way: Vec<std::sync::Mutex<Queue>>,
    /// The target's queue, the last one.
    target: std::sync::Mutex<Queue>,
    /// When the rate limit admits the next request at the latest.
    admission_ns: std::sync::Mutex<f64>,
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
        setting("stall_every_ns", SettingKind::Number, "how often it stalls, 0 for once"),
        setting("admits_per_s", SettingKind::Number, "refuses more requests, 0 for no such limit"),
        setting("refusal_ns", SettingKind::Number, "time of a refusal"),
        setting("client_ns", SettingKind::Number, "work of the load thread for each request"),
        setting(
            "stations",
            SettingKind::Map,
            "places on the way: latency, mean_ns, servers, others",
        ),
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
        let queue = |station: &Station| std::sync::Mutex::new(Queue::new(station.clone()));
        let way = law.stations.values().map(queue).collect();
        let target = queue(&Station {
            latency: law.latency.clone(),
            mean_ns: law.mean_ns,
            servers: law.servers,
            others: 0,
        });
        Ok(Self {
            size: crate::dataset::Dataset::new(trial),
            law,
            start_ns: std::sync::OnceLock::new(),
            way,
            target,
            admission_ns: std::sync::Mutex::default(),
        })
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

    /// Returns when a request that arrives at the target now will have been answered.
    fn serve_ns(&self, now_ns: u64, chance: u64) -> u64 {
        let mut queue = self.target.lock().expect("one thread");
        // Known only once the virtual clock has started.
        queue.stalls = Stalls {
            first_ns: self.start_ns() + self.law.stall_at_ns,
            length_ns: self.law.stall_ns,
            every_ns: self.law.stall_every_ns,
        };
        queue.served_ns(now_ns, chance)
    }

    /// Returns whether the rate limit throttles a request that arrives now.
    fn refuses(&self, now_ns: u64) -> bool {
        if self.law.admits_per_s == 0.0 {
            return false;
        }
        let since_ns = (now_ns - self.start_ns()) as f64;
        let mut next_ns = self.admission_ns.lock().expect("one thread");
        if *next_ns > since_ns {
            return true;
        }
        // A burst is at most what the rate allows in a tenth of a second.
        *next_ns = next_ns.max(since_ns - 1e8) + 1e9 / self.law.admits_per_s;
        false
    }
}

impl Client for SimulatedClient {
    async fn execute(&mut self, request: &Request) -> Completion {
        let sent_ns = self.reactor.now_ns();
        self.reactor.work(self.target.law.client_ns);
        let target = Arc::clone(&self.target);
        let is_refused = target.refuses(self.reactor.now_ns());
        if is_refused {
            self.reactor.sleep_until(self.reactor.now_ns() + target.law.refusal_ns).await;
        } else {
            let mut chance = request.chance;
            for queue in &target.way {
                chance = mix64(chance);
                let now_ns = self.reactor.now_ns();
                let served_ns = queue.lock().expect("one thread").served_ns(now_ns, chance);
                self.reactor.sleep_until(served_ns).await;
            }
            let answered_ns = target.serve_ns(self.reactor.now_ns(), request.chance);
            self.reactor.sleep_until(answered_ns).await;
        }
        let ended_ns = self.reactor.now_ns();
        let fails = unit(mix64(request.chance)) < self.target.law.failures;
        let outcome = match (is_refused, fails) {
            (true, _) => Outcome::THROTTLED,
            (_, true) => Outcome::http(503),
            _ => Outcome::OK,
        };
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
