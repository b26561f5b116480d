"""The state of each resource by result, in columns."""

from collections.abc import Sequence

from loadstone.analysis import Findings
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.limits.resource_states import OTHER_LOADS, ResourceState
from loadstone.analysis.limits.verdict import Verdict
from loadstone.analysis.rules import limit_in_words
from loadstone.report.next_step import deciding_step
from loadstone.report.result_words import NOT_KNOWN
from loadstone.report.tables.layout import Column, Table
from loadstone.results.record import Run

RESULTS_MAX = 4
"""So many results stand side by side on 80 columns."""

SIGNS = {"supports": "▲", "refutes": "▽", "open": "?", "not observed": NOT_KNOWN}
NOTE = (
    "▲ supports that this is the limit, ▽ refutes it, ? leaves it open, – was not observed. Numbers"
    " are the share that was used; for the load, the rate at the next load divided by the rate at"
    " this one."
)


def observation_tables(run: Run, findings: Findings) -> list[Table]:
    """Return tables of results with a verdict, as many side by side as fit."""
    decided = [result for result in findings.rounds if result.verdict is not None]
    decided = [
        result for result in decided if result.verdict is not None and result.verdict.observations
    ]
    tables = []
    for start in range(0, len(decided), RESULTS_MAX):
        chunk = decided[start : start + RESULTS_MAX]
        title = "Observations of each resource"
        if len(chunk) < len(decided):
            last = start + len(chunk)
            span = f"results {start + 1} to {last}" if len(chunk) > 1 else f"result {last}"
            title += f", {span} of {len(decided)}"
        tables.append(_table(run, chunk, title))
    return tables


def _table(run: Run, results: Sequence[Result], title: str) -> Table:
    parts = [result.name.split(", ") for result in results]
    shared = [
        part
        for part in parts[0]
        if len(parts) > 1 and all(part in name_parts for name_parts in parts)
    ]
    # Differing parts stand on two lines, so that four results fit into 80 columns.
    heads = [
        [part for part in name_parts if part not in shared] or name_parts[:1]
        for name_parts in parts
    ]
    verdicts = [result.verdict for result in results if result.verdict is not None]
    rows = [("limited by", *(_limit(verdict) for verdict in verdicts))]
    # Not every load has each resource: writes pass no page cache that could be full of their data.
    by_resource = [
        {state.resource: state for state in verdict.observations} for verdict in verdicts
    ]
    resources = dict.fromkeys(resource for states in by_resource for resource in states)
    rows += [
        (
            resource,
            *(_cell(states[resource]) if resource in states else "" for states in by_resource),
        )
        for resource in resources
    ]
    steps = [deciding_step(run, verdict) for verdict in verdicts]
    return Table(
        title=title,
        caption=", ".join(part for part in shared if part != "round 1"),
        columns=(
            Column(head="Resource", align="left"),
            *(Column(head=head[0], unit=", ".join(head[1:]), align="left") for head in heads),
        ),
        rows=tuple(rows),
        notes=(NOTE, *[f"To know more, {step}" for step in steps if step][:1]),
    )


def _limit(verdict: Verdict) -> str:
    return f"{limit_in_words(verdict.limit)} {verdict.grade or ''}".rstrip()


def _cell(resource_state: ResourceState) -> str:
    sign = SIGNS[resource_state.says]
    if resource_state.value is None or resource_state.says == "not observed":
        return sign
    if resource_state.resource == OTHER_LOADS:
        return f"{sign} × {resource_state.value:.2f}"
    percent = 100 * resource_state.value
    return f"{sign} {percent:.0f} %" if percent >= 10 else f"{sign} {percent:.2g} %"
