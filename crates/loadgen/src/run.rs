//! Runs one trial from start to summary: load threads, the collector, and the output emitted while
//! it runs.

mod binding;
pub(crate) mod buckets;
mod edges;
mod hiccup;
mod hold;
mod listing;
mod live;
mod output;
#[cfg(test)]
mod published;
mod shared;
mod summary;
mod turns;
mod unwritten;
mod window;
mod worker;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::binding::Binding;
use self::buckets::{Buckets, RetryNews, ready_buckets, sweep_buckets, telling_of_retries};
pub use self::edges::{EdgeWork, Edges};
use self::hiccup::{Hiccup, Jitter};
use self::hold::Hold;
pub use self::listing::list_objects;
pub use self::live::Live;
use self::live::Progress;
pub use self::output::{Control, Output, OutputSink};
pub use self::shared::IterationTimes;
use self::shared::Shared;
pub use self::summary::{State, Summary};
use self::turns::Turns;
use self::window::Window;
#[cfg(test)]
pub(crate) use self::worker::loop_bytes;
use self::worker::{Tally, Worker};
use crate::clock::{ClockFacts, monotonic_ns, thread_cpu_ns, thread_run_delay_ns, unix_ns};
use crate::driver::{Driver, LogIns, Thread, Traffic};
use crate::drivers;
use crate::drivers::Visitor;
use crate::error::Error;
use crate::ledger::Audit;
pub use crate::ledger::{AuditSummary, Call, Finding, HistorySummary, Spread};
use crate::operation::Payload;
pub use crate::ownership::{Left, LeftKind};
use crate::payload::content;
use crate::recorder::{Collector, Recorder, batch};
use crate::requests::Source;
use crate::schedule::Schedule;
use crate::transport::page_cache::Cached;
use crate::transport::retries::{Made, Retries};
use crate::trial::Trial;

/// How often to check for complete seconds, unless a load thread ends first.
const TICK: Duration = Duration::from_millis(50);
/// As [`TICK`], while the load waits for its start.
const HELD_TICK: Duration = Duration::from_millis(5);

/// Result of one load thread.
#[derive(Debug, Default)]
struct ThreadEnd {
    tally: Tally,
    /// CPU time of the load, without the time spent awake before due times.
    cpu_ns: u64,
    awake_ns: u64,
    run_delay_ns: Option<u64>,
}

/// Runs a trial on the driver that its target names.
///
/// # Errors
/// The document is invalid, the target is not in the required state, or the host refused something
/// that the load generator needs.
pub fn run_trial(
    trial: &Trial,
    control: &Control,
    sink: &mut OutputSink<'_>,
) -> Result<Summary, Error> {
    /// A trial whose driver is not chosen yet.
    struct Run<'a, 'b>(&'a Trial, &'a Control, &'a mut OutputSink<'b>);

    impl Visitor for Run<'_, '_> {
        type Output = Result<Summary, Error>;

        fn visit<D: Driver>(self) -> Self::Output {
            run::<D>(self.0, self.1, self.2)
        }
    }

    let name = &trial.target.driver;
    drivers::visit(name, Run(trial, control, sink))
        .unwrap_or_else(|| Err(Error::Trial(vec![format!("no driver \"{name}\"")])))
}

