"""The actions of scripts on one screen, below all actions together."""

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
    """Return a row per action in the lines left below the lead."""
    above = sum(part.row_count + 1 if isinstance(part, RichTable) else 1 for part in lead)
    replays = [Text(replay_words(replay), style="dim") for replay in findings.replays[:1]]
    room = lines - above - bool(lead) - len(replays)
    # With several cases, the first actions of the first one would hide the others.
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
        words = "Rates are over all trials. "
    else:
        table, count, has_busy = _table(findings, room, width)
        yield table
        yield from _rest(count - table.row_count)
        words = "Rate: of all clients, by wall time. " if not lead else ""
        words += "Busy: rate of a client that does nothing else. " if has_busy else ""
    yield from replays
    yield Text(f"{words}Requests of each action: --full.", style="dim")


def _fitting(rows: int, lines: int) -> int:
    """Return how many rows fit with their head and the notes below."""
    return rows if rows + 2 <= lines else max(1, lines - 3)


def _table(findings: Findings, lines: int, width: int) -> tuple[RichTable, int, bool]:
    """Return the rows that fit, the number of all, and whether the busy rate is shown."""
    table = actions_table(findings)
    assert table is not None, "callers check that there are actions"
    left = sum(column.align == "left" for column in table.columns)
    heads = [column.head for column in table.columns]
    # Columns that do not fit the width are in the full report.
    shown_places = [at for at, column in enumerate(table.columns) if not column.is_optional]
    shown = table.rows[: _fitting(len(table.rows), lines)]
    for at in [heads.index(head) for head in ("Busy", "Crypto") if head in heads]:
        # Rather drop a column that does not describe the store than cut off the failures.
        if least_width([[row[at] for at in shown_places] for row in (heads, *shown)]) > width:
            shown_places.remove(at)
    columns = Columns([heads[at] for at in shown_places], left)
    columns.rows += [[row[at] for at in shown_places] for row in shown]
    return columns.draw(width), len(table.rows), heads.index("Busy") in shown_places


def _rest(count: int) -> Iterable[Text]:
    if count:
        yield Text(f"and {count} more actions: --full", style="dim")


def _side_by_side(actions: Sequence[ActionCell]) -> Columns | None:
    """Return a row per action with the rate and the p99 of each target.

    None if there is one target, or if cases differ in more than the target.
    """
    targets = list(dict.fromkeys(action.cell.target for action in actions))
    action_of = {(action.action, action.cell.target): action for action in actions}
    if len(targets) < 2 or len(action_of) != len(actions):
        return None
    heads = ["Action", *targets, *(f"{target} p99" for target in targets), "Failed"]
    columns = Columns(heads, 1)
    for action in dict.fromkeys(action.action for action in actions):
        row_actions = [action_of.get((action, target)) for target in targets]
        failed = [
            f"{target} {action_cell.cell.requests - action_cell.cell.good:,}"
            for target, action_cell in zip(targets, row_actions, strict=True)
            if action_cell is not None and action_cell.cell.errors
        ]
        columns.rows.append(
            [
                action,
                *(
                    NOT_KNOWN
                    if action_cell is None or not action_cell.completed_per_s
                    else rate_words(action_cell.cell)
                    for action_cell in row_actions
                ),
                *(
                    quantile_words(
                        None if action_cell is None else action_cell.cell.headline, "p99"
                    )
                    for action_cell in row_actions
                ),
                ", ".join(failed) or "0",
            ]
        )
    return columns
