"""Which resource limited a number, and how well is that proven?

A verdict is a decision in a fixed order: may the number be used at all, was it the instrument, was
it asked for enough, was it the path, and only then the target. The first answer that holds is
given, with all the evidence that was seen. What cannot be decided is UNDETERMINED, never guessed.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from loadstone.analysis.judgements.finding import Evidence
from loadstone.analysis.limits.observed import (
    RISES,
    SURELY_RISES,
    Intervention,
    LoadPoint,
    Observed,
    Tried,
)
from loadstone.analysis.rules import limit_in_words

Grade = Literal["A", "B", "C"]

INSTRUMENT_LIMITED = "INSTRUMENT_LIMITED"
INSTRUMENT_CAUTION = 0.5
INSTRUMENT_MAX = 0.8
ERRORS_WIDE = 2.0
PATH_TOUCHED = 0.90
CEILING_PASSED = 1.05
RESOURCE_BUSY = 0.80
THROTTLED = 0.001
THROTTLED_FIRST = 0.05

MOVES: Mapping[str, tuple[Intervention, ...]] = {
    "CLIENT_NIC": ("half the size",),
    "INSTRUMENT_CPU": ("half the verification",),
}
"""What brings more where the client's own resource is the limit, besides a second client."""

VOID_FOR_RATIOS = ("INSTRUMENT", "CLIENT_NIC", "INVALID")
"""A number with a verdict that begins so is a bound, and takes part in no ratio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The limit, how well it is proven (absent where nothing is claimed), why, and from what."""

    limit: str
    grade: Grade | None
    reason: str
    evidence: tuple[Evidence, ...]

    @property
    def is_void_for_ratios(self) -> bool:
        """Whether the number is only a bound of what the target can do."""
        return self.limit.startswith(VOID_FOR_RATIOS)


def decide(observed: Observed) -> Verdict:
    """Return the verdict: gates, instrument, shape of the curve, path, target; in this order."""
    found = (
        _invalid(observed)
        or _refused(observed)
        or _instrument(observed)
        or _shape(observed)
        or _path(observed)
        or _measured_target(observed)
        or _target(observed)
        or _eliminated(observed)
    )
    if found is None:
        return Verdict(
            limit="UNDETERMINED",
            grade=None,
            reason="nothing that was looked at limits it",
            evidence=tuple(_seen(observed)),
        )
    return found


def instrument_share(observed: Observed) -> float | None:
    """Return X / X_null: below 0.5 clear, up to 0.8 caution, above that the instrument's limit."""
    return observed.point.rate / observed.null_rate if observed.null_rate else None


def _invalid(observed: Observed) -> Verdict | None:
    # A client that is held up breaks Little's law itself: then its own limit is the answer.
    explained = {"LITTLE"} if observed.flags else set()
    failed = [
        gate for gate in observed.gates if gate.outcome == "fail" and gate.name not in explained
    ]
    reasons = [gate.statement for gate in failed]
    if observed.is_steady is False:
        reasons.append("not steady")
    if not reasons:
        return None
    names = [gate.name for gate in failed] or ["steady"]
    return Verdict(
        limit=f"INVALID({names[0]})",
        grade=None,
        reason="; ".join(reasons),
        evidence=tuple(
            Evidence(metric=gate.name, value=gate.value or 0.0, threshold=gate.wanted)
            for gate in failed
        ),
    )


def _refused(observed: Observed) -> Verdict | None:
    """Name a target that refuses a good part of the work before anything else is asked.

    Clients that are refused ask again at once, and a processor full of that limits nothing.
    """
    return _throttled(observed, ()) if observed.throttled > THROTTLED_FIRST else None


def _throttled(observed: Observed, others: Sequence[Evidence]) -> Verdict:
    told = Evidence(metric="throttled requests", value=observed.throttled, threshold=THROTTLED)
    return Verdict(
        limit="TARGET_THROTTLED",
        grade="C",
        reason=f"{observed.throttled:.2%} of the requests were throttled by the target",
        evidence=(told, *others),
    )