/// Runs a trial on a driver.
///
/// # Errors
/// As [`run_trial`].
pub(crate) fn run<D: Driver>(
    trial: &Trial,
    control: &Control,
    sink: &mut OutputSink<'_>,
) -> Result<Summary, Error> {
    let retries = Arc::new(Retries::new(trial.timeout_ns));
    let (trial, driver) = &open::<D>(trial, &retries, control, sink)?;
    let binding = &Binding::of(trial)?;
    let mut buckets = ready_buckets(driver, trial, &control.stop, sink)?;
    let cached = look_at_page_cache(trial, driver);
    let threads = thread_count(trial, driver.is_blocking(), binding);
    let shared = Arc::new(Shared::new(trial, Arc::clone(&control.stop), threads));
    let mut start = Start { unix_ns: unix_ns(), monotonic_ns: monotonic_ns() };
    let mut hiccup = None;
    let (collector, recorders) = Collector::new(threads, start.monotonic_ns);
    let times = Arc::new(Mutex::new(Vec::new()));
    let mut progress = Progress::new(trial, start.monotonic_ns);
    let ends = std::thread::scope(|scope| {
        let handles: Vec<_> = recorders
            .into_iter()
            .enumerate()
            .map(|(thread, recorder)| {
                let load = LoadThread {
                    trial,
                    driver,
                    shared: &shared,
                    times: &times,
                    watcher: std::thread::current(),
                    hold: (!D::ON_VIRTUAL_CLOCK && control.hold.is_wanted())
                        .then_some(&*control.hold),
                    made_ns: start.monotonic_ns,
                    binding,
                    thread,
                    threads,
                };
                std::thread::Builder::new()
                    .name(format!("load-{thread}"))
                    .spawn_scoped(scope, move || load.run(recorder))
                    .map_err(|source| {
                        shared.stop_because("a load thread could not be started".into());
                        Error::Host { what: "start a load thread", source }
                    })
            })
            .collect();
        let is_watched = handles.iter().all(Result::is_ok);
        if is_watched {
            if !D::ON_VIRTUAL_CLOCK {
                if let Some(held_start) = hold(control, &shared, sink) {
                    start = held_start;
                    progress = Progress::new(trial, start.monotonic_ns);
                }
                hiccup = Some(Hiccup::start(start.monotonic_ns));
            }
            watch(trial, collector, &mut progress, &shared, control, sink);
        }
        handles.into_iter().map(|handle| join(handle?)).collect::<Result<Vec<_>, Error>>()
    })?;
    if trial.is_clean_up() && !control.stop.load(Ordering::Relaxed) {
        buckets = sweep_buckets(driver, trial, &control.stop, sink)?;
    }
    let times = std::mem::take(&mut *times.lock().expect("all threads have ended"));
    let summary = summary(
        trial,
        control,
        &shared,
        &ends,
        times,
        start,
        &progress,
        hiccup,
        &driver.features(),
        buckets,
    );
    Ok(with_driver(summary, driver, &retries, cached))
}

/// Adds what the driver did and observed outside of the load.
fn with_driver<D: Driver>(
    summary: Summary,
    driver: &Arc<D>,
    retries: &Retries,
    cached: Option<Cached>,
) -> Summary {
    let Made { counts, paused_ns, .. } = retries.made();
    Summary {
        log_ins: driver.log_ins(),
        retries: counts,
        retries_paused_ns: paused_ns,
        cache_sampled_bytes: cached.map(|cached| cached.sampled_bytes),
        cache_resident_bytes: cached.map(|cached| cached.resident_bytes),
        ..summary
    }
}

/// Samples how much of the data that the trial reads is in this host's page cache.
fn look_at_page_cache<D: Driver>(trial: &Trial, driver: &Arc<D>) -> Option<Cached> {
    let reads = trial.mix.iter().any(|share| share.operation.info().payload == Payload::Read);
    // A sample says nothing here: a script's reads are not spread evenly over its subjects.
    if reads && !trial.follows_script() { driver.look_at_page_cache() } else { None }
}

/// Opens the driver of a trial and the files that the trial names.
fn open<D: Driver>(
    trial: &Trial,
    retries: &Arc<Retries>,
    control: &Control,
    sink: &mut OutputSink<'_>,
) -> Result<(Trial, Arc<D>), Error> {
    let opened = Trial {
        open_script: trial.open_script()?,
        open_audit: open_audit(trial)?,
        open_list: trial.open_list()?,
        open_content: trial.dataset.payload.as_ref().map(content::open).transpose()?,
        retries: Some(Arc::clone(retries)),
        ..trial.clone()
    };
    let driver = telling_of_retries(&opened, &control.stop, sink, || D::open(&opened))?;
    Ok((opened, Arc::new(driver)))
}

