//! Measures the jitter of this host: how late a thread wakes that only sleeps.
//!
//! One thread sleeps on any core; if it wakes late, every core was busy or the whole client stood
//! still. In addition, one thread on each core sleeps much longer, because a single core may stall
//! alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::clock::monotonic_ns;
use crate::recorder::batch;
use crate::recorder::histogram;

/// A wake-up costs 5 to 70 microseconds of CPU time: at 1000 a second, as in jHiccup, that was 6 %
/// of a core on a virtual machine. Together with the threads of the cores, 200 a second are spent
/// here.
const SLEEP: Duration = Duration::from_micros(6_250);
/// One thread of a core wakes in each such period, in turn.
const SLEEP_OF_CORES: Duration = Duration::from_millis(25);
/// The longest time between two checks of a core, however many cores there are.
const CORE_SLEEP_MAX: Duration = Duration::from_millis(500);

/// A sleep that ends this late counts as a stall. A fair scheduler makes a thread that has just
/// slept wait for one or two slices of other threads, some milliseconds each.
const STALL_NS: u64 = 50_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// For how much of each second a core, or the whole client, stalled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stalls {
    /// The core; `None` for the thread that may run on any core.
    pub core: Option<usize>,
    /// Seconds since the trial's start in which a sleep ended late, and nanoseconds of the delay in
    /// each.
    pub seconds: Vec<(u64, u64)>,
}

/// Measured wake-up delays and stalls; times are nanoseconds.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Jitter {
    /// Wake-up delay of the thread that may run on any core: a histogram in base64.
    pub hiccup: Option<String>,
    /// Stalls of each core and of the whole client.
    pub stalls: Vec<Stalls>,
    /// How many cores had a thread of their own.
    pub cores_watched: usize,
}

/// Threads that sleep briefly and record how late they woke. Every latency of the trial may include
/// such delays (method of jHiccup, Tene 2012).
#[derive(Debug)]
pub(crate) struct Hiccup {
    stop: Arc<AtomicBool>,
    watchers: Vec<JoinHandle<Observations>>,
}

/// The observations of one thread.
#[derive(Debug)]
struct Observations {
    core: Option<usize>,
    late: Histogram<u64>,
    stalled_ns: BTreeMap<u64, u64>,
}

impl Hiccup {
    /// Starts to watch a trial that began at `start_ns`.
    pub(crate) fn start(start_ns: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let cores = allowed_cores();
        let core_sleep = (SLEEP_OF_CORES * cores.len() as u32).min(CORE_SLEEP_MAX);
        let any = (None, SLEEP, SLEEP);
        let each = cores.iter().enumerate().map(|(position, core)| {
            let first = core_sleep.mul_f64((position + 1) as f64 / cores.len() as f64);
            (Some(*core), first, core_sleep)
        });
        let watchers = std::iter::once(any)
            .chain(each)
            .filter_map(|(core, first, sleep)| {
                let stop = Arc::clone(&stop);
                std::thread::Builder::new()
                    .name("hiccup".into())
                    .stack_size(64 * 1024)
                    .spawn(move || watch(core, first, sleep, start_ns, &stop))
                    .ok()
            })
            .collect();
        Self { stop, watchers }
    }

    /// Ends the threads and returns their observations.
    pub(crate) fn stop(mut self) -> Jitter {
        self.tell_to_stop();
        let observed: Vec<Observations> =
            self.watchers.drain(..).filter_map(|watcher| watcher.join().ok()).collect();
        let is_stalled = |observed: &&Observations| !observed.stalled_ns.is_empty();
        let stalls = |observed: &Observations| Stalls {
            core: observed.core,
            seconds: observed.stalled_ns.iter().map(|(second, ns)| (*second, *ns)).collect(),
        };
        let anywhere = observed.iter().find(|observed| observed.core.is_none());
        Jitter {
            hiccup: anywhere.and_then(|observed| batch::encode_base64(&observed.late)),
            stalls: observed.iter().filter(is_stalled).map(stalls).collect(),
            cores_watched: observed.iter().filter(|observed| observed.core.is_some()).count(),
        }
    }

