"""The facts for and against each limit.

Each look reads one resource from `Observed` and yields facts, which support or refute a limit; a
resource that was not observed yields none. `verdict.decide` weighs the facts.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from loadstone import units
from loadstone.analysis.instrument.client_limits import (
    CACHED_ALL,
    LOAD_THREADS,
    OCCUPIED,
    OCCUPIED_SOME,
    RUN_DELAY,
)
from loadstone.analysis.judgements.finding import Evidence
from loadstone.analysis.limits.observed import (
    RISES,
    SURELY_FLAT,
    SURELY_RISES,
    Intervention,
    Observed,
    Tried,
)
from loadstone.analysis.rules import limit_in_words

INSTRUMENT_CAUTION = 0.5
INSTRUMENT_MAX = 0.8
WAITING_MOSTLY = 0.5
RESOURCE_BUSY = 0.80
RESOURCE_FULL = 0.95
CORE_FULL = 0.90
THROTTLED = 0.001
THROTTLED_MUCH = 0.05

CONFIRMS: dict[str, tuple[Intervention, ...]] = {
    "CLIENT_NIC": ("second client", "more hosts", "half the size"),
    "INSTRUMENT_CPU": ("second client", "more hosts", "half the verification"),
    "NETWORK_PATH": ("half the size",),
}
"""The interventions that confirm a limit; other limits of the client are confirmed by hosts."""

TARGET_RESOURCES = (
    ("TARGET_CPU", ("cpu", "core")),
    ("TARGET_DISK", ("disk",)),
    ("TARGET_NETWORK", ("network",)),
)


class Rank(IntEnum):
    """The order in which supported limits are named.

    A refusing target comes first: refused clients are busy with retries. A full resource of the
    target outranks "more load brings more", since one client may take the share of another; a busy
    one does not. A hint is named only alone: a device may always be busy at half of its rate.
    """

    REFUSED = 0
    MET = 1
    CLIENT = 2
    FULL = 3
    LOAD = 4
    CEILING = 5
    BUSY = 6
    REST = 7
    HINT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One observation that supports or refutes a limit.

    `is_intervention` marks a change that moved the rate, which is a proof by itself.
    """

    limit: str
    bearing: Literal["supports", "refutes"]
    reason: str
    evidence: tuple[Evidence, ...] = ()
    rank: Rank = Rank.REST
    is_intervention: bool = False


def _supports(
    limit: str,
    reason: str,
    *evidence: Evidence,
    rank: Rank = Rank.REST,
    is_intervention: bool = False,
) -> Fact:
    return Fact(
        limit=limit, bearing="supports", reason=reason, evidence=evidence, rank=rank,
        is_intervention=is_intervention,
    )  # fmt: skip


def _refutes(limit: str, reason: str, *evidence: Evidence) -> Fact:
    return Fact(limit=limit, bearing="refutes", reason=reason, evidence=evidence)


def facts_of(observed: Observed) -> tuple[Fact, ...]:
    """Return all facts, in the order of the table."""
    return tuple(fact for look in LOOKS for fact in look(observed))


def instrument_share(observed: Observed) -> float | None:
    """Return X / X_null: below 0.5 clear, up to 0.8 caution, above that the instrument's limit."""
    return observed.point.rate / observed.null_rate if observed.null_rate else None


def _throttling(observed: Observed) -> Iterator[Fact]:
    if observed.throttled <= THROTTLED:
        return
    is_much = observed.throttled > THROTTLED_MUCH
    yield _supports(
        "TARGET_THROTTLED",
        f"the target told {observed.throttled:.2%} of the requests to slow down",
        Evidence("throttled requests", observed.throttled, THROTTLED),
        rank=Rank.REFUSED if is_much else Rank.REST,
    )


def _client_resources(observed: Observed) -> Iterator[Fact]:
    for limit, evidence in observed.flags.items():
        rank = _rank_of_client(limit, observed)
        if rank is None:
            continue
        for item in evidence:
            yield _supports(
                limit, f"{limit_in_words(limit)}: {_evidence_in_words(item)}", item, rank=rank
            )
        kinds = CONFIRMS.get(limit, ("second client", "more hosts"))
        yield from (_confirmation(limit, tried) for tried in _rises(observed, *kinds))
        yield from (_confirmation(limit, tried) for tried in _slower_with_fewer_hosts(observed))


