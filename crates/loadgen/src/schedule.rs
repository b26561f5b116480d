//! When each request is due: immediately, at a limited rate, or at the arrival times of an open
//! load.

use crate::chance::{mix64, unit};
use crate::trial::{Arrivals, Load, Trial};

/// Due times of one load thread's requests, or of those of all threads that share it.
#[derive(Debug, Default)]
pub(crate) enum Schedule {
    /// As soon as a client is free.
    #[default]
    Closed,
    /// As soon as a client is free, but no faster than this rate.
    Paced {
        /// Minimum time between two requests of this thread.
        gap_ns: f64,
        /// Earliest start of the next request.
        next_ns: f64,
    },
    /// At arrival times that do not depend on answers.
    Open {
        /// Start of the iteration.
        start_ns: u64,
        /// Mean time between two arrivals at this thread.
        gap_ns: f64,
        /// Next arrival, relative to the start. Relative times stay small, so that small gaps are
        /// not lost to rounding.
        next_ns: f64,
        /// Distribution of arrivals.
        arrivals: Arrivals,
        /// Number of arrivals so far; an input of the random numbers, with the seed.
        count: u64,
        /// This thread's seed.
        seed: u64,
    },
}

impl Schedule {
    /// Creates the schedule of thread `thread` of `threads` for an iteration that starts at
    /// `start_ns`.
    ///
    /// Independent Poisson streams with a share of the rate each add up to one stream with the
    /// whole rate. Constant arrivals are staggered over threads and hosts.
    #[must_use]
    pub(crate) fn new(
        trial: &Trial,
        thread: usize,
        threads: usize,
        start_ns: u64,
        iteration: u32,
    ) -> Self {
        let portion = trial.portion();
        // Threads of all hosts take turns; the threads of one host have consecutive positions.
        let all = threads as f64 * f64::from(portion.of);
        let place = portion.number(thread as u64);
        let gap_ns = |rate_per_s: f64| 1e9 * all / rate_per_s;
        match (&trial.load, trial.rate_limit_per_s) {
            (Load::Open { rate_per_s, arrivals, .. }, _) => {
                let stream = u64::from(portion.index) << 48 | (thread as u64) << 32;
                let seed = mix64(trial.chance_seed() ^ mix64(stream | u64::from(iteration)));
                let gap_ns = gap_ns(*rate_per_s);
                let offset = match arrivals {
                    Arrivals::Constant => gap_ns * place as f64 / all,
                    Arrivals::Poisson => 0.0,
                };
                let mut schedule = Self::Open {
                    start_ns,
                    gap_ns,
                    next_ns: offset,
                    arrivals: *arrivals,
                    count: 0,
                    seed,
                };
                if *arrivals == Arrivals::Poisson {
                    schedule.advance();
                }
                schedule
            }
            (Load::Closed { .. }, Some(rate_per_s)) => {
                Self::Paced { gap_ns: gap_ns(rate_per_s), next_ns: start_ns as f64 }
            }
            (Load::Closed { .. }, None) => Self::Closed,
        }
    }

    /// Returns when the next request is due, without taking it.
    #[inline]
    #[must_use]
    pub(crate) fn peek_ns(&self, now_ns: u64) -> u64 {
        match self {
            Self::Closed => now_ns,
            Self::Paced { next_ns, .. } => (*next_ns as u64).max(now_ns),
            Self::Open { start_ns, next_ns, .. } => start_ns.saturating_add(*next_ns as u64),
        }
    }

    /// Takes the next request and returns its due time.
    #[inline]
    pub(crate) fn take_ns(&mut self, now_ns: u64) -> u64 {
        let due_ns = self.peek_ns(now_ns);
        if let Self::Paced { gap_ns, next_ns } = self {
            // Unused time is not accumulated: the limit also applies to bursts.
            *next_ns = next_ns.max(now_ns as f64 - *gap_ns) + *gap_ns;
        } else {
            self.advance();
        }
        due_ns
    }

    /// Returns the expected number of arrivals before a time.
    #[must_use]
    pub(crate) fn expected_until(&self, end_ns: u64) -> f64 {
        match self {
            Self::Open { start_ns, gap_ns, next_ns, .. } => {
                let rest_ns = end_ns.saturating_sub(*start_ns) as f64 - next_ns;
                (rest_ns / gap_ns).ceil().max(0.0)
            }
            Self::Closed | Self::Paced { .. } => 0.0,
        }
    }

    /// Takes all arrivals before a time as a number of slices: the middle of each slice, and the
    /// expected number of arrivals in it. The cost does not depend on the rate.
    pub(crate) fn take_slices(&mut self, end_ns: u64, slices: u32) -> Vec<(u64, u64)> {
        let expected = self.expected_until(end_ns);
        let first_ns = self.peek_ns(0);
        let Self::Open { start_ns, next_ns, .. } = self else { return Vec::new() };
        let slice_ns = end_ns.saturating_sub(first_ns) as f64 / f64::from(slices);
        *next_ns = end_ns.saturating_sub(*start_ns) as f64;
        let until = |slice: u32| (expected * f64::from(slice) / f64::from(slices)) as u64;
        (0..slices)
            .map(|slice| {
                let middle_ns = first_ns + (slice_ns * (f64::from(slice) + 0.5)) as u64;
                (middle_ns, until(slice + 1) - until(slice))
            })
            .collect()
    }