/// Reads the ledgers of an audit trial.
fn open_audit(trial: &Trial) -> Result<Option<Arc<Audit>>, Error> {
    let Some(spec) = &trial.owed else { return Ok(None) };
    let (buckets, seed) = (trial.dataset.buckets, trial.chance_seed());
    Audit::open(spec, &trial.run, trial.portion(), buckets, seed).map(Arc::new).map(Some)
}

#[derive(Debug, Clone, Copy)]
struct Start {
    unix_ns: u64,
    monotonic_ns: u64,
}

fn thread_count(trial: &Trial, is_blocking: bool, binding: &Binding) -> usize {
    let clients = trial.load.clients() as usize;
    if is_blocking {
        return clients;
    }
    let allowed = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // Each CPU that is named gets one thread; each NUMA node that is named gives all its CPUs.
    let bound = binding.len().filter(|_| trial.numa_nodes.is_empty());
    let asked = trial.cores.map(|cores| cores as usize).or(bound);
    asked.unwrap_or(allowed).clamp(1, clients)
}

fn join(
    handle: std::thread::ScopedJoinHandle<'_, Result<ThreadEnd, Error>>,
) -> Result<ThreadEnd, Error> {
    match handle.join() {
        Ok(end) => end,
        // This is a bug in loadstone: pass the panic on, so that the run ends with its message and
        // does not hang.
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Waits for the start of a load that is held, and returns that start. Returns `None` if the load
/// is not held, or if the trial was stopped first.
fn hold(control: &Control, shared: &Shared, sink: &mut OutputSink<'_>) -> Option<Start> {
    let mut is_told = false;
    while control.hold.is_wanted() && !shared.stop.load(Ordering::Relaxed) {
        end_with_lease(control, shared);
        if control.hold.is_ready() && !is_told {
            is_told = true;
            if !sink(Output::Ready) {
                shared.stop.store(true, Ordering::Relaxed);
            }
        }
        match control.hold.started() {
            Some((monotonic_ns, unix_ns)) if monotonic_ns <= self::monotonic_ns() => {
                return Some(Start { unix_ns, monotonic_ns });
            }
            _ => std::thread::sleep(HELD_TICK),
        }
    }
    None
}

/// Interrupts a trial whose lease has expired.
fn end_with_lease(control: &Control, shared: &Shared) {
    if let Some(lease) = control.hold.lease_run_out() {
        shared.interrupt_because(|| {
            format!("nothing was heard of the controller for {} s", lease.as_secs_f64())
        });
    }
}

/// Emits complete seconds until every thread has sent its last one.
fn watch(
    trial: &Trial,
    mut collector: Collector,
    progress: &mut Progress,
    shared: &Shared,
    control: &Control,
    sink: &mut OutputSink<'_>,
) {
    let mut next_tell_ns = 0;
    let mut turns = Turns::of(trial, &control.begins);
    let retries = trial.retries.as_ref().filter(|_| !trial.measured);
    let mut news = retries.map(|retries| RetryNews::after(retries));
    loop {
        end_with_lease(control, shared);
        if turns.as_mut().is_some_and(|turns| !turns.look(sink)) {
            shared.stop.store(true, Ordering::Relaxed);
        }
        let is_over = collector.is_over();
        let seconds = collector.collect();
        // No second follows the last one, so the load ended somewhere within it.
        let cut = seconds.last().map(|(second, _)| *second).filter(|_| collector.is_over());
        for (second, rows) in &seconds {
            progress.count(*second, rows, cut == Some(*second));
        }
        // The ledger is written after the seconds were taken and before they are emitted, so that
        // it contains every request that they count.
        if let Some(ledger) = &shared.ledger {
            let frames = ledger.take_frames(unix_ns());
            if !frames.is_empty() && !sink(Output::Ledger(&frames)) {
                shared.stop.store(true, Ordering::Relaxed);
            }
        }
        let history = collector.take_history();
        if !history.is_empty() && !sink(Output::History(&history)) {
            shared.stop.store(true, Ordering::Relaxed);
        }
        let now_ns = monotonic_ns();
        if let Some(rows) = batch::of_requests(&trial.agent, &collector.take_log())
            && !sink(Output::Requests(rows))
        {
            shared.stop.store(true, Ordering::Relaxed);
        }
        if !seconds.is_empty() || now_ns >= next_tell_ns || is_over {
            let rows = batch::of_seconds(&trial.agent, &seconds, batch::Of::Requests);
            let kinds = trial.open_script.as_ref().map_or(&[][..], |script| script.action_kinds());
            let actions = batch::of_seconds(&trial.agent, &seconds, batch::Of::Actions(kinds));
            if let Some(actions) = actions
                && !sink(Output::Actions(actions))
            {
                shared.stop.store(true, Ordering::Relaxed);
            }
            let live = progress.live(now_ns);
            if !sink(Output::Seconds(rows, &live)) {
                shared.stop.store(true, Ordering::Relaxed);
            }
            next_tell_ns = now_ns + 500_000_000;
        }
        for row in seconds.into_iter().flat_map(|(_, rows)| rows.into_values()) {
            collector.recycle(row);
        }
        if let (Some(retries), Some(news)) = (retries, &mut news) {
            news.tell(retries, &shared.stop, sink);
        }
        if is_over {
            return;
        }
        match &turns {
            // The last seconds are emitted without another wait.
            _ if collector.is_over() => {}
            Some(turns) => turns.sleep(TICK),
            None => std::thread::park_timeout(TICK),
        }
    }
}

/// Parameters of a load thread: the same for each thread except its number.
struct LoadThread<'a, D> {
    trial: &'a Trial,
    driver: &'a Arc<D>,
    shared: &'a Arc<Shared>,
    times: &'a Mutex<Vec<IterationTimes>>,
    /// The thread that waits for the load to end.
    watcher: std::thread::Thread,
    /// Holds back the start, if the trial asks for that.
    hold: Option<&'a Hold>,
    /// When the trial was created: its start, unless the start is held back.
    made_ns: u64,
    /// The CPUs that the thread may run on.
    binding: &'a Binding,
    thread: usize,
    threads: usize,
}

/// Stops the other threads when one panics, so that they do not wait for it.
struct StopOnPanic<'a>(&'a Shared);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop_because("a load thread panicked".into());
        }
    }
}

