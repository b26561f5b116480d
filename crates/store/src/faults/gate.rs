//! Faults of a request before the store sees it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{CLASSES, ErrorRate, FaultConfig, Latency, RequestClass, Stall, by_class};
use crate::chance;

const NAMES: [&str; CLASSES] = ["get", "put", "head", "post", "list", "delete", "bucket", "token"];

/// The faults of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Verdict {
    /// Delay before anything else.
    pub(crate) delay: Duration,
    /// Status to answer instead of serving the request.
    pub(crate) status: Option<u16>,
    /// Whether the status is a result of throttling.
    pub(crate) is_throttled: bool,
    /// Whether to close the connection instead.
    pub(crate) is_reset: bool,
    /// Share of the answer's body after which the connection breaks.
    pub(crate) truncate_at: Option<f64>,
}

/// Draws the faults of requests.
#[derive(Debug)]
pub(crate) struct Gate {
    seed: u64,
    latency: [Option<Latency>; CLASSES],
    errors: [Option<ErrorRate>; CLASSES],
    stalls: [Option<Stall>; CLASSES],
    resets: [Option<f64>; CLASSES],
    truncations: [Option<f64>; CLASSES],
    burn_rounds: u64,
    limit: Option<Limit>,
    requests: [AtomicU64; CLASSES],
}

impl Gate {
    /// Creates a gate, or `None` if no faults are configured.
    pub(crate) fn new(config: &FaultConfig) -> Option<Gate> {
        let is_idle = config.latency.is_empty()
            && config.errors.is_empty()
            && config.stalls.is_empty()
            && config.resets.is_empty()
            && config.truncations.is_empty()
            && config.burn_rounds == 0
            && config.requests_per_s.is_none();
        if is_idle {
            return None;
        }
        Some(Gate {
            seed: config.seed,
            latency: by_class(&config.latency),
            errors: by_class(&config.errors),
            stalls: by_class(&config.stalls),
            resets: by_class(&config.resets),
            truncations: by_class(&config.truncations),
            burn_rounds: config.burn_rounds,
            limit: config.requests_per_s.map(Limit::new),
            requests: Default::default(),
        })
    }

    /// Draws the faults of the next request of a class.
    pub(crate) fn draw(&self, class: RequestClass) -> Verdict {
        let at = class as usize;
        let number = self.requests[at].fetch_add(1, Ordering::Relaxed);
        let falls =
            |fault, share: f64| chance::fraction(self.seed, &[fault, NAMES[at]], number) < share;
        let mut verdict = Verdict::default();
        if let Some(latency) = self.latency[at] {
            verdict.delay += self.latency(latency, at, number);
        }
        if let Some(stall) = self.stalls[at]
            && falls("stall", stall.probability)
        {
            verdict.delay += milliseconds(stall.ms);
        }
        if let Some(limit) = &self.limit
            && class != RequestClass::Token
            && !limit.admits()
        {
            return Verdict { status: Some(503), is_throttled: true, ..Verdict::default() };
        }
        if let Some(errors) = self.errors[at]
            && falls("error", errors.rate)
        {
            verdict.status = Some(errors.status);
        }
        verdict.is_reset = self.resets[at].is_some_and(|share| falls("reset", share));
        if self.truncations[at].is_some_and(|share| falls("truncation", share)) {
            verdict.truncate_at = Some(chance::fraction(self.seed, &["cut", NAMES[at]], number));
        }
        verdict
    }

    /// Spends the additional CPU time of each request.
    pub(crate) fn burn(&self) {
        let mixed = (0..self.burn_rounds).fold(self.seed, |mixed, round| {
            (mixed ^ round).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        });
        std::hint::black_box(mixed);
    }

    fn latency(&self, latency: Latency, class: usize, number: u64) -> Duration {
        match latency {
            Latency::Fixed { ms } => milliseconds(ms),
            Latency::Lognormal { median_ms, sigma } => {
                let normal = chance::normal(self.seed, &["latency", NAMES[class]], number);
                milliseconds(median_ms * (sigma * normal).exp())
            }
        }
    }
}

