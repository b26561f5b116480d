//! Why a file or device may not be written to, for people and for programs.

use super::mark::Ends;
use crate::error::{Error, Kind};
use crate::ownership::LeftKind;

/// Why a place may not be written to, and what the user can do.
pub(super) struct Refusal {
    pub(super) left: LeftKind,
    pub(super) why: String,
    kind: Kind,
    hint: String,
}

impl Refusal {
    pub(super) fn new(left: LeftKind, why: impl Into<String>, hint: impl Into<String>) -> Self {
        let kind = match left {
            LeftKind::OtherRun => Kind::OfAnotherRun,
            _ => Kind::NotOurs,
        };
        Self { left, why: why.into(), kind, hint: hint.into() }
    }

    /// Sets the kind of the error, if it does not follow from the owner of the place.
    pub(super) fn of(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// Creates the error for a refused target.
    pub(super) fn into_error(self, action: String) -> Error {
        Error::target(action, self.why).of(self.kind).with_hint(self.hint)
    }
}

/// Returns the refusal of a place that is not ours.
pub(super) fn stranger(ends: Ends) -> Refusal {
    match ends {
        Ends::Marked { run } | Ends::Growing { run } => Refusal::new(
            LeftKind::OtherRun,
            format!("it belongs to run {run}"),
            format!(
                "free it with `loadstone clean` and that run's folder, name the run with `--reuse \
                 {run}` to go on with its data, or name another path"
            ),
        ),
        Ends::Broken { run } => Refusal::new(
            LeftKind::OtherObjects,
            format!("run {run} marked it, and since then somebody wrote to it or resized it"),
            "check what is on it; if it can go, erase it, or pass --allow-foreign for this \
             target",
        ),
        Ends::Copied { run } => Refusal::new(
            LeftKind::OtherObjects,
            format!(
                "run {run} marked a file or device with another identity: this is a copy of it, or \
                 its inode or serial number has changed"
            ),
            "check what is on it; if it can go, erase its first and last MiB, or pass \
             --allow-foreign for this target",
        )
        .of(Kind::Copied),
        Ends::Old => Refusal::new(
            LeftKind::Foreign,
            "an earlier version marked it, and that mark shows neither copies nor later writes",
            "check what is on it; if it can go, delete it or erase its first 4096 bytes, or \
             pass --allow-foreign for this target",
        ),
        Ends::Blank | Ends::Other => Refusal::new(
            LeftKind::Foreign,
            "it is there, and loadstone did not mark it",
            "all that it holds would be overwritten; name another path, or pass --allow-foreign \
             for this target",
        ),
    }
}
