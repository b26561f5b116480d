"""The actions of scripts: one row per action and case, over all trials.

Actions are counted beside their requests. They have two rates: that of all clients by wall time,
and that of a client that does nothing else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from loadstone.analysis.cells.cell import Cell, in_order
from loadstone.analysis.cells.summary import summarise_totals
from loadstone.analysis.grouping import grouped
from loadstone.analysis.measured.part import SECOND_NS, Encoded, Part, read_parts
from loadstone.analysis.measured.rows import Column, Rows, values_of
from loadstone.analysis.statistics.latency import Latency, latency, merge
from loadstone.analysis.statistics.mean import Mean
from loadstone.results.record import Record

if TYPE_CHECKING:
    from loadstone.analysis.judgements.result import Result

OUT_OF_LINE = ("CREATE_USER", "AUDIT")
"""Actions of sessions that run before all others, and after them."""

ALL = "ALL"
"""The name for all actions of all users, or of one type, except their creation and audits."""

CRYPTOGRAPHY = ("encryption", "wrapping", "hashing", "paths")
"""The client's own work in an action, not the store's: columns of its histograms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPart(Part):
    """One action in one iteration of one trial.

    `cryptography` are histograms of the time that good actions spent, by kind. `span_ns` lasts from
    the start of the first good action to the end of the last, `turn_ns` likewise for all actions of
    its turn: making users, an audit, or the rest. All are None in records without them.
    """

    cryptography: Mapping[str, Encoded | None]
    span_ns: int | None
    turn_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionCell:
    """One action of one case in one round; `cell` counts actions instead of requests.

    The rates of `cell` are over the time of its turn, since nothing else runs while users are made
    or audited (`OUT_OF_LINE`); in records without times of turns, over the measured time.
    `cell.objects` are the requests of good actions. `cryptography` are times of the good actions
    that spent any, by kind. `space` and `user_type` narrow down the actions.
    """

    action: str
    space: str | None
    user_type: str | None
    cell: "Result"
    span_s: float | None
    cryptography: Mapping[str, Latency | None]

    @property
    def completed(self) -> Mean | None:
        """Good actions of all clients per second of wall time, as the mean of the trials.

        None for `OUT_OF_LINE` in records without its time.
        """
        is_known = self.action not in OUT_OF_LINE or self.span_s
        return self.cell.rate if is_known else None

    @property
    def completed_per_s(self) -> float | None:
        """The value of that mean."""
        return self.completed.value if self.completed is not None else None

    @property
    def crypto_share(self) -> float | None:
        """The share of the client's cryptography in the time of good actions.

        None if it was not recorded.
        """
        service = self.cell.service
        if self.span_s is None or service is None:
            return None
        return sum(map(_total_ns, self.cryptography.values())) / _total_ns(service)

    @property
    def busy_per_s(self) -> float | None:
        """The rate of a client that does only this action."""
        service = self.cell.service
        return 1e9 / service.mean_ns if service is not None and service.mean_ns else None

    @property
    def requests_per_action(self) -> float | None:
        return self.cell.objects / self.cell.good if self.cell.good else None


def read_action_parts(record: Record) -> Iterable[ActionPart]:
    """Return the actions of each iteration of a trial; none without a script."""
    if record.actions_path is None:
        return
    yield from _parts(record, Rows(record.actions, {"operation": "action"}))


def read_group_parts(record: Record) -> Iterable[ActionPart]:
    """Return the actions by space and type of user, and those of each type; see `Group`.

    Empty if no action differs in them.
    """
    if record.actions_path is None:
        return
    rows = Rows(record.actions, {"operation": "action"})
    names = [rows[name].tolist() for name in ("operation", "space", "user_type")]
    groups = [Group(*values) for values in zip(*names, strict=True)]
    if len(set(groups)) > len({group.action for group in groups}) or any(
        g.user_type for g in groups
    ):
        yield from _parts(record, rows.labelled("operation", _texts(groups)))
    together = [
        Group(ALL, None, group.user_type) if group.action not in OUT_OF_LINE else None
        for group in groups
    ]
    if any(group is not None and group.user_type is not None for group in together):
        whole = rows.labelled("operation", _texts(together))
        yield from _parts(record, whole.pick(np.array([group is not None for group in together])))


def read_whole_parts(record: Record) -> Iterable[ActionPart]:
    """Return all actions together, without the making and the audit of users."""
    if record.actions_path is None:
        return
    rows = Rows(record.actions, {"operation": "action"})
    names = rows["operation"].tolist()
    whole = rows.labelled("operation", _texts([Group(ALL)] * len(names)))
    yield from _parts(record, whole.pick(np.array([name not in OUT_OF_LINE for name in names])))


