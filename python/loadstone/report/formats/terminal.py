"""The report for a terminal: the answer on one screen, or everything below an opening.

What only the whole report shows is imported with it: the answer ends every run.
"""

import io
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from loadstone.analysis import Findings
from loadstone.report.answer import screen_of
from loadstone.report.options import Options
from loadstone.report.tables.layout import Table
from loadstone.results.record import Run

if TYPE_CHECKING:
    from loadstone.report.opening import Opening

GAP = 2
WIDEST = 10_000
"""Wider than any table."""

STANDING_STYLES = {"good": "green", "first look": "yellow", "bound": "yellow", "void": "bold red"}
SEVERITY_STYLES = {"problem": "bold red", "caution": "yellow", "note": "dim"}


def render(run: Run, findings: Findings, options: Options) -> bytes:
    """Return the answer on one screen, or all of the report, with colours if they are asked for."""
    if options.is_limits:
        return render_tables(_tables(run, findings, options), options).encode()
    if not options.is_full and options.layout is None:
        return _answer(run, findings, options)
    from loadstone.report.opening import opening

    pieces = [_drawn(options, lambda console: _print_opening(console, opening(run, findings)))]
    if options.layout is not None:
        # A layout is exact, its tabs and blank cells included: nothing may draw it anew.
        pieces.append(options.layout.render(findings, options))
    else:
        pieces += [
            _drawn(
                options,
                lambda console, table=table: _print_table(console, table),  # type: ignore[misc]
                width=_width_needed(table),
            )
            for table in _tables(run, findings, options)
        ]
    if findings.findings:
        pieces.append(_drawn(options, lambda console: _print_findings(console, findings)))
    return "\n".join(pieces).encode()


def render_tables(tables: Iterable[Table], options: Options) -> str:
    """Return tables by themselves, each as wide as it needs to be."""
    return "\n".join(
        _drawn(options, partial(_print_table, table=table), _width_needed(table))
        for table in tables
    )


def _answer(run: Run, findings: Findings, options: Options) -> bytes:
    screen = screen_of(run, findings, width=options.width)
    # A command or a path is there to be copied: it is never broken.
    pieces: list[tuple[RichTable | Text, bool]] = [
        (screen.title, False),
        (Text(), True),
        *((line, False) for line in screen.body),
    ]
    pieces += [(Text(), True), *((line, True) for line in screen.foot)]
    return "".join(
        _printed(options, piece, is_whole=is_whole) for piece, is_whole in pieces
    ).encode()


def _printed(options: Options, piece: RichTable | Text, *, is_whole: bool) -> str:
    least = Console(width=WIDEST).measure(piece).minimum if isinstance(piece, RichTable) else 0
    return _drawn(options, lambda console: console.print(piece, soft_wrap=is_whole), least)


def _drawn(options: Options, draw: Callable[[Console], None], width: int = 0) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream,
        # Too wide a table runs over the edge: cut or broken numbers would be worse.
        width=max(options.width, width),
        color_system="standard" if options.color else None,
        force_terminal=options.color,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
    )
    draw(console)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def _print_opening(console: Console, first: "Opening") -> None:
    from loadstone.report.opening import STANDINGS

    console.print(Text(first.title, style="bold"))
    standing = first.headline.standing
    console.print(Text(first.headline.sentence, style=STANDING_STYLES[standing]))
    console.print(Text(f"Standing: {STANDINGS[standing]}."))
    for caution in first.cautions:
        console.print(Text(caution, style="yellow"))
    for sentence in first.sentences:
        console.print(Text(sentence, style="dim"))


def _tables(run: Run, findings: Findings, options: Options) -> list[Table]:
    from loadstone.report.formats.disclosure import mistakes_table
    from loadstone.report.tables.in_order import tables_of
    from loadstone.report.tables.observations import observation_tables

    if options.is_limits:
        return observation_tables(run, findings)
    mistakes = mistakes_table(findings, only_made=True)
    tables = [table for _, table in tables_of(run, findings, "terminal")]
    return tables if mistakes is None else [*tables, mistakes]


def _print_table(console: Console, table: Table) -> None:
    console.print(Text(table.title, style="bold"))
    if table.caption:
        console.print(Text(table.caption, style="dim"))
    shown, left_out = _fitting(table, console.width)
    drawn = RichTable(
        box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, GAP - 1, 0, 0)
    )
    for index in shown:
        column = table.columns[index]
        drawn.add_column(
            "\n".join(word for word in (column.head, column.unit) if word),
            justify=column.align,
            no_wrap=index != len(table.columns) - 1,
            overflow="fold",
        )
    for row in table.rows:
        drawn.add_row(*(row[index] for index in shown))
    console.print(drawn)
    for note in table.notes:
        # A command is there to be copied: it is never broken.
        console.print(Text(note, style="dim"), soft_wrap="loadstone " in note)
    if left_out:
        heads = ", ".join(table.columns[index].head for index in left_out)
        console.print(Text(f"Columns that do not fit: {heads}.", style="dim"))


def _fitting(table: Table, width: int) -> tuple[list[int], list[int]]:
    """Return the columns that fit side by side, and the optional ones left out to that end."""
    shown = list(range(len(table.columns)))
    left_out: list[int] = []
    for index in reversed(shown.copy()):
        if sum(_width(table, i) + GAP for i in shown) - GAP <= width:
            break
        if table.columns[index].is_optional:
            shown.remove(index)
            left_out.insert(0, index)
    return shown, left_out


def _width_needed(table: Table) -> int:
    shown, _ = _fitting(table, 0)
    return sum(_width(table, index) + GAP for index in shown) - GAP


def _width(table: Table, index: int) -> int:
    column = table.columns[index]
    # The last column may wrap between words, if it comes to that.
    last = index == len(table.columns) - 1 and column.align == "left"
    cells = [row[index] for row in table.rows]
    words = [word for cell in cells for word in cell.split()] if last else cells
    return max(len(text) for text in ("", column.head, column.unit, *words))


def _print_findings(console: Console, findings: Findings) -> None:
    console.print(Text("What to know", style="bold"))
    width = max(len(finding.rule) for finding in findings.findings)
    for finding in findings.findings:
        line = RichTable.grid(padding=(0, 2))
        line.add_column(width=width, no_wrap=True)
        line.add_column()
        line.add_row(Text(finding.rule, style=SEVERITY_STYLES[finding.severity]), finding.statement)
        console.print(line)
