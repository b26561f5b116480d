"""The report as Markdown: the same tables as on a terminal, for a wiki or a pull request."""

import re
from collections.abc import Sequence

from loadstone.analysis import Findings
from loadstone.report.formats.disclosure import disclosure_tables
from loadstone.report.opening import STANDINGS, opening
from loadstone.report.options import Options
from loadstone.report.tables.in_order import tables_of
from loadstone.report.tables.layout import Table
from loadstone.results.record import Run


def render(run: Run, findings: Findings, options: Options) -> bytes:
    """Return the report as GitHub-flavoured Markdown.

    With a layout, its tables stand alone, so that they can be pasted as they are.
    """
    if options.layout is not None:
        return options.layout.render(findings, options).encode()
    first = opening(run, findings)
    blocks = [f"# {escaped(first.title)}", f"**{escaped(first.headline.sentence)}**"]
    lines = (f"Standing: {STANDINGS[first.headline.standing]}.", *first.cautions)
    blocks.append("\n".join(f"- {escaped(line)}" for line in lines))
    blocks.append(" ".join(map(escaped, first.sentences)))
    tables = [table for _, table in tables_of(run, findings, "markdown")]
    for table in (*tables, *disclosure_tables(run, findings)):
        blocks += table_blocks(table)
    if findings.findings:
        blocks.append("## What to know")
        blocks.append(
            "\n".join(f"- **{f.rule}**: {escaped(f.statement)}" for f in findings.findings)
        )
    return ("\n\n".join(blocks) + "\n").encode()


def table_blocks(table: Table) -> list[str]:
    """Return a table with its title, its caption and its notes."""
    blocks = [f"## {escaped(table.title)}"]
    if table.caption:
        blocks.append(escaped(table.caption))
    blocks.append(_grid(table))
    # Two spaces at a line's end keep notes apart without making paragraphs of them.
    if table.notes:
        blocks.append("  \n".join(map(escaped, table.notes)))
    return blocks


def _grid(table: Table) -> str:
    heads = [c.head if not c.unit else f"{c.head}, {c.unit}" for c in table.columns]
    lines = [[escaped(cell) for cell in row] for row in (heads, *table.rows)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(heads))]
    rights = [column.align == "right" for column in table.columns]
    text = [_row(line, widths, rights) for line in lines]
    rule = (
        "-" * (width - 1) + ":" if right else "-" * width
        for width, right in zip(widths, rights, strict=True)
    )
    text.insert(1, f"| {' | '.join(rule)} |")
    return "\n".join(text)


def _row(cells: Sequence[str], widths: Sequence[int], rights: Sequence[bool]) -> str:
    padded = (
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, rights, strict=True)
    )
    return f"| {' | '.join(padded)} |"


def escaped(text: str) -> str:
    """Return text that Markdown shows as it is: it links to nothing and is no HTML."""
    return re.sub(r"[\\|*`\[\]]", r"\\\g<0>", text).replace("&", "&amp;").replace("<", "&lt;")