class Group(NamedTuple):
    """Actions that are counted together, encoded in the name of one operation."""

    action: str
    space: str | None = None
    user_type: str | None = None

    @property
    def text(self) -> str:
        """The group as one text; its parts hold no tabs."""
        return "\t".join(value or "" for value in self)

    @classmethod
    def read(cls, text: str) -> "Group":
        """Return what a text holds; the name of an action is of all its spaces and types."""
        action, space, user_type = (*text.split("\t"), "", "")[:3]
        return cls(action, space or None, user_type or None)


def _texts(groups: Sequence[Group | None]) -> Column:
    texts = np.empty(len(groups), dtype=object)
    texts[:] = ["" if group is None else group.text for group in groups]
    return texts


def _parts(record: Record, rows: Rows) -> Iterable[ActionPart]:
    measured = rows.where("stage", "measure")
    turns = np.array([_turn(operation) for operation in measured["operation"].tolist()])
    good = measured.where("outcome", "ok")
    for part in read_parts(record, rows):
        good_rows = good.where("iteration", part.iteration).where("operation", part.operation)
        beside = measured.pick(turns == _turn(part.operation)).where("iteration", part.iteration)
        yield ActionPart(
            **{field.name: getattr(part, field.name) for field in fields(part)},
            cryptography={kind: _merged(values_of(good_rows, kind)) for kind in CRYPTOGRAPHY},
            span_ns=_span_ns(good_rows),
            turn_ns=_span_ns(beside),
        )


def _turn(operation: str) -> str:
    """Return the turn of an action: one of `OUT_OF_LINE`, or all else."""
    action = Group.read(operation).action
    return action if action in OUT_OF_LINE else ALL


def _merged(encoded: Iterable[bytes | None]) -> Encoded | None:
    histogram = merge(encoded)
    return None if histogram is None else histogram.pack()


def _span_ns(rows: Rows) -> int | None:
    """Return the time from the first start to the last end; None in old records."""
    if not len(rows) or not rows["ended_ns"].any():
        return None
    return int(rows["ended_ns"].max()) - int(rows["began_ns"].min())


def summarise_actions(
    parts: Sequence[ActionPart],
    targets: Sequence[str],
    *,
    by_round: bool,
    judge: Callable[[Cell], "Result"],
) -> tuple[ActionCell, ...]:
    """Return a row per action and case, by round or over all rounds.

    Actions before and after all others come last.
    """
    of_trial = grouped(parts, lambda part: (part.record.id, part.operation))
    summarised = in_order(summarise_totals(parts, {}, by_round=by_round), targets)
    places = {
        target: place for place, target in enumerate(dict.fromkeys(c.target for c in summarised))
    }
    cells = sorted(
        summarised,
        key=lambda cell: (places[cell.target], Group.read(cell.operation).action in OUT_OF_LINE),
    )
    return tuple(
        _action(
            cell, [part for trial in cell.trials for part in of_trial[trial, cell.operation]], judge
        )
        for cell in cells
    )


def _action(
    cell: Cell, parts: Sequence[ActionPart], judge: Callable[[Cell], "Result"]
) -> ActionCell:
    spans = [part.span_ns for part in parts if part.good]
    known = [span for span in spans if span is not None]
    span_s = sum(known) / SECOND_NS if known and len(known) == len(spans) else None
    group = Group.read(cell.operation)
    named = replace(cell, operation=group.action)
    return ActionCell(
        action=group.action,
        space=group.space,
        user_type=group.user_type,
        cell=judge(_by_turns(named, parts)),
        span_s=span_s,
        cryptography={
            kind: latency(merge(part.cryptography[kind] for part in parts)) for kind in CRYPTOGRAPHY
        },
    )


def _by_turns(cell: Cell, parts: Sequence[ActionPart]) -> Cell:
    """Return a cell with rates over the time of its turn, if all parts have it."""
    if not cell.good or any(part.turn_ns is None for part in parts if part.good):
        return cell
    turns_s: dict[str, float] = {}
    for part in parts:
        turns_s.setdefault(part.record.id, 0.0)
        turns_s[part.record.id] += (part.turn_ns or 0) / SECOND_NS
    rates = []
    for rate in cell.trial_rates:
        # Actions cut off by the window were not counted either.
        turn_s = min(turns_s[rate.trial], rate.duration_s)
        if turn_s:
            more = rate.duration_s / turn_s
            rates.append(
                replace(
                    rate,
                    requests_per_s=rate.requests_per_s * more,
                    bytes_per_s=rate.bytes_per_s * more,
                    duration_s=turn_s,
                )
            )
    return replace(
        cell,
        trial_rates=tuple(rates),
        # Seconds in which other turns ran do not count for this one.
        spread_of_seconds=None if cell.operation in OUT_OF_LINE else cell.spread_of_seconds,
    )


def _total_ns(times: Latency | None) -> float:
    return times.mean_ns * times.count if times is not None else 0.0
