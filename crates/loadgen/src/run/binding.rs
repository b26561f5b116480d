//! Binds load threads to CPUs, or to the CPUs of NUMA nodes.

use std::fs;
use std::io;
use std::mem::size_of_val;

use crate::error::Error;
use crate::trial::Trial;

const NODES: &str = "/sys/devices/system/node";

/// A set of CPUs in the kernel's layout.
type CpuSet = libc::cpu_set_t;

/// The CPUs that each load thread of a trial may run on; empty where the scheduler decides.
#[derive(Debug, Default)]
pub(super) struct Binding(Vec<Vec<usize>>);

impl Binding {
    /// Resolves the CPUs and NUMA nodes that a trial names on this host.
    ///
    /// # Errors
    /// This process may not use a CPU, or a NUMA node does not exist or has no CPU that it may use.
    pub(super) fn of(trial: &Trial) -> Result<Self, Error> {
        let wrong = |text: String| Error::Trial(vec![text]);
        if trial.cpus.is_empty() && trial.numa_nodes.is_empty() {
            return Ok(Self::default());
        }
        let allowed = allowed()
            .map_err(|source| Error::Host { what: "read which CPUs are allowed", source })?;
        let known = list(&allowed);
        if let Some(cpu) = trial.cpus.iter().find(|cpu| !allowed.contains(&(**cpu as usize))) {
            return Err(wrong(format!("load.cpus: found {cpu}, allowed on this host: {known}")));
        }
        let mut sets: Vec<Vec<usize>> = trial.cpus.iter().map(|cpu| vec![*cpu as usize]).collect();
        for node in &trial.numa_nodes {
            let Ok(text) = fs::read_to_string(format!("{NODES}/node{node}/cpulist")) else {
                let nodes = fs::read_to_string(format!("{NODES}/online"));
                let nodes = nodes.unwrap_or_else(|_| "none".to_owned());
                let nodes = nodes.trim_end();
                return Err(wrong(format!(
                    "load.numa: found {node}, allowed on this host: {nodes}"
                )));
            };
            let mut cpus = parse(&text);
            cpus.retain(|cpu| allowed.contains(cpu));
            if cpus.is_empty() {
                let text = format!("load.numa: found {node}, none of whose CPUs is among {known}");
                return Err(wrong(text));
            }
            sets.push(cpus);
        }
        Ok(Self(sets))
    }

    /// Returns how many threads have CPUs assigned, or `None` where the scheduler decides.
    pub(super) fn len(&self) -> Option<usize> {
        (!self.0.is_empty()).then_some(self.0.len())
    }

    /// Binds the calling thread, which has this number.
    ///
    /// # Errors
    /// The kernel refused.
    pub(super) fn bind(&self, thread: usize) -> Result<(), Error> {
        if self.0.is_empty() {
            return Ok(());
        }
        let cpus = &self.0[thread % self.0.len()];
        // SAFETY: a set of zeroes is a valid empty set, and every CPU is below the size of the set,
        // because it is one of those that the kernel allows. The set outlives the call.
        let result = unsafe {
            let mut set: CpuSet = std::mem::zeroed();
            cpus.iter().for_each(|cpu| libc::CPU_SET(*cpu, &mut set));
            libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
        };
        match result {
            0 => Ok(()),
            _ => Err(Error::Host {
                what: "bind a load thread to its CPUs",
                source: io::Error::last_os_error(),
            }),
        }
    }
}

/// Returns the CPUs that this process may use.
fn allowed() -> io::Result<Vec<usize>> {
    // SAFETY: the kernel writes at most the set, and each bit that is read lies within it.
    unsafe {
        let mut set: CpuSet = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) != 0 {
            return Err(io::Error::last_os_error());
        }
        let most = libc::CPU_SETSIZE as usize;
        Ok((0..most).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect())
    }
}

/// Parses a list in the kernel's format, such as `0-3,8`.
fn parse(text: &str) -> Vec<usize> {
    let ranges = text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_of_the_kernel_are_parsed() {
        assert_eq!(parse("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse("\n"), [0_usize; 0]);
    }

    #[test]
    fn threads_are_bound_in_turn() {
        let cpus = allowed().expect("Linux");
        let binding = Binding(cpus.iter().map(|cpu| vec![*cpu]).collect());
        for thread in 0..2 * cpus.len() {
            let bound = std::thread::scope(|scope| {
                let job = || binding.bind(thread).map(|()| allowed().expect("Linux"));
                scope.spawn(job).join().expect("no panic").expect("allowed")
            });
            assert_eq!(bound, [cpus[thread % cpus.len()]]);
        }
    }
}
