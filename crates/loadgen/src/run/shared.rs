//! State that all load threads of a trial share: stop flag, tickets, windows and failures.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use serde::Serialize;

use crate::clock::{monotonic_ns, unix_ns};
use crate::ledger::Ledger;
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::recorder::Stage;
use crate::requests::{Tickets, bulk_requests, ledger_of};
use crate::run::edges::Edges;
use crate::run::unwritten::Unwritten;
use crate::schedule::Schedule;
use crate::secrecy::foreign_text;
use crate::trial::{Load, Order, Trial};

/// The times of one iteration, in nanoseconds since the trial's start.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IterationTimes {
    /// Number of the iteration, from 1.
    pub iteration: u32,
    /// Start of its load.
    pub start_ns: u64,
    /// Start of its measured part.
    pub measure_start_ns: u64,
    /// End of its measured part: the planned time, or the end of the last counted request.
    pub measure_end_ns: u64,
    /// When the first client ran out of requests; from then on, fewer clients than configured were
    /// at work. `None` under open load, whose clients take turns ahead of time.
    pub first_done_ns: Option<u64>,
    /// When the last request ended.
    pub end_ns: u64,
    /// Integral of the requests in flight over the measured part. It includes the overlap of
    /// requests that count in another stage, so Little's law can be checked.
    pub in_flight_ns: u64,
    /// When the first request ended.
    pub first_answer_ns: Option<u64>,
    /// Corrections that turn the rows of the measured part into the work done in its time, by
    /// operation. See [`Edges`].
    pub edges: Edges,
}

/// Why a trial ended before its time.
#[derive(Debug, Clone)]
pub(crate) struct EndedEarly {
    pub(crate) reason: String,
    /// Whether the reason lies outside of the load.
    pub(crate) is_from_outside: bool,
}

/// How the calls of one host fit into a history that several hosts share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HistoryClock {
    pub(crate) since_1970_ns: i64,
    /// Number of its first client; clients are numbered in turn over its threads.
    pub(crate) first_client: u32,
    pub(crate) threads: u32,
}

impl HistoryClock {
    fn of_host(trial: &Trial, threads: usize) -> Self {
        let since_1970_ns = i128::from(unix_ns()) - i128::from(monotonic_ns());
        Self {
            since_1970_ns: i64::try_from(since_1970_ns).unwrap_or_default(),
            first_client: trial.portion().index << 20,
            threads: threads as u32,
        }
    }
}

/// State that threads share. Each request touches only the tickets and the stop flag.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) tickets: [Tickets; 3],
    /// When the last counted ticket of the measured part was taken.
    pub(crate) measure_over_ns: AtomicU64,
    /// When the first client of the iteration ran out of requests.
    pub(crate) first_done_ns: AtomicU64,
    pub(crate) is_clean_up: bool,
    pub(crate) is_open: bool,
    /// Whether the source of requests knows the right answers: a script or an audit.
    pub(crate) is_judged: bool,
    /// Whether requests are judged, or recorded in a ledger or a history. Lets the hot loop check
    /// one flag.
    pub(crate) is_followed: bool,
    /// The ledger of acknowledged requests, if the trial keeps one.
    pub(crate) ledger: Option<Ledger>,
    pub(crate) buckets: u64,
    /// How calls enter the history, if the trial keeps one.
    pub(crate) history: Option<HistoryClock>,
    pub(crate) first_operation: Operation,
    pub(crate) timeout_ns: u64,
    requests_max: u64,
    failures: AtomicU64,
    failures_max: u64,
    ended_early: Mutex<Option<EndedEarly>>,
    examples: Mutex<BTreeMap<Outcome, String>>,
    /// Objects of the dataset whose put failed, in this trial or before it.
    pub(crate) unwritten: Unwritten,
    objects: u64,
    /// How many objects of the dataset are in this host's portion.
    own_objects: u64,
    /// Whether this trial is the first to put the dataset, one object after the other.
    is_first_in_order: bool,
    /// Due times of the requests of all threads, if each thread has one client only. With a
    /// schedule of its own, a client would let a request wait while other clients are free, and
    /// would take one of the last tickets long before its next request is due.
    pub(crate) schedule: Option<Mutex<Schedule>>,
    /// Barrier between iterations.
    pub(crate) gate: Gate,
}