    /// Returns whether latency counts from the due time.
    #[must_use]
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    fn advance(&mut self) {
        if let Self::Open { gap_ns, next_ns, arrivals, count, seed, .. } = self {
            *count += 1;
            *next_ns += match arrivals {
                Arrivals::Constant => *gap_ns,
                // Inverse of the cumulative distribution function of the exponential distribution.
                Arrivals::Poisson => -*gap_ns * (1.0 - unit(mix64(*seed ^ mix64(*count)))).ln(),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::Portion;

    fn trial(load: &str) -> Trial {
        serde_json::from_str(&format!(
            r#"{{"format":1,"id":"0001","run":"{:032x}","seed":7,"phase":"get",
                "target":{{"name":"t","driver":"null"}},
                "dataset":{{"bucket_prefix":"b","buckets":1,"objects":10,"object_prefix":"o",
                            "size":{{"kind":"fixed","bytes":1}}}},
                "mix":[{{"operation":"get"}}],"stop":{{"requests":10}},"load":{load}}}"#,
            1
        ))
        .expect("the test's document is sound")
    }

    fn arrivals(trial: &Trial, count: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(trial, 0, 1, 0, 1);
        (0..count).map(|_| schedule.take_ns(0)).collect()
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_variance_of_their_distribution() {
        let trial = trial(r#"{"kind":"open","rate_per_s":10000,"clients_max":1}"#);
        let times = arrivals(&trial, 100_000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 100_000.0 - 1.0).abs() < 0.02, "mean gap {mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "an exponential law's sd is its mean");
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        let trial =
            trial(r#"{"kind":"open","rate_per_s":30000,"arrivals":"constant","clients_max":1}"#);
        let times = arrivals(&trial, 30_001);
        assert_eq!(times[30_000], 1_000_000_000);
    }

    #[test]
    fn constant_arrivals_of_several_hosts_equal_those_of_one() {
        let text = r#"{"kind":"open","rate_per_s":1000,"arrivals":"constant","clients_max":1}"#;
        let whole = trial(text);
        let mut together = Vec::new();
        // Hosts may have different numbers of threads.
        for (index, threads) in [(0, 1), (1, 3), (2, 2)] {
            let portion = Some(Portion { index, of: 3 });
            let host = Trial { portion, ..whole.clone() };
            for thread in 0..threads {
                let mut schedule = Schedule::new(&host, thread, threads, 0, 1);
                together.extend((0..60 / threads).map(|_| schedule.take_ns(0)));
            }
        }
        together.sort_unstable();
        assert_eq!(together, arrivals(&whole, 180));
    }

    #[test]
    fn poisson_arrivals_of_several_hosts_add_up_to_the_rate() {
        let whole = trial(r#"{"kind":"open","rate_per_s":9000,"clients_max":1}"#);
        let host = |index| Trial { portion: Some(Portion { index, of: 3 }), ..whole.clone() };
        let (first, second) = (arrivals(&host(0), 30_000), arrivals(&host(1), 30_000));
        assert_ne!(first, second);
        let seconds = first[29_999] as f64 / 1e9;
        assert!((30_000.0 / seconds / 3000.0 - 1.0).abs() < 0.02, "{seconds} s");
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals() {
        let trial = trial(r#"{"kind":"open","rate_per_s":500,"clients_max":1}"#);
        assert_eq!(arrivals(&trial, 100), arrivals(&trial, 100));
    }

    #[test]
    fn slices_contain_all_arrivals_of_a_very_high_rate() {
        for rate_per_s in [3_000.0, 1e9, 1e15] {
            let mut trial = trial(r#"{"kind":"open","rate_per_s":1,"clients_max":1}"#);
            let arrivals = Arrivals::Constant;
            trial.load = Load::Open { rate_per_s, arrivals, clients_max: 1 };
            let (start_ns, end_ns) = (1 << 50, (1 << 50) + 60_000_000_000);
            let mut schedule = Schedule::new(&trial, 0, 1, start_ns, 1);
            let slices = schedule.take_slices(end_ns, 1000);
            let count: u64 = slices.iter().map(|(_, count)| count).sum();
            assert!((count as f64 / (rate_per_s * 60.0) - 1.0).abs() < 1e-9, "{count}");
            assert!(slices.iter().all(|(due_ns, _)| (start_ns..end_ns).contains(due_ns)));
            assert!(schedule.peek_ns(0) >= end_ns);
        }
    }

    #[test]
    fn small_gaps_count_after_any_uptime() {
        let trial = trial(
            r#"{"kind":"open","rate_per_s":1000000000,"arrivals":"constant","clients_max":1}"#,
        );
        let start_ns = 1 << 60;
        let mut schedule = Schedule::new(&trial, 0, 1, start_ns, 1);
        let last_ns = (0..1001).map(|_| schedule.take_ns(0)).last();
        assert_eq!(last_ns, Some(start_ns + 1000));
    }

    #[test]
    fn each_trial_of_a_run_has_different_arrivals() {
        let first = trial(r#"{"kind":"open","rate_per_s":500,"clients_max":1}"#);
        let second = Trial { id: "0002".into(), ..first.clone() };
        assert_ne!(arrivals(&first, 100), arrivals(&second, 100));
    }

    #[test]
    fn a_rate_limit_also_limits_bursts() {
        let mut trial = trial(r#"{"kind":"closed","clients":1}"#);
        trial.rate_limit_per_s = Some(1000.0);
        let mut schedule = Schedule::new(&trial, 0, 1, 0, 1);
        assert_eq!(schedule.take_ns(0), 0);
        assert_eq!(schedule.take_ns(0), 1_000_000);
        assert_eq!(schedule.take_ns(50_000_000), 50_000_000);
        assert!(schedule.take_ns(50_000_000) <= 50_000_000 + 1_000_000);
        assert!(schedule.take_ns(50_000_000) >= 50_000_000 + 999_999);
    }
}
