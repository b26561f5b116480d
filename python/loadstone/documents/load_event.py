"""Events of the load generator while a trial runs.

They have the kinds and fields of agents' messages (`hosts/messages.py`).
"""

from typing import Literal, TypedDict

from loadstone._loadgen import Table
from loadstone.documents.python_types import Live


class ReadyEvent(TypedDict):
    """The load is ready, and waits for its start."""

    kind: Literal["ready"]


class FiguresEvent(TypedDict):
    """Live figures, about twice a second, with rows of complete seconds, if any."""

    kind: Literal["figures"]
    rows: Table | None
    live: Live


class ActionsEvent(TypedDict):
    """Rows of a script's actions, of seconds that are complete."""

    kind: Literal["actions"]
    rows: Table


class LoggedRequestsEvent(TypedDict):
    """Single requests, if the trial logs them."""

    kind: Literal["loggedrequests"]
    rows: Table


class LedgerEvent(TypedDict):
    """Frames of the ledger; they are on disk before the listener returns."""

    kind: Literal["ledger"]
    frames: bytes


class HistoryEvent(TypedDict):
    """Calls of the history, in the form of its file."""

    kind: Literal["history"]
    calls: bytes


class TurnEvent(TypedDict):
    """This host's part of a script's turn has ended; the next begins with `Control.begin_turn`.

    `doubts` are the subjects in doubt that other hosts do not know of, four bytes each, or None for
    all.
    """

    kind: Literal["turn"]
    turn: int
    doubts: bytes | None


class IntentEvent(TypedDict):
    """Missing places, which are created when the listener returns; at most once."""

    kind: Literal["intent"]
    names: list[str]


class VolumeEvent(TypedDict):
    """The device or file system that places are claimed on, if `ownership.volumes` lacks it."""

    kind: Literal["volume"]
    volume: str


class UnmadeEvent(TypedDict):
    """Places of the intent that were certainly not created."""

    kind: Literal["unmade"]
    names: list[str]


class RetryEvent(TypedDict):
    """A request outside the measurement is retried after a temporary error."""

    kind: Literal["retry"]
    text: str


LoadEvent = (
    ReadyEvent
    | FiguresEvent
    | ActionsEvent
    | LoggedRequestsEvent
    | LedgerEvent
    | HistoryEvent
    | TurnEvent
    | IntentEvent
    | VolumeEvent
    | UnmadeEvent
    | RetryEvent
)