def _losses(observed: Observed) -> Iterator[Fact]:
    for limit, evidence in observed.losses.items():
        for item in evidence:
            yield _supports(
                limit, f"{limit_in_words(limit)}: {_evidence_in_words(item)}", item, rank=Rank.BUSY
            )


def _rank_of_client(limit: str, observed: Observed) -> Rank | None:
    """Return the rank of a busy resource of the client; None if it does not limit the rate yet.

    While more clients bring much more, a busy resource only slows requests.
    """
    if limit == "INSTRUMENT_SOCKETS":
        # Requests without a port fail at once, and retries keep the clients busy.
        is_refused = observed.refused_here > THROTTLED_MUCH
        return Rank.REFUSED if is_refused else Rank.CLIENT
    if limit == "INSTRUMENT_CPU" and _waits_mostly(observed):
        # More clients raise the rate by larger batches; the core is still the limit.
        return Rank.CLIENT
    up, below = observed.step_up, observed.step_here
    has_slack = _has_slack(observed)
    if up is not None:
        rises = up.is_rise and (has_slack or up.ratio >= SURELY_FLAT)
        return Rank.BUSY if rises and not is_out_of_line(observed) else Rank.CLIENT
    if below is not None and below.is_steep and has_slack and limit != "CLIENT_NIC":
        return None
    if limit == "INSTRUMENT_CPU" and has_slack and (below is None or below.is_rise):
        # A core that is shared or stolen now and then leaves time for more.
        return None
    return Rank.CLIENT


def _has_slack(observed: Observed) -> bool:
    """Tell whether the busiest load thread was idle at times, counting waits for a core as busy."""
    if observed.occupied is None or observed.occupied >= OCCUPIED:
        return False
    # The thread's own account does not contain steal time.
    return not any(
        evidence.source == LOAD_THREADS and evidence.threshold == OCCUPIED
        for evidence in observed.flags.get("INSTRUMENT_CPU", ())
    )


def _waits_mostly(observed: Observed) -> bool:
    """Tell whether the busiest load thread waited for a core at least half of the time."""
    return any(
        evidence.source == LOAD_THREADS
        and evidence.threshold == RUN_DELAY
        and isinstance(evidence.value, float)
        and evidence.value >= WAITING_MOSTLY
        for evidence in observed.flags.get("INSTRUMENT_CPU", ())
    )


def _null_target(observed: Observed) -> Iterator[Fact]:
    share = instrument_share(observed)
    if share is None or share < INSTRUMENT_MAX:
        return
    yield _supports(
        "INSTRUMENT_LIMITED",
        f"the client reaches {share:.0%} of its rate against a null target",
        Evidence("X / X of the null target", share, INSTRUMENT_MAX),
        rank=Rank.CLIENT,
    )


def _schedule(observed: Observed) -> Iterator[Fact]:
    if observed.lag is None:
        return
    occupied = observed.occupied
    if "INSTRUMENT_CPU" in observed.flags or (occupied or 0.0) >= OCCUPIED:
        yield _supports(
            "INSTRUMENT_LAG",
            "requests left late, and the load threads were busy",
            observed.lag,
            rank=Rank.CLIENT,
        )
    elif occupied is not None and is_late_by_answers(observed):
        yield _refutes(
            "INSTRUMENT_LAG",
            f"requests left late, but the busiest load thread was idle"
            f" {1 - occupied:.0%} of the time: they waited for answers to others",
            Evidence("load thread busy", occupied, OCCUPIED_SOME),
        )


def is_late_by_answers(observed: Observed) -> bool:
    """Tell whether an open load was late because its clients waited for answers.

    This is so if the load threads were mostly idle, or idle at times while all clients were in a
    request or requests became slower with the number in flight.
    """
    occupied = observed.occupied
    if occupied is None:
        return False
    is_waiting = observed.is_out_of_clients or observed.grows_slower
    return occupied < OCCUPIED_SOME or (is_waiting and _has_slack(observed))


