"""Messages of controller and agents, with a class for each.

The name of a message is its class's name in small letters. Tables are sent as bytes, documents as
JSON text. Received messages are checked here, once: the controller accepts those in `FromAgent`, an
agent those in `FromController`.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, cast, get_args

from pydantic import Field, PlainValidator, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from loadstone import _loadgen
from loadstone._loadgen import Table
from loadstone.documents.load_event import LoadEvent
from loadstone.documents.manifest import HostCard, HostFacts, JoinedHost, KeptCalibration
from loadstone.documents.mistake import first_mistake
from loadstone.documents.python_types import Live
from loadstone.documents.summary import Summary
from loadstone.errors import Kind, TargetError
from loadstone.results.files.ledger_file import check_frames

RUN_OVER = "the run is over"
"""The reason with which agents leave at the end of a run."""

STATES = ("finished", "stopped", "interrupted")
"""The states of a trial, from best to worst."""


class Secrets(TypedDict):
    """Secrets that a trial refers to, by environment variable and by file path."""

    variables: dict[str, str]
    files: dict[str, str]


NUMBER_MAX = 1 << 62
"""Numbers below this limit can be added without overflow of table and message types."""

Number = Annotated[int, Field(ge=0, lt=NUMBER_MAX)]


def _table_of(schema: _loadgen.Schema, *numbers: str) -> PlainValidator:
    """Return the validator of a table; its columns `numbers` must have a value in each row."""

    def read(value: object) -> Table:
        if not isinstance(value, bytes):
            raise ValueError("found no table")
        table = Table.unpack(value)
        if table.schema != schema:
            raise ValueError("found a table with other columns")
        for name in numbers:
            column = table[name]
            if not all(value is not None and 0 <= value < NUMBER_MAX for value in column):
                raise ValueError(f"found a row without a number in {name}")
        return table

    return PlainValidator(read)


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Return the validator of a type, created on first use, because an agent needs only a few."""
    return TypeAdapter(kind)


def _document_of(kind: type) -> PlainValidator:
    def read(value: object) -> Any:
        if not isinstance(value, str):
            raise ValueError("found no JSON text")
        try:
            document = json.loads(value)
        except RecursionError as error:
            raise ValueError("found JSON that is nested too deeply") from error
        # The document is kept as received: validation would turn integers into floats.
        _adapter(kind).validate_python(document, strict=True)
        return _whole(document) if kind is Summary else document

    return PlainValidator(read)


