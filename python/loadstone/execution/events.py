"""What happens during a run, told as it happens: the runner says it, a view shows it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadstone.campaign.planning.trial import PlannedTrial


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlanned:
    """The next start of the schedule has its trials."""

    trials: Sequence[PlannedTrial]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """A trial begins; `number` counts from 1 the trials of this session."""

    document: dict[str, Any]
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialProgress:
    """How the trial stands, about twice a second; `live` is the load generator's."""

    document: dict[str, Any]
    live: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    """A trial has ended and its record is on disk."""

    document: dict[str, Any]
    summary: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFailed:
    """A trial could not begin, because its target could not be used."""

    document: dict[str, Any]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSkipped:
    """A trial was not tried, because its target had failed before."""

    document: dict[str, Any]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """The run waits; `seconds` are left. Said several times a second."""

    seconds: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingStarted:
    """A ceiling begins to be measured."""

    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingProgress:
    """How it stands, several times a second: which step, and the share of all steps."""

    document: Mapping[str, Any]
    step: str
    elapsed_s: float
    progress: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingEnded:
    """A ceiling was measured, and its record is on disk."""

    document: Mapping[str, Any]
    measurements: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingFailed:
    """A ceiling could not be measured; the trials go on without it."""

    document: Mapping[str, Any]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEnded:
    """A command of the campaign's own was run; `entry` is its line in the log of hooks."""

    entry: Mapping[str, Any]


Event = (
    StartPlanned
    | TrialStarted
    | TrialProgress
    | TrialEnded
    | TrialFailed
    | TrialSkipped
    | Resting
    | CeilingStarted
    | CeilingProgress
    | CeilingEnded
    | CeilingFailed
    | HookEnded
)
