"""The report as one HTML page: the answer, the charts, the evidence. It loads nothing from outside.

The charts' program and data are in the page itself, so that it opens the same on an air-gapped
machine and in ten years.
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from loadstone.analysis import Findings
from loadstone.analysis.rules import find_rule
from loadstone.analysis.standards.standard import plan_hash
from loadstone.report.charts.drawing import Picture
from loadstone.report.charts.overview import evidence_pictures, pictures
from loadstone.report.formats.disclosure import mistakes_table, standard_table, statements_table
from loadstone.report.formats.page import charts_section, figure, text_of, whole_page
from loadstone.report.opening import opening
from loadstone.report.options import Options
from loadstone.report.tables.capacity import capacity_table, steps_table
from loadstone.report.tables.ceilings import ceilings_table, hooks_table, target_table
from loadstone.report.tables.interventions import intervention_table
from loadstone.report.tables.layout import (
    Column,
    Table,
    client_table,
    errors_table,
    iterations_table,
    latency_table,
    results_table,
    trials_table,
)
from loadstone.report.tables.templates import render_template
from loadstone.report.tables.verdicts import verdict_table
from loadstone.results.record import Run

ROWS_SHOWN = 60


def render(run: Run, findings: Findings, options: Options) -> bytes:
    """Return the page."""
    drawn, evidence = pictures(findings), evidence_pictures(findings)
    body = [
        *_opening(run, findings, options),
        *_findings(findings),
        *charts_section(drawn),
        *_numbers(findings, options),
        *_evidence(run, findings, evidence),
        f'<p class="quiet">Made by loadstone {text_of(run.manifest.get("loadstone", ""))} from the '
        "run folder; every number can be made again from it.</p>",
    ]
    return whole_page(run.name, body, (*drawn, *evidence))


def _opening(run: Run, findings: Findings, options: Options) -> Iterable[str]:
    first = opening(run, findings)
    yield f"<header><h1>{text_of(first.title)}</h1>"
    for sentence in first.sentences:
        yield f"<p>{text_of(sentence)}</p>"
    if first.answers:
        yield '<ul class="answers">'
        yield from (f"<li>{text_of(answer)}</li>" for answer in first.answers)
        yield "</ul>"
    yield f'<p class="verdict {first.standing}">{text_of(first.verdict)}</p>'
    yield (
        '<nav><a href="#results">Results</a><a href="#charts">Charts</a>'
        '<a href="#numbers">All numbers</a><a href="#evidence">Evidence</a>'
        '<a href="#disclosure">Disclosure</a></nav></header>'
    )
    yield '<section id="results">'
    answers = capacity_table(findings)
    if answers is not None:
        yield from _table(answers, level=2, main="Holds at")
    if options.table is not None:
        yield "<h2>Results</h2>"
        yield f"<pre>{text_of(render_template(options.table, findings, options).rstrip())}</pre>"
    else:
        yield from _foldable(results_table(findings, options), main="Requests")
    ceilings = ceilings_table(findings)
    if ceilings is not None:
        yield from _table(ceilings, level=2)
    yield "</section>"


def _foldable(table: Table, *, main: str) -> Iterable[str]:
    """Return a table, folded where nobody reads all its rows: the charts then come first."""
    if len(table.rows) <= ROWS_SHOWN:
        yield from _table(table, level=2, main=main)
        return
    yield f"<h2>{text_of(table.title)}</h2>"
    yield f"<details><summary>All {len(table.rows)} rows; the charts show them too</summary>"
    yield from _table(table, level=3, main=main)
    yield "</details>"


def _findings(findings: Findings) -> Iterable[str]:
    if not findings.findings:
        return
    yield "<h3>What to know</h3>"
    yield '<ul class="findings">'
    for finding in findings.findings:
        yield (
            f'<li><b class="{finding.severity}">{text_of(finding.rule)}</b> '
            f"<span>{text_of(finding.statement)}</span></li>"
        )
    yield "</ul>"


def _numbers(findings: Findings, options: Options) -> Iterable[str]:
    yield '<section id="numbers"><h2>All numbers</h2>'
    tables = (
        iterations_table(findings, options),
        latency_table(findings),
        client_table(findings),
        errors_table(findings),
        steps_table(findings),
    )
    for table in tables:
        if table is not None and table.rows:
            yield from _table(table, level=3)
    yield "</section>"


def _evidence(run: Run, findings: Findings, drawn: Sequence[Picture]) -> Iterable[str]:
    yield '<section id="evidence"><h2>Evidence</h2>'
    yield from _table(verdict_table(findings), level=3)
    changes = intervention_table(findings)
    if changes is not None:
        yield from _table(changes, level=3)
    yield from _table(trials_table(findings), level=3)
    for table in (target_table(findings), hooks_table(findings)):
        if table is not None:
            yield from _table(table, level=3)
    if drawn:
        yield "<h3>What the targets' exporters showed</h3>"
        for picture in drawn:
            yield from figure(picture)
    absent = {
        f"{name}: {reason}"
        for trial in findings.trials
        for name, reason in trial.absent_probes.items()
    }
    if absent:
        yield "<p>Not observed (absent, which is not zero):</p><ul>"
        yield from (f"<li>{text_of(line)}</li>" for line in sorted(absent))
        yield "</ul>"
    yield "</section>"
    yield from _disclosure(run, findings)


def _disclosure(run: Run, findings: Findings) -> Iterable[str]:
    yield '<section id="disclosure"><h2>Disclosure</h2>'
    yield from _table(standard_table(run, findings), level=3)
    mistakes = mistakes_table(findings)
    if mistakes is not None:
        yield from _table(mistakes, level=3)
    yield from _table(statements_table(run), level=3)
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
    yield f"<h3>The run</h3>{_facts(facts)}"
    yield f"<h3>The client host</h3>{_facts(_flat(manifest.get('host') or {}))}"
    if manifest.get("campaign_file"):
        yield "<h3>The campaign, as it was given</h3>"
        yield f"<pre>{text_of(manifest['campaign_file'])}</pre>"
    resolved = json.dumps(manifest.get("campaign"), indent=2, ensure_ascii=False)
    yield "<details><summary>The campaign, with every default filled in</summary>"
    yield f"<pre>{text_of(resolved)}</pre></details>"
    yield "</section>"


def _table(table: Table, *, level: int, main: str = "") -> Iterable[str]:
    yield f"<h{level}>{text_of(table.title)}</h{level}>"
    yield '<div class="scroll"><table>'
    if table.caption:
        yield f"<caption>{text_of(table.caption)}</caption>"
    heads = "".join(_head(column) for column in table.columns)
    yield f"<thead><tr>{heads}</tr></thead><tbody>"
    heads_of_columns = [column.head for column in table.columns]
    by = heads_of_columns.index("Target") if "Target" in heads_of_columns else 0
    before = table.rows[0][by] if table.rows else ""
    for row in table.rows:
        # A line between targets: the eye finds its block.
        group = ' class="group"' if row[by] != before else ""
        before = row[by]
        cells = (
            _cell(column, text, is_main=column.head == main)
            for column, text in zip(table.columns, row, strict=True)
        )
        yield f"<tr{group}>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"
    if table.notes:
        yield f'<p class="quiet">{"<br>".join(map(text_of, table.notes))}</p>'


def _head(column: Column) -> str:
    unit = f'<span class="unit">{text_of(column.unit)}</span>' if column.unit else ""
    return f'<th scope="col" class="{column.align}">{text_of(column.head)}{unit}</th>'


def _cell(column: Column, text: str, *, is_main: bool) -> str:
    shown = text_of(text)
    if column.head == "Labels":
        shown = "".join(
            f'<span class="label {find_rule(label).severity}"'
            f' title="{text_of(find_rule(label).says)}">'
            f"{text_of(label)}</span>"
            for label in text.split()
        )
    kind = " main" if is_main else " labels" if column.head == "Labels" else ""
    return f'<td class="{column.align}{kind}">{shown}</td>'


def _facts(facts: Mapping[str, object]) -> str:
    rows = "".join(
        f"<dt>{text_of(name)}</dt><dd>{text_of(value)}</dd>"
        for name, value in facts.items()
        if value is not None
    )
    return f"<dl>{rows}</dl>"


def _flat(value: object, name: str = "") -> dict[str, object]:
    """Return nested facts as one list with dotted names: nobody reads a tree."""
    match value:
        case Mapping():
            items = ((f"{name}.{key}" if name else str(key), inner) for key, inner in value.items())
        case list() | tuple() if any(isinstance(inner, (Mapping, list)) for inner in value):
            items = ((f"{name}[{index}]", inner) for index, inner in enumerate(value))
        case list() | tuple():
            return {name: ", ".join(map(str, value))}
        case _:
            return {name: value}
    return {key: inner for name, part in items for key, inner in _flat(part, name).items()}
