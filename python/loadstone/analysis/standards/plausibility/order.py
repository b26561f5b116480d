"""Numbers that change with when they were taken, or not as more machines should make them."""

import math
from collections.abc import Iterator
from itertools import pairwise

from loadstone.analysis.accounts.account import RATE, Account, Measurement, describe_case, grouped
from loadstone.analysis.finding import Evidence, Finding

ROUNDS_DIFFER = 1.25
SCALES_DOWN = 0.95
SCALED_BY = ("nodes", "osds", "OSDs", "hosts", "clients")


def rounds_differ(account: Account) -> Iterator[Finding]:
    """Find cases whose rounds lie far apart: the system was not in the same state."""
    groups = grouped(
        account.of(RATE),
        lambda one: (
            one.target,
            one.workload,
            one.operation,
            tuple(sorted(one.parameters.items())),
        ),
    )
    pairs = [_extremes(cells) for cells in groups.values() if len({c.round for c in cells}) > 1]
    far = [pair for pair in pairs if abs(_log_change(*pair)) > math.log(ROUNDS_DIFFER)]
    if not far:
        return
    far.sort(key=lambda pair: -abs(_log_change(*pair)))
    first, last = far[0]
    falls = sum(_log_change(*pair) < 0 for pair in far)
    yield Finding(
        rule="rounds-differ",
        statement=(
            f"{len(far)} of {len(pairs)} cases change by a factor of more than {ROUNDS_DIFFER} from"
            f" the first round to the last ({falls} fall, {len(far) - falls} rise), most"
            f" {describe_case(first)}: {first.value:g} to {last.value:g}"
            f" ({last.value / first.value - 1:+.0%}); the rounds are no repetitions of one state"
        ),
        evidence=tuple(
            Evidence(
                metric="last round / first round",
                value=last.value / first.value,
                threshold=ROUNDS_DIFFER,
                place=f"{first.place}; {last.place}",
            )
            for first, last in far
        ),
        cases=tuple(describe_case(first) for first, _ in far),
    )


def not_monotonic(account: Account) -> Iterator[Finding]:
    """Find cases that get slower with more machines."""
    for name in SCALED_BY:
        falling = list(_falling(account, name))
        if not falling:
            continue
        fewer, more = min(falling, key=lambda pair: pair[1].value / pair[0].value)
        yield Finding(
            rule="not-monotonic",
            statement=(
                f"{len(falling)} steps to more {name} make it slower, most"
                f" {describe_case(fewer, ('round',))}: {fewer.value:g} with"
                f" {fewer.parameters[name]}, {more.value:g} with {more.parameters[name]} {name}"
            ),
            evidence=tuple(
                Evidence(
                    metric=f"rate with {more.parameters[name]} / {fewer.parameters[name]} {name}",
                    value=more.value / fewer.value,
                    threshold=SCALES_DOWN,
                    place=more.place,
                )
                for fewer, more in falling
            ),
            cases=tuple(describe_case(more) for _, more in falling),
        )


def _falling(account: Account, name: str) -> Iterator[tuple[Measurement, Measurement]]:
    known = [one for one in account.of(RATE) if isinstance(one.parameters.get(name), int)]
    groups = grouped(
        known,
        lambda one: (
            one.target,
            one.workload,
            one.operation,
            one.round,
            tuple(sorted((k, v) for k, v in one.parameters.items() if k != name)),
        ),
    )
    for cells in groups.values():
        ordered = sorted(cells, key=lambda one: float(one.parameters[name] or 0))
        for fewer, more in pairwise(ordered):
            if more.value < SCALES_DOWN * fewer.value:
                yield fewer, more


def _extremes(cells: list[Measurement]) -> tuple[Measurement, Measurement]:
    ordered = sorted(cells, key=lambda one: one.round)
    return ordered[0], ordered[-1]


def _log_change(first: Measurement, last: Measurement) -> float:
    return math.log(last.value / first.value)
