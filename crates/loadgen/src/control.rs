//! What happens around the load: buckets are readied before it and swept after it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::drivers::{BucketState, Client, Driver};
use crate::error::Error;
use crate::trial::{DatasetSpec, Trial};

/// Buckets worked on at once.
const AT_ONCE: u32 = 16;

/// What became of a dataset's buckets.
#[derive(Debug, Default)]
pub(crate) struct Buckets {
    pub(crate) created: Vec<String>,
    pub(crate) foreign: Vec<String>,
    pub(crate) deleted: Vec<String>,
    pub(crate) left: Vec<String>,
    pub(crate) objects_swept: u64,
}

/// Makes and marks the buckets of a dataset, or refuses those that are not ours.
pub(crate) fn ready_buckets<D: Driver>(
    driver: &Arc<D>,
    trial: &Trial,
    stop: &AtomicBool,
) -> Result<Buckets, Error> {
    on_buckets(driver, trial, stop, Job::Ready)
}

/// Deletes what is left of a dataset in the buckets that carry our mark, and those buckets.
pub(crate) fn sweep_buckets<D: Driver>(
    driver: &Arc<D>,
    trial: &Trial,
    stop: &AtomicBool,
) -> Result<Buckets, Error> {
    on_buckets(driver, trial, stop, Job::Sweep)
}

#[derive(Debug, Clone, Copy)]
enum Job {
    Ready,
    Sweep,
}

type Progress = Rc<RefCell<(VecDeque<String>, Buckets, Option<Error>)>>;

fn on_buckets<D: Driver>(
    driver: &Arc<D>,
    trial: &Trial,
    stop: &AtomicBool,
    job: Job,
) -> Result<Buckets, Error> {
    let reactor = driver.reactor()?;
    reactor.expect_timeouts_of(trial.timeout_ns);
    let names: VecDeque<String> =
        (0..trial.dataset.buckets).map(|bucket| bucket_name(&trial.dataset, bucket)).collect();
    let clients = if driver.is_blocking() { 1 } else { AT_ONCE.min(trial.load.clients()) };
    let state: Progress = Rc::new(RefCell::new((names, Buckets::default(), None)));
    for index in 0..clients {
        let mut client = driver.client(&reactor, index)?;
        let (state, reactor) = (Rc::clone(&state), Rc::clone(&reactor));
        let (inner, timeout_ns) = (Rc::clone(&reactor), trial.timeout_ns);
        let allow_foreign = trial.allow_foreign;
        reactor.spawn(async move {
            loop {
                let next = {
                    let mut state = state.borrow_mut();
                    if state.2.is_some() { None } else { state.0.pop_front() }
                };
                let Some(bucket) = next else { return };
                inner.set_deadline(inner.now_ns() + timeout_ns);
                match job {
                    Job::Ready => {
                        let found = client.ready_bucket(&bucket, allow_foreign).await;
                        note_ready(&state, bucket, found);
                    }
                    Job::Sweep => {
                        let swept = client.sweep_bucket(&bucket).await;
                        note_sweep(&state, bucket, swept);
                    }
                }
            }
        });
    }
    reactor.run(stop).map_err(|source| Error::Host { what: "wait for events", source })?;
    let mut state = state.borrow_mut();
    match state.2.take() {
        Some(error) => Err(error),
        None => Ok(std::mem::take(&mut state.1)),
    }
}

fn note_ready(state: &Progress, bucket: String, found: Result<BucketState, Error>) {
    let mut state = state.borrow_mut();
    match found {
        Ok(BucketState::Created) => state.1.created.push(bucket),
        Ok(BucketState::Foreign) => state.1.foreign.push(bucket),
        Ok(BucketState::Ours) => {}
        Err(error) => {
            state.2.get_or_insert(error);
        }
    }
}

fn note_sweep(state: &Progress, bucket: String, swept: Result<(u64, bool), Error>) {
    let mut state = state.borrow_mut();
    match swept {
        Ok((objects, is_gone)) => {
            state.1.objects_swept += objects;
            if is_gone { state.1.deleted.push(bucket) } else { state.1.left.push(bucket) }
        }
        Err(error) => {
            state.2.get_or_insert(error);
        }
    }
}

/// Returns the name of a dataset's bucket.
#[must_use]
pub fn bucket_name(dataset: &DatasetSpec, bucket: u64) -> String {
    if dataset.buckets == 1 {
        dataset.bucket_prefix.trim_end_matches('-').to_owned()
    } else {
        format!("{}{bucket}", dataset.bucket_prefix)
    }
}
