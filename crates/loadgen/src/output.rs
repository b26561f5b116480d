//! What a running trial gives out, and the handle by which it is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;

use crate::live::Live;

/// The handle by which a trial is stopped from outside. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Control {
    pub(crate) stop: Arc<AtomicBool>,
}

impl Control {
    /// Stops the trial; it ends within a second with what it has.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What a running trial gives out.
#[derive(Debug)]
pub enum Output<'a> {
    /// Rows of complete seconds (perhaps none), and how things stand.
    Seconds(Option<RecordBatch>, &'a Live),
    /// Requests one by one, when they are logged.
    Requests(RecordBatch),
    /// Places that do not exist and are made as soon as this returns: a caller with a journal writes
    /// them there first. Sent at most once in a trial; `false` ends it before any is made.
    Intent(&'a [String]),
    /// Of these, the places that the target refused to make, or that were not asked for any more.
    Unmade(&'a [String]),
}

/// Takes what a running trial gives out; `false` interrupts the trial.
pub type OutputSink<'a> = dyn FnMut(Output<'_>) -> bool + 'a;
