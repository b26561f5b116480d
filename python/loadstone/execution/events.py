"""Events of a run, as they happen: the runner emits them, and a view shows them."""

from collections.abc import Sequence
from dataclasses import dataclass

from loadstone.campaign.planning.trial import PlannedTrial
from loadstone.documents.card import Card
from loadstone.documents.ceiling import CeilingDocument, CeilingMeasurement
from loadstone.documents.python_types import Live
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.results.hook_log import HookEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlanned:
    """The trials of the schedule's next start have been planned."""

    trials: Sequence[PlannedTrial]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialStarted:
    """A trial begins; `number` counts the trials of this session from 1."""

    document: TrialDocument
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialProgress:
    """Progress of a trial, about twice a second, with the figures of the load generator."""

    document: TrialDocument
    live: Live


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNews:
    """News about client hosts during a trial: one was lost, or the trial waits for one."""

    document: TrialDocument
    text: str
    is_problem: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRetried:
    """A request outside the measurement is retried after a temporary error."""

    document: TrialDocument
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialEnded:
    """A trial has ended and its record is on disk."""

    document: TrialDocument
    summary: Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialFailed:
    """A trial could not begin because its target was unusable."""

    document: TrialDocument
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSkipped:
    """A trial was skipped because its target had failed before."""

    document: TrialDocument
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """The run pauses, with `seconds` left; emitted several times a second."""

    seconds: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingStarted:
    """The measurement of a ceiling begins."""

    document: CeilingDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingProgress:
    """Progress of a ceiling, several times a second: its step, and the share of all steps."""

    document: CeilingDocument
    step: str
    elapsed_s: float
    progress: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingEnded:
    """A ceiling was measured, and its record is on disk."""

    document: CeilingDocument
    measurements: Sequence[CeilingMeasurement]


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingFailed:
    """A ceiling could not be measured; the trials continue without it."""

    document: CeilingDocument
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardStarted:
    """The measurement of a target's card begins."""

    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CardMade:
    """The card of a target is complete, and stored in the manifest."""

    card: Card


@dataclass(frozen=True, slots=True, kw_only=True)
class CardFailed:
    """The card of a target failed; the trials continue without it."""

    target: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEnded:
    """A command of the campaign has ended; `entry` is its line in the log of hooks."""

    entry: HookEntry


Event = (
    StartPlanned
    | TrialStarted
    | TrialProgress
    | HostNews
    | RequestRetried
    | TrialEnded
    | TrialFailed
    | TrialSkipped
    | Resting
    | CeilingStarted
    | CeilingProgress
    | CeilingEnded
    | CeilingFailed
    | CardStarted
    | CardMade
    | CardFailed
    | HookEnded
)