def _changes(observed: Observed) -> Iterator[Fact]:
    """Yield interventions on the clients that moved the rate although no counter was full."""
    if observed.flags:
        return
    for tried in (*_rises(observed, "more hosts"), *_slower_with_fewer_hosts(observed)):
        assert tried.hosts is not None, "a change of hosts names them"
        yield _supports(
            "INSTRUMENT_HOSTS",
            f"the same load from {tried.hosts[1]} instead of {tried.hosts[0]} hosts changes the"
            f" rate by {tried.ratio - 1:+.0%}",
            tried.evidence(),
            rank=Rank.CLIENT,
            is_intervention=True,
        )
    for tried in _rises(observed, "half the verification"):
        yield _supports(
            "INSTRUMENT_CPU",
            f"half the verification changes the rate by {tried.ratio - 1:+.0%}: it limits the rate",
            tried.evidence(),
            rank=Rank.CLIENT,
            is_intervention=True,
        )


def _offer(observed: Observed) -> Iterator[Fact]:
    if observed.is_offer_met and observed.offered:
        yield _supports(
            "REQUESTED_RATE",
            f"the requested rate of {observed.offered:g}/s was achieved",
            Evidence("rate achieved / offered", observed.point.rate / observed.offered),
            rank=Rank.MET,
        )


def _loads(observed: Observed) -> Iterator[Fact]:
    here, up, below = observed.point, observed.step_up, observed.step_here
    if observed.knee is not None and here.load < observed.knee / 2:
        yield _supports(
            "LATENCY_BOUND",
            f"{here.load:g} requests in flight are too few: up to half of the knee at"
            f" {observed.knee:.3g}, the rate is load over time",
            Evidence("load", here.load, observed.knee / 2),
            rank=Rank.LOAD,
        )
    if observed.is_out_of_clients and observed.is_backed_up is False:
        met = observed.met_below
        assert met is not None, "it is what shows that nothing waits"
        yield _supports(
            "NOT_SATURATED",
            "all clients of the open load were in a request, and requests took no longer than at"
            f" {met.load:g}/s: there are too few clients",
            Evidence("share of clients in a request", observed.in_flight or 0.0),
            rank=Rank.LOAD,
        )
    elif up is not None and up.is_rise and not is_out_of_line(observed):
        yield _supports(
            "NOT_SATURATED",
            f"{up.high.load:g} requests in flight change the rate by {up.ratio - 1:+.0%}",
            *up.evidence(),
            rank=Rank.LOAD,
        )
    elif up is None and below is not None and below.is_proportional and not observed.is_overloaded:
        halved = next((tried for tried in observed.tried if tried.point is not None), None)
        yield _supports(
            "NOT_SATURATED",
            f"{below.high.load / below.low.load:.3g} times the load brought"
            f" {below.ratio:.3g} times the rate",
            *below.evidence(),
            rank=Rank.LOAD,
            is_intervention=halved is not None and halved.low is not None,
        )


def is_out_of_line(observed: Observed) -> bool:
    """Tell whether a lower load reached the rate of the next higher one, unlike this one.

    This trial was then slow by itself, and the rise from here no sign of too small a load.
    """
    return (
        observed.higher is not None
        and observed.best_below is not None
        and observed.best_below * RISES >= observed.higher.rate
    )


def _ceilings(observed: Observed) -> Iterator[Fact]:
    up = observed.step_up
    rises = up is not None and up.is_rise and not is_out_of_line(observed)
    for limit, ceiling in observed.ceilings.items():
        share = f"{ceiling.share:.0%} of the measured ceiling of the {ceiling.name}"
        if ceiling.is_touched and not rises:
            changed = _rises(observed, *CONFIRMS.get(limit, ()))
            yield _supports(
                limit,
                share if ceiling.is_steady else f"{share}, which fell while it was measured",
                ceiling.evidence(),
                # The resource that limits a store limits its benchmark too, and is more exact.
                rank=Rank.REST if limit == "TARGET_SOFTWARE" else Rank.CEILING,
            )
            yield from (_confirmation(limit, tried) for tried in changed)
        elif ceiling.has_room and limit != "TARGET_SOFTWARE":
            # A store below its own benchmark may still be limited by its software.
            yield _refutes(limit, share, ceiling.evidence())


