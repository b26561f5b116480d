"""Types of ceilings: planned ones, and their measurements."""

from collections.abc import Sequence
from typing import Required

from typing_extensions import TypedDict

from loadstone.documents.python_types import Number, Object, Whole


class CeilingStep(TypedDict, total=False):
    """One measurement: its commands run side by side and are added up."""

    name: str
    commands: list[list[str]]
    format: str | None
    """The format of the commands' output; None if nothing is measured."""
    bounds: str | None
    """The direction that it bounds: read, write, or as the program states."""
    parameters: Object
    expected_ns: Whole | None
    timeout_ns: Whole


class CeilingWork(TypedDict, total=False):
    """The steps of a ceiling, its server, and its clean-up."""

    steps: list[CeilingStep]
    server: list[str] | None
    query: list[str] | None
    clean_up: list[list[str]]


class CeilingDocument(CeilingWork, total=False):
    """A ceiling in its place in the plan."""

    format: Whole
    id: Required[str]
    run: str
    name: str
    kind: str
    moment: str
    before: str | None
    targets: list[str]
    count: Whole
    replication: dict[str, Number]
    via: list[str]
    job_file: str | None
    allow_write: list[str]


class CeilingMeasurement(TypedDict, total=False):
    """One direction of one step, as its program printed it; rates are of payload bytes."""

    name: str
    bounds: str
    parameters: Object
    bytes_per_s: Number
    bytes_per_s_min: Number | None
    bytes_per_s_max: Number | None
    bytes_per_second: list[Number]
    requests_per_s: Number | None
    service: str | None
    """Service times: a histogram as intervals have them, in base64."""
    tool: str | None
    tool_version: str | None
    commands: list[list[str]]
    outputs: list[str]
    started_unix_ns: Whole
    ended_unix_ns: Whole


class LeftBehind(TypedDict, total=False):
    """A command of a clean-up that failed."""

    command: list[str]
    why: str


FALLEN = 0.8
"""The share of the first third below which the rate of the last third has fallen."""


def sustained_share(seconds: Sequence[float]) -> float | None:
    """Return the mean of the last third of the seconds over that of all; None unless rates fell.

    A path or device with burst credit is fast until the credit is spent; the last seconds show the
    sustained rate.
    """
    third = len(seconds) // 3
    if not third or not sum(seconds):
        return None
    first, last = sum(seconds[:third]) / third, sum(seconds[-third:]) / third
    return last * len(seconds) / sum(seconds) if last < FALLEN * first else None