def _frames(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("found no frames")
    check_frames(value)
    return value


def _calls(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("found no calls")
    _loadgen.on_clock(value, 0, 0)
    return value


def _whole(summary: Summary) -> Summary:
    """Refuse a summary without the keys that every load generator sends."""
    needed = {"state", "ended_unix_ns", "requests", "failed", "bytes"}
    missing = needed.difference(key for key, value in summary.items() if value is not None)
    times = {"iteration", "start_ns", "measure_start_ns", "measure_end_ns", "end_ns"}
    for entry in summary.get("iterations") or ():
        missing |= times - entry.keys()
    if missing:
        raise ValueError(f"found a summary without {', '.join(sorted(missing))}")
    if summary["state"] not in STATES:
        raise ValueError(f'found the state "{summary["state"]}"')
    return summary


IntervalRows = Annotated[Table, _table_of(_loadgen.INTERVALS, "second", "requests", "bytes")]
ProbeRows = Annotated[Table, _table_of(_loadgen.PROBES, "time_unix_ns")]
ActionRows = Annotated[Table, _table_of(_loadgen.ACTIONS)]
RequestRows = Annotated[Table, _table_of(_loadgen.REQUESTS)]
HistoryCalls = Annotated[bytes, PlainValidator(_calls)]
LedgerFrames = Annotated[bytes, PlainValidator(_frames)]
LiveText = Annotated[Live, _document_of(Live)]
SummaryText = Annotated[Summary, _document_of(Summary)]
ReasonsText = Annotated[dict[str, str], _document_of(dict[str, str])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Facts about a host, and its free resources, sent by its agent when it joins."""

    loadstone: str
    build: str
    python: str
    cores: int
    memory_bytes: int | None
    network: Annotated[dict[str, HostCard], _document_of(dict[str, HostCard])]
    descriptors: int
    ports: int
    rss_bytes: int
    calibration: Annotated[KeptCalibration, _document_of(KeptCalibration)]
    fingerprint: Annotated[HostFacts, _document_of(HostFacts)]

    def document(self, name: str) -> JoinedHost:
        """Return the facts for the manifest, under the host's name."""
        return cast(JoinedHost, {"name": name, **_values_of(self)})


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """Heartbeat of an agent that had nothing else to send."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialMessage:
    """Base of messages about one attempt at a trial; messages of other attempts are ignored."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(TrialMessage):
    """The load is prepared and waits for its start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures(TrialMessage):
    """Progress of a share, with the rows of seconds completed since the last message."""

    rows: IntervalRows | None
    live: LiveText


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes(TrialMessage):
    """Readings of a host's probes, with times of its own clock."""

    rows: ProbeRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Actions(TrialMessage):
    """Rows of a script's actions, for complete seconds."""

    rows: ActionRows


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedRequests(TrialMessage):
    """Rows of single requests."""

    rows: RequestRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger(TrialMessage):
    """Frames of the ledger of a host's share."""

    frames: LedgerFrames


@dataclass(frozen=True, slots=True, kw_only=True)
class CallHistory(TrialMessage):
    """Calls of the history of a host's share, by its own clock."""

    calls: HistoryCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn(TrialMessage):
    """A host's part of a script's turn has ended; `doubts` as in `run_trial`."""

    turn: int
    doubts: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Want(TrialMessage):
    """A host requests a file of the trial from an offset."""

    sha256: str
    offset: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent(TrialMessage):
    """Places that a host creates once the controller has recorded them."""

    names: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume(TrialMessage):
    """The device or file system on which a host claims places."""

    volume: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmade(TrialMessage):
    """Places of an intent that the target refused to create."""

    names: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(TrialMessage):
    """A request outside the measurement is retried after a temporary error."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class News(TrialMessage):
    """A host waits before its load; the text gives the reason."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class End(TrialMessage):
    """A share has ended; `left` is the reason if the controller did not request it."""

    summary: SummaryText
    left: str | None
    clock_step_ns: int
    """Steps of the host's clock during the load."""
    absent_probes: ReasonsText


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(TrialMessage):
    """A share could not begin, or failed; `left` is as in `End`."""

    error: str
    hint: str | None
    kind: Kind
    left: str | None

    @classmethod
    def of(cls, error: TargetError, *, attempt: int, left: str | None) -> "Failed":
        return cls(
            error=error.message, hint=error.hint, kind=error.kind, attempt=attempt, left=left
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """A host's time since 1970, in response to ReadClock."""

    question: int
    host_ns: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """The first message to an admitted host, with the controller's time since 1970."""

    unix_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadClock:
    """Requests a host's time."""

    question: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial(TrialMessage):
    """A host's share of a trial, as the text of its document, to be prepared."""

    trial: str
    secrets: Annotated[Secrets, _document_of(Secrets)] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Go:
    """The load starts at this time of the host's clock."""

    at_unix_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePiece(TrialMessage):
    """A piece of a requested file, and the size of the whole file."""

    sha256: str
    offset: int
    size: int
    piece: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin(TrialMessage):
    """A turn of a script begins, as `Control.begin_turn` takes it."""

    turn: int
    doubts: bytes | None
    lost: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """The run folder has recorded the places of an intent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopLoad:
    """Stop the load and send the results so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """Heartbeat of the controller, which renews the lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """The run is over for this host; `reason` says why."""

    reason: str


FromAgent = (
    Hello
    | Alive
    | Ready
    | Figures
    | Probes
    | Actions
    | LoggedRequests
    | Ledger
    | CallHistory
    | Turn
    | Want
    | Intent
    | Volume
    | Unmade
    | Retry
    | News
    | End
    | Failed
    | ClockReading
)
FromController = (
    Welcome | ReadClock | Trial | Go | FilePiece | Begin | Noted | StopLoad | Renew | Leave
)


def word(kind: type[FromAgent | FromController]) -> str:
    """Return the message name of a class."""
    return kind.__name__.lower()


def body(message: FromAgent | FromController) -> dict[str, object]:
    """Return a message's body for sending."""
    return {name: _sent(value) for name, value in _values_of(message).items()}


def _values_of(message: FromAgent | FromController) -> dict[str, Any]:
    return {field.name: getattr(message, field.name) for field in fields(message)}


def _sent(value: Any) -> object:
    if isinstance(value, Table):
        return value.pack()
    return json.dumps(value) if isinstance(value, dict) else value


_FROM_AGENT = {word(kind): kind for kind in get_args(FromAgent)}
_OF_LOAD = {**_FROM_AGENT, "history": CallHistory}
_FROM_CONTROLLER = {word(kind): kind for kind in get_args(FromController)}


def of_load(event: LoadEvent, attempt: int) -> FromAgent:
    """Return the message that forwards an event of the load generator."""
    values = {name: value for name, value in event.items() if name != "kind"}
    message: FromAgent = _OF_LOAD[event["kind"]](attempt=attempt, **values)
    return message


def attempt_of(body: Mapping[str, object]) -> int | None:
    """Return the attempt that an unparsed message belongs to, or None."""
    attempt = body.get("attempt")
    return attempt if isinstance(attempt, int) else None


def build_of(body: Mapping[str, object]) -> str | None:
    """Return the build in a hello of any version, if it has one."""
    build = body.get("build")
    return build if isinstance(build, str) else None


def hosts_in(message: FromAgent) -> set[str | None]:
    """Return the hosts named in the rows of a message."""
    match message:
        case Figures(rows=Table() as rows) | Actions(rows=rows):
            return set(rows["agent"])
        case Probes(rows=rows):
            return set(rows["host"])
        case LoggedRequests(rows=rows):
            # A host has many rows, so each distinct name is checked once.
            return set(rows.coded("agent")[1])
    return set()


def read(word: str, body: object) -> FromAgent:
    """Parse a host's message; ValueError if it is not valid."""
    message: FromAgent = _read(_FROM_AGENT, word, body)
    return message


def read_asked(word: str, body: object) -> FromController:
    """Parse a message of the controller; ValueError if it is not valid."""
    asked: FromController = _read(_FROM_CONTROLLER, word, body)
    return asked


def _read(kinds: Mapping[str, Any], word: str, body: object) -> Any:
    if word not in kinds:
        raise ValueError(f'"{word[:40]}" is not a message')
    try:
        return _adapter(kinds[word]).validate_python(body)
    except ValidationError as error:
        raise ValueError(first_mistake(error, word)) from error


def with_send_hint(hint: str | None) -> str:
    """Return the hint for a host without a secret, extended by the option to send it."""
    send = "have the controller look it up and send it: hosts.secrets: send"
    return f"{hint}; or {send}" if hint else send