BEHIND_THE_CACHE = ("NETWORK_PATH", "TARGET_DISK", "TARGET_NETWORK")


def _page_cache(observed: Observed) -> Iterator[Fact]:
    cached = observed.point.cached
    if cached is None or not observed.is_from_memory:
        return
    for limit in BEHIND_THE_CACHE:
        yield _refutes(
            limit,
            f"{cached:.0%} of the data was in the page cache before the trial",
            Evidence("data in the page cache", cached, CACHED_ALL),
        )


def _target_resources(observed: Observed) -> Iterator[Fact]:
    used = observed.server or {}
    up = observed.step_up
    rises = up is not None and up.is_rise and not is_out_of_line(observed)
    for limit, names in TARGET_RESOURCES:
        watched = {name: used[name] for name in names if name in used}
        if not watched:
            continue
        evidence = {
            name: Evidence(f"utilisation of {_resource_in_words(name)}", value, busy_from(name))
            for name, value in watched.items()
        }
        # Each has its own threshold: the busiest core is always busier than the mean.
        busiest = max(watched, key=lambda name: watched[name] / busy_from(name))
        share = watched[busiest]
        reason = f"the target's {_resource_in_words(busiest)} is {share:.0%} busy"
        if share < busy_from(busiest) or (rises and share < RESOURCE_FULL):
            # A card that drops packets is full in bursts, in spite of its mean.
            if limit in observed.losses:
                continue
            yield _refutes(limit, reason, *evidence.values())
            continue
        yield _supports(limit, reason, evidence[busiest], rank=_rank_of(busiest, share))


def busy_from(name: str) -> float:
    """Return the share from which on a resource of the target counts as busy."""
    # One of many cores is often full by chance; only one that stays full is a limit.
    return CORE_FULL if name == "core" else RESOURCE_BUSY


def _rank_of(name: str, share: float) -> Rank:
    if name == "disk":
        return Rank.HINT
    return Rank.FULL if share >= RESOURCE_FULL else Rank.BUSY


LOOKS: tuple[Callable[[Observed], Iterator[Fact]], ...] = (
    _throttling,
    _client_resources,
    _losses,
    _null_target,
    _schedule,
    _changes,
    _offer,
    _loads,
    _ceilings,
    _page_cache,
    _target_resources,
)


def _rises(observed: Observed, *kinds: Intervention) -> list[Tried]:
    return [tried for tried in observed.tried if tried.kind in kinds and tried.is_rise]


def _slower_with_fewer_hosts(observed: Observed) -> list[Tried]:
    """Return interventions in which fewer hosts lost their whole share of the rate, significantly.

    A smaller loss may be due to another limit that all hosts together reach.
    """
    return [
        tried
        for tried in observed.tried
        if tried.kind == "half the hosts"
        and tried.hosts is not None
        and tried.ratio < RISES * tried.hosts[1] / tried.hosts[0]
        and tried.high is not None
        and tried.high < 1 / SURELY_RISES
    ]


def _confirmation(limit: str, tried: Tried) -> Fact:
    return _supports(
        limit, f"{tried.kind}: {tried.ratio - 1:+.0%}", tried.evidence(), is_intervention=True
    )


def _resource_in_words(name: str) -> str:
    return {"core": "busiest core"}.get(name, name)


def _evidence_in_words(evidence: Evidence) -> str:
    place = f" on {evidence.place}" if evidence.place else ""
    value, unit = evidence.value, f" {evidence.unit}" if evidence.unit else ""
    if isinstance(value, str):
        return f"{evidence.metric}{place}: {value}"
    return f"{evidence.metric}{place}: {units.format_number(value)}{unit}"
