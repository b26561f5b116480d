//! The clocks of the load generator: `CLOCK_MONOTONIC`, or a virtual clock in calibration.

use std::cell::Cell;
use std::rc::Rc;

/// A source of monotonic nanoseconds.
#[derive(Debug, Clone)]
pub(crate) enum Clock {
    /// The kernel's monotonic clock.
    Real,
    /// A clock that a reactor advances to the next timer.
    Virtual(Rc<Cell<u64>>),
}

impl Clock {
    #[must_use]
    pub(crate) fn real() -> Self {
        Self::Real
    }

    /// Returns a virtual clock that shows `start_ns`.
    #[must_use]
    pub(crate) fn virtual_at(start_ns: u64) -> Self {
        Self::Virtual(Rc::new(Cell::new(start_ns)))
    }

    /// Returns the time in nanoseconds.
    #[inline]
    #[must_use]
    pub(crate) fn now_ns(&self) -> u64 {
        match self {
            Self::Real => monotonic_ns(),
            Self::Virtual(now) => now.get(),
        }
    }

    /// Advances a virtual clock; returns whether the clock is virtual.
    pub(crate) fn advance_to(&self, due_ns: u64) -> bool {
        match self {
            Self::Real => false,
            Self::Virtual(now) => {
                now.set(now.get().max(due_ns));
                true
            }
        }
    }
}

fn read_ns(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec into memory that we own.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns `CLOCK_MONOTONIC` in nanoseconds.
#[inline]
#[must_use]
pub(crate) fn monotonic_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// Returns the wall clock in nanoseconds since 1970. Used as an anchor only, never for a duration.
#[must_use]
pub(crate) fn unix_ns() -> u64 {
    read_ns(libc::CLOCK_REALTIME)
}

/// Returns the CPU time that this thread has used, in nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns how long this thread was ready to run but had no core, in nanoseconds, if the kernel
/// reports it.
#[must_use]
pub(crate) fn thread_run_delay_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Cost and resolution of the clock on this host, for the record.
#[derive(Debug, Clone, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClockFacts {
    /// The kernel's clock source, such as `tsc` or `kvm-clock`.
    pub source: String,
    /// Mean cost of one reading.
    pub read_ns: f64,
    /// Smallest difference between two readings.
    pub step_ns: u64,
}

impl ClockFacts {
    /// Measures the clock with ten thousand readings.
    #[must_use]
    pub fn measure() -> Self {
        const READINGS: u64 = 10_000;
        let source = std::fs::read_to_string(
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        )
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned());
        let begin_ns = monotonic_ns();
        let (mut last_ns, mut step_ns) = (begin_ns, u64::MAX);
        for _ in 0..READINGS {
            let now_ns = monotonic_ns();
            if now_ns > last_ns {
                step_ns = step_ns.min(now_ns - last_ns);
            }
            last_ns = now_ns;
        }
        Self { source, read_ns: (last_ns - begin_ns) as f64 / READINGS as f64, step_ns }
    }
}