def _instrument(observed: Observed) -> Verdict | None:
    share = instrument_share(observed)
    near = share is not None and share >= INSTRUMENT_MAX
    if not observed.flags and not near:
        return _by_change_alone(observed)
    evidence = [one for flag in observed.flags.values() for one in flag]
    if share is not None:
        evidence.append(
            Evidence(metric="X / X of the null target", value=share, threshold=INSTRUMENT_MAX)
        )
    # Two cores of a host are one counter in however many trials; another flag's is no proof of it.
    read = {name: len({one.counter for one in flag}) for name, flag in observed.flags.items()}
    # The flag with the most counters behind it speaks; the others stay in the evidence.
    limit = max(read, key=lambda name: read[name], default="")
    counters = read.get(limit, 0) + near
    moved = [
        *_rises(observed, "second client", "more hosts", *MOVES.get(limit, ())),
        *_slower_with_fewer_hosts(observed),
    ]
    evidence += [one.evidence() for one in moved]
    reason = (
        f"the client reaches {share:.0%} of what it reaches against a null target"
        if near and share is not None
        else f"the client's own limit: {', '.join(map(limit_in_words, observed.flags))}"
    )
    return Verdict(
        limit=limit or INSTRUMENT_LIMITED,
        grade=_grade(counters, is_confirmed=bool(moved)),
        reason=reason,
        evidence=tuple(evidence),
    )


def _by_change_alone(observed: Observed) -> Verdict | None:
    """Name the clients where a change of theirs alone moved the rate: no counter said so."""
    for tried in _rises(observed, "more hosts"):
        return Verdict(
            limit="INSTRUMENT_HOSTS",
            grade="A",
            reason=f"the same load from {_hosts(tried)} hosts brings {tried.ratio - 1:+.0%}:"
            " the clients were the limit",
            evidence=(tried.evidence(),),
        )
    for tried in _slower_with_fewer_hosts(observed):
        return Verdict(
            limit="INSTRUMENT_HOSTS",
            grade="A",
            reason=f"the same load from {_hosts(tried)} hosts brings {tried.ratio - 1:+.0%}:"
            " the rate is that of the hosts",
            evidence=(tried.evidence(),),
        )
    for tried in _rises(observed, "half the verification"):
        return Verdict(
            limit="INSTRUMENT_CPU",
            grade="B",
            reason=f"half the verification brings {tried.ratio - 1:+.0%}: checking costs the rate",
            evidence=(tried.evidence(),),
        )
    return None


def _hosts(tried: Tried) -> str:
    assert tried.hosts is not None, "a change of hosts names them"
    return f"{tried.hosts[1]} instead of {tried.hosts[0]}"


def _slower_with_fewer_hosts(observed: Observed) -> list[Tried]:
    """Return where the same load from fewer hosts lost their whole share, as sure as intervals are.

    A rate that falls less may be limited by something else as soon as all hosts take part.
    """
    return [
        one
        for one in observed.tried
        if one.kind == "half the hosts"
        and one.hosts is not None
        and one.ratio < RISES * one.hosts[1] / one.hosts[0]
        and one.high is not None
        and one.high < 1 / SURELY_RISES
    ]


def _rises(observed: Observed, *kinds: Intervention) -> list[Tried]:
    return [one for one in observed.tried if one.kind in kinds and one.is_rise]


def _halved(observed: Observed) -> Tried | None:
    """Return what half the clients did, if that was tried."""
    return next((one for one in observed.tried if one.point is not None), None)


