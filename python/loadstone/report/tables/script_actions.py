"""The table of a script's actions: both of their rates, their times, and what failed."""

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.cells.actions import ActionCell
from loadstone.analysis.naming import describe_parameter
from loadstone.report.tables.layout import NOT_KNOWN, Column, Table, quantile_cell

NOTES = (
    "Rate: actions that all clients completed, by wall time; of those that run before or after all"
    " others, from the begin of the first to the end of the last. Busy: actions by the sum of"
    " their own times, as if a client did nothing else; the two differ by what the sessions did"
    " meanwhile.",
)
CRYPTO_NOTE = (
    "Crypto: what of an action's time its client spent on encryption, decryption, the wrapping of"
    " keys and hashing; the rest is the store's, the network's and the other work of the client."
)


def actions_table(findings: Findings) -> Table | None:
    """Return a row for each action of each case; None where no trial followed a script."""
    if not findings.actions:
        return None
    names = _differing(findings.actions)
    has_targets = len({one.cell.target for one in findings.actions}) > 1
    words = ["Target"] if has_targets else []
    words += [name.replace("_", " ").capitalize() for name in names]
    columns = [Column(head=word, align="left") for word in (*words, "Action")]
    has_intervals = any(one.cell.interval and one.completed_per_s for one in findings.actions)
    columns += [Column(head=head) for head in ("Count", "Rate")]
    columns += [Column(head="95 % CI", is_optional=True)] if has_intervals else []
    columns += [Column(head=head) for head in ("Busy", "p50", "p99")]
    has_crypto = any(one.crypto_share for one in findings.actions)
    columns += [Column(head="Crypto")] if has_crypto else []
    columns += [Column(head="Requests", is_optional=True), Column(head="Failed")]
    rows = []
    for one in findings.actions:
        cell = one.cell
        row = [cell.target] if has_targets else []
        row += [_value(name, cell.parameters.get(name)) for name in names]
        row += [one.action, f"{cell.requests:,}"]
        row += [_rate(one.completed_per_s)]
        row += [_interval(one)] if has_intervals else []
        row += [_rate(one.busy_per_s)]
        row += [quantile_cell(cell.headline, name) for name in ("p50", "p99")]
        row += [_share(one.crypto_share)] if has_crypto else []
        each = one.requests_per_action
        row += [NOT_KNOWN if each is None else f"{each:.3g}"]
        rows.append((*row, _failed(one)))
    caption = ", ".join(_same(findings.actions, names))
    return Table(
        title="Actions",
        columns=tuple(columns),
        rows=tuple(rows),
        caption=caption,
        notes=(*NOTES, CRYPTO_NOTE) if has_crypto else NOTES,
    )


def _share(share: float | None) -> str:
    return NOT_KNOWN if share is None else f"{share * 100:.2g} %"


def _interval(one: ActionCell) -> str:
    found = one.cell.interval
    if found is None or found.low is None or found.high is None or not one.completed_per_s:
        return NOT_KNOWN
    days = f", {found.days} days" if found.days > 1 else ""
    return f"{units.format_number(found.low)} to {units.format_number(found.high)}{days}"


def _rate(per_s: float | None) -> str:
    return NOT_KNOWN if per_s is None else units.format_rate(per_s)


def _failed(one: ActionCell) -> str:
    cell = one.cell
    if not cell.errors:
        return "0"
    return ", ".join(f"{count:,} {kind}" for kind, count in cell.errors.items())


def _differing(actions: tuple[ActionCell, ...]) -> list[str]:
    values: dict[str, set[str]] = {}
    for one in actions:
        for name, value in one.cell.parameters.items():
            values.setdefault(name, set()).add(str(value))
    return [name for name, found in values.items() if len(found) > 1]


def _same(actions: tuple[ActionCell, ...], names: list[str]) -> list[str]:
    parameters = actions[0].cell.parameters
    return [describe_parameter(name, value) for name, value in parameters.items()
            if name not in names]  # fmt: skip


def _value(name: str, value: object) -> str:
    # The name is the column's head, and 80 columns have no room for it in every row.
    if isinstance(value, (int, float)) and not isinstance(value, bool) and name not in units.SIZES:
        return f"{value:,}"
    prefix = f"{name.replace('_', ' ')} "
    return "" if value is None else describe_parameter(name, value).removeprefix(prefix)
