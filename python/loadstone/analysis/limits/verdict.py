"""The verdict: which resource limited a number, and the grade of its proof.

A limit stands if a fact (`facts.py`) supports it and none refutes it. If none stands but more load
brought no more, resources with room are excluded and the rest is named. Otherwise the verdict is
UNDETERMINED, with the measurement that would decide it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from loadstone.analysis.grouping import grouped
from loadstone.analysis.judgements.finding import Evidence
from loadstone.analysis.limits.facts import (
    INSTRUMENT_MAX,
    Fact,
    Rank,
    facts_of,
    instrument_share,
    is_late_by_answers,
    is_out_of_line,
)
from loadstone.analysis.limits.observed import Observed
from loadstone.analysis.limits.resource_states import ResourceState, observe_all
from loadstone.analysis.rules import Effect, find_rule

Grade = Literal["A", "B", "C"]

UNDETERMINED = "UNDETERMINED"
NO_RISE = "do not raise the rate"

GENERAL = ("INSTRUMENT_LIMITED", "INSTRUMENT_LAG")
"""Limits of the client as a whole: they strengthen a limit of one of its resources."""

NEXT: Mapping[str, tuple[str, str]] = {
    "loads": ("measure at other loads", "loadstone run CAMPAIGN --set 'sweep.threads=[{loads}]'"),
    "contenders": (
        "measure with other numbers of clients",
        "loadstone run CAMPAIGN --set 'sweep={{phases.{contended}.contend.clients: [{loads}]}}'",
    ),
    "rates": ("measure at other rates", "loadstone run CAMPAIGN --set 'sweep.rate=[{loads}]'"),
    "repeat": ("repeat it in blocks", "loadstone run CAMPAIGN --set blocks=6"),
    "rest": ("rest between trials", "loadstone run CAMPAIGN --set phases.0.pause_after=60s"),
    "cold": (
        "empty the page cache before each trial",
        "loadstone run CAMPAIGN --set 'hooks=[{{at: before_trial, shell:"
        ' "sync; echo 3 > /proc/sys/vm/drop_caches"}}]\'',
    ),
    "path": (
        "measure the path",
        "loadstone run CAMPAIGN --set 'ceilings=[{{kind: network, host: HOST}}]'",
    ),
    "target": (
        "watch the target",
        "loadstone run CAMPAIGN --set 'probes={{prometheus: {{urls: http://HOST:9100/metrics,"
        ' metrics: ["node_*"]}}}}\'',
    ),
    "device": (
        "measure the device",
        "loadstone run CAMPAIGN --set 'ceilings=[{{kind: device, options: {{filename: DEVICE}}}}]'",
    ),
    "clients": (
        "allow more in flight",
        "loadstone run CAMPAIGN --set load.clients_max={twice_clients}",
    ),
    "client": ("measure the client's own ceiling", "loadstone calibrate"),
}
"""The deciding measurement by what is missing: its reason, and its command, in which reports
replace CAMPAIGN and HOST."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The limit, the grade of its proof (None if nothing is claimed), and the reason with evidence.

    `also` are further limits that stand. `next` is the measurement that would decide or strengthen
    the verdict, with its command. `observations` are the states of all resources.
    """

    limit: str
    grade: Grade | None
    reason: str
    evidence: tuple[Evidence, ...]
    also: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()
    next: tuple[str, str] | tuple[()] = ()
    observations: tuple[ResourceState, ...] = ()

    @property
    def not_observed(self) -> tuple[str, ...]:
        """The resources that were not observed, in words."""
        return tuple(state.resource for state in self.observations if state.says == "not observed")

    @property
    def rule(self) -> str:
        """The id of its rule."""
        return self.limit.partition("(")[0]

    @property
    def effect(self) -> Effect:
        """The effect of the limit on the number."""
        return find_rule(self.rule).effect


def decide(observed: Observed) -> Verdict:
    """Return the verdict on one load of one case."""
    # A client at its own limit breaks Little's law: that limit is the verdict.
    failed = [c for c in observed.failed_checks if c.name != "LITTLE" or not observed.flags]
    if failed:
        return Verdict(
            limit=f"INVALID({failed[0].name})",
            grade=None,
            reason="; ".join(check.statement for check in failed),
            evidence=tuple(
                Evidence(check.name, check.value or 0.0, check.wanted) for check in failed
            ),
        )
    facts = facts_of(observed)
    standing = _standing(facts)
    if standing:
        verdict = _supported(observed, facts, standing)
    else:
        verdict = _by_elimination(observed, facts) or _undetermined(observed, facts)
    return replace(verdict, observations=observe_all(observed, facts))


def _standing(facts: Sequence[Fact]) -> list[str]:
    """Return the limits that are supported and not refuted, the main one first."""
    supports = grouped(
        (fact for fact in facts if fact.bearing == "supports"), lambda fact: fact.limit
    )
    refuted = {fact.limit for fact in facts if fact.bearing == "refutes"}
    stand = [
        limit
        for limit, supporting in supports.items()
        if limit not in refuted or any(fact.is_intervention for fact in supporting)
    ]
    is_client = any(limit not in GENERAL and _is_client(limit) for limit in stand)
    return sorted(
        (limit for limit in stand if not (is_client and limit in GENERAL)),
        key=lambda limit: (
            min(fact.rank for fact in supports[limit]),
            limit in GENERAL,
            -len(_counters(supports[limit])),
        ),
    )


def _is_client(limit: str) -> bool:
    return limit.startswith(("INSTRUMENT", "CLIENT_NIC", "SHARED_HOST"))


def _supported(observed: Observed, facts: tuple[Fact, ...], standing: Sequence[str]) -> Verdict:
    limit, *others = standing
    supports = [fact for fact in facts if fact.bearing == "supports"]
    of_limit = [fact for fact in supports if fact.limit == limit]
    if min(fact.rank for fact in of_limit) in (Rank.REFUSED, Rank.MET):
        # Refused clients are busy with retries, and an achieved rate was not limited.
        others = []
    general = [
        fact
        for fact in supports
        if fact.limit in GENERAL and _is_client(limit) and fact not in of_limit
    ]
    counters = len(_counters([*of_limit, *general]))
    if limit.startswith(("TARGET", "NETWORK_PATH")) and limit != "TARGET_THROTTLED":
        counters += _is_saturated(observed)
    is_confirmed = any(fact.is_intervention for fact in of_limit)
    # An intervention on load or hosts changes nothing else, and is a proof by itself.
    is_proof = limit in ("INSTRUMENT_HOSTS", "NOT_SATURATED")
    reason = next(
        (fact.reason for fact in of_limit if not fact.is_intervention), of_limit[0].reason
    )
    hints = {fact.limit for fact in supports if fact.rank == Rank.HINT}
    hints -= {fact.limit for fact in supports if fact.rank != Rank.HINT}
    unnamed = {"NOT_SATURATED", "LATENCY_BOUND", *hints}
    also = [other for other in others if other not in unnamed]
    words = [
        f"also {next(fact.reason for fact in supports if fact.limit == other)}" for other in also
    ]
    return Verdict(
        limit=limit,
        grade=_grade(counters, is_confirmed=is_confirmed, is_proof=is_proof),
        reason="; ".join([reason, *words]),
        evidence=tuple(
            item
            for fact in [*of_limit, *general, *(fact for fact in supports if fact.limit in also)]
            for item in fact.evidence
        ),
        also=tuple(also),
        facts=facts,
    )


def _grade(counters: int, *, is_confirmed: bool, is_proof: bool) -> Grade:
    """Return A for a counter that an intervention confirmed, B for two counters, C for one."""
    if is_confirmed and (counters >= 1 or is_proof):
        return "A"
    return "B" if counters >= 2 or is_confirmed else "C"


def _counters(facts: Sequence[Fact]) -> set[tuple[str, str]]:
    """Return the independent counters behind facts: one source of one host is one counter."""
    return {item.counter for fact in facts if not fact.is_intervention for item in fact.evidence}


def _is_saturated(observed: Observed) -> bool:
    if observed.is_overloaded:
        return bool(observed.is_backed_up)
    step = observed.step
    is_last = observed.step_up is None
    return step is not None and (step.is_saturated or (is_last and step.is_bent))


def _client_has_room(observed: Observed) -> bool:
    share = instrument_share(observed)
    return (
        observed.is_client_watched
        and not observed.flags
        and (share is None or share < INSTRUMENT_MAX)
        and (observed.lag is None or is_late_by_answers(observed))
    )


def _by_elimination(observed: Observed, facts: tuple[Fact, ...]) -> Verdict | None:
    """Name what is left if more load brings no more and the observed resources have room.

    It is the target only if the path has room too; otherwise the limit is beyond the client.
    """
    if not _is_saturated(observed) or not _client_has_room(observed):
        return None
    if observed.is_from_memory:
        # Reads from the client's memory do not reach the target.
        return None
    step = observed.step
    is_falling = step is not None and step.is_fall and not observed.is_overloaded
    if observed.is_overloaded:
        more = f"{observed.offered:g}/s were requested and {observed.point.rate:.4g}/s answered"
    else:
        more = "more requests in flight " + ("lower the rate" if is_falling else NO_RISE)
        if step is not None and step.is_rise:
            more = "requests wait for each other, so more of them can raise the rate only a little"
    is_halved = any(tried.point is not None for tried in observed.tried)
    limit, grade = "BEYOND_CLIENT", "B" if is_halved else "C"
    room = "the client has room"
    if observed.uses and "CLIENT_NIC" not in observed.uses:
        room += " (but for its cards, whose speed is not known)"
    path = observed.ceilings.get("NETWORK_PATH")
    if path is not None and path.has_room:
        limit, room = "TARGET", f"{room}, and so has the path"
        if is_falling:
            limit = "TARGET_CONTENTION"
        elif observed.server and not _has_unknown_device(observed):
            names = ", ".join(observed.server)
            limit, grade = "TARGET_SOFTWARE", "B"
            room += f" and all observed resources of the target ({names})"
    return Verdict(
        limit=limit,
        grade="B" if grade == "B" else "C",
        reason=f"{more}, and {room}",
        evidence=(
            *(item for fact in facts for item in fact.evidence),
            *_evidence_of_loads(observed),
        ),
        facts=facts,
        next=_next(observed, _next_of(limit, observed)),
    )


def _next_of(limit: str, observed: Observed) -> str:
    """Return the measurement that would narrow the limit down."""
    if limit == "TARGET_SOFTWARE":
        return ""
    if limit == "BEYOND_CLIENT":
        return "path"
    return "device" if _has_unknown_device(observed) else "target"


def _has_unknown_device(observed: Observed) -> bool:
    """Tell whether a device of the target was always busy, and has no ceiling with room.

    A ceiling of the device would tell its limit from that of the software.
    """
    device = observed.ceilings.get("TARGET_DISK")
    return "device" in (observed.server or {}) and (device is None or not device.has_room)


def _undetermined(observed: Observed, facts: tuple[Fact, ...]) -> Verdict:
    reason, missing = _doubt(observed)
    refuted = [fact for fact in facts if fact.bearing == "refutes"]
    return Verdict(
        limit=UNDETERMINED,
        grade=None,
        reason=reason,
        evidence=tuple(item for fact in refuted for item in fact.evidence)
        + _evidence_of_loads(observed),
        facts=facts,
        next=_next(observed, missing),
    )


def _doubt(observed: Observed) -> tuple[str, str]:
    """Return the reason for naming no limit, and the missing measurement."""
    step = observed.step
    if observed.is_from_memory:
        share = observed.point.cached or 0.0
        return f"{share:.0%} of the data was in the client's page cache before the trial", "cold"
    if step is not None and not step.is_alike:
        low, high = step.low.cached or 0.0, step.high.cached or 0.0
        return (
            f"{low:.0%} of the data was in the client's page cache before the lower load, and"
            f" {high:.0%} before the higher one"
        ), "cold"
    if is_out_of_line(observed):
        return (
            "a smaller load reached the same rate as a larger one: this trial was slow by chance,"
            " or because of earlier trials"
        ), "repeat"
    if observed.is_overloaded and observed.is_backed_up is None:
        return (
            "all clients of the open load were in a request: there are too few, or the target is"
            " saturated"
        ), "clients"
    if observed.is_overloaded:
        return f"the rate was not achieved, and {_client_in_doubt(observed)}", "client"
    if observed.idle is not None:
        return (
            f"clients spent {observed.idle:.0%} of their time outside requests, and no observation"
            " explains it"
        ), "client"
    if step is None:
        varied = "contenders" if observed.contended_phase else "loads"
        return (
            "a single load does not show whether more load raises the rate",
            varied if observed.offered is None else "rates",
        )
    if not (step.low.is_settled and step.high.is_settled):
        return "a load began before the effects of earlier trials had ended", "rest"
    if (step.is_flat or step.is_fall) and step.is_slower is not True:
        return "neither rate nor time grows with the load: clients were not always in a request", (
            "client"
        )
    if step.is_saturated:
        return f"more requests in flight {NO_RISE}, and {_client_in_doubt(observed)}", "client"
    if step.is_rise:
        return (
            "up to the highest load, more requests in flight raise the rate, but less than"
            " proportionally"
        ), "loads"
    return "the step from one load to the next lies within the noise", "repeat"


def _client_in_doubt(observed: Observed) -> str:
    if not observed.is_client_watched:
        return "the client was not observed"
    return "it is not known whether the client has room"


def _next(observed: Observed, missing: str) -> tuple[str, str] | tuple[()]:
    load = observed.point.load
    # Queries state no load that could be varied.
    if not missing or not load:
        return ()
    why, command = NEXT[missing]
    return why, command.format(
        loads=", ".join(map(str, sorted({max(1, int(load) // 2), int(load), 2 * int(load)}))),
        twice_clients=2 * (observed.clients_max or 0),
        contended=observed.contended_phase,
    )


def _evidence_of_loads(observed: Observed) -> tuple[Evidence, ...]:
    step = observed.step
    return step.evidence() if step is not None else ()