    fn tell_to_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.watchers.iter().for_each(|watcher| watcher.thread().unpark());
    }
}

impl Drop for Hiccup {
    fn drop(&mut self) {
        self.tell_to_stop();
    }
}

fn watch(
    core: Option<usize>,
    first: Duration,
    sleep: Duration,
    start_ns: u64,
    stop: &AtomicBool,
) -> Observations {
    // SAFETY: takes numbers only, and affects this thread only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
    if let Some(core) = core {
        stay_on(core);
    }
    let mut observations = Observations { core, late: histogram(), stalled_ns: BTreeMap::new() };
    let mut due_ns = monotonic_ns() + first.as_nanos() as u64;
    loop {
        let now_ns = monotonic_ns();
        if now_ns >= due_ns {
            observations.note(due_ns, now_ns, start_ns);
            due_ns = now_ns + sleep.as_nanos() as u64;
        }
        if stop.load(Ordering::Relaxed) {
            return observations;
        }
        std::thread::park_timeout(Duration::from_nanos(due_ns.saturating_sub(now_ns)));
    }
}

impl Observations {
    fn note(&mut self, due_ns: u64, woke_ns: u64, start_ns: u64) {
        let late_ns = woke_ns - due_ns;
        self.late.saturating_record(late_ns.max(1));
        if late_ns < STALL_NS {
            return;
        }
        let (mut from_ns, until_ns) =
            (due_ns.saturating_sub(start_ns), woke_ns.saturating_sub(start_ns));
        while from_ns < until_ns {
            let second = from_ns / SECOND_NS;
            let end_ns = until_ns.min((second + 1) * SECOND_NS);
            *self.stalled_ns.entry(second).or_default() += end_ns - from_ns;
            from_ns = end_ns;
        }
    }
}

/// Returns the cores that this process may use.
fn allowed_cores() -> Vec<usize> {
    // SAFETY: all zeroes is a valid set of CPUs, which is plain bits; the kernel writes into it.
    let (result, set) = unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        (libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set), set)
    };
    if result != 0 {
        return Vec::new();
    }
    // SAFETY: reads bits within the size of a set that we own.
    (0..libc::CPU_SETSIZE as usize).filter(|core| unsafe { libc::CPU_ISSET(*core, &set) }).collect()
}

fn stay_on(core: usize) {
    // SAFETY: we own the set, the core is within its size, and only this thread is affected. If the
    // kernel refuses, the core is no longer allowed to us, and the thread watches any core.
    unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn observed() -> Observations {
        Observations { core: Some(1), late: histogram(), stalled_ns: BTreeMap::new() }
    }

    #[test]
    fn a_stall_counts_in_each_second_that_it_overlaps() {
        let mut observed = observed();
        let start_ns = 7 * SECOND_NS + 1;
        observed.note(start_ns + 1_900 * MS, start_ns + 4_100 * MS, start_ns);
        assert_eq!(
            observed.stalled_ns.into_iter().collect::<Vec<_>>(),
            [(1, 100 * MS), (2, SECOND_NS), (3, SECOND_NS), (4, 100 * MS)]
        );
    }

    #[test]
    fn a_sleep_that_a_scheduler_delays_is_a_hiccup_and_not_a_stall() {
        let mut observed = observed();
        observed.note(SECOND_NS, SECOND_NS + STALL_NS - 1, 0);
        assert!(observed.stalled_ns.is_empty());
        assert_eq!(observed.late.len(), 1);
    }

    #[test]
    fn every_allowed_core_is_watched_and_watchers_end_at_once() {
        let hiccup = Hiccup::start(monotonic_ns());
        std::thread::sleep(SLEEP * 8);
        let jitter = hiccup.stop();
        assert_eq!(jitter.cores_watched, allowed_cores().len());
        assert!(jitter.hiccup.is_some());
    }
}
