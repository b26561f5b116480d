//! When the stages of an iteration begin and end, and in which of them a request counts.

use crate::recorder::Stage;
use crate::trial::Trial;

/// The start and end of each stage of an iteration.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Window {
    pub(crate) start_ns: u64,
    pub(crate) measure_start_ns: u64,
    /// Planned end; `u64::MAX` if only a count ends the measured part.
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

    /// Returns the latest time at which a request may start.
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

    /// Returns how much of a period lies in the measured part.
    #[inline]
    pub(crate) fn measured_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        to_ns.min(self.measure_end_ns).saturating_sub(from_ns.max(self.measure_start_ns))
    }

    /// Returns the stage in which a request counts. Under open load, that is the stage in which it
    /// was due: a late answer must not drop out of the measured part. Under closed load, it is the
    /// stage in which it ended: throughput counts completions in a window.
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
