//! The output of a running trial, and the handle that controls it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;

use crate::run::hold::Hold;
use crate::run::live::Live;

/// Controls a trial from outside. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Control {
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) hold: Arc<Hold>,
    pub(crate) begins: Arc<Begins>,
}

impl Control {
    /// Stops the trial. It ends within a second and keeps what it has measured.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Makes the trial wait when it is ready, until its start is set. Call it before the trial
    /// runs.
    pub fn hold(&self) {
        self.hold.want();
    }

    /// Sets the start of a waiting trial, by this host's clock since 1970.
    pub fn start(&self, at_unix_ns: u64) {
        self.hold.start(at_unix_ns);
    }

    /// Lets the trial go on for this long from now. If the lease is not renewed in time, the trial
    /// is interrupted and gives that as its reason. 0 means without limit.
    pub fn lease(&self, lease_ns: u64) {
        self.hold.lease(lease_ns);
    }

    /// Lets a script that several hosts run go on to the turn of this number. `doubts` are the
    /// subjects that other hosts have in doubt, `None` means all subjects; `lost` are the portion
    /// numbers of hosts that were lost before they ended the previous turn.
    pub fn begin_turn(&self, turn: u32, doubts: Option<Vec<u32>>, lost: Vec<u32>) {
        let mut begins = self.begins.lock().expect("no holder of this lock panics");
        begins.push_back(Begin { turn, doubts, lost });
    }
}

/// A turn that all hosts begin, with what they need to know of each other.
#[derive(Debug)]
pub(crate) struct Begin {
    pub(crate) turn: u32,
    /// Subjects that other hosts have in doubt; `None` means all.
    pub(crate) doubts: Option<Vec<u32>>,
    /// Portion numbers of hosts that were lost before they ended the previous turn.
    pub(crate) lost: Vec<u32>,
}

/// Turns that the controller has announced and that have not begun here.
pub(crate) type Begins = Mutex<VecDeque<Begin>>;

/// Output of a running trial.
#[derive(Debug)]
pub enum Output<'a> {
    /// Everything is ready, and the load waits for its start. Only where a hold was requested.
    Ready,
    /// Rows of complete seconds, if there are any, and the live state.
    Seconds(Option<RecordBatch>, &'a Live),
    /// Rows of actions in complete seconds, where a trial follows a script.
    Actions(RecordBatch),
    /// This host has ended its part of the turn of this number. The subjects are in doubt here, and
    /// other hosts do not know that; `None` means all subjects. The next turn begins with
    /// [`Control::begin_turn`]. Only where several hosts run the script.
    TurnEnded(u32, Option<&'a [u32]>),
    /// One row for each request, if requests are logged.
    Requests(RecordBatch),
    /// Frames of the ledger. The consumer must have them on disk when it returns, because the
    /// seconds that follow count requests that these frames acknowledge.
    Ledger(&'a [u8]),
    /// Calls of the history, each as `loadstone_history::Call` writes it.
    History(&'a [u8]),
    /// The device or file system that places are claimed on, if the run has claimed none on it so
    /// far. Later trials and clean-ups of the run must be given it.
    Volume(&'a str),
    /// Places that do not exist and are created as soon as this returns; a caller with a journal
    /// records them first. Sent at most once in a trial; `false` ends the trial before any is
    /// created.
    Intent(&'a [String]),
    /// Those of the intended places that are not created: the target refused, or was not asked. A
    /// place whose creation failed in another way may appear later, and is not listed here.
    Unmade(&'a [String]),
    /// A request outside the measurement was sent again after a temporary error. The text describes
    /// the latest one since the last report.
    Retry(&'a str),
}

/// Consumes the output of a running trial; `false` interrupts the trial.
pub type OutputSink<'a> = dyn FnMut(Output<'_>) -> bool + 'a;
