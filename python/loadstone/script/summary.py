"""Summarises a checked script in numbers."""

from array import array
from collections import Counter
from dataclasses import dataclass
from typing import Any

from loadstone.script.compiled import Checked
from loadstone.script.expansion import NONE, PUT


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSummary:
    """One kind of action: its number, and the requests and bytes that it makes.

    `user_type` is the type of its users, if the script has types.
    """

    action: str
    user_type: str | None
    actions: int
    requests: int
    bytes_put: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptSummary:
    """A whole script; `span_ns` is the time from its first action to its last."""

    actions: tuple[ActionSummary, ...]
    sessions: int
    first_sessions: int
    last_sessions: int
    longest_session: int
    users: int
    objects: int
    prepared: int
    prepared_bytes: int
    overwrites: int
    places: int
    lists: int
    lists_checked: int
    span_ns: int | None

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        counts = {name: getattr(self, name) for name in self.__slots__ if name != "actions"}
        kinds: dict[str, dict[str, int]] = {}
        types: dict[str, dict[str, int]] = {}
        for action in self.actions:
            sums = kinds.setdefault(action.action, {"actions": 0, "requests": 0, "bytes_put": 0})
            sums["actions"] += action.actions
            sums["requests"] += action.requests
            sums["bytes_put"] += action.bytes_put
            if action.user_type is not None:
                types.setdefault(action.user_type, {})[action.action] = action.actions
        return {"actions": kinds, "user_types": types, **counts}


def summarise(checked: Checked) -> ScriptSummary:
    """Count a script's actions, requests, objects and bytes."""
    requests, expected = checked.requests, checked.expected
    counts: Counter[int] = Counter()
    parts: Counter[int] = Counter(requests.action)
    put: Counter[int] = Counter()
    sessions = array("I", bytes(4 * max(1, requests.sessions)))
    overwrites, first_ns, last_ns = 0, None, 0
    for at, action in enumerate(requests.action):
        if requests.is_last[at]:
            counts[action] += 1
            sessions[requests.session[at]] += 1
        if requests.operation[at] == PUT:
            put[action] += requests.size[at]
            overwrites += expected.version[at] > 1
        due_ns = requests.due_ns[at]
        if due_ns != NONE:
            first_ns = due_ns if first_ns is None else min(first_ns, due_ns)
            last_ns = max(last_ns, due_ns)
    # Before a run, counts per action and type of user suffice; only reports list spaces.
    shown: dict[tuple[str, str | None], list[int]] = {}
    for at, kind in enumerate(requests.kinds):
        shown.setdefault((kind.action, kind.user_type), []).append(at)
    return ScriptSummary(
        actions=tuple(
            ActionSummary(
                action=action,
                user_type=user_type,
                actions=sum(counts[at] for at in members),
                requests=sum(parts[at] for at in members),
                bytes_put=sum(put[at] for at in members),
            )
            for (action, user_type), members in shown.items()
        ),
        sessions=requests.sessions,
        first_sessions=requests.first_sessions,
        last_sessions=requests.last_sessions,
        longest_session=max(sessions),
        users=len(requests.users),
        objects=len(expected.objects),
        prepared=len(expected.prepared),
        prepared_bytes=sum(expected.prepared_sizes),
        overwrites=overwrites,
        places=checked.subjects.places_named,
        lists=expected.lists,
        lists_checked=expected.lists_checked,
        span_ns=None if first_ns is None else last_ns - first_ns,
    )
