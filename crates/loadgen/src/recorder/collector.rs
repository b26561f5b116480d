//! Merges the rows of all threads. A second is complete when every thread has passed it.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use super::{Handover, LogRow, Recorder, Row, RowKey};

/// The rows of one second over all threads.
pub(crate) type Second = BTreeMap<RowKey, Row>;

/// Merges the threads' rows and returns each second when all threads have passed it.
#[derive(Debug)]
pub(crate) struct Collector {
    inbox: Receiver<Handover>,
    spares: Vec<Sender<Row>>,
    passed: Vec<Option<u64>>,
    seconds: BTreeMap<u64, Second>,
    log: Vec<LogRow>,
    history: Vec<u8>,
}

impl Collector {
    /// Creates a collector and one recorder for each thread.
    #[must_use]
    pub(crate) fn new(threads: usize, trial_start_ns: u64) -> (Self, Vec<Recorder>) {
        let (sender, inbox) = channel();
        let mut spares = Vec::new();
        let recorders = (0..threads)
            .map(|thread| {
                let (spare, returned) = channel();
                spares.push(spare);
                Recorder::new(thread, trial_start_ns, sender.clone(), returned)
            })
            .collect();
        let passed = vec![None; threads];
        let (seconds, log, history) = (BTreeMap::new(), Vec::new(), Vec::new());
        (Self { inbox, spares, passed, seconds, log, history }, recorders)
    }

    /// Receives what the threads have sent and returns the seconds that are complete.
    pub(crate) fn collect(&mut self) -> Vec<(u64, Second)> {
        loop {
            let batch = match self.inbox.try_recv() {
                Ok(batch) => batch,
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    // A thread that failed sends nothing more; what it sent still counts.
                    self.passed.fill(Some(u64::MAX));
                    break;
                }
            };
            if batch.passed.is_some() {
                self.passed[batch.thread] = batch.passed;
            }
            self.log.extend(batch.log);
            self.history.extend(batch.history);
            for mut row in batch.rows {
                let second = self.seconds.entry(batch.second).or_default();
                match second.entry(row.key) {
                    std::collections::btree_map::Entry::Vacant(entry) => {
                        entry.insert(row);
                    }
                    std::collections::btree_map::Entry::Occupied(mut entry) => {
                        entry.get_mut().absorb(&row);
                        row.clear();
                        let _ = self.spares[batch.thread].send(row);
                    }
                }
            }
        }
        let complete =
            self.passed.iter().map(|passed| passed.map_or(0, |second| second.saturating_add(1)));
        let complete = complete.min().unwrap_or(u64::MAX);
        let later = self.seconds.split_off(&complete);
        std::mem::replace(&mut self.seconds, later).into_iter().collect()
    }

    /// Returns the requests logged since the last call.
    pub(crate) fn take_log(&mut self) -> Vec<LogRow> {
        std::mem::take(&mut self.log)
    }

    /// Returns the calls of the history added since the last call.
    pub(crate) fn take_history(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.history)
    }

    /// Returns whether every thread has sent its last row.
    #[must_use]
    pub(crate) fn is_over(&self) -> bool {
        self.passed.iter().all(|passed| *passed == Some(u64::MAX))
    }

    /// Returns an emptied row to the threads, so that its memory is reused.
    pub(crate) fn recycle(&mut self, mut row: Row) {
        row.clear();
        if let Some(spare) = self.spares.first() {
            let _ = spare.send(row);
        }
        self.spares.rotate_left(1);
    }
}