impl<D: Driver> LoadThread<'_, D> {
    fn run(self, recorder: Recorder) -> Result<ThreadEnd, Error> {
        let _guard = StopOnPanic(self.shared);
        // The default timer slack would make timers up to 50 microseconds late. SAFETY: takes
        // numbers only, and affects this thread only.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
        let result = self.load(recorder);
        if let Err(error) = &result {
            self.shared.stop_because(error.to_string());
        }
        self.watcher.unpark();
        result
    }

    fn load(&self, mut recorder: Recorder) -> Result<ThreadEnd, Error> {
        if self.trial.log_requests {
            recorder.log_requests();
        }
        self.binding.bind(self.thread)?;
        let thread = self.driver.thread()?;
        let reactor = thread.reactor();
        reactor.expect_timeouts_of(self.trial.timeout_ns);
        if !self.trial.measured {
            reactor.retry(self.trial.retries.as_ref());
        }
        if self.shared.is_open {
            reactor.expect_to_be_on_time();
        }
        let clients = self.trial.load.clients() as usize;
        let mine = (clients + self.threads - 1 - self.thread) / self.threads;
        let made: Result<Vec<_>, Error> = (0..mine)
            .map(|slot| self.driver.client(&thread, (slot * self.threads + self.thread) as u32))
            .collect();
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                recorder.finish();
                return Err(error);
            }
        };
        let source = Source::new(self.trial, self.thread, self.threads, self.trial.load.clients());
        let worker =
            Worker::new(Rc::clone(reactor), Arc::clone(self.shared), recorder, source, made);
        let (cpu_ns, delay_ns) = (thread_cpu_ns(), thread_run_delay_ns());
        for iteration in 1..=self.trial.iterations {
            if !self.shared.gate.wait() {
                break;
            }
            if self.thread == 0 {
                if iteration == 1
                    && let Some(hold) = self.hold
                {
                    hold.await_start(&self.shared.stop);
                    self.begin_script(hold);
                }
                self.shared.begin_iteration();
                self.begin(iteration, reactor.now_ns());
                if let Some(schedule) = &self.shared.schedule {
                    let start_ns = self.iteration_start_ns();
                    *schedule.lock().expect("no thread panics here") =
                        Schedule::new(self.trial, 0, 1, start_ns, iteration);
                }
            }
            if !self.shared.gate.wait() {
                break;
            }
            if iteration == 1 && self.hold.is_some() {
                worker.start_at(self.start_ns());
            }
            let window = Window::new(self.trial, self.iteration_start_ns());
            let (start_ns, threads) = (window.start_ns, self.threads);
            let schedule = Schedule::new(self.trial, self.thread, threads, start_ns, iteration);
            let result = worker.run_iteration(iteration, window, schedule);
            self.end(&window, &mut worker.tally.borrow_mut(), reactor.now_ns());
            result.map_err(|source| Error::Host { what: "wait for events", source })?;
        }
        let tally = worker.finish();
        let run_delay_ns =
            thread_run_delay_ns().zip(delay_ns).map(|(after, before)| after.saturating_sub(before));
        let awake_ns = reactor.awake_ns();
        let cpu_ns = (thread_cpu_ns() - cpu_ns).saturating_sub(awake_ns);
        Ok(ThreadEnd { tally, cpu_ns, awake_ns, run_delay_ns })
    }

    /// Starts the clock of a script at the common start, even if its first action here comes later.
    fn begin_script(&self, hold: &Hold) {
        if let (Some(script), Some((start_ns, _))) = (&self.trial.open_script, hold.started()) {
            script.begun_ns(start_ns);
        }
    }

    fn start_ns(&self) -> u64 {
        self.hold.and_then(Hold::started).map_or(self.made_ns, |(start_ns, _)| start_ns)
    }

    fn begin(&self, iteration: u32, start_ns: u64) {
        self.times.lock().expect("no thread panics here").push(IterationTimes {
            iteration,
            start_ns,
            ..IterationTimes::default()
        });
    }

    fn iteration_start_ns(&self) -> u64 {
        self.times.lock().expect("no thread panics here").last().map_or(0, |times| times.start_ns)
    }

    /// Records when this thread ended its part of the iteration; the last thread decides.
    fn end(&self, window: &Window, tally: &mut Tally, now_ns: u64) {
        let trial_start_ns = self.start_ns();
        let since = |time_ns: u64| time_ns.saturating_sub(trial_start_ns);
        let first_done_ns = self.shared.first_done_ns.load(Ordering::Relaxed).min(now_ns);
        let mut times = self.times.lock().expect("no thread panics here");
        let Some(times) = times.last_mut() else { return };
        let measure_end_ns = if window.measure_end_ns == u64::MAX
            || self.shared.measure_over_ns.load(Ordering::Relaxed) < window.measure_end_ns
        {
            tally.last_measured_ns.max(window.measure_start_ns)
        } else {
            window.measure_end_ns.min(now_ns)
        };
        times.measure_start_ns = since(window.measure_start_ns);
        times.measure_end_ns = times.measure_end_ns.max(since(measure_end_ns));
        times.first_done_ns = (!self.shared.is_open).then(|| since(first_done_ns));
        times.end_ns = times.end_ns.max(since(now_ns));
        times.in_flight_ns += std::mem::take(&mut tally.in_flight_ns);
        times.edges.absorb(&std::mem::take(&mut tally.edges));
        let first_answer_ns = tally.first_answer_ns.take().map(since);
        times.first_answer_ns =
            [times.first_answer_ns, first_answer_ns].into_iter().flatten().min();
    }
}

