//! Lists the objects of a place once, before any load.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use arrow_array::RecordBatch;

use crate::driver::{Client, Driver, Thread};
use crate::drivers::{self, Visitor};
use crate::error::Error;
use crate::object_list::Lister;
use crate::transport::retries::Retries;
use crate::trial::Trial;

/// How many batches may wait for the consumer.
const BATCHES_WAITING: usize = 2;
/// The longest time between two calls of the consumer.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Lists the objects of a trial's only place whose keys begin with the dataset's prefix, up to a
/// maximum, and passes them to `take` in batches. While the store is slow, it calls `take` with an
/// empty batch; if `take` returns false, the listing ends. Returns whether there were more objects.
///
/// # Errors
/// The target is not in the required state, or its listing cannot be read.
pub fn list_objects(
    trial: &Trial,
    objects_max: u64,
    take: &mut dyn FnMut(Option<RecordBatch>) -> bool,
) -> Result<bool, Error> {
    struct List<'a, 'b>(&'a Trial, u64, &'a mut (dyn FnMut(Option<RecordBatch>) -> bool + 'b));

    impl Visitor for List<'_, '_> {
        type Output = Result<bool, Error>;

        fn visit<D: Driver>(self) -> Self::Output {
            with_driver::<D>(self.0, self.1, self.2)
        }
    }

    let name = &trial.target.driver;
    drivers::visit(name, List(trial, objects_max, take))
        .unwrap_or_else(|| Err(Error::Trial(vec![format!("no driver \"{name}\"")])))
}

fn with_driver<D: Driver>(
    trial: &Trial,
    objects_max: u64,
    take: &mut dyn FnMut(Option<RecordBatch>) -> bool,
) -> Result<bool, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (batches, listed) = mpsc::sync_channel(BATCHES_WAITING);
        let lister = Lister::new(objects_max, Arc::clone(&stop), batches);
        let worker = scope.spawn(|| on_a_thread::<D>(trial, lister));
        loop {
            let is_wanted = match listed.recv_timeout(LOOK_EVERY) {
                Ok(batch) => take(Some(batch)),
                Err(RecvTimeoutError::Timeout) => take(None),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if !is_wanted {
                stop.store(true, Ordering::Relaxed);
                break;
            }
        }
        // Drops the receiver, so that a thread that waits to send a batch does not wait for ever.
        drop(listed);
        match worker.join() {
            Ok(is_cut) => is_cut,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn on_a_thread<D: Driver>(trial: &Trial, lister: Lister) -> Result<bool, Error> {
    let retries = Arc::new(Retries::new(trial.timeout_ns));
    let trial = Trial { retries: Some(Arc::clone(&retries)), ..trial.clone() };
    let stop = lister.stop();
    let driver = Arc::new(D::open(&trial)?);
    let thread = driver.thread()?;
    let reactor = Rc::clone(thread.reactor());
    reactor.expect_timeouts_of(trial.timeout_ns);
    reactor.retry(Some(&retries));
    let mut client = driver.client(&thread, 0)?;
    let (place, prefix) = (trial.dataset.bucket(0), trial.dataset.object_prefix.clone());
    let (inner, timeout_ns) = (Rc::clone(&reactor), trial.timeout_ns);
    let job = async move {
        let mut lister = lister;
        inner.set_deadline(inner.now_ns() + timeout_ns);
        client.list_objects(&place, &prefix, &mut lister).await?;
        Ok(lister.finish())
    };
    let ended = crate::reactor::run_to_end(&reactor, &stop, job)
        .map_err(|source| Error::Host { what: "wait for events", source })?;
    // The caller that stopped the listing knows that it is incomplete.
    ended.unwrap_or(Ok(false))
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;

    use super::*;

    /// Lists a directory tree; returns keys with sizes in order, and whether there are more.
    fn listed(prefix: &str, objects_max: u64) -> (Vec<(String, i64)>, bool) {
        let name = format!("loadstone-list-{}-{objects_max}-{}", std::process::id(), prefix.len());
        let root = std::env::temp_dir().join(name);
        for (path, bytes) in [("t/a/1", 3), ("t/a/b/2", 5), ("t/c", 7), ("t/ab", 9), ("u/x", 1)] {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("it has one")).expect("a new folder");
            std::fs::write(path, vec![0; bytes]).expect("a new file");
        }
        std::os::unix::fs::symlink(root.join("t/c"), root.join("t/link")).expect("a new link");
        let trial: Trial = serde_json::from_value(serde_json::json!({
            "format": 1, "id": "list", "run": "0".repeat(32), "seed": 0, "phase": "list",
            "target": {"name": "t", "driver": "file", "settings": {"path": root}},
            "dataset": {"bucket_prefix": "t", "buckets": 1, "objects": 1, "object_prefix": prefix,
                        "size": {"kind": "fixed", "bytes": 0},
                        "existing": {"path": "", "sha256": ""}},
            "mix": [{"operation": "list"}], "load": {"kind": "closed", "clients": 1},
            "stop": {"requests": 1},
        }))
        .expect("the test's document is sound");
        let mut rows = Vec::new();
        let is_cut = list_objects(&trial, objects_max, &mut |batch| {
            let Some(batch) = batch else { return true };
            let keys = batch.column(0).as_string::<i32>().iter().flatten().map(str::to_owned);
            let sizes = batch.column(1).as_primitive::<Int64Type>().values().iter().copied();
            rows.extend(keys.zip(sizes));
            true
        });
        std::fs::remove_dir_all(root).expect("it is ours");
        rows.sort();
        (rows, is_cut.expect("it can be listed"))
    }

    #[test]
    fn a_tree_is_listed_with_paths_and_sizes_and_without_links() {
        let owned = |rows: &[(&str, i64)]| -> Vec<(String, i64)> {
            rows.iter().map(|(key, size)| ((*key).to_owned(), *size)).collect()
        };
        let all = owned(&[("a/1", 3), ("a/b/2", 5), ("ab", 9), ("c", 7)]);
        assert_eq!(listed("", 100), (all.clone(), false));
        assert_eq!(listed("", 4), (all, false));
        assert_eq!(listed("a", 100).0, owned(&[("a/1", 3), ("a/b/2", 5), ("ab", 9)]));
        assert_eq!(listed("a/", 100).0, owned(&[("a/1", 3), ("a/b/2", 5)]));
        let (some, is_cut) = listed("", 2);
        assert_eq!((some.len(), is_cut), (2, true));
    }
}
