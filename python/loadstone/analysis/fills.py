"""How full a store was: whether it was as full as it was to be, and what it does when fuller."""

import math
from collections.abc import Iterator
from typing import Any

from loadstone.analysis.accounts.account import RATE, Account, Measurement, describe_case, grouped
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.judgements.seen import Seen
from loadstone.analysis.measured.fill import BYTES, PERCENT, fill_of
from loadstone.analysis.naming import describe_parameter

MISSED = 0.02
"""A share of the store by which a level may be missed: what is measured takes room, too."""

DECLINES = 0.95


def find_missed(seen: Seen) -> Iterator[Finding]:
    """Report trials whose store was not as full as their level says; 0 is as it was found."""
    missed = []
    for record in seen.measured.values():
        level: Any = record.trial["case"]["parameters"].get(PERCENT)
        found = fill_of(record)
        is_asked = isinstance(level, (int, float)) and level > 0
        if is_asked and found is not None and abs(found - level / 100) > MISSED:
            missed.append((record.id, float(level) / 100, found))
    if missed:
        name, level, found = max(missed, key=lambda one: abs(one[1] - one[2]))
        yield Finding(
            rule="fill-missed",
            statement=f"the store was not as full as it was to be before {len(missed)} trials,"
            f" most before trial {name}: {found:.1%} where {level:.0%} was asked for",
            evidence=tuple(
                Evidence(metric="fill", value=found, threshold=level, place=f"trial {name}")
                for name, level, found in missed
            ),
            cases=tuple(f"trial {name}" for name, _, _ in missed),
        )


def declines(account: Account) -> Iterator[Finding]:
    """State what the fullest store did, over the emptiest, of each target."""
    for name in (PERCENT, BYTES):
        by_target: dict[str, list[tuple[Measurement, Measurement]]] = {}
        for cells in _by_level(account, name):
            if _level(cells[0], name) < _level(cells[-1], name) and cells[0].value > 0:
                by_target.setdefault(cells[0].target, []).append((cells[0], cells[-1]))
        for target, pairs in by_target.items():
            ratios = [last.value / first.value for first, last in pairs]
            first, last = min(pairs, key=lambda pair: pair[1].value / pair[0].value)
            ends = [describe_parameter(name, one.parameters[name]) for one in (first, last)]
            mean = math.exp(sum(math.log(one) for one in ratios if one) / len(ratios))
            least = min(ratios)
            several = f" ({least:.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
            yield Finding(
                rule="slower-when-fuller" if least < DECLINES else "fill-and-rate",
                statement=f"{target}, {ends[1]} over {ends[0]}: {mean:.2f} of the rate{several}"
                f" in {len(ratios)} cases, least {describe_case(last, (name, 'round'))}:"
                f" {first.value:g} to {last.value:g}",
                evidence=tuple(
                    Evidence(
                        metric=f"rate, {ends[1]} / {ends[0]}",
                        value=one.value / other.value,
                        threshold=DECLINES,
                        place=f"{other.place}; {one.place}",
                    )
                    for other, one in pairs
                ),
                cases=tuple(describe_case(one) for _, one in pairs),
            )


def _level(measurement: Measurement, name: str) -> float:
    return float(measurement.parameters[name] or 0)


def _by_level(account: Account, name: str) -> Iterator[list[Measurement]]:
    """Return the rates that differ in the level alone, the emptiest first."""
    known = [one for one in account.of(RATE) if isinstance(one.parameters.get(name), (int, float))]
    groups = grouped(
        known,
        lambda one: (
            one.target, one.workload, one.operation, one.round,
            tuple(sorted((k, v) for k, v in one.parameters.items() if k != name)),
        ),
    )  # fmt: skip
    for cells in groups.values():
        yield sorted(cells, key=lambda one: _level(one, name))
