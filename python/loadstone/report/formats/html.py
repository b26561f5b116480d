"""The report of a run as one page for a browser: the answer, charts, evidence, every number.

It loads nothing from outside, so that it opens the same on an air-gapped machine and in ten years.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from loadstone.analysis import Findings
from loadstone.analysis.answers.answer import (
    Answer,
    ScriptAnswer,
    answer_of,
    answer_of_scripts,
    no_result,
)
from loadstone.analysis.answers.headline import headline_of
from loadstone.analysis.audits import WORDS
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.limits.verdict import Verdict
from loadstone.analysis.rules import find_rule, limit_in_words
from loadstone.analysis.standards.standard import plan_hash
from loadstone.report.answer import read_back_lines, summary_words
from loadstone.report.formats.disclosure import disclosure_tables
from loadstone.report.formats.queries_page import query_data, render_queries
from loadstone.report.next_step import next_step
from loadstone.report.opening import sentences_of
from loadstone.report.options import Options
from loadstone.report.pages.chart_data import chart_data
from loadstone.report.pages.frame import render_page
from loadstone.report.pages.result_rows import result_table
from loadstone.report.result_words import evidence_words, notes_below
from loadstone.report.tables.in_order import Section, tables_of
from loadstone.report.tables.layout import Table
from loadstone.report.tables.markdown_tables import Piece, pieces_of
from loadstone.results.record import Run


def render(run: Run, findings: Findings, options: Options) -> bytes:
    if findings.queries is not None and options.layout is None:
        return render_queries(run, findings, findings.queries)
    answer = answer_of(findings)
    rounds = _rounds(findings)
    scripts = answer_of_scripts(findings, answer)
    drawn = _drawn(run, findings, answer, scripts)
    asked = "" if options.layout is None else options.layout.render(findings, options)
    tables: dict[str, list[Table]] = {section: [] for section in get_args(Section)}
    for section, table in tables_of(run, findings, "page"):
        tables[section].append(table)
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
        audits=findings.audits,
        finding_words=WORDS,
        read_back=tuple(read_back_lines(run, findings)),
        results=len(answer.results),
        no_result=no_result(findings),
        findings=findings.findings,
        step=next_step(run, findings, answer, is_on_page=True),
        asked=tuple[Piece, ...](pieces_of(asked)),
        **tables,
        has_sessions=drawn["sessions"] is not None,
        reasons=reasons_of(findings),
        absent=tuple(sorted(_absent(findings))),
        disclosure=disclosure_tables(run, findings),
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
    """Return nested facts as one mapping with dotted names."""
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


CASES_MAX = 6
ONLY_ROUND = ", round 1"
_LABEL = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A reason for a limit, with its grade and its results.

    Numbers that differ between results become ranges, in `reason` and in `evidence`; if kinds of
    evidence differ, it is that of the first. `cases` are the first results, `more` the number of
    the others.
    """

    limit: str
    grade: str
    reason: str
    means: str
    evidence: str
    cases: tuple[str, ...]
    more: int


def reasons_of(findings: Findings) -> tuple[Reason, ...]:
    """Return the reasons, those of most results first."""
    groups: dict[tuple[str, str], list[tuple[Result, Verdict]]] = {}
    for cell in findings.rounds:
        if (verdict := cell.verdict) is not None:
            kind = (verdict.limit, _NUMBER.sub("#", verdict.reason))
            groups.setdefault(kind, []).append((cell, verdict))
    has_rounds = any(cell.round != 1 for cell in findings.rounds)
    return tuple(
        _reason(of_kind, has_rounds=has_rounds)
        for of_kind in sorted(groups.values(), key=lambda of_kind: -len(of_kind))
    )


def _reason(results_of_case: Sequence[tuple[Result, Verdict]], *, has_rounds: bool) -> Reason:
    verdict = results_of_case[0][1]
    name = verdict.limit.partition("(")[0]
    names = [
        cell.name if has_rounds else cell.name.removesuffix(ONLY_ROUND)
        for cell, _ in results_of_case
    ]
    reason = _merged([one_verdict.reason for _, one_verdict in results_of_case])
    evidence = [evidence_words(one_verdict.evidence) for _, one_verdict in results_of_case]
    alike = [
        words for words in evidence if _NUMBER.sub("#", words) == _NUMBER.sub("#", evidence[0])
    ]
    limit = limit_in_words(verdict.limit)
    in_words = _LABEL.sub(lambda label: limit_in_words(label[0]), reason)
    return Reason(
        limit=limit,
        grade=verdict.grade or "",
        reason=in_words.removeprefix(f"{limit}: "),
        means=find_rule(name).means,
        evidence=_merged(alike),
        cases=tuple(names[:CASES_MAX]),
        more=max(0, len(names) - CASES_MAX),
    )


def _merged(texts: Sequence[str]) -> str:
    """Merge sentences that differ in numbers only, with a range for each number."""
    numbers = [_NUMBER.findall(text) for text in texts]
    ranges = iter(
        [
            low if low == high else f"{low} to {high}"
            for column in zip(*numbers, strict=True)
            for low, high in [(min(column, key=_value), max(column, key=_value))]
        ]
    )
    return _NUMBER.sub(lambda _: next(ranges), texts[0])


def _value(number: str) -> float:
    return float(number.replace(",", ""))