def _shape(observed: Observed) -> Verdict | None:
    here, higher = observed.point, observed.higher
    if observed.is_offer_met:
        return Verdict(
            limit="NOT_SATURATED",
            grade="C",
            reason=f"all of the {here.load:g}/s that were asked for were achieved",
            evidence=(Evidence(metric="rate achieved / offered", value=here.rate / here.load),),
        )
    if observed.knee is not None and here.load < observed.knee / 2:
        evidence = Evidence(metric="load", value=here.load, threshold=observed.knee / 2)
        return Verdict(
            limit="LATENCY_BOUND",
            grade="C",
            reason=f"{here.load:g} in flight are too few: rate is load over time up to N*/2",
            evidence=(evidence,),
        )
    if higher is None:
        return _proportional(observed)
    if not here.rate:
        return None
    change = higher.rate / here.rate
    step = Evidence(
        metric=f"rate at {higher.load:g} / at {here.load:g}", value=change, threshold=RISES
    )
    if change > RISES and _is_beyond_noise(here, higher):
        return Verdict(
            limit="NOT_SATURATED",
            grade="C",
            reason=f"{higher.load:g} in flight bring {change - 1:+.0%} more",
            evidence=(step,),
        )
    is_flat = change >= 1 / RISES
    if is_flat and here.time_s and higher.time_s and higher.time_s / here.time_s < RISES:
        times = Evidence(metric="time at the higher load / here", value=higher.time_s / here.time_s)
        return Verdict(
            limit="INSTRUMENT_CPU",
            grade="C",
            reason="neither rate nor time grow with the load: the client does not issue it",
            evidence=(step, times),
        )
    return None


def _is_beyond_noise(one: LoadPoint, other: LoadPoint) -> bool:
    """Tell whether a rise is one, or what short and restless trials differ by anyway."""
    noise = math.hypot(one.error or 0.0, other.error or 0.0)
    return other.rate / one.rate * math.exp(-ERRORS_WIDE * noise) > SURELY_RISES


def _proportional(observed: Observed) -> Verdict | None:
    """Name a load that is too small, from a smaller one: as many clients more, as much more."""
    halved, here = _halved(observed), observed.point
    if halved is None or halved.point is None or halved.point.rate <= 0:
        return None
    clients, rate = here.load / halved.point.load, here.rate / halved.point.rate
    if rate < clients / RISES:
        return None
    return Verdict(
        limit="NOT_SATURATED",
        grade="A" if halved.low is not None else "C",
        reason=f"{clients:.3g} times the clients brought {rate:.3g} times the rate",
        evidence=(halved.evidence(),),
    )


def _path(observed: Observed) -> Verdict | None:
    if not observed.path_bytes_per_s or observed.bytes_per_s is None:
        return None
    share = observed.bytes_per_s / observed.path_bytes_per_s
    if not PATH_TOUCHED <= share <= CEILING_PASSED:
        return None
    moved = _rises(observed, "half the size")
    return Verdict(
        limit="NETWORK_PATH",
        grade=_grade(1, is_confirmed=bool(moved)),
        reason=f"{share:.0%} of the measured ceiling of the path",
        evidence=(
            Evidence(metric="bytes / measured ceiling", value=share, threshold=PATH_TOUCHED),
            *(one.evidence() for one in moved),
        ),
    )


def _measured_target(observed: Observed) -> Verdict | None:
    """Return the target's own ceiling that is touched; one that is passed held nothing up."""
    choices = (
        ("TARGET_DISK", "device", observed.device_bytes_per_s),
        ("TARGET_SOFTWARE", "store's own benchmark", observed.store_bytes_per_s),
    )
    for limit, name, ceiling in choices:
        if not ceiling or observed.bytes_per_s is None:
            continue
        share = observed.bytes_per_s / ceiling
        if PATH_TOUCHED <= share <= CEILING_PASSED:
            evidence = Evidence(metric=f"bytes / {name}", value=share, threshold=PATH_TOUCHED)
            counters = 1 + _is_saturated(observed)
            return Verdict(
                limit=limit,
                grade=_grade(counters, is_confirmed=False),
                reason=f"{share:.0%} of the measured ceiling of the {name}",
                evidence=(evidence,),
            )
    return None


