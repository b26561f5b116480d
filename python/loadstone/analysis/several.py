"""What several clients' runs of one campaign say together.

Each run is judged by itself, with its own client's calibration, probes and ceilings; its results
stand beside the others' under the parameter `client`. Clients ran at different times, so nothing is
pooled over them, and no difference between them is called significant.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from loadstone.analysis.judgements.finding import Finding, by_severity
from loadstone.analysis.limits.exporter_series import ExporterSeries
from loadstone.analysis.standards.linter import MistakeResult, Outcome

WORST_FIRST: Sequence[Outcome] = ("fail", "not stated", "pass", "not applicable")


def join_findings(of_clients: Mapping[str, Sequence[Finding]]) -> tuple[Finding, ...]:
    """Return what was found, once where every client's run says the same."""
    found: dict[tuple[str, str], dict[str, Finding]] = {}
    for client, findings in of_clients.items():
        for one in findings:
            found.setdefault((one.rule, one.statement), {})[client] = one
    joined = []
    for (_, statement), by_client in found.items():
        first = next(iter(by_client.values()))
        cases = dict.fromkeys(case for one in by_client.values() for case in one.cases)
        if len(by_client) < len(of_clients):
            statement = f"{', '.join(by_client)}: {statement}"
        joined.append(replace(first, statement=statement, cases=tuple(cases)))
    return by_severity(joined)


def join_mistakes(of_clients: Mapping[str, Sequence[MistakeResult]]) -> tuple[MistakeResult, ...]:
    """Return each common mistake with its worst outcome, and which client's run that was."""
    found: dict[str, dict[str, MistakeResult]] = {}
    for client, results in of_clients.items():
        for one in results:
            found.setdefault(one.id, {})[client] = one
    joined = []
    for by_client in found.values():
        client, worst = min(by_client.items(), key=lambda one: WORST_FIRST.index(one[1].outcome))
        is_same = len({(one.outcome, one.evidence) for one in by_client.values()}) == 1
        joined.append(worst if is_same else replace(worst, evidence=f"{client}: {worst.evidence}"))
    return tuple(joined)


def join_exporters(series: Iterable[ExporterSeries]) -> ExporterSeries:
    """Return what exporters showed to every client; a metric's lines stand side by side."""
    kept = list(series)
    metrics: dict[tuple[str, str], list[int]] = {}
    found = [metric for one in kept for metric in one.metrics]
    for place, metric in enumerate(found):
        metrics.setdefault((metric.probe, metric.metric), []).append(place)
    return ExporterSeries(
        metrics=tuple(
            replace(
                found[places[0]],
                lines=tuple(line for place in places for line in found[place].lines),
            )
            for places in metrics.values()
        ),
        others=max((one.others for one in kept), default=0),
        still=max((one.still for one in kept), default=0),
    )
