//! Measures how late this host wakes a sleeping thread, and derives how early to stay awake.
//!
//! If a request of an open load is sent late, part of its latency is ours. Timer slack is off, but
//! waking a core from its idle state still takes 5 to 200 microseconds, the most on virtual
//! machines. A thread that waits for a due time therefore sleeps until shortly before it and then
//! stays awake. How long it stays awake follows from how late its previous sleeps ended.

use std::cell::Cell;
use std::fs::read_to_string;
use std::path::Path;

/// One in this many sleeps may end later than expected: the target is the 99th percentile of the
/// lag.
const LATE_ONE_IN: u64 = 100;
/// Decrease of the expectation for each sleep that ended in time, in nanoseconds.
const STEP_NS: u64 = 50;
/// Maximum time to spin. The delay of a host that wakes threads later than this shows in the lag.
const AWAKE_NS_MAX: u64 = 200_000;
/// Longest plausible duration of a poll; beyond it, the thread was not running.
const LOOK_NS_MAX: u64 = 5_000;

const CONTROL_GROUPS: &str = "/sys/fs/cgroup";

/// The delay of sleeps, and the time spent awake because of it.
#[derive(Debug, Default)]
pub(crate) struct Oversleep {
    is_watched: Cell<bool>,
    expected_ns: Cell<u64>,
    awake_ns: Cell<u64>,
}

impl Oversleep {
    /// Makes due times accurate to the microsecond from now on, at the cost of CPU time. Has no
    /// effect under a CPU quota, where staying awake would consume the CPU time of requests.
    pub(crate) fn watch(&self) {
        self.is_watched.set(!has_quota(Path::new("/proc/self/cgroup"), Path::new(CONTROL_GROUPS)));
    }

    /// Returns how long to sleep when something is due in `left_ns`; zero means to stay awake.
    #[inline]
    pub(crate) fn sleep_ns(&self, left_ns: u64) -> u64 {
        left_ns.saturating_sub(self.expected_ns.get())
    }

    /// Learns from a sleep that nothing interrupted and that ended `late_ns` after the requested
    /// time.
    ///
    /// The expectation follows the 99th percentile: it rises 99 times as fast as it falls
    /// (stochastic approximation of a quantile, Robbins and Monro 1951).
    #[inline]
    pub(crate) fn note_sleep(&self, late_ns: u64) {
        if self.is_watched.get() {
            let expected_ns = self.expected_ns.get();
            let changed_ns = if late_ns > expected_ns {
                expected_ns + STEP_NS * (LATE_ONE_IN - 1)
            } else {
                expected_ns.saturating_sub(STEP_NS)
            };
            self.expected_ns.set(changed_ns.min(AWAKE_NS_MAX));
        }
    }

    /// Adds the duration of a poll that found nothing, made instead of sleeping.
    #[inline]
    pub(crate) fn note_look(&self, took_ns: u64) {
        self.awake_ns.set(self.awake_ns.get() + took_ns.min(LOOK_NS_MAX));
    }

    /// Returns the CPU time spent staying awake.
    pub(crate) fn awake_ns(&self) -> u64 {
        self.awake_ns.get()
    }
}

/// Returns whether the CPU time of our control group, or of one of its parents, is limited.
fn has_quota(groups_file: &Path, root: &Path) -> bool {
    let lines = read_to_string(groups_file).unwrap_or_default();
    lines.lines().any(|line| {
        // Format: number:controllers:path. The list of controllers is empty in version 2.
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return false };
        let (folder, file) = match controllers {
            "" => (root.to_path_buf(), "cpu.max"),
            _ if controllers.split(',').any(|name| name == "cpu") => {
                (root.join("cpu"), "cpu.cfs_quota_us")
            }
            _ => return false,
        };
        let place = folder.join(path.trim_start_matches('/'));
        place.ancestors().take_while(|at| at.starts_with(&folder)).any(|at| {
            let limit = read_to_string(at.join(file)).unwrap_or_default();
            !limit.is_empty() && !limit.starts_with("max") && !limit.starts_with('-')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected_after(sleeps: impl Iterator<Item = u64>) -> u64 {
        let oversleep = Oversleep { is_watched: Cell::new(true), ..Oversleep::default() };
        sleeps.for_each(|late_ns| oversleep.note_sleep(late_ns));
        oversleep.expected_ns.get()
    }

    #[test]
    fn the_expectation_converges_to_the_99th_percentile() {
        // Uniform over 100 microseconds, in random order.
        let late = (0..100_000_u64).map(|number| crate::chance::mix64(number) % 100_000);
        let expected_ns = expected_after(late);
        assert!((94_000..=104_000).contains(&expected_ns), "{expected_ns}");
    }

    #[test]
    fn a_thread_sleeps_if_the_host_wakes_it_in_time() {
        assert_eq!(expected_after([150_000; 100].into_iter().chain([0; 10_000])), 0);
    }

    #[test]
    fn no_thread_stays_awake_for_a_host_that_is_late_by_milliseconds() {
        assert_eq!(expected_after([9_000_000; 1000].into_iter()), AWAKE_NS_MAX);
    }

    #[test]
    fn a_cpu_quota_of_a_parent_group_is_detected() {
        let root = std::env::temp_dir().join(format!("loadstone-quota-{}", std::process::id()));
        let inner = root.join("outer/inner");
        std::fs::create_dir_all(&inner).expect("the temporary folder can be written");
        let groups_file = root.join("own");
        let write = |path: &Path, text: &str| std::fs::write(path, text).expect("it is ours");
        write(&groups_file, "0::/outer/inner\n");
        write(&inner.join("cpu.max"), "max 100000\n");
        assert!(!has_quota(&groups_file, &root));
        write(&root.join("outer/cpu.max"), "15000 100000\n");
        assert!(has_quota(&groups_file, &root));
        assert!(!has_quota(&root.join("absent"), &root));
        std::fs::remove_dir_all(&root).expect("it is ours");
    }

    #[test]
    fn without_a_request_a_thread_sleeps_to_the_end() {
        let oversleep = Oversleep::default();
        oversleep.note_sleep(150_000);
        assert_eq!(oversleep.sleep_ns(1_000), 1_000);
    }
}