fn milliseconds(ms: f64) -> Duration {
    // No delay exceeds an hour, whatever the tail of the distribution.
    Duration::from_secs_f64(ms.min(3.6e6) / 1000.0)
}

/// A rate limit, with a burst of a tenth of a second.
#[derive(Debug)]
struct Limit {
    started: Instant,
    interval_ns: f64,
    burst_ns: u64,
    /// When the admitted requests would have arrived at an even rate.
    due_ns: AtomicU64,
}

impl Limit {
    fn new(requests_per_s: f64) -> Limit {
        let interval_ns = 1e9 / requests_per_s;
        Limit {
            started: Instant::now(),
            interval_ns,
            burst_ns: (1e8_f64).max(interval_ns) as u64,
            due_ns: AtomicU64::new(0),
        }
    }

    fn admits(&self) -> bool {
        self.admits_at(self.started.elapsed().as_nanos() as u64)
    }

    fn admits_at(&self, now_ns: u64) -> bool {
        let update = |due_ns: u64| {
            let next = due_ns.max(now_ns) + self.interval_ns as u64;
            (next <= now_ns + self.burst_ns).then_some(next)
        };
        self.due_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(json: &str) -> Gate {
        Gate::new(&serde_json::from_str(json).unwrap()).unwrap()
    }

    #[test]
    fn a_burn_takes_cpu_time_in_proportion_to_its_rounds() {
        assert!(Gate::new(&FaultConfig::default()).is_none());
        let burnt = |rounds: u64| {
            let gate = gate(&format!(r#"{{"burn_rounds": {rounds}}}"#));
            let times = (0..5).map(|_| {
                let began = Instant::now();
                gate.burn();
                began.elapsed()
            });
            times.min().unwrap()
        };
        assert!(burnt(4_000_000) > burnt(40_000) * 10);
    }

    #[test]
    fn the_same_seed_gives_the_same_faults_and_another_seed_others() {
        let fates = |seed: u64| {
            let json = format!(
                r#"{{"seed": {seed}, "errors": {{"get": {{"rate": 0.3}}}},
                    "latency": {{"all": {{"kind": "lognormal", "median_ms": 5, "sigma": 1}}}}}}"#
            );
            let gate = gate(&json);
            (0..200).map(|_| gate.draw(RequestClass::Get)).collect::<Vec<_>>()
        };
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
        let failed = fates(1).iter().filter(|verdict| verdict.status.is_some()).count();
        assert!((40..80).contains(&failed), "{failed} of 200 at a rate of 0.3");
    }

    #[test]
    fn lognormal_latency_has_the_configured_median() {
        let gate =
            gate(r#"{"latency": {"get": {"kind": "lognormal", "median_ms": 8, "sigma": 0.5}}}"#);
        let mut delays: Vec<_> = (0..20_001).map(|_| gate.draw(RequestClass::Get).delay).collect();
        delays.sort();
        let median_ms = delays[10_000].as_secs_f64() * 1000.0;
        assert!((7.8..8.2).contains(&median_ms), "{median_ms}");
        assert_eq!(gate.draw(RequestClass::Put).delay, Duration::ZERO);
    }

    #[test]
    fn the_limit_admits_its_rate_and_refuses_the_rest() {
        let limit = Limit::new(100.0);
        let admitted =
            (0..10_000).filter(|n| limit.admits_at(1_000_000_000 + n * 1_000_000)).count();
        // Ten seconds at 100 a second, and a burst of ten at the start.
        assert!((1000..=1011).contains(&admitted), "{admitted}");
    }

    #[test]
    fn a_configuration_without_faults_needs_no_gate() {
        assert!(Gate::new(&FaultConfig::default()).is_none());
    }
}
