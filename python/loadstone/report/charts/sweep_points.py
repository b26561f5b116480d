"""The points of a sweep, our own or published: what the charts along a load are drawn from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.accounts.account import RATE, Account, Measurement
from loadstone.analysis.accounts.case_means import CaseMean, case_means
from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.judgements.finding import Finding
from loadstone.analysis.limits.verdict import Verdict
from loadstone.analysis.naming import describe_parameter
from loadstone.report.charts.parts.dimensions import varied_values
from loadstone.report.charts.parts.drawing import milliseconds, shortened

OWN_LIMITS: Mapping[str, str] = {
    "INSTRUMENT_CPU": "client CPU",
    "INSTRUMENT_MEM": "client memory",
    "INSTRUMENT_SOCKETS": "client sockets",
    "INSTRUMENT_LAG": "client's timing",
    "INSTRUMENT_HOSTS": "client hosts",
    "INSTRUMENT_LIMITED": "load generator",
    "CLIENT_NIC": "client bandwidth",
}
"""The client's own limits as a reader calls them."""

RULES_OF_OWN_LIMITS: Mapping[str, str] = {
    "link-ceiling": "client bandwidth",
    "socket-limit": "client sockets",
}
"""What marks a client's limit in published numbers."""

QUANTILES = ("p50", "p90", "p95", "p99")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What is known of the points as a whole: what their rates count, and what their bars are.

    `client` names where the load came from.
    """

    rate: str
    bars: str
    client: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One result; `low` and `high` are what its printed or observed spread reaches.

    `own_limit` names the limit of the client that the result shows, in words, where it shows one.
    """

    target: str
    workload: str
    operation: str
    parameters: Mapping[str, object]
    round: int
    rate: float
    low: float
    high: float
    data: str
    quantiles_ms: Mapping[str, float | None]
    labels: str
    limit: str
    own_limit: str

    def words(self) -> dict[str, str]:
        """Return each fact that may tell this point from others, in words."""
        return {
            "workload": self.workload,
            "operation": self.operation,
            "target": self.target,
            "round": f"round {self.round}",
            **{name: describe_parameter(name, value) for name, value in self.parameters.items()},
        }


def points_of_findings(findings: Findings) -> list[SweepPoint]:
    """Return a run's results as points."""
    return [_of_cell(cell, findings.verdict_of(cell)) for cell in findings.totals if cell.good]


def points_of_account(account: Account, findings: Sequence[Finding]) -> list[SweepPoint]:
    """Return the rates of an account as points; what was not printed is no point."""
    named = {
        evidence.place: RULES_OF_OWN_LIMITS[finding.rule]
        for finding in findings
        if finding.rule in RULES_OF_OWN_LIMITS
        for evidence in finding.evidence
        if evidence.place
    }
    times: dict[tuple[object, ...], dict[str, float]] = {}
    for name in QUANTILES:
        for one in account.of(f"service_ns_{name}"):
            times.setdefault(_trial(one), {})[name] = one.value
    rates = [one for one in account.of(RATE) if one.value > 0]
    return [_of_printed(case, named, times) for case in case_means(rates)]


def _trial(one: Measurement) -> tuple[object, ...]:
    return (one.target, one.case, one.repetition)


def _of_printed(
    case: CaseMean,
    named: Mapping[str, str],
    times: Mapping[tuple[object, ...], Mapping[str, float]],
) -> SweepPoint:
    """Return one case of an account: a number as printed, or the mean of its repetitions."""
    first, own = case.first, case.members
    limit = next((named[one.place] for one in own if one.place in named), "")
    # Percentiles of several trials have no mean that means anything.
    printed = times.get(_trial(first), {}) if len(own) == 1 else {}
    return SweepPoint(
        target=first.target,
        workload=first.workload,
        operation=first.operation,
        parameters=first.parameters,
        round=first.round,
        rate=case.mean,
        low=case.low,
        high=case.high,
        data="",
        quantiles_ms={name: shortened(value / 1e6) for name, value in printed.items()},
        labels=" ".join(dict.fromkeys(label for one in own for label in one.labels)) or "none",
        limit=limit or "not known",
        own_limit=limit,
    )


def differing_facts(points: Sequence[SweepPoint]) -> dict[str, int]:
    """Return what differs between points, parameters or not, and how many values it has."""
    facts: dict[str, set[object]] = {
        "workload": {point.workload for point in points},
        "operation": {point.operation for point in points},
        "target": {point.target for point in points},
        "round": {point.round for point in points},
    }
    counts = {name: len(found) for name, found in facts.items()}
    values = varied_values(point.parameters for point in points)
    counts |= {name: len(found) for name, found in values.items()}
    return {name: count for name, count in counts.items() if count > 1}


def _of_cell(cell: Cell, verdict: Verdict | None) -> SweepPoint:
    named = cell.operation if cell.operation == cell.phase else f"{cell.operation} ({cell.phase})"
    latency = cell.headline
    own = verdict.limit if verdict is not None and verdict.is_void_for_ratios else ""
    return SweepPoint(
        target=cell.target,
        workload=cell.workload,
        operation=named,
        parameters=cell.parameters,
        round=cell.round,
        rate=shortened(cell.requests_per_s),
        low=shortened(cell.reached_requests_per_s[0]),
        high=shortened(cell.reached_requests_per_s[1]),
        data=units.format_byte_rate(cell.bytes_per_s),
        quantiles_ms={
            name: milliseconds(latency.quantiles[name]) if latency is not None else None
            for name in QUANTILES
        },
        labels=" ".join(cell.labels) or "none",
        limit=verdict.limit if verdict is not None else "not known",
        own_limit=OWN_LIMITS.get(own, "not valid" if own else ""),
    )
