//! Prepares buckets before the load and cleans them up after it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use crate::driver::{Client, Driver, Thread};
use crate::error::Error;
use crate::operation::Operation;
use crate::ownership::{BucketState, Left, LeftKind, Standing, Swept};
use crate::run::output::{Output, OutputSink};
use crate::transport::retries::Retries;
use crate::trial::Trial;

/// How many buckets are processed at a time.
const AT_ONCE: u32 = 16;
/// How often to check for retries to report.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A clean-up gives up after this many consecutive buckets that it could not even inspect.
const ERRORS_MAX: u32 = 2 * AT_ONCE;

/// The state of a dataset's buckets after a job on them.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    pub(crate) created: Vec<String>,
    pub(crate) foreign: Vec<String>,
    pub(crate) deleted: Vec<String>,
    pub(crate) absent: Vec<String>,
    pub(crate) left: Vec<Left>,
    pub(crate) objects_swept: u64,
    pub(crate) objects_swept_again: u64,
}

/// Creates and marks the buckets of a dataset, or refuses those that are not ours. Inspects all of
/// them before it creates any, and emits the absent ones in between, so that the caller's journal
/// names every bucket that may exist later.
pub(crate) fn ready_buckets<D: Driver>(
    driver: &Arc<D>,
    trial: &Trial,
    stop: &AtomicBool,
    sink: &mut OutputSink<'_>,
) -> Result<Buckets, Error> {
    let makes_as_load = trial.mix[0].operation == Operation::CreateBucket;
    let is_new = |volume: &&str| !trial.ownership.volumes.iter().any(|claimed| claimed == volume);
    let makes = makes_as_load || trial.changes_objects();
    if let Some(volume) = driver.volume().filter(|_| makes).filter(is_new)
        && !sink(Output::Volume(volume))
    {
        stop.store(true, Ordering::Relaxed);
    }
    // The first of several hosts prepares the places for all.
    if trial.portion().index > 0 || !makes {
        return Ok(Buckets::default());
    }
    // If the load itself makes buckets, only look for the absent ones: none is claimed, and a
    // bucket that cannot be made is an outcome of the load.
    let job = if makes_as_load { Job::FindAbsent } else { Job::Look };
    let looked = on_buckets(driver, trial, stop, job, names(trial), sink)?.well()?;
    let mut intended = looked.absent.clone();
    intended.sort_unstable_by_key(|(number, _)| *number);
    let intended: Vec<String> = intended.into_iter().map(|(_, name)| name).collect();
    if !intended.is_empty() && !stop.load(Ordering::Relaxed) && !sink(Output::Intent(&intended)) {
        stop.store(true, Ordering::Relaxed);
    }
    if makes_as_load || stop.load(Ordering::Relaxed) {
        return Ok(looked.buckets);
    }
    let to_make: VecDeque<_> = looked.absent.into_iter().chain(looked.unseen).collect();
    let mut readied = on_buckets(driver, trial, stop, Job::Ready, to_make, sink)?;
    if readied.error.is_some() {
        readied.unmade.extend(readied.to_do.drain(..).map(|(_, name)| name));
        readied.unmade.retain(|name| intended.contains(name));
        // The sink's answer is ignored: the error ends the trial in any case.
        let _ = sink(Output::Unmade(&readied.unmade));
    }
    let readied = readied.well()?.buckets;
    let foreign = [looked.buckets.foreign, readied.foreign].concat();
    Ok(Buckets { foreign, ..readied })
}

