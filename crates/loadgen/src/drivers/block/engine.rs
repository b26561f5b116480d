//! How the kernel is asked for blocks: by an io_uring, or by calls that block a thread.

use super::place::Place;
use crate::error::{Error, Kind};
use crate::settings;
use crate::transport::ring::Ring;
use crate::trial::Trial;

/// The most clients that get threads of their own because the page cache answers them.
const CACHED_THREADS_MAX: u32 = 128;

/// Decides whether clients block threads, and why if the host decides it.
///
/// Where the page cache answers, calls return at once, and a ring costs twice as much as the call
/// itself; past some number threads cost more than they save. Where a device answers, a ring costs
/// even a single client less than a call that blocks.
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
