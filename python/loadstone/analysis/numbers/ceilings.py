"""Plateaus at a limit other than the target's: a link, ports, a cache, a measured ceiling."""

from collections.abc import Iterator, Sequence

from loadstone import units
from loadstone.analysis.accounts.account import (
    BYTE_RATE,
    RATE,
    Account,
    Case,
    KnownCeiling,
    Measurement,
    describe_case,
)
from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.finding import Evidence, Finding
from loadstone.analysis.limits.measured_ceilings import bounds_of
from loadstone.analysis.limits.observed import CEILING_PASSED, CEILING_TOUCHED
from loadstone.analysis.naming import describe_size
from loadstone.analysis.rules.rule import NumberRules
from loadstone.analysis.statistics.mean import mean_of

RULES = NumberRules()


LINKS_GBIT = (1, 2.5, 10, 25, 40, 50, 100, 200, 400)
FRAME_BYTES = (1500, 9000)
TOUCHES = 0.90
ABOVE = 1.005
TIE = 0.015
PLATEAU = 0.04

CONNECTIONS_PER_S = 28_232 / 60
"""Linux: ports 32768 to 60999 over the 60 s that a closed connection keeps its port."""

SOCKETS_SHARE = 0.8
CACHE_BYTES = 32 * 2**20
"""A smaller working set fits into the last-level cache of any server's processor."""


def goodput_bits(link_gbit: float, frame_bytes: int) -> float:
    """Return the goodput of TCP over Ethernet: (MTU - 52) / (MTU + 38) of the line rate."""
    return link_gbit * 1e9 * (frame_bytes - 52) / (frame_bytes + 38)


@RULES.problem(
    id="link-ceiling",
    effect="bound",
    short="the network link was full",
    says="results just below the goodput of an Ethernet link",
    means="They are the link's numbers, not the target's.",
    do="Measure over a faster link, or with objects small enough not to fill it.",
)
def link_ceiling(account: Account) -> Iterator[Finding]:
    """Find four or more results just below the goodput of an Ethernet link.

    They must be of two targets, or of three values of a parameter, so that neither explains them.
    The finding is inferred if the client's link is not known.
    """
    groups = grouped(_with_bytes(account), lambda m: (m.workload, m.operation, m.size_bytes))
    for cells in groups.values():
        top = max(_bits(cell) for cell in cells)
        varied = _varied(cells)
        width = TIE if varied == "target" else PLATEAU
        crowd = [cell for cell in cells if _bits(cell) >= (1 - width) * top]
        link_and_frame = _nearest_link(top, account.client_links)
        if len(crowd) < 4 or link_and_frame is None or not _is_independent(crowd):
            continue
        link, frame = link_and_frame
        yield _link_finding(crowd, cells, link, frame, is_known=bool(account.client_links))


@RULES.problem(
    id="socket-limit",
    effect="bound",
    short="the client ran out of ports",
    says="sweeps of small requests that end where a client runs out of ports",
    means="The end of the sweep is the client's limit.",
    do="Keep connections open, or use several clients.",
)
def socket_ceiling(account: Account) -> Iterator[Finding]:
    """Find sweeps of small requests that end at the rate at which a client runs out of ports."""
    if account.disclosure.connections == "keep_alive":
        return
    for sweep in _sweeps(account):
        top = max(sweep, key=lambda m: m.value)
        share = top.value / CONNECTIONS_PER_S
        most_threads = max(measurement.threads or 0 for measurement in sweep)
        missing = [threads for threads in account.planned_threads if threads > most_threads]
        flat = sum(measurement.value >= 0.95 * top.value for measurement in sweep) >= 3
        if not SOCKETS_SHARE <= share <= 1.05 or not (missing or flat):
            continue
        stops = (
            f"; the sweep stops at {most_threads} threads, and"
            f" {len(missing)} planned loads above it were not measured"
            if missing
            else ""
        )
        yield Finding(
            "socket-limit",
            f"{describe_case(top, ('threads',))} ends at {top.value:g}/s, {share:.0%} of the"
            f" {CONNECTIONS_PER_S:.0f} new connections per second that one client has ports"
            f" for (28 232 ports, 60 s each){stops}: with a connection per request this is the"
            " client's sockets, not the target",
            evidence=(
                Evidence(
                    "requests per second",
                    top.value,
                    SOCKETS_SHARE * CONNECTIONS_PER_S,
                    unit="1/s",
                    place=top.place,
                ),
                Evidence("planned loads not measured", len(missing), 0),
            ),
            cases=(describe_case(top),),
            is_inferred=account.disclosure.connections is None,
        )


