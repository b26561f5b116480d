//! Holds a load that is ready until its start time, and ends a load whose controller is gone.
//!
//! Hosts that load a target together start at the same time. Each gets that time on its own clock,
//! once all are ready.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{monotonic_ns, unix_ns};

/// The waiting thread stays awake for this long before the start, because sleeps end late.
const AWAKE_NS: u64 = 1_500_000;
/// How often to check whether the start time is known or the controller is gone.
const LOOK: Duration = Duration::from_millis(2);

/// Values that a controller sets while a trial runs. Times are 0 while they are unknown.
#[derive(Debug, Default)]
pub(crate) struct Hold {
    is_wanted: AtomicBool,
    is_ready: AtomicBool,
    start_unix_ns: AtomicU64,
    start_ns: AtomicU64,
    lease_ns: AtomicU64,
    lease_end_ns: AtomicU64,
}

impl Hold {
    /// Makes the load wait until its start is set.
    pub(crate) fn want(&self) {
        self.is_wanted.store(true, Ordering::Release);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// Returns whether everything is ready for the load.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// Sets the start, by this host's clock since 1970. A start in the past means now.
    pub(crate) fn start(&self, at_unix_ns: u64) {
        // From here on, the monotonic clock is used, because the other may be set.
        let (now_unix_ns, now_ns) = (unix_ns(), monotonic_ns());
        let start_ns = (now_ns + at_unix_ns.saturating_sub(now_unix_ns))
            .saturating_sub(now_unix_ns.saturating_sub(at_unix_ns));
        self.start_unix_ns.store(at_unix_ns.max(1), Ordering::Relaxed);
        self.start_ns.store(start_ns.max(1), Ordering::Release);
    }

    /// Returns the start that was set: on the monotonic clock, and since 1970.
    pub(crate) fn started(&self) -> Option<(u64, u64)> {
        let start_ns = self.start_ns.load(Ordering::Acquire);
        (start_ns != 0).then(|| (start_ns, self.start_unix_ns.load(Ordering::Relaxed)))
    }

    /// Lets the load go on for this long from now; 0 means without limit. An expired lease cannot
    /// be renewed.
    pub(crate) fn lease(&self, lease_ns: u64) {
        if self.lease_run_out().is_some() {
            return;
        }
        let end_ns = if lease_ns == 0 { 0 } else { monotonic_ns().saturating_add(lease_ns) };
        self.lease_ns.store(lease_ns, Ordering::Relaxed);
        self.lease_end_ns.store(end_ns, Ordering::Release);
    }

    /// Returns the length of the lease if it has expired.
    pub(crate) fn lease_run_out(&self) -> Option<Duration> {
        let end_ns = self.lease_end_ns.load(Ordering::Acquire);
        (end_ns != 0 && monotonic_ns() >= end_ns)
            .then(|| Duration::from_nanos(self.lease_ns.load(Ordering::Relaxed)))
    }

    /// Signals that everything is ready, and returns at the start or when the trial is stopped.
    pub(crate) fn await_start(&self, stop: &AtomicBool) {
        self.is_ready.store(true, Ordering::Release);
        while !stop.load(Ordering::Relaxed) {
            let Some((start_ns, _)) = self.started() else {
                std::thread::sleep(LOOK);
                continue;
            };
            let left_ns = start_ns.saturating_sub(monotonic_ns());
            if left_ns == 0 {
                return;
            }
            if left_ns > AWAKE_NS {
                // Sleeps in several steps, because a stop may come between.
                let sleep = Duration::from_nanos(left_ns - AWAKE_NS);
                std::thread::sleep(sleep.min(10 * LOOK));
            } else {
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_starts_at_the_given_time_and_not_before() {
        let (hold, stop) = (Hold::default(), AtomicBool::new(false));
        let at_unix_ns = unix_ns() + 20_000_000;
        hold.start(at_unix_ns);
        hold.await_start(&stop);
        assert!(hold.is_ready());
        let (start_ns, start_unix_ns) = hold.started().expect("it was given");
        assert_eq!(start_unix_ns, at_unix_ns);
        assert!(monotonic_ns() >= start_ns);
    }

    #[test]
    fn a_start_that_has_passed_is_in_the_past_on_both_clocks() {
        let (hold, stop) = (Hold::default(), AtomicBool::new(false));
        hold.start(unix_ns() - 5_000_000);
        hold.await_start(&stop);
        let (start_ns, _) = hold.started().expect("it was given");
        assert!(monotonic_ns() - start_ns >= 5_000_000);
    }

    #[test]
    fn a_stop_ends_the_wait_for_a_start() {
        let (hold, stop) = (Hold::default(), AtomicBool::new(true));
        hold.await_start(&stop);
        assert!(hold.started().is_none());
    }

    #[test]
    fn a_lease_expires_unless_it_is_renewed() {
        let hold = Hold::default();
        assert_eq!(hold.lease_run_out(), None);
        hold.lease(3_600_000_000_000);
        assert_eq!(hold.lease_run_out(), None);
        hold.lease(0);
        assert_eq!(hold.lease_run_out(), None);
        hold.lease(1);
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(hold.lease_run_out(), Some(Duration::from_nanos(1)));
    }

    #[test]
    fn an_expired_lease_cannot_be_renewed() {
        let hold = Hold::default();
        hold.lease(1);
        std::thread::sleep(Duration::from_millis(1));
        // A process that was suspended may receive its renewal before its load checks the lease.
        hold.lease(3_600_000_000_000);
        assert_eq!(hold.lease_run_out(), Some(Duration::from_nanos(1)));
    }
}
