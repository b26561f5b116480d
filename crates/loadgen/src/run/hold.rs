//! A load that is ready and waits for a time to start at, and that ends when its controller has gone.
//!
//! Hosts that load a target together start at one time. Each gets it on its own clock, when all
//! are ready.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::{monotonic_ns, unix_ns};

/// So long before the start the thread that waits for it stays awake: sleeps end late.
const AWAKE_NS: u64 = 1_500_000;
/// How often the load looks whether the time is known, or the controller has gone.
const LOOK: Duration = Duration::from_millis(2);

/// What a controller tells a trial while it runs. All times are 0 while they are unknown.
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
    /// Has the load wait until its start is set.
    pub(crate) fn want(&self) {
        self.is_wanted.store(true, Ordering::Release);
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// Tells whether everything is ready for the load.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// Tells when to start, by this host's clock since 1970. One that has passed is now.
    pub(crate) fn start(&self, at_unix_ns: u64) {
        // Kept on the monotonic clock from here on: the other may be set.
        let (now_unix_ns, now_ns) = (unix_ns(), monotonic_ns());
        let start_ns = (now_ns + at_unix_ns.saturating_sub(now_unix_ns))
            .saturating_sub(now_unix_ns.saturating_sub(at_unix_ns));
        self.start_unix_ns.store(at_unix_ns.max(1), Ordering::Relaxed);
        self.start_ns.store(start_ns.max(1), Ordering::Release);
    }

    /// Returns the start that was given, on the monotonic clock and since 1970.
    pub(crate) fn started(&self) -> Option<(u64, u64)> {
        let start_ns = self.start_ns.load(Ordering::Acquire);
        (start_ns != 0).then(|| (start_ns, self.start_unix_ns.load(Ordering::Relaxed)))
    }

    /// Lets the load go on for so long from now; 0 is for ever. What has run out stays so.
    pub(crate) fn lease(&self, lease_ns: u64) {
        if self.lease_run_out().is_some() {
            return;
        }
        let end_ns = if lease_ns == 0 { 0 } else { monotonic_ns().saturating_add(lease_ns) };
        self.lease_ns.store(lease_ns, Ordering::Relaxed);
        self.lease_end_ns.store(end_ns, Ordering::Release);
    }

    /// Returns the lease that has run out, if it has.
    pub(crate) fn lease_run_out(&self) -> Option<Duration> {
        let end_ns = self.lease_end_ns.load(Ordering::Acquire);
        (end_ns != 0 && monotonic_ns() >= end_ns)
            .then(|| Duration::from_nanos(self.lease_ns.load(Ordering::Relaxed)))
    }

    /// Says that everything is ready, and returns at the start, or when the trial is stopped.
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
                // Several sleeps, for a stop may come between.
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
    fn a_load_starts_when_it_was_told_to_and_not_before() {
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
    fn a_lease_runs_out_unless_it_is_renewed() {
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
    fn a_lease_that_has_run_out_is_not_renewed() {
        let hold = Hold::default();
        hold.lease(1);
        std::thread::sleep(Duration::from_millis(1));
        // A process that stood still hears of its renewal before its load looks at the lease.
        hold.lease(3_600_000_000_000);
        assert_eq!(hold.lease_run_out(), Some(Duration::from_nanos(1)));
    }
}
