"""What the load generator tells while a trial runs.

An event has the kind and the fields of the message by which an agent sends it on
(`hosts/messages.py`).
"""

from typing import Literal, TypedDict

from loadstone._loadgen import Table
from loadstone.documents.python_types import Live


class ReadyEvent(TypedDict):
    """All is there for the load, which waits for its start."""

    kind: Literal["ready"]


class FiguresEvent(TypedDict):
    """How the trial stands, about twice a second; rows of the seconds that are complete, if any."""

    kind: Literal["figures"]
    rows: Table | None
    live: Live


class ActionsEvent(TypedDict):
    """Rows of a script's actions, of seconds that are complete."""

    kind: Literal["actions"]
    rows: Table


class LoggedRequestsEvent(TypedDict):
    """Requests one by one, where the trial logs them."""

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
    """Places that are not there and are made as soon as the listener returns; at most once."""

    kind: Literal["intent"]
    names: list[str]


class VolumeEvent(TypedDict):
    """The device or file system that places are claimed on, if `ownership.volumes` lacks it."""

    kind: Literal["volume"]
    volume: str


class UnmadeEvent(TypedDict):
    """Places of the intent that are certainly not made."""

    kind: Literal["unmade"]
    names: list[str]


class RetryEvent(TypedDict):
    """A request outside the measurement is sent again after a temporary answer."""

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
