"""The table of a script's actions: rates, times and failures."""

from collections.abc import Sequence

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.cells.actions import ALL, ActionCell
from loadstone.analysis.naming import describe_parameter, varied_parameters
from loadstone.report.result_words import (
    NOT_KNOWN,
    ends_words,
    notes_below,
    quantile_words,
    rate_words,
    spread_head,
)
from loadstone.report.tables.layout import Column, Table

RATE_NOTE = (
    "Rate: actions that all clients completed, by the wall time of their turn: making users, all"
    " other actions, audits. A turn goes from the begin of its first action to the end of its last."
)
BUSY_NOTE = (
    "Busy: actions by the sum of their own times, as if a client did nothing else; the two differ"
    " by what the sessions did meanwhile."
)
CRYPTO_NOTE = (
    "Crypto: what of an action's time its client spent on encryption, decryption, the wrapping of"
    " keys, encrypted paths and hashing; the rest is the store's, the network's and the other work"
    " of the client."
)

BY_USER_TYPE = "Actions by user type"
ALL_NOTE = f"{ALL}: everything that users of the type did, but for their making and audits."


def actions_table(findings: Findings) -> Table | None:
    """Return a row per action and case; None without a script."""
    return _table(findings.actions, "Actions", is_grouped=False)


def groups_table(findings: Findings) -> Table | None:
    """Return the actions by space and type of user; None if they do not differ."""
    types = any(action_group.user_type for action_group in findings.action_groups)
    title = BY_USER_TYPE if types else "Actions by space"
    return _table(findings.action_groups, title, is_grouped=True)


def _table(actions: Sequence[ActionCell], title: str, *, is_grouped: bool) -> Table | None:
    if not actions:
        return None
    names = varied_parameters(action.cell.parameters for action in actions)
    has_targets = len({action.cell.target for action in actions}) > 1
    has_types = any(action.user_type for action in actions)
    has_spaces = any(action.space for action in actions)
    words = ["Target"] if has_targets else []
    words += [name.replace("_", " ").capitalize() for name in names]
    words += ["User type"] if has_types else []
    words += ["Action", "Space"] if has_spaces else ["Action"]
    columns = [Column(head=word, align="left") for word in words]
    means = [action.cell.rate for action in actions if action.completed_per_s]
    is_repeated = any(mean.is_spread for mean in means)
    columns += [Column(head=head) for head in ("Count", "Rate")]
    columns += [Column(head=spread_head(means), is_optional=True)] if is_repeated else []
    # A grouped table has no room for both rates.
    heads = ("p50", "p99") if is_grouped else ("Busy", "p50", "p99")
    columns += [Column(head=head) for head in heads]
    has_crypto = any(action.crypto_share for action in actions)
    columns += [Column(head="Crypto")] if has_crypto else []
    columns += [] if is_grouped else [Column(head="Requests", is_optional=True)]
    columns += [Column(head="Failed")]
    rows = []
    for action_cell in actions:
        cell = action_cell.cell
        row = [cell.target] if has_targets else []
        row += [_value(name, cell.parameters.get(name)) for name in names]
        row += [action_cell.user_type or NOT_KNOWN] if has_types else []
        row += (
            [action_cell.action, action_cell.space or NOT_KNOWN]
            if has_spaces
            else [action_cell.action]
        )
        row += [f"{cell.requests:,}"]
        row += [rate_words(cell) if action_cell.completed_per_s else NOT_KNOWN]
        row += (
            [ends_words(cell.rate if action_cell.completed_per_s else None)] if is_repeated else []
        )
        row += [] if is_grouped else [_rate(action_cell.busy_per_s)]
        row += [quantile_words(cell.headline, name) for name in ("p50", "p99")]
        row += [_share(action_cell.crypto_share)] if has_crypto else []
        each = action_cell.requests_per_action
        row += [] if is_grouped else [NOT_KNOWN if each is None else f"{each:.3g}"]
        rows.append((*row, _failed(action_cell)))
    caption = ", ".join(_same(actions, names))
    notes = [RATE_NOTE if is_grouped else f"{RATE_NOTE} {BUSY_NOTE}"]
    notes += notes_below([action.cell for action in actions])
    notes += [CRYPTO_NOTE] if has_crypto else []
    notes += [ALL_NOTE] if any(action.action == ALL for action in actions) else []
    return Table(
        title=title,
        columns=tuple(columns),
        rows=tuple(rows),
        caption=caption,
        notes=tuple(notes),
    )


def _share(share: float | None) -> str:
    return NOT_KNOWN if share is None else f"{share * 100:.2g} %"


def _rate(per_s: float | None) -> str:
    return NOT_KNOWN if per_s is None else units.format_rate(per_s)


def _failed(action: ActionCell) -> str:
    cell = action.cell
    if not cell.errors:
        return "0"
    return ", ".join(f"{count:,} {kind}" for kind, count in cell.errors.items())


def _same(actions: Sequence[ActionCell], names: list[str]) -> list[str]:
    parameters = actions[0].cell.parameters
    return [describe_parameter(name, value) for name, value in parameters.items()
            if name not in names]  # fmt: skip


def _value(name: str, value: object) -> str:
    # The name is the column's head, and 80 columns have no room for it in every row.
    if isinstance(value, (int, float)) and not isinstance(value, bool) and name not in units.SIZES:
        return f"{value:,}"
    prefix = f"{name.replace('_', ' ')} "
    return "" if value is None else describe_parameter(name, value).removeprefix(prefix)
