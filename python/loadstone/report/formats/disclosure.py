"""The disclosure: everything a reader must know of a run, and the standard it meets, as YAML."""

import io
from collections.abc import Iterator
from dataclasses import asdict

from ruamel.yaml import YAML

from loadstone.analysis import Findings
from loadstone.analysis.standards.standard import declare, disclosure, statements_of
from loadstone.documents.manifest import Manifest
from loadstone.report.card_words import summary_of
from loadstone.report.options import Options
from loadstone.report.result_words import NOT_KNOWN
from loadstone.report.tables.layout import Table, texts
from loadstone.report.tables.nodes import node_tables
from loadstone.results.record import Run


def render(run: Run, findings: Findings, options: Options) -> bytes:
    """Return disclosure.yaml; an empty field was neither stated nor measured."""
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.allow_unicode = True
    writer.width = 100
    writer.representer.sort_base_mapping_type_on_output = False
    stream = io.BytesIO()
    mistakes = [asdict(mistake) for mistake in findings.mistakes]
    writer.dump({**disclosure(run, findings), "mistakes": mistakes}, stream)
    return stream.getvalue()


def disclosure_tables(run: Run, findings: Findings) -> tuple[Table, ...]:
    """Return the tables that close a report: the standard, mistakes, statements, cards, nodes."""
    tables = (
        standard_table(run, findings),
        mistakes_table(findings),
        statements_table(run),
        *card_tables(run.manifest),
        *node_tables(run.manifest.get("nodes") or {}),
    )
    return tuple(table for table in tables if table is not None and table.rows)


def standard_table(run: Run, findings: Findings) -> Table:
    """Return the rules of the standard and which of them the run meets."""
    rules = declare(run, findings)
    met = sum(rule.status == "met" for rule in rules)
    failed = sum(rule.status == "not met" for rule in rules)
    return Table(
        title="The standard",
        columns=texts("Rule", "Is", "Because"),
        rows=tuple((rule.title, rule.status, rule.because) for rule in rules),
        caption=f"{met} of {len(rules)} rules are met, {failed} are not.",
        notes=("The whole disclosure: loadstone report RUN -f disclosure.",),
    )


def mistakes_table(findings: Findings, *, only_made: bool = False) -> Table | None:
    """Return the common mistakes of reports, and whether this one makes them; None without any."""
    rows = [
        (mistake.mistake, mistake.outcome, mistake.evidence)
        for mistake in findings.mistakes
        if not only_made or mistake.outcome == "fail"
    ]
    if not rows:
        return None
    made = sum(mistake.outcome == "fail" for mistake in findings.mistakes)
    return Table(
        title="Common mistakes",
        columns=texts("Mistake", "Check", "Because"),
        rows=tuple(rows),
        caption=f"{made} of {len(findings.mistakes)} checks fail.",
    )


def statements_table(run: Run) -> Table:
    """Return what the campaign states and loadstone cannot measure."""
    return Table(
        title="Statements",
        columns=texts("Of", "Stated"),
        rows=tuple((name, text or NOT_KNOWN) for name, text in statements_of(run).items()),
        notes=("Statements are the campaign's own, and were not checked.",),
    )


def card_tables(manifest: Manifest) -> Iterator[Table]:
    """Yield what each target answered before the load otherwise than usual, and who could not."""
    for name, card in (manifest.get("cards") or {}).items():
        yield Table(
            title=f"Features of {name}",
            columns=texts("Question", "Answer", "Seen", "What it means here"),
            rows=tuple(
                (row["question"], row["answer"], row["detail"], row["means"])
                for row in card["rows"]
                if not row["usual"]
            ),
            caption=f"Asked on {card['when']}: {summary_of(card)}.",
            notes=(f"The other questions are answered as by {card['protocol']}.",),
        )
    if failed := manifest.get("cards_failed"):
        yield Table(
            title="Targets without a card",
            columns=texts("Target", "Because"),
            rows=tuple(failed.items()),
        )
