"""Which ceiling of its own does each target touch? Results and ceilings of one run, in one unit."""

from collections.abc import Iterator, Sequence

from loadstone import units
from loadstone.analysis.accounts.account import (
    BYTE_RATE,
    Account,
    KnownCeiling,
    Measurement,
    describe_case,
    grouped,
)
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.limits.measured_ceilings import bounds_of
from loadstone.analysis.limits.observed import CEILING_PASSED, CEILING_TOUCHED


def bottlenecks(account: Account) -> Iterator[Finding]:
    """Hold the best result of each target in each direction against the ceilings it has."""
    directed = [one for one in account.of(BYTE_RATE) if bounds_of(one.operation)]
    groups = grouped(directed, lambda one: (one.target, bounds_of(one.operation)))
    for members in groups.values():
        target, bounds = members[0].target, bounds_of(members[0].operation)
        ceilings = [
            one
            for one in account.ceilings
            if one.bounds == bounds and (not one.targets or target in one.targets)
        ]
        if ceilings:
            yield _finding(members, ceilings, str(bounds))


def in_mebibytes(bytes_per_s: float) -> str:
    """Return a rate in MiB/s, however large: rates that are held together have one unit."""
    return f"{units.format_number(bytes_per_s / 2**20)} MiB/s"


def _finding(
    members: Sequence[Measurement], ceilings: Sequence[KnownCeiling], bounds: str
) -> Finding:
    means = {
        case: sum(one.value for one in own) / len(own)
        for case, own in grouped(members, lambda one: one.case).items()
    }
    top = max(members, key=lambda one: means[one.case])
    best = means[top.case]
    case = describe_case(top, leave_out=() if top.threads is not None else ("threads",))
    # A result above a ceiling was not held up by it: its data came from somewhere else.
    passed = [one for one in ceilings if best > CEILING_PASSED * one.limit]
    left = sorted((one for one in ceilings if one not in passed), key=lambda ceiling: ceiling.limit)
    lowest = left[0] if left else None
    reached = lowest is not None and best >= CEILING_TOUCHED * lowest.limit
    said = f"{case}: {in_mebibytes(best)}"
    words = [_sentence(said, best, lowest, bounds, top.target, reached=reached)]
    words += _others(left[1:])
    words += [f"passed, and so no limit here: {_listed(passed)}"] if passed else []
    words += _plateau(members, means, top)
    return Finding(
        rule="bottleneck",
        weight="caution" if reached and lowest and lowest.resource == "network" else "note",
        statement="; ".join(words),
        evidence=tuple(
            Evidence(
                metric=f"share of {one.name}",
                value=best / one.limit,
                threshold=CEILING_TOUCHED,
                place=one.place,
            )
            for one in sorted(ceilings, key=lambda ceiling: ceiling.limit)
        ),
        cases=(describe_case(top),),
    )


def _sentence(
    said: str, best: float, lowest: KnownCeiling | None, bounds: str, target: str, *, reached: bool
) -> str:
    if lowest is None:
        return f"no ceiling holds for {bounds}s of {target}: the best result is {said}"
    share = best / lowest.limit
    limit = _shown(lowest)
    if not reached:
        return (
            f"no ceiling is reached by {bounds}s of {target}: the best result, {said}, is"
            f" {share:.0%} of the lowest, {limit}"
        )
    what = {"network": "the network", "device": "the device"}.get(lowest.resource, "the store")
    return (
        f"{what} is the bottleneck for {bounds}s of {target}: the best result, {said}, is"
        f" {share:.0%} of what was measured of {limit}"
    )


def _shown(ceiling: KnownCeiling) -> str:
    limit = ceiling.limit
    times = f"{ceiling.count} × " if ceiling.count > 1 else ""
    words = [in_mebibytes(limit)]
    words += [units.format_bit_rate(8 * limit)] if ceiling.resource == "network" else []
    text = f"{times}{ceiling.name}, {' = '.join(words)}"
    if ceiling.low is None or ceiling.high is None:
        return text
    low, high = (in_mebibytes(value * ceiling.count) for value in
                 (ceiling.low, ceiling.high))  # fmt: skip
    return f"{text} (seen between {low} and {high})"


def _others(ceilings: Sequence[KnownCeiling]) -> list[str]:
    return [f"above that: {_listed(ceilings)}"] if ceilings else []


def _listed(ceilings: Sequence[KnownCeiling]) -> str:
    return ", ".join(f"{one.name} {in_mebibytes(one.limit)}" for one in ceilings)


def _plateau(
    members: Sequence[Measurement], means: dict[object, float], top: Measurement
) -> list[str]:
    """Say what the last step over threads has brought, in the sweep of the best result."""
    sweep = {
        one.threads: means[one.case]
        for one in members
        if one.threads is not None and _rest(one) == _rest(top)
    }
    if len(sweep) < 2:
        return []
    before, last = sorted(sweep)[-2:]
    change = sweep[last] / sweep[before] - 1
    return [f"from {before} to {last} threads it changes by {change:+.0%}"]


def _rest(one: Measurement) -> object:
    rest = {name: value for name, value in one.parameters.items() if name != "threads"}
    return (one.workload, one.operation, one.round, tuple(sorted(rest.items(), key=str)))
