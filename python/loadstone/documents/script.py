"""Where a script came from, as its file and a run's manifest say it."""

from typing_extensions import TypedDict


class ScriptOrigin(TypedDict):
    """What a trace was, what of it is in the script, and what is not.

    `rows_read` are its requests: `actions` of them became actions, the others are in `left_out` by
    reason, or `malformed`, of which `malformed_examples` say where the first of them stand.
    """

    format: str
    files: list[str]
    rows_read: int
    actions: int
    span_ns: int
    left_out: dict[str, int]
    malformed: int
    malformed_examples: list[str]
    sessions_by: str
    sessions: int
    size_bytes: int | None
    is_anonymous: bool
    has_times: bool


def rows_kept(origin: ScriptOrigin) -> int:
    """Return how many rows are in the script; one row may be in several copies of a sequence."""
    return origin["rows_read"] - sum(origin["left_out"].values()) - origin["malformed"]
