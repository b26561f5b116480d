"""What a report says beside its numbers, held against numbers: limits, labels, words."""

from collections.abc import Iterator
from itertools import pairwise

from loadstone.analysis.accounts.account import (
    Account,
    Statement,
)
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.published.rules.multiples import misses, multiple_in
from loadstone.published.rules.printed_units import in_common

SCALES = 0.8
ABOVE = 1.05
APART = 0.10


def limits_that_do_not_scale(account: Account) -> Iterator[Finding]:
    """Find limits stated "per bucket" and the like that more of them do not multiply."""
    groups: dict[tuple[str, str, str], list[Statement]] = {}
    for one in account.statements:
        _, unit = in_common(one.value, one.unit)
        groups.setdefault((one.quantity, unit, one.per), []).append(one)
    for (quantity, _, per), entries in groups.items():
        ordered = sorted(entries, key=lambda one: one.count)
        first, last = ordered[0], ordered[-1]
        if not per or first.count <= 0 or last.count <= first.count or first.value <= 0:
            continue
        more, brings = last.count / first.count, _over(last, first) or 0.0
        if SCALES * more <= brings <= more / SCALES:
            continue
        yield Finding(
            rule="limit-does-not-scale",
            statement=(
                f"{quantity} is stated per {per}: {first.value:g} {first.unit} with"
                f" {first.count:g}, but {last.value:g} {last.unit} with {last.count:g}, which is"
                f" {last.value / last.count:.3g} each:"
                f" {more:.3g} times as many bring {brings:.2f} times as much, so it is no limit per"
                f" {per} alone"
            ),
            evidence=(
                Evidence(
                    metric=f"rise / rise of {per}s",
                    value=brings / more,
                    threshold=SCALES,
                    place=f"{first.place}; {last.place}",
                ),
            ),
        )


def faster_than_beneath(account: Account) -> Iterator[Finding]:
    """Find layers stated to be faster than what they stand on: a cache, or several of it."""
    for one in account.statements:
        below = [
            other
            for other in account.statements
            if one.carried_by and other.quantity == one.carried_by
        ]
        passed = [other for other in below if (_over(one, other) or 0.0) > ABOVE]
        if not passed:
            continue
        told = " and ".join(f"{other.value:g} {other.unit} ({other.place})" for other in passed)
        yield Finding(
            rule="faster-than-beneath",
            statement=(
                f"{one.quantity}, {one.value:g} {one.unit}, is above the {one.carried_by} beneath"
                f" it, {told}: that takes several of them at once or a cache, and is no figure of"
                " the layer itself"
            ),
            evidence=tuple(
                Evidence(
                    metric=f"{one.quantity} / {one.carried_by}",
                    value=_over(one, other) or 0.0,
                    threshold=ABOVE,
                    place=f"{one.place}; {other.place}",
                )
                for other in passed
            ),
        )


def _over(one: Statement, other: Statement) -> float | None:
    """Return how often one quantity holds another; None where their units differ in kind."""
    (value, unit), (beneath, of) = (in_common(each.value, each.unit) for each in (one, other))
    return value / beneath if unit == of and beneath > 0 else None


def two_speeds(account: Account) -> Iterator[Finding]:
    """Find one device or link whose ceiling is given twice, with values that do not agree."""
    if account.run:
        # A run measures one ceiling several ways; what is stated of one thing is one number.
        return
    groups: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for one in account.ceilings:
        key = (one.name, one.bounds or "")
        groups.setdefault(key, []).append((one.bytes_per_s, one.text or one.place))
    for stated in account.statements:
        value, unit = in_common(stated.value, stated.unit)
        keys = [key for key in groups if key[0] == stated.quantity]
        # Of a device whose reads and writes stand apart, one figure is of either.
        if unit == "B/s" and len(keys) == 1 and not stated.per:
            text = f"{stated.value:g} {stated.unit} ({stated.place})"
            groups[keys[0]].append((value, text))
    for (name, _), found in groups.items():
        values = [value for value, _ in found]
        if len(found) < 2 or max(values) <= (1 + APART) * min(values):
            continue
        yield Finding(
            rule="contradicting-statements",
            statement=(
                f"{name} has several speeds: {' and '.join(text for _, text in found)},"
                f" {max(values) / min(values):.1f}× apart"
            ),
            evidence=tuple(
                Evidence(metric=name, value=value, unit="B/s", place=text) for value, text in found
            ),
        )


def ratios_in_words(account: Account) -> Iterator[Finding]:
    """Find ratios in words that their own numbers do not have: "almost thrice" that is 2.67."""
    for one in account.ratios:
        said, ratio = multiple_in(one.words), one.value / one.base if one.base else 0.0
        if not said or not ratio or not misses(one.words, said, ratio):
            continue
        yield Finding(
            rule="ratio-in-words",
            statement=(
                f'"{one.words}" ({one.place}) is {ratio:.2f}×, {ratio / said - 1:+.0%} from the'
                f" {said:g} that the words say ({one.value:g} over {one.base:g} {one.unit})"
            ),
            evidence=(
                Evidence(
                    metric="ratio of the numbers", value=ratio, threshold=said, place=one.place
                ),
            ),
        )


def threads_and_cores(account: Account) -> Iterator[Finding]:
    """Find labels such as "all threads available" on loads that cannot all be all of them."""
    all_of_them = sorted({one.threads for one in account.loads if one.share == "all"})
    wrong = [
        f"{one.threads} threads are said to be fewer than available ({one.place}), and"
        f" {all_of_them[0]} to be all"
        for one in account.loads
        if one.share == "fewer" and all_of_them and one.threads >= all_of_them[0]
    ]
    wrong += [
        f"{few} and {many} threads are both said to be all" for few, many in pairwise(all_of_them)
    ]
    known = {one.available for one in account.loads if one.available is not None}
    wrong += [
        f"{one.threads} threads are said to be {one.share} of {one.available} ({one.place})"
        for one in account.loads
        if one.available is not None
        and (
            (one.share == "all" and one.threads not in known)
            or (one.share == "fewer" and one.threads >= one.available)
        )
    ]
    if wrong:
        yield Finding(
            rule="threads-and-cores",
            statement=f"labels of threads contradict each other or the cores: {'; '.join(wrong)}",
            evidence=tuple(
                Evidence(metric="threads", value=float(one.threads), threshold=one.share,
                         place=one.place)
                for one in account.loads
            ),
        )  # fmt: skip


def unnamed_spread(account: Account) -> Iterator[Finding]:
    """Say where a ± stands whose meaning is not given: no interval can be made of it."""
    spreads = [one for one in account.measurements if one.spread is not None]
    if spreads and account.disclosure.spread is None:
        yield Finding(
            rule="unnamed-spread",
            statement=(
                f"{len(spreads)} numbers carry a ± without a definition: a standard deviation, a"
                " standard error and an interval differ by factors"
            ),
            evidence=(Evidence(metric="± without a meaning", value=len(spreads)),),
        )
