//! When the stages of an iteration begin and end, and in which of them a request counts.

use crate::recorder::Stage;
use crate::trial::Trial;

/// When the stages of an iteration begin and end.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Window {
    pub(crate) start_ns: u64,
    pub(crate) measure_start_ns: u64,
    /// The planned end; `u64::MAX` where only a count ends the measured part.
    pub(crate) measure_end_ns: u64,
    pub(crate) cool_down_ns: u64,
    /// Whether a count may end the measured part.
    pub(crate) is_counted: bool,
}

impl Window {
    pub(crate) fn new(trial: &Trial, start_ns: u64) -> Self {
        let measure_start_ns = start_ns + trial.warm_up_ns;
        let end_ns = |duration_ns| measure_start_ns.saturating_add(duration_ns);
        Self {
            start_ns,
            measure_start_ns,
            measure_end_ns: trial.stop.duration_ns.map_or(u64::MAX, end_ns),
            cool_down_ns: trial.cool_down_ns,
            is_counted: trial.stop.requests.is_some(),
        }
    }

    /// Returns when the last request may start.
    #[inline]
    pub(crate) fn load_end_ns(&self, measure_over_ns: u64) -> u64 {
        self.measure_end_ns.min(measure_over_ns).saturating_add(self.cool_down_ns)
    }

    /// Returns the stage of a request that is due at a time, or `None` when the load is over.
    #[inline]
    pub(crate) fn stage_at(&self, due_ns: u64, measure_over_ns: u64) -> Option<Stage> {
        if due_ns < self.measure_start_ns {
            Some(Stage::WarmUp)
        } else if due_ns < self.measure_end_ns.min(measure_over_ns) {
            Some(Stage::Measure)
        } else if due_ns < self.load_end_ns(measure_over_ns) {
            Some(Stage::CoolDown)
        } else {
            None
        }
    }

    /// Returns how much of a stretch of time lies in the measured part.
    #[inline]
    pub(crate) fn measured_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        to_ns.min(self.measure_end_ns).saturating_sub(from_ns.max(self.measure_start_ns))
    }

    /// Returns the stage in which a request counts. Under open load that is the one in which it
    /// was due: a late answer must not drop out of the measured part. Under closed load it is the
    /// one in which it ended: throughput counts completions of a window.
    #[inline]
    pub(crate) fn stage_of(&self, due: Stage, ended_ns: u64, is_open: bool) -> Stage {
        match due {
            _ if is_open => due,
            Stage::WarmUp if !self.is_counted && ended_ns >= self.measure_start_ns => {
                Stage::Measure
            }
            Stage::Measure if ended_ns >= self.measure_end_ns => Stage::CoolDown,
            due => due,
        }
    }
}