#[expect(clippy::too_many_arguments, reason = "one call; a struct would only repeat the names")]
fn summary(
    trial: &Trial,
    control: &Control,
    shared: &Shared,
    ends: &[ThreadEnd],
    mut iterations: Vec<IterationTimes>,
    start: Start,
    progress: &Progress,
    hiccup: Option<Hiccup>,
    features: &[(String, String)],
    buckets: Buckets,
) -> Summary {
    for times in &mut iterations {
        times.start_ns = times.start_ns.saturating_sub(start.monotonic_ns);
    }
    // If hosts were given a common start, the trial's times count from that start.
    let start_error_ns =
        control.hold.started().and_then(|_| iterations.first()).map(|first| first.start_ns);
    let ended_early = shared.ended_early();
    let state = match (&ended_early, shared.stop.load(Ordering::Relaxed)) {
        (Some(end), _) if !end.is_from_outside => State::Stopped,
        (Some(_), _) | (None, true) => State::Interrupted,
        (None, false) => State::Finished,
    };
    let reason = ended_early.map(|end| end.reason);
    let mut traffic = Traffic::default();
    ends.iter().for_each(|end| traffic.add(end.tally.traffic));
    let per_client = || ends.iter().flat_map(|end| end.tally.client_requests.iter().copied());
    Summary {
        state,
        reason,
        started_unix_ns: start.unix_ns,
        started_monotonic_ns: start.monotonic_ns,
        start_error_ns,
        ended_unix_ns: unix_ns(),
        iterations,
        requests: progress.requests,
        failed: progress.failed,
        unwritten: progress.unwritten,
        lost_races: progress.lost_races,
        bytes: progress.bytes,
        verified_requests: ends.iter().map(|end| end.tally.verified_requests).sum(),
        verified_bytes: ends.iter().map(|end| end.tally.verified_bytes).sum(),
        mismatches: progress.mismatches.clone(),
        connections_opened: traffic.connections_opened,
        bytes_sent: traffic.bytes_sent,
        bytes_received: traffic.bytes_received,
        requests_repeated: traffic.requests_repeated,
        log_ins: LogIns::default(),
        retries: BTreeMap::new(),
        retries_paused_ns: 0,
        cache_sampled_bytes: None,
        cache_resident_bytes: None,
        cores: ends.len(),
        clients: trial.load.clients(),
        thread_cpu_ns: ends.iter().map(|end| end.cpu_ns).collect(),
        thread_awake_ns: ends.iter().map(|end| end.awake_ns).collect(),
        thread_run_delay_ns: ends.iter().map(|end| end.run_delay_ns).collect(),
        jitter: hiccup.map_or_else(Jitter::default, Hiccup::stop),
        clock: ClockFacts::measure(),
        features: features.iter().cloned().collect(),
        clients_requests_min: per_client().min().unwrap_or(0),
        clients_requests_max: per_client().max().unwrap_or(0),
        clients_requests_squares: per_client().map(|requests| (requests as f64).powi(2)).sum(),
        error_examples: shared.examples(),
        objects_unwritten: shared.unwritten.ranges(),
        puts_failed_more: shared.unwritten.more(),
        buckets_created: buckets.created,
        buckets_foreign: buckets.foreign,
        buckets_deleted: buckets.deleted,
        buckets_absent: buckets.absent,
        buckets_left: buckets.left.iter().map(|left| left.place.clone()).collect(),
        places_left: buckets.left,
        audit: trial.open_audit.as_ref().map(|audit| audit.summary()),
        objects_swept: buckets.objects_swept,
        objects_swept_again: buckets.objects_swept_again,
    }
}