@RULES.note(
    id="bottleneck",
    says="which ceiling, measured apart, reads and writes touch",
    means="A result at a ceiling is that resource's number.",
    do="Raise that ceiling to learn what the target can do beyond it.",
)
def bottlenecks(account: Account) -> Iterator[Finding]:
    """Compare the best result of each target and direction with its ceilings."""
    groups = grouped(_with_bytes(account), lambda m: (m.target, bounds_of(m.operation)))
    for members in groups.values():
        target, bounds = members[0].target, bounds_of(members[0].operation)
        ceilings = [
            ceiling
            for ceiling in account.ceilings
            if ceiling.bounds in (None, bounds)
            and (not ceiling.targets or target in ceiling.targets)
        ]
        if bounds and ceilings:
            yield _finding(members, ceilings, bounds, is_published=not account.run)


@RULES.caution(
    id="working-set",
    short="dataset fits a CPU cache",
    says="reads of a dataset under 32 MiB, which fits a CPU cache",
    means="The reads may come from a cache.",
    do="Read a dataset larger than the target's memory.",
)
def working_set(account: Account) -> Iterator[Finding]:
    """Find reads of a dataset that fits into a processor's cache."""
    reads = [m for m in account.measurements if _reads(m)]
    for cells in grouped(reads, _by_size).values():
        size = _working_set_bytes(account, cells[0])
        if size is None or size > CACHE_BYTES:
            continue
        yield Finding(
            "working-set",
            f"{describe_case(cells[0], ('threads', 'round'))}: all objects together are"
            f" {units.format_bytes(size)} and fit into a CPU cache: the rate may be that of a"
            " cache, not of a disk or of memory",
            evidence=(
                Evidence(
                    "bytes of all objects",
                    float(size),
                    float(CACHE_BYTES),
                    unit="B",
                    place=cells[0].place,
                ),
            ),
            cases=(describe_case(cells[0], ("threads", "round")),),
        )


def _link_finding(
    crowd: Sequence[Measurement],
    cells: Sequence[Measurement],
    link: float,
    frame: int,
    *,
    is_known: bool,
) -> Finding:
    rates = [_bits(measurement) for measurement in crowd]
    top, limit = max(rates), goodput_bits(link, frame)
    targets = ", ".join(dict.fromkeys(measurement.target for measurement in crowd))
    size = crowd[0].size_bytes
    what = [crowd[0].workload, f"{crowd[0].operation} {describe_size(size) if size else ''}"]
    operations = ", ".join(word.strip() for word in what)
    is_tie = len({measurement.target for measurement in crowd}) > 1
    kind = "tie" if is_tie else "plateau"
    return Finding(
        "link-ceiling",
        f"{kind} at {units.format_bit_rate(top)} = {top / limit:.1%} of the goodput of one"
        f" {link:g} GbE link ({frame}-byte frames): {len(crowd)} of {len(cells)} numbers of"
        f" {operations} ({targets}) lie within {1 - min(rates) / top:.1%} of each other"
        f" whatever the {_varied_names(crowd)}; they measure the client's link",
        evidence=tuple(
            Evidence("share of the link's goodput", _bits(m) / limit, TOUCHES, place=m.place)
            for m in crowd
        ),
        cases=tuple(describe_case(measurement) for measurement in crowd),
        is_inferred=not is_known,
    )


def _with_bytes(account: Account) -> list[Measurement]:
    """Return the measurements with a data rate, one per trial."""
    printed = account.of(BYTE_RATE)
    if printed:
        return printed
    return [m for m in account.of(RATE) if m.size_bytes and m.operation != "delete"]


def _bits(measurement: Measurement) -> float:
    scale = 1 if measurement.metric == BYTE_RATE else measurement.size_bytes or 0
    return 8 * measurement.value * scale


def _varied(cells: Sequence[Measurement]) -> str:
    return "target" if len({cell.target for cell in cells}) > 1 else "parameters"


def _varied_names(crowd: Sequence[Measurement]) -> str:
    names = {name: {m.parameters.get(name) for m in crowd} for m in crowd for name in m.parameters}
    varied = [name for name, values in names.items() if len(values) > 1]
    varied += ["target"] if len({measurement.target for measurement in crowd}) > 1 else []
    return " and ".join(varied)


def _is_independent(crowd: Sequence[Measurement]) -> bool:
    if len({measurement.target for measurement in crowd}) >= 2:
        return True
    names = {name for measurement in crowd for name in measurement.parameters}
    return any(
        len({measurement.parameters.get(name) for measurement in crowd}) >= 3 for name in names
    )


def _nearest_link(top: float, known: Sequence[tuple[float, int]]) -> tuple[float, int] | None:
    """Return the link and frame size with the closest goodput above a rate.

    Candidates are the client's links, or all Ethernet links if those are not known.
    """
    choices = known or [(link, frame) for link in LINKS_GBIT for frame in FRAME_BYTES]
    fitting = [choice for choice in choices if TOUCHES <= top / goodput_bits(*choice) <= ABOVE]
    return max(fitting, key=lambda choice: top / goodput_bits(*choice), default=None)