/// Deletes the remaining objects of a dataset from the buckets that carry our mark, then those
/// buckets.
pub(crate) fn sweep_buckets<D: Driver>(
    driver: &Arc<D>,
    trial: &Trial,
    stop: &AtomicBool,
    sink: &mut OutputSink<'_>,
) -> Result<Buckets, Error> {
    let all = names(trial);
    let mut swept = on_buckets(driver, trial, stop, Job::Sweep, all.clone(), sink)?.well()?.buckets;
    let done: std::collections::HashSet<&str> = swept
        .deleted
        .iter()
        .chain(&swept.absent)
        .chain(&swept.foreign)
        .map(String::as_str)
        .chain(swept.left.iter().map(|left| left.place.as_str()))
        .collect();
    let reason = "the clean-up ended before it reached this bucket";
    let not_tried: Vec<Left> = all
        .iter()
        .filter(|(_, name)| !done.contains(name.as_str()))
        .map(|(_, name)| Left::new(name, LeftKind::NotTried, reason))
        .collect();
    swept.left.extend(not_tried);
    Ok(swept)
}

fn names(trial: &Trial) -> VecDeque<Named> {
    let name = |bucket| (bucket, trial.dataset.bucket(bucket));
    (0..trial.dataset.buckets).map(name).collect()
}

/// A bucket's number and its name.
type Named = (u64, String);

#[derive(Debug, Clone, Copy)]
enum Job {
    Look,
    /// Find the absent ones and claim none; others may be in any state.
    FindAbsent,
    Ready,
    Sweep,
}

/// The buckets to process, and the results so far.
#[derive(Debug, Default)]
struct Work {
    to_do: VecDeque<Named>,
    absent: Vec<Named>,
    unseen: Vec<Named>,
    buckets: Buckets,
    /// Buckets that the target refused to create. After any other failure, it may still create the
    /// bucket later.
    unmade: Vec<String>,
    error: Option<Error>,
    /// Consecutive sweeps that failed.
    errors: u32,
}

/// Runs a job on buckets and reports retries meanwhile.
fn on_buckets<D: Driver>(
    driver: &Arc<D>,
    trial: &Trial,
    stop: &AtomicBool,
    job: Job,
    to_do: VecDeque<Named>,
    sink: &mut OutputSink<'_>,
) -> Result<Work, Error> {
    telling_of_retries(trial, stop, sink, || work_on_buckets(driver, trial, stop, job, to_do))
}

