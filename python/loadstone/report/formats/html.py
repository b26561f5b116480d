"""The report of a run as one page for a browser: the answer, charts, evidence, every number.

It loads nothing from outside, so that it opens the same on an air-gapped machine and in ten years.
"""

import json
from collections.abc import Mapping
from typing import Any

from loadstone.analysis import Findings
from loadstone.analysis.answers.answer import Answer, ScriptAnswer, answer_of, answer_of_scripts
from loadstone.analysis.answers.headline import headline_of
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.standards.standard import plan_hash
from loadstone.report.answer import read_back_lines, summary_words
from loadstone.report.formats.disclosure import mistakes_table, standard_table, statements_table
from loadstone.report.formats.queries_page import query_data, render_queries
from loadstone.report.next_step import next_step
from loadstone.report.opening import sentences_of
from loadstone.report.options import Options
from loadstone.report.pages.chart_data import chart_data
from loadstone.report.pages.frame import render_page
from loadstone.report.pages.reasons import reasons_of
from loadstone.report.pages.result_rows import result_table
from loadstone.report.result_words import notes_below
from loadstone.report.tables.capacity import capacity_table, steps_table
from loadstone.report.tables.cards import card_tables
from loadstone.report.tables.ceilings import ceilings_table, hooks_table, target_table
from loadstone.report.tables.contention import contention_table
from loadstone.report.tables.hosts import hosts_table
from loadstone.report.tables.interventions import intervention_table, verdict_table
from loadstone.report.tables.layout import (
    Table,
    client_table,
    errors_table,
    iterations_table,
    latency_table,
    results_table,
    rounds_table,
    trials_table,
)
from loadstone.report.tables.markdown_tables import Piece, pieces_of
from loadstone.report.tables.nodes import node_tables
from loadstone.report.tables.observations import observation_tables
from loadstone.report.tables.replays import replays_table
from loadstone.report.tables.script_actions import actions_table, groups_table
from loadstone.results.record import Run


def render(run: Run, findings: Findings, options: Options) -> bytes:
    """Return the page."""
    if findings.queries is not None and options.layout is None:
        return render_queries(run, findings, findings.queries)
    answer = answer_of(findings)
    rounds = _rounds(findings)
    scripts = answer_of_scripts(findings, answer)
    drawn = _drawn(run, findings, answer, scripts)
    asked = "" if options.layout is None else options.layout.render(findings, options)
    return render_page(
        "run.html.jinja",
        data=drawn,
        counted=drawn["counted"],
        title=run.name,
        headline=headline_of(findings, answer if scripts is None else scripts.whole),
        summary=summary_words(run, findings, answer),
        sentences=sentences_of(run, findings),
        notes=tuple(notes_below(answer.results)),
        table=result_table(answer, rounds),
        cautions=answer.cautions,
        read_back=tuple(read_back_lines(run, findings)),
        results=len(answer.results),
        findings=findings.findings,
        step=next_step(run, findings, answer, is_on_page=True),
        asked=tuple[Piece, ...](pieces_of(asked)),
        capacity=_present(capacity_table(findings), steps_table(findings)),
        actions=_present(actions_table(findings), groups_table(findings), replays_table(findings)),
        has_sessions=drawn["sessions"] is not None,
        numbers=_present(
            results_table(findings),
            rounds_table(findings),
            iterations_table(findings),
            contention_table(findings),
            hosts_table(findings),
            latency_table(findings),
            client_table(findings),
            errors_table(findings),
            trials_table(findings),
        ),
        evidence=_present(
            ceilings_table(findings),
            verdict_table(findings),
            *observation_tables(run, findings),
            intervention_table(findings),
            target_table(findings),
            hooks_table(findings),
        ),
        reasons=reasons_of(findings),
        absent=tuple(sorted(_absent(findings))),
        disclosure=_present(
            standard_table(run, findings),
            mistakes_table(findings),
            statements_table(run),
            *card_tables(run.manifest),
            *node_tables(run.manifest.get("nodes") or {}),
        ),
        facts=_facts(run),
        host=_flat(run.manifest.get("host") or {}),
        campaign_file=run.manifest.get("campaign_file") or "",
        campaign=json.dumps(run.manifest.get("campaign"), indent=2, ensure_ascii=False),
        version=run.manifest.get("loadstone", ""),
    )


def drawn_of_run(run: Run, findings: Findings) -> dict[str, Any]:
    """Return what the charts of a run are drawn from, on its page and as files."""
    if findings.queries is not None:
        return query_data(findings.queries)
    answer = answer_of(findings)
    return _drawn(run, findings, answer, answer_of_scripts(findings, answer))


def _drawn(
    run: Run, findings: Findings, answer: Answer, scripts: ScriptAnswer | None
) -> dict[str, Any]:
    if scripts is not None:
        return chart_data(run, findings, scripts.each, (), counted="action")
    return chart_data(run, findings, answer, _rounds(findings), counted="request")


def _rounds(findings: Findings) -> tuple[Result, ...]:
    return tuple(result for result in findings.rounds if result.requests and findings.has_rounds)


def _present(*tables: Table | None) -> tuple[Table, ...]:
    return tuple(table for table in tables if table is not None and table.rows)


def _absent(findings: Findings) -> set[str]:
    return {
        f"{name}: {reason}"
        for trial in findings.trials
        for name, reason in trial.absent_probes.items()
    }


def _facts(run: Run) -> dict[str, object]:
    manifest = run.manifest
    facts = {
        "Run": manifest.get("run"),
        "Plan": f"SHA-256 {plan_hash(run)}",
        "State": run.state,
        "Seed": manifest.get("seed"),
        "Started": manifest.get("started"),
        "Ended": manifest.get("ended"),
        **{f"Version of {name}": text for name, text in (manifest.get("versions") or {}).items()},
    }
    return {name: value for name, value in facts.items() if value is not None}


def _flat(value: object, name: str = "") -> dict[str, object]:
    """Return nested facts as one list with dotted names, which reads more easily than a tree."""
    match value:
        case Mapping():
            items = ((f"{name}.{key}" if name else str(key), inner) for key, inner in value.items())
        case list() | tuple() if any(isinstance(inner, (Mapping, list)) for inner in value):
            items = ((f"{name}[{index}]", inner) for index, inner in enumerate(value))
        case list() | tuple():
            return {name: ", ".join(map(str, value))}
        case None:
            return {}
        case _:
            return {name: value}
    return {key: inner for name, part in items for key, inner in _flat(part, name).items()}
