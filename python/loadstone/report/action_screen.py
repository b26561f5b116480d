"""The actions of scripts on one screen: a row for each, below what all of them come to."""

from collections.abc import Iterable, Sequence

from rich.table import Table as RichTable
from rich.text import Text

from loadstone.analysis import Findings
from loadstone.analysis.cells.actions import ActionCell
from loadstone.report.columns import Columns, least_width
from loadstone.report.result_words import NOT_KNOWN, quantile_words, rate_words
from loadstone.report.tables.replays import replay_words
from loadstone.report.tables.script_actions import actions_table

LINES_MIN = 5
"""Fewer show next to nothing: the full report has all."""


def actions_below(
    findings: Findings, lead: Sequence[RichTable | Text], lines: int, width: int
) -> Iterable[RichTable | Text]:
    """Return a row for each action, in what lines are left below the lead."""
    above = sum(one.row_count + 1 if isinstance(one, RichTable) else 1 for one in lead)
    replays = [Text(replay_words(replay), style="dim") for replay in findings.replays[:1]]
    room = lines - above - bool(lead) - len(replays)
    # The first actions of the first of several cases would say nothing of the others.
    is_part = len({str(action.cell.parameters) for action in findings.actions}) > 1
    is_part = is_part and len(findings.actions) + 2 > room
    if lead and (is_part or room < LINES_MIN):
        yield from replays
        yield Text("Each action, and the requests that they are made of: --full.", style="dim")
        return
    if lead:
        yield Text("")
    beside = _side_by_side(findings.actions)
    if lead and beside is not None and least_width([beside.heads, *beside.rows]) <= width:
        rows = beside.rows
        beside.rows = rows[: _fitting(len(rows), room)]
        yield beside.draw(width)
        yield from _rest(len(rows) - len(beside.rows))
        words = "Of all trials together. "
    else:
        table, count, has_busy = _table(findings, room, width)
        yield table
        yield from _rest(count - table.row_count)
        words = "Rate: all clients, by wall time. " if not lead else ""
        words += "Busy: one that does nothing else. " if has_busy else ""
    yield from replays
    what = "they are" if lead else "actions are"
    yield Text(f"{words}The requests that {what} made of: --full.", style="dim")


def _fitting(rows: int, lines: int) -> int:
    """Return how many rows fit with their head and the words below, and a word of the rest."""
    return rows if rows + 2 <= lines else max(1, lines - 3)


def _table(findings: Findings, lines: int, width: int) -> tuple[RichTable, int, bool]:
    """Return the rows that fit, how many there are, and whether the busy rate is among them."""
    table = actions_table(findings)
    assert table is not None, "who asks has looked"
    left = sum(column.align == "left" for column in table.columns)
    heads = [column.head for column in table.columns]
    # What does not fit the width is in the full report.
    kept = [at for at, column in enumerate(table.columns) if not column.is_optional]
    shown = table.rows[: _fitting(len(table.rows), lines)]
    for at in [heads.index(head) for head in ("Busy", "Crypto") if head in heads]:
        # What failed is not to be cut off for what says nothing of the store.
        if least_width([[row[at] for at in kept] for row in (heads, *shown)]) > width:
            kept.remove(at)
    columns = Columns([heads[at] for at in kept], left)
    columns.rows += [[row[at] for at in kept] for row in shown]
    return columns.draw(width), len(table.rows), heads.index("Busy") in kept


def _rest(count: int) -> Iterable[Text]:
    if count:
        yield Text(f"and {count} more actions: --full", style="dim")


def _side_by_side(actions: Sequence[ActionCell]) -> Columns | None:
    """Return a row for each action, with the rate and the p99 of each target in it.

    None where there is one target, or anything else than the target tells cases apart.
    """
    targets = list(dict.fromkeys(action.cell.target for action in actions))
    found = {(action.action, action.cell.target): action for action in actions}
    if len(targets) < 2 or len(found) != len(actions):
        return None
    heads = ["Action", *targets, *(f"{target} p99" for target in targets), "Failed"]
    columns = Columns(heads, 1)
    for action in dict.fromkeys(action.action for action in actions):
        own = [found.get((action, target)) for target in targets]
        failed = [
            f"{target} {one.cell.requests - one.cell.good:,}"
            for target, one in zip(targets, own, strict=True)
            if one is not None and one.cell.errors
        ]
        columns.rows.append(
            [
                action,
                *(
                    NOT_KNOWN if one is None or not one.completed_per_s else rate_words(one.cell)
                    for one in own
                ),
                *(quantile_words(None if one is None else one.cell.headline, "p99") for one in own),
                ", ".join(failed) or "0",
            ]
        )
    return columns