def _target(observed: Observed) -> Verdict | None:
    if observed.server is None:
        return _throttled(observed, ()) if observed.throttled > THROTTLED else None
    evidence = [
        Evidence(metric=f"utilisation of {name}", value=value, threshold=RESOURCE_BUSY)
        for name, value in sorted(observed.server.items(), key=lambda item: -item[1])
    ]
    confirmed = any(one.kind == "operator" and one.ratio > RISES for one in observed.tried)
    server = observed.server
    busiest = max(server, key=lambda name: server[name], default=None)
    if busiest is not None and server[busiest] >= RESOURCE_BUSY:
        counters = 1 + _is_saturated(observed)
        return Verdict(
            limit=f"TARGET_{busiest.upper().replace(' ', '_')}",
            grade=_grade(counters, is_confirmed=confirmed),
            reason=f"the target's {busiest} is {server[busiest]:.0%} busy",
            evidence=tuple(evidence),
        )
    if observed.throttled > THROTTLED:
        return _throttled(observed, evidence)
    if not (_is_saturated(observed) and observed.is_client_watched and observed.path_bytes_per_s):
        # Idle resources say that it is not these; what it is follows only by elimination.
        return None
    return Verdict(
        limit="TARGET_SOFTWARE",
        grade=_grade(2, is_confirmed=confirmed),
        reason="saturated, client and path have room, and no resource of the target is 80 % busy",
        evidence=tuple(evidence),
    )


def _eliminated(observed: Observed) -> Verdict | None:
    """Name what is left when more load brings no more, and what was looked at had room.

    The target itself was not probed: that it is the target follows only where the path had room
    too; otherwise the limit lies beyond the client, and that is all that can be said.
    """
    if not observed.is_client_watched or not _is_saturated(observed):
        return None
    evidence = tuple(_seen(observed))
    grade: Grade = "B" if _halved(observed) is not None else "C"
    change = _change(observed)
    is_falling = change is not None and change < 1 / RISES
    more = "more in flight slow it down" if is_falling else "more in flight bring no more"
    if not observed.path_bytes_per_s:
        return Verdict(
            limit="BEYOND_CLIENT",
            grade=grade,
            reason=f"{more}, and the client has room: it is the path, whose ceiling was not"
            " measured, or the target",
            evidence=evidence,
        )
    return Verdict(
        limit="TARGET_CONTENTION" if is_falling else "TARGET",
        grade=grade,
        reason=f"{more}, and client and path have room",
        evidence=evidence,
    )


def _steps(observed: Observed) -> tuple[LoadPoint, LoadPoint] | None:
    """Return the load and the next one, or where there is none, the one before it and the load."""
    if observed.higher is not None:
        return observed.point, observed.higher
    halved = _halved(observed)
    if halved is not None and halved.point is not None:
        return halved.point, observed.point
    return (observed.lower, observed.point) if observed.lower is not None else None


def _change(observed: Observed) -> float | None:
    steps = _steps(observed)
    return steps[1].rate / steps[0].rate if steps is not None and steps[0].rate else None


def _is_saturated(observed: Observed) -> bool:
    """Tell whether more load took longer at no higher rate: a second, independent counter."""
    steps, change = _steps(observed), _change(observed)
    if steps is None or change is None or change > RISES:
        return False
    one, other = steps
    return bool(one.time_s and other.time_s and other.time_s > RISES * one.time_s)


def _grade(counters: int, *, is_confirmed: bool) -> Grade:
    """Return A for a counter that an intervention confirmed, B for two counters, C for one."""
    if is_confirmed and counters >= 1:
        return "A"
    return "B" if counters >= 2 else "C"


def _seen(observed: Observed) -> Iterable[Evidence]:
    share = instrument_share(observed)
    if share is not None:
        yield Evidence(metric="X / X of the null target", value=share, threshold=INSTRUMENT_MAX)
    if observed.path_bytes_per_s and observed.bytes_per_s is not None:
        share = observed.bytes_per_s / observed.path_bytes_per_s
        yield Evidence(metric="bytes / measured ceiling", value=share, threshold=PATH_TOUCHED)
    for name, used in (observed.server or {}).items():
        yield Evidence(metric=f"utilisation of {name}", value=used, threshold=RESOURCE_BUSY)
    steps, change = _steps(observed), _change(observed)
    if steps is not None and change is not None:
        one, other = steps
        words = f"rate at {other.load:g} / at {one.load:g}"
        yield Evidence(metric=words, value=change, threshold=RISES)
        if one.time_s and other.time_s:
            words = f"time at {other.load:g} / at {one.load:g}"
            yield Evidence(metric=words, value=other.time_s / one.time_s)
