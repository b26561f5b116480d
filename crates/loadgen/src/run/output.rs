//! What a running trial gives out, and the handle by which it is stopped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;

use crate::run::hold::Hold;
use crate::run::live::Live;

/// The handle by which a trial is stopped from outside. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Control {
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) hold: Arc<Hold>,
    pub(crate) begins: Arc<Begins>,
}

impl Control {
    /// Stops the trial; it ends within a second with what it has.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Has the trial wait when it is ready, until its start is set; call it before the trial runs.
    pub fn hold(&self) {
        self.hold.want();
    }

    /// Tells a trial that waits when to start, by this host's clock since 1970.
    pub fn start(&self, at_unix_ns: u64) {
        self.hold.start(at_unix_ns);
    }

    /// Lets the trial go on for so long from now; unless that is renewed before, it is interrupted
    /// then, and says so. 0 nanoseconds are for ever.
    pub fn lease(&self, lease_ns: u64) {
        self.hold.lease(lease_ns);
    }

    /// Has a script that several hosts run go on to a turn, by its number. `doubts` are the subjects
    /// that other hosts have in doubt, nothing is all of them; `lost` are the hosts, by the numbers of
    /// their portions, that were lost before they had ended the turn before.
    pub fn begin_turn(&self, turn: u32, doubts: Option<Vec<u32>>, lost: Vec<u32>) {
        let mut begins = self.begins.lock().expect("no holder of this lock panics");
        begins.push_back(Begin { turn, doubts, lost });
    }
}

/// A turn that all hosts begin, and what they must know of each other for it.
#[derive(Debug)]
pub(crate) struct Begin {
    pub(crate) turn: u32,
    /// What other hosts have in doubt; nothing in particular is everything.
    pub(crate) doubts: Option<Vec<u32>>,
    /// Hosts that were lost before they had ended the turn before, by their numbers.
    pub(crate) lost: Vec<u32>,
}

/// Turns that a controller has told of and that have not begun here.
pub(crate) type Begins = Mutex<VecDeque<Begin>>;

/// What a running trial gives out.
#[derive(Debug)]
pub enum Output<'a> {
    /// Everything is ready, and the load waits for its start; only where a hold was asked for.
    Ready,
    /// Rows of complete seconds (perhaps none), and how things stand.
    Seconds(Option<RecordBatch>, &'a Live),
    /// Rows of actions of complete seconds, where a trial follows a script.
    Actions(RecordBatch),
    /// This host's part of a turn of a script has ended, that is the turn of this number, and these
    /// subjects are in doubt that other hosts do not know of; nothing is all of them. The next turn
    /// begins when [`Control::begin_turn`] says so; only where several hosts run the script.
    TurnEnded(u32, Option<&'a [u32]>),
    /// Requests one by one, when they are logged.
    Requests(RecordBatch),
    /// Frames of the ledger: whoever keeps them has them on disk when this returns, since the seconds
    /// that follow count what they say.
    Ledger(&'a [u8]),
    /// Calls of the history, each as `loadstone_history::Call` writes it.
    History(&'a [u8]),
    /// The device or file system that places are claimed on, which the run has claimed none on so far:
    /// later trials and clean-ups of the run are to be told of it.
    Volume(&'a str),
    /// Places that do not exist and are made as soon as this returns: a caller with a journal writes
    /// them there first. Sent at most once in a trial; `false` ends it before any is made.
    Intent(&'a [String]),
    /// Of these, the places that are not made: the target refused to, or was not asked any more. What
    /// failed otherwise may be made later, though nothing shows it yet.
    Unmade(&'a [String]),
    /// A request outside the measurement is sent again after a temporary answer: the latest of those
    /// since this was told last, for people.
    Retry(&'a str),
}

/// Takes what a running trial gives out; `false` interrupts the trial.
pub type OutputSink<'a> = dyn FnMut(Output<'_>) -> bool + 'a;