/// Runs a function that may wait for the target on a separate thread, and reports retries
/// meanwhile.
pub(crate) fn telling_of_retries<T: Send>(
    trial: &Trial,
    stop: &AtomicBool,
    sink: &mut OutputSink<'_>,
    job: impl FnOnce() -> T + Send,
) -> T {
    let Some(retries) = &trial.retries else { return job() };
    let mut news = RetryNews::after(retries);
    std::thread::scope(|scope| {
        let (end, ended) = mpsc::channel();
        let worker = scope.spawn(move || end.send(job()));
        loop {
            match ended.recv_timeout(LOOK_EVERY) {
                Ok(done) => return done,
                Err(RecvTimeoutError::Timeout) => news.tell(retries, stop, sink),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("a worker that ends well sends its result first"),
        }
    })
}

/// Reports retries to the sink; holds how many have been reported.
#[derive(Debug)]
pub(crate) struct RetryNews(u64);

impl RetryNews {
    /// Starts after the retries that were already made.
    pub(crate) fn after(retries: &Retries) -> Self {
        Self(retries.made().total())
    }

    /// Reports the latest retry if there were any since the last report.
    pub(crate) fn tell(&mut self, retries: &Retries, stop: &AtomicBool, sink: &mut OutputSink<'_>) {
        let made = retries.made();
        if made.total() > self.0 {
            self.0 = made.total();
            if !sink(Output::Retry(&made.latest)) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    }
}

fn work_on_buckets<D: Driver>(
    driver: &Arc<D>,
    trial: &Trial,
    stop: &AtomicBool,
    job: Job,
    to_do: VecDeque<Named>,
) -> Result<Work, Error> {
    let thread = driver.thread()?;
    let reactor = thread.reactor();
    reactor.expect_timeouts_of(trial.timeout_ns);
    reactor.retry(trial.retries.as_ref());
    let clients = if driver.is_blocking() { 1 } else { AT_ONCE.min(trial.load.clients()) };
    let state = Rc::new(RefCell::new(Work { to_do, ..Work::default() }));
    for index in 0..clients {
        let mut client = driver.client(&thread, index)?;
        let (state, inner, timeout_ns) = (Rc::clone(&state), Rc::clone(reactor), trial.timeout_ns);
        let (driver, ownership) = (Arc::clone(driver), trial.ownership.clone());
        let allow_foreign = trial.allow_foreign;
        reactor.spawn(async move {
            loop {
                let next = state.borrow_mut().next();
                let Some(bucket) = next else { return };
                inner.set_deadline(inner.now_ns() + timeout_ns);
                match job {
                    Job::Look => {
                        let standing = client.look_at_bucket(&bucket.1).await;
                        state.borrow_mut().note_look(bucket, standing);
                    }
                    Job::FindAbsent => {
                        if let Ok(true) = client.is_bucket_absent(&bucket.1).await {
                            state.borrow_mut().absent.push(bucket);
                        }
                    }
                    Job::Ready => {
                        let readied = client.ready_bucket(&bucket.1, allow_foreign).await;
                        state.borrow_mut().note_ready(bucket, readied);
                    }
                    Job::Sweep => {
                        let swept = client.sweep_bucket(&bucket.1).await;
                        let volume = driver.volume().unwrap_or_default();
                        let swept =
                            swept.map(|swept| swept.or_not_there(&bucket.1, volume, &ownership));
                        state.borrow_mut().note_sweep(bucket.1, swept);
                    }
                }
            }
        });
    }
    reactor.run(stop).map_err(|source| Error::Host { what: "wait for events", source })?;
    Ok(state.take())
}

impl Work {
    /// Returns the work, or the error that ended it.
    fn well(mut self) -> Result<Self, Error> {
        self.error.take().map_or(Ok(self), Err)
    }

    fn next(&mut self) -> Option<Named> {
        if self.error.is_some() { None } else { self.to_do.pop_front() }
    }

    fn note_look(&mut self, bucket: Named, standing: Result<Standing, Error>) {
        match standing {
            Ok(Standing::Absent) => self.absent.push(bucket),
            Ok(Standing::Unseen | Standing::Bare) => self.unseen.push(bucket),
            Ok(Standing::Foreign) => self.buckets.foreign.push(bucket.1),
            Ok(Standing::Ours) => {}
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
    }

    fn note_ready(&mut self, bucket: Named, readied: Result<BucketState, Error>) {
        match readied {
            Ok(BucketState::Created) => self.buckets.created.push(bucket.1),
            Ok(BucketState::Foreign) => self.buckets.foreign.push(bucket.1),
            Ok(BucketState::Ours) => {}
            Err(error) => {
                if error.is_refusal() {
                    self.unmade.push(bucket.1);
                }
                self.error.get_or_insert(error);
            }
        }
    }

    /// Records a sweep. A bucket that cannot be swept does not stop the others.
    fn note_sweep(&mut self, bucket: String, swept: Result<Swept, Error>) {
        match swept {
            Ok(swept) => {
                self.errors = 0;
                self.buckets.objects_swept += swept.objects;
                self.buckets.objects_swept_again += swept.objects_again;
                match swept.left {
                    Some(left) => self.buckets.left.push(left),
                    None if swept.is_foreign => self.buckets.foreign.push(bucket),
                    None if swept.is_absent => self.buckets.absent.push(bucket),
                    None => self.buckets.deleted.push(bucket),
                }
            }
            Err(error) => {
                self.errors += 1;
                let left = Left::new(&bucket, LeftKind::Error, error.to_string());
                self.buckets.left.push(left);
                let is_first = self.buckets.deleted.is_empty()
                    && self.buckets.absent.is_empty()
                    && self.buckets.foreign.is_empty()
                    && self.buckets.left.iter().all(|left| left.kind == LeftKind::Error);
                // Nothing can be swept at all, which is an error of the target.
                if is_first && (self.to_do.is_empty() || self.errors >= ERRORS_MAX) {
                    self.error.get_or_insert(error);
                } else if self.errors >= ERRORS_MAX {
                    self.to_do.clear();
                }
            }
        }
    }
}
