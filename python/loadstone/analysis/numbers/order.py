"""Rates that change between rounds, or do not grow with the number of machines."""

import math
from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from loadstone.analysis.accounts.account import RATE, Account, Measurement, describe_case
from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.rules.rule import NumberRules

RULES = NumberRules()


ROUNDS_DIFFER = 1.25
SCALES_DOWN = 0.95
SCALED_BY = ("nodes", "osds", "OSDs", "hosts", "clients")


@RULES.caution(
    id="rounds-differ",
    short="rounds differ",
    says="rounds that lie far apart",
    means="The dataset's age or something outside changed the rate.",
    do="Repeat in interleaved blocks, and look at what differs between the rounds.",
)
def rounds_differ(account: Account) -> Iterator[Finding]:
    """Find cases whose rounds differ much: the system was not in the same state."""
    groups = grouped(account.of(RATE), lambda m: (m.target, m.case_over_rounds))
    pairs = [_extremes(cells) for cells in groups.values() if len({c.round for c in cells}) > 1]
    far = [pair for pair in pairs if abs(_log_change(*pair)) > math.log(ROUNDS_DIFFER)]
    if not far:
        return
    far.sort(key=lambda pair: -abs(_log_change(*pair)))
    first, last = far[0]
    falls = sum(_log_change(*pair) < 0 for pair in far)
    yield Finding(
        "rounds-differ",
        f"{len(far)} of {len(pairs)} cases change by a factor of more than {ROUNDS_DIFFER} from"
        f" the first round to the last ({falls} fall, {len(far) - falls} rise), most"
        f" {describe_case(first)}: {first.value:g} to {last.value:g}"
        f" ({last.value / first.value - 1:+.0%}); the rounds are no repetitions of one state",
        evidence=tuple(
            Evidence(
                "last round / first round",
                last.value / first.value,
                ROUNDS_DIFFER,
                place=f"{first.place}; {last.place}",
            )
            for first, last in far
        ),
        cases=tuple(describe_case(first) for first, _ in far),
    )


@RULES.caution(
    id="not-monotonic",
    short="not monotonic",
    says="more machines, less throughput",
    means="Contention, or chance.",
    do="Repeat the points that fall.",
)
def not_monotonic(account: Account) -> Iterator[Finding]:
    """Find cases that get slower with more machines."""
    for name in SCALED_BY:
        falling = list(_falling(account, name))
        if not falling:
            continue
        fewer, more = min(falling, key=lambda pair: pair[1].value / pair[0].value)
        yield Finding(
            "not-monotonic",
            f"{len(falling)} steps to more {name} make it slower, most"
            f" {describe_case(fewer, ('round',))}: {fewer.value:g} with"
            f" {fewer.parameters[name]}, {more.value:g} with {more.parameters[name]} {name}",
            evidence=tuple(
                Evidence(
                    f"rate with {more.parameters[name]} / {fewer.parameters[name]} {name}",
                    more.value / fewer.value,
                    SCALES_DOWN,
                    place=more.place,
                )
                for fewer, more in falling
            ),
            cases=tuple(describe_case(more) for _, more in falling),
        )


@RULES.note(
    id="rate-per-machine",
    says="how the rate of a machine changes as machines are added",
    means="Below 1, a shared resource limits (client, network, metadata), or "
    "the load is too small.",
    do="Add client hosts and requests in flight in step with machines.",
)
def rate_per_machine(account: Account) -> Iterator[Finding]:
    """Compare the rate per machine of the largest cluster with that of the smallest."""
    for name in SCALED_BY:
        by_target: dict[str, list[tuple[Measurement, Measurement, float]]] = {}
        for cells in _by_machines(account, name):
            fewest, most = cells[0], cells[-1]
            few, many = _machines(fewest, name), _machines(most, name)
            if few < many and fewest.value > 0:
                share = (most.value / many) / (fewest.value / few)
                by_target.setdefault(fewest.target, []).append((fewest, most, share))
        if not by_target:
            continue
        words = []
        for target, changes in by_target.items():
            shares = [share for _, _, share in changes]
            several = f" ({min(shares):.2f} to {max(shares):.2f})" if len(shares) > 1 else ""
            words.append(f"{target} {median(shares):.2f}{several} in {len(shares)} cases")
        yield Finding(
            "rate-per-machine",
            f"rate for each of the {name} with the most of them, over that with the fewest:"
            f" {'; '.join(words)}; 1 is a rate that grows as they do",
            evidence=tuple(
                Evidence(
                    f"rate per {name}, {most.parameters[name]} / {fewest.parameters[name]}",
                    share,
                    place=f"{fewest.place}; {most.place}",
                )
                for changes in by_target.values()
                for fewest, most, share in changes
            ),
            cases=tuple(
                describe_case(most) for changes in by_target.values() for _, most, _ in changes
            ),
        )


def _falling(account: Account, name: str) -> Iterator[tuple[Measurement, Measurement]]:
    for ordered in _by_machines(account, name):
        for fewer, more in pairwise(ordered):
            if more.value < SCALES_DOWN * fewer.value:
                yield fewer, more


def _machines(measurement: Measurement, name: str) -> float:
    return float(measurement.parameters[name] or 0)


def _by_machines(account: Account, name: str) -> Iterator[list[Measurement]]:
    """Yield groups of rates that differ only in the number of machines, in ascending order."""
    known = [m for m in account.of(RATE) if isinstance(m.parameters.get(name), int)]
    for cells in grouped(known, lambda m: (m.target, m.case_without(name))).values():
        yield sorted(cells, key=lambda cell: _machines(cell, name))


def _extremes(cells: list[Measurement]) -> tuple[Measurement, Measurement]:
    ordered = sorted(cells, key=lambda cell: cell.round)
    return ordered[0], ordered[-1]


def _log_change(first: Measurement, last: Measurement) -> float:
    return math.log(last.value / first.value)