def _by_size(measurement: Measurement) -> object:
    return (
        measurement.target, measurement.workload, measurement.operation, measurement.size_bytes,
    )  # fmt: skip


def _sweeps(account: Account) -> Iterator[list[Measurement]]:
    known = [m for m in account.of(RATE) if m.threads is not None]
    for cells in grouped(known, _by_size).values():
        if len({cell.threads for cell in cells}) >= 3:
            yield sorted(cells, key=lambda cell: cell.threads or 0)


def _working_set_bytes(account: Account, measurement: Measurement) -> int | None:
    objects = account.disclosure.dataset_objects
    if objects is not None and measurement.size_bytes is not None:
        return objects * measurement.size_bytes
    # A total over several sizes does not tell the size of each dataset.
    sizes = {other.size_bytes for other in account.measurements}
    return account.disclosure.dataset_bytes if len(sizes) == 1 else None


def _reads(measurement: Measurement) -> bool:
    word = measurement.operation.lower()
    return bounds_of(word) == "read" or word.startswith("download") or word.endswith("read")


def in_mebibytes(bytes_per_s: float) -> str:
    """Return a rate in MiB/s, however large, so that compared rates have one unit."""
    return f"{units.format_number(bytes_per_s / 2**20)} MiB/s"


def _finding(
    members: Sequence[Measurement],
    ceilings: Sequence[KnownCeiling],
    bounds: str,
    *,
    is_published: bool,
) -> Finding:
    means = {
        case: mean_of([_bits(measurement) / 8 for measurement in trials]).value
        for case, trials in grouped(members, lambda member: member.case).items()
    }
    top = max(members, key=lambda member: means[member.case])
    best = means[top.case]
    case = describe_case(top, leave_out=() if top.threads is not None else ("threads",))
    # A result above a ceiling was not limited by it: its data came from somewhere else.
    passed = [ceiling for ceiling in ceilings if best > CEILING_PASSED * ceiling.limit]
    left = sorted(
        (ceiling for ceiling in ceilings if ceiling not in passed),
        key=lambda ceiling: ceiling.limit,
    )
    lowest = left[0] if left else None
    reached = lowest is not None and best >= CEILING_TOUCHED * lowest.limit
    # Results at the limit of the client's link do not show the store.
    is_of_client = reached and lowest is not None and lowest.resource in ("network", "client")
    best_words = f"{case}: {in_mebibytes(best)}"
    words = [_sentence(best_words, best, lowest, bounds, top.target, reached=reached)]
    words += [f"above that: {_listed(left[1:])}"] if left[1:] else []
    words += [f"passed, and so no limit here: {_listed(passed)}"] if passed else []
    words += _plateau(members, means, top)
    return Finding(
        "bottleneck",
        weight="note" if not is_of_client else "problem" if is_published else "caution",
        statement="; ".join(words),
        evidence=tuple(
            Evidence(f"share of {c.name}", best / c.limit, CEILING_TOUCHED, place=c.place)
            for c in sorted(ceilings, key=lambda ceiling: ceiling.limit)
        ),
        cases=(describe_case(top),),
        is_inferred=any(ceiling.is_count_inferred for ceiling in left[:1]),
    )


def _sentence(
    best_words: str,
    best: float,
    lowest: KnownCeiling | None,
    bounds: str,
    target: str,
    *,
    reached: bool,
) -> str:
    if lowest is None:
        return f"no ceiling holds for {bounds}s of {target}: the best result is {best_words}"
    share = best / lowest.limit
    limit = _shown(lowest)
    if not reached:
        return (
            f"no ceiling is reached by {bounds}s of {target}: the best result, {best_words}, is"
            f" {share:.0%} of the lowest, {limit}"
        )
    what = {"network": "the network", "device": "the device"}.get(lowest.resource, "the store")
    return (
        f"{what} is the bottleneck for {bounds}s of {target}: the best result, {best_words}, is"
        f" {share:.0%} of its ceiling: {limit}"
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
    return f"{text} (between {low} and {high})"


def _listed(ceilings: Sequence[KnownCeiling]) -> str:
    return ", ".join(f"{ceiling.name} {in_mebibytes(ceiling.limit)}" for ceiling in ceilings)


def _plateau(
    members: Sequence[Measurement], means: dict[Case, float], top: Measurement
) -> list[str]:
    """State the change over the last step of threads in the sweep of the best result."""
    sweep = {
        member.threads: means[member.case]
        for member in members
        if member.threads is not None
        and member.case_without("threads") == top.case_without("threads")
    }
    if len(sweep) < 2:
        return []
    before, last = sorted(sweep)[-2:]
    change = sweep[last] / sweep[before] - 1
    return [f"from {before} to {last} threads it changes by {change:+.0%}"]
