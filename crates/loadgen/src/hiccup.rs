//! The jitter channel: what this host does to a thread that only wants to sleep for a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::clock::monotonic_ns;
use crate::recorder::histogram;

/// Waking costs 5 to 70 microseconds of processor time: 1000 times a second, as jHiccup does it, took
/// 6 % of a core on a virtual machine.
const SLEEP: Duration = Duration::from_millis(5);

/// A thread that sleeps a few milliseconds at a time and records by how much it woke late. What it
/// sees, every latency of the trial may have in it (after jHiccup, Tene 2012).
#[derive(Debug)]
pub(crate) struct Hiccup {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Histogram<u64>>>,
}

impl Hiccup {
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("hiccup".into()).spawn(move || {
            // SAFETY: takes numbers only, and concerns only this thread.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize) };
            let mut late = histogram();
            while !seen.load(Ordering::Relaxed) {
                let before_ns = monotonic_ns();
                std::thread::sleep(SLEEP);
                let slept_ns = monotonic_ns() - before_ns;
                let late_ns = slept_ns.saturating_sub(SLEEP.as_nanos() as u64);
                late.saturating_record(late_ns.max(1));
            }
            late
        });
        Self { stop, thread: thread.ok() }
    }

    /// Ends the thread and returns by how many nanoseconds it woke late.
    pub(crate) fn stop(mut self) -> Histogram<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_else(histogram)
    }
}

impl Drop for Hiccup {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
