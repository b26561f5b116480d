//! Turns of a script that several hosts run: each host reports the end of its part and waits for
//! all.

use std::sync::Arc;
use std::time::Duration;

use super::output::{Begin, Begins, Output, OutputSink};
use crate::script::{Script, Turn};
use crate::trial::Trial;

/// How often to check whether a turn has ended or begins.
const LOOK: Duration = Duration::from_millis(5);

/// Reports ended turns, and begins turns that the controller announces.
pub(crate) struct Turns<'a> {
    script: Arc<Script>,
    begins: &'a Begins,
    /// The turn whose end is reported next; `None` after the last turn that others wait for.
    untold: Option<Turn>,
}

impl<'a> Turns<'a> {
    /// Returns `None` if there is no script or one host runs all of it.
    pub(crate) fn of(trial: &Trial, begins: &'a Begins) -> Option<Self> {
        let script = trial.open_script.as_ref().filter(|script| script.rows.is_some())?;
        (trial.portion().of > 1).then(|| Self {
            script: Arc::clone(script),
            begins,
            untold: Some(Turn::First),
        })
    }

    /// Reports that this host's part of a turn has ended, and begins turns that the controller
    /// announced. Returns whether the trial goes on.
    pub(crate) fn look(&mut self, sink: &mut OutputSink<'_>) -> bool {
        while let Some(begin) = self.take() {
            self.begin(&begin);
        }
        let Some(turn) = self.untold.filter(|turn| self.script.progress.has_ended(*turn)) else {
            return true;
        };
        // The end of one turn is reported only after the begin of the previous one, which says what
        // comes next.
        self.untold = None;
        sink(Output::TurnEnded(turn.number(), self.script.progress.take_untold().as_deref()))
    }

    fn take(&self) -> Option<Begin> {
        self.begins.lock().expect("no holder of this lock panics").pop_front()
    }

    fn begin(&mut self, begin: &Begin) {
        let (progress, subjects) = (&self.script.progress, &self.script.subjects);
        let before = begin.turn.checked_sub(1).and_then(Turn::numbered);
        let (Some(turn), Some(before)) = (Turn::numbered(begin.turn), before) else { return };
        progress.doubt_told(begin.doubts.as_deref());
        if let Some(rows) = &self.script.rows {
            progress.doubt_lost(before, &begin.lost, rows, subjects);
        }
        progress.begin(turn);
        self.untold = Some(turn).filter(|turn| *turn != Turn::Last);
    }

    /// Sleeps for at most this long, and not beyond the next event to report or begin.
    pub(crate) fn sleep(&self, most: Duration) {
        let has_news = || {
            self.untold.is_some_and(|turn| self.script.progress.has_ended(turn))
                || !self.begins.lock().expect("no holder of this lock panics").is_empty()
        };
        let mut slept = Duration::ZERO;
        while slept < most && !has_news() {
            std::thread::sleep(LOOK);
            slept += LOOK;
        }
    }
}
