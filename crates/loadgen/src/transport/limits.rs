//! Checks whether this host allows the connections and files of a trial.

use crate::transport::parts::connections_of_a_client;
use crate::trial::Trial;

/// Descriptors that the load generator needs in addition to its connections.
const SPARE_DESCRIPTORS: u64 = 64;

/// Returns the mistakes of a trial that needs more connections than this host allows.
pub(crate) fn mistakes(trial: &Trial, places: usize) -> Vec<String> {
    let of_a_client = u64::from(connections_of_a_client(trial));
    let connections = u64::from(trial.load.clients()).saturating_mul(of_a_client);
    let mut mistakes = Vec::new();
    if let Some((_, hard)) = descriptors()
        && connections + SPARE_DESCRIPTORS > hard
    {
        mistakes.push(format!(
            "load: found {connections} connections, allowed: {} (this process may open {hard} \
                 files; see ulimit -Hn)",
            hard.saturating_sub(SPARE_DESCRIPTORS)
        ));
    }
    let ports = ports();
    let connections_of_a_place = connections.div_ceil(places.max(1) as u64);
    if connections_of_a_place > ports {
        mistakes.push(format!(
            "load: found {connections_of_a_place} connections to one endpoint, allowed: {ports} (the \
             local ports of this host; see net.ipv4.ip_local_port_range)"
        ));
    }
    mistakes
}

/// Returns the mistake of a trial whose clients need more files than this process may open.
pub(crate) fn file_mistake(trial: &Trial, files_of_a_client: u64) -> Option<String> {
    let clients = u64::from(trial.load.clients());
    let (_, hard) = descriptors()?;
    let allowed = hard.saturating_sub(SPARE_DESCRIPTORS) / files_of_a_client;
    (clients > allowed).then(|| {
        format!(
            "load: found {clients} clients, allowed: {allowed} (each may have {files_of_a_client} \
             files open, and this process {hard}; see ulimit -Hn)"
        )
    })
}

/// Raises the limit of open files to the maximum that this process may have.
pub(crate) fn raise_descriptors() {
    let Some((soft, hard)) = descriptors() else { return };
    if soft < hard {
        let limit = libc::rlimit { rlim_cur: hard, rlim_max: hard };
        // Errors are ignored: if descriptors run out, requests will report that. SAFETY: the kernel
        // reads one struct that we own.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }
}

/// Returns the current and the maximum limit of open files.
fn descriptors() -> Option<(u64, u64)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one struct that we own.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (result == 0).then_some((limit.rlim_cur, limit.rlim_max))
}

/// Returns how many local ports are available for connections to one address.
fn ports() -> u64 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let range: Vec<u64> = text
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    match range[..] {
        [first, last] if last >= first => last - first + 1,
        _ => 28_232,
    }
}
