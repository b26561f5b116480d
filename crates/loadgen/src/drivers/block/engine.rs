//! How blocks are requested from the kernel: through an io_uring, or by calls that block a thread.

use super::place::Place;
use crate::error::{Error, Kind};
use crate::settings;
use crate::transport::ring::Ring;
use crate::trial::Trial;

/// Maximum number of clients that get their own threads when requests are served from the page
/// cache.
const CACHED_THREADS_MAX: u32 = 128;

/// Decides whether clients block threads, and returns the reason if the host dictates it.
///
/// Requests that the page cache serves return at once, and a ring costs twice as much as the call
/// itself; beyond some number of clients, threads cost more than they save. When a device serves
/// requests, a ring costs less than a blocking call even for a single client.
pub(super) fn choose(trial: &Trial, place: &Place) -> Result<(bool, Option<String>), Error> {
    let engine = settings::text(&trial.target.settings, "engine").unwrap_or("auto");
    if engine == "psync" || place.file().is_none() {
        return Ok((true, None));
    }
    if place.only_discards() {
        if engine == "auto" {
            return Ok((true, None));
        }
        return Err(Error::target(
            format!("delete on target \"{}\" with io_uring", trial.target.name),
            "this device can only discard (BLKDISCARD), which is a call that blocks",
        )
        .of(Kind::Unsupported)
        .with_hint("choose engine auto or psync"));
    }
    match Ring::refusal() {
        Some(error) if engine == "io_uring" => Err(Error::target(
            format!("make an io_uring for target \"{}\"", trial.target.name),
            error.to_string(),
        )
        .of(Kind::Unsupported)
        .with_hint("choose engine psync, or allow io_uring_setup to this process")),
        Some(error) => Ok((true, Some(error.to_string()))),
        None => {
            let clients = trial.load.clients();
            let is_cached = !place.is_direct() && clients <= CACHED_THREADS_MAX;
            Ok((engine == "auto" && is_cached, None))
        }
    }
}