impl Shared {
    pub(crate) fn new(trial: &Trial, stop: Arc<AtomicBool>, threads: usize) -> Self {
        let dataset = &trial.dataset;
        let requests_max = match (trial.stop.requests, trial.mix[0].operation) {
            // A clean-up finds objects by listing, after the load: a delete by number would not
            // check who owns the place.
            _ if trial.is_clean_up() => 0,
            // One ticket deletes many objects.
            (Some(objects), Operation::BulkDelete) => bulk_requests(
                objects.min(dataset.objects),
                dataset.buckets,
                u64::from(trial.options.bulk_keys),
            ),
            (Some(requests), _) => requests,
            (None, _) => u64::MAX,
        };
        let portion = trial.portion();
        let requests_max =
            if requests_max == u64::MAX { u64::MAX } else { portion.share(requests_max) };
        let fresh = trial.ticket_base;
        let begun = Arc::<AtomicU64>::default();
        let is_judged = trial.follows_script() || trial.open_audit.is_some();
        let ledger = ledger_of(trial, unix_ns());
        let is_timed = trial.rate_limit_per_s.is_some() || matches!(trial.load, Load::Open { .. });
        let has_client_each = threads == trial.load.clients() as usize;
        Self {
            schedule: (is_timed && has_client_each && threads > 1).then(Mutex::default),
            gate: Gate::new(threads, Arc::clone(&stop)),
            stop,
            tickets: std::array::from_fn(|stage| {
                let first_fresh = fresh + ((stage as u64) << 32);
                Tickets::with_fresh_from(first_fresh, Arc::clone(&begun), portion)
            }),
            measure_over_ns: AtomicU64::new(u64::MAX),
            first_done_ns: AtomicU64::new(u64::MAX),
            is_clean_up: trial.is_clean_up(),
            is_open: matches!(trial.load, Load::Open { .. }),
            is_judged,
            is_followed: is_judged || ledger.is_some() || trial.keeps_history,
            ledger,
            buckets: dataset.buckets,
            history: trial.keeps_history.then(|| HistoryClock::of_host(trial, threads)),
            first_operation: trial.mix[0].operation,
            timeout_ns: trial.timeout_ns,
            requests_max,
            failures: AtomicU64::new(0),
            failures_max: trial.on_error.failures_max(),
            ended_early: Mutex::default(),
            examples: Mutex::default(),
            unwritten: Unwritten::after(&trial.ownership.unwritten),
            objects: dataset.objects,
            own_objects: portion.share(dataset.objects),
            // A script writes objects several times; the trial that prepares for one writes each
            // once.
            is_first_in_order: !trial.keeps_history
                && (!trial.follows_script() || trial.phase == "prepare")
                && dataset.version == 1
                && trial.warm_up_ns == 0
                && trial.keys.order == Order::Sequential,
        }
    }

    /// Prepares the tickets of a new iteration; one thread calls this for all.
    pub(crate) fn begin_iteration(&self) {
        self.measure_over_ns.store(u64::MAX, Ordering::Relaxed);
        self.first_done_ns.store(u64::MAX, Ordering::Relaxed);
        self.tickets[Stage::WarmUp as usize].restart(u64::MAX);
        self.tickets[Stage::Measure as usize].restart(self.requests_max);
        self.tickets[Stage::CoolDown as usize].restart(u64::MAX);
    }

    pub(crate) fn end_measure(&self, now_ns: u64) {
        self.measure_over_ns.fetch_min(now_ns, Ordering::Relaxed);
    }

    /// Stops all threads, for a reason that the summary states.
    pub(crate) fn stop_because(&self, reason: String) {
        self.end_early(EndedEarly { reason, is_from_outside: false });
    }

    /// Ends a load that has not been stopped yet, for a reason outside of the load.
    pub(crate) fn interrupt_because(&self, reason: impl FnOnce() -> String) {
        if !self.stop.load(Ordering::Relaxed) {
            self.end_early(EndedEarly { reason: reason(), is_from_outside: true });
        }
    }

    fn end_early(&self, end: EndedEarly) {
        self.ended_early.lock().expect("the lock is not poisoned").get_or_insert(end);
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn ended_early(&self) -> Option<EndedEarly> {
        self.ended_early.lock().expect("the lock is not poisoned").clone()
    }

    #[cold]
    pub(crate) fn note_failure(&self, outcome: Outcome, text: impl FnOnce() -> Option<String>) {
        let mut examples = self.examples.lock().expect("the lock is not poisoned");
        examples.entry(outcome).or_insert_with(|| {
            text().map_or_else(|| outcome.name().into(), |text| foreign_text(&text))
        });
        drop(examples);
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if failures > self.failures_max {
            self.stop_because(format!(
                "{failures} requests failed, on_error allows {}; the last one: {}",
                self.failures_max,
                outcome.name()
            ));
        }
    }

    /// Records an object whose put failed. Only objects that were never put can be unwritten: an
    /// object that is missing although it had been put is a loss.
    #[cold]
    pub(crate) fn note_unwritten(&self, index: u64, stage: Stage, iteration: u32) {
        let is_first_pass = self.tickets[stage as usize].drawn() <= self.own_objects;
        let is_first_put =
            self.is_first_in_order && iteration == 1 && stage == Stage::Measure && is_first_pass;
        if index < self.objects {
            self.unwritten.note(index, is_first_put);
        }
    }

    pub(crate) fn examples(&self) -> BTreeMap<String, String> {
        let examples = self.examples.lock().expect("the lock is not poisoned");
        examples.iter().map(|(outcome, text)| (outcome.name().into(), text.clone())).collect()
    }
}

/// A barrier that a stop opens, so that no thread waits for another that has given up.
#[derive(Debug)]
pub(crate) struct Gate {
    threads: usize,
    stop: Arc<AtomicBool>,
    state: Mutex<(usize, u64)>,
    opened: Condvar,
}

impl Gate {
    fn new(threads: usize, stop: Arc<AtomicBool>) -> Self {
        Self { threads, stop, state: Mutex::default(), opened: Condvar::new() }
    }

    /// Waits for all threads; false means that the trial has been stopped.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.state.lock().expect("the lock is not poisoned");
        let generation = state.1;
        state.0 += 1;
        if state.0 == self.threads {
            *state = (0, generation + 1);
            self.opened.notify_all();
        }
        while state.1 == generation && !self.stop.load(Ordering::Relaxed) {
            let patience = Duration::from_millis(20);
            state = self.opened.wait_timeout(state, patience).expect("as above").0;
        }
        !self.stop.load(Ordering::Relaxed)
    }
}
