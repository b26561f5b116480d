"""The table of a script's actions: both of their rates, their times, and what failed."""

from collections.abc import Sequence

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.cells.actions import ALL, ActionCell
from loadstone.analysis.naming import describe_parameter
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
    """Return a row for each action of each case; None where no trial followed a script."""
    return _table(findings.actions, "Actions", is_grouped=False)


def groups_table(findings: Findings) -> Table | None:
    """Return the same by kind of space and type of user; None where these tell nothing apart."""
    types = any(one.user_type for one in findings.action_groups)
    title = BY_USER_TYPE if types else "Actions by space"
    return _table(findings.action_groups, title, is_grouped=True)


def _table(actions: Sequence[ActionCell], title: str, *, is_grouped: bool) -> Table | None:
    if not actions:
        return None
    names = _differing(actions)
    has_targets = len({one.cell.target for one in actions}) > 1
    has_types = any(one.user_type for one in actions)
    has_spaces = any(one.space for one in actions)
    words = ["Target"] if has_targets else []
    words += [name.replace("_", " ").capitalize() for name in names]
    words += ["User type"] if has_types else []
    words += ["Action", "Space"] if has_spaces else ["Action"]
    columns = [Column(head=word, align="left") for word in words]
    means = [one.cell.rate for one in actions if one.completed_per_s]
    is_repeated = any(one.is_spread for one in means)
    columns += [Column(head=head) for head in ("Count", "Rate")]
    columns += [Column(head=spread_head(means), is_optional=True)] if is_repeated else []
    # What has more to tell apart has no room for both rates.
    heads = ("p50", "p99") if is_grouped else ("Busy", "p50", "p99")
    columns += [Column(head=head) for head in heads]
    has_crypto = any(one.crypto_share for one in actions)
    columns += [Column(head="Crypto")] if has_crypto else []
    columns += [] if is_grouped else [Column(head="Requests", is_optional=True)]
    columns += [Column(head="Failed")]
    rows = []
    for one in actions:
        cell = one.cell
        row = [cell.target] if has_targets else []
        row += [_value(name, cell.parameters.get(name)) for name in names]
        row += [one.user_type or NOT_KNOWN] if has_types else []
        row += [one.action, one.space or NOT_KNOWN] if has_spaces else [one.action]
        row += [f"{cell.requests:,}"]
        row += [rate_words(cell) if one.completed_per_s else NOT_KNOWN]
        row += [ends_words(cell.rate if one.completed_per_s else None)] if is_repeated else []
        row += [] if is_grouped else [_rate(one.busy_per_s)]
        row += [quantile_words(cell.headline, name) for name in ("p50", "p99")]
        row += [_share(one.crypto_share)] if has_crypto else []
        each = one.requests_per_action
        row += [] if is_grouped else [NOT_KNOWN if each is None else f"{each:.3g}"]
        rows.append((*row, _failed(one)))
    caption = ", ".join(_same(actions, names))
    notes = [RATE_NOTE if is_grouped else f"{RATE_NOTE} {BUSY_NOTE}"]
    notes += notes_below([one.cell for one in actions])
    notes += [CRYPTO_NOTE] if has_crypto else []
    notes += [ALL_NOTE] if any(one.action == ALL for one in actions) else []
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


def _failed(one: ActionCell) -> str:
    cell = one.cell
    if not cell.errors:
        return "0"
    return ", ".join(f"{count:,} {kind}" for kind, count in cell.errors.items())


def _differing(actions: Sequence[ActionCell]) -> list[str]:
    values: dict[str, set[str]] = {}
    for one in actions:
        for name, value in one.cell.parameters.items():
            values.setdefault(name, set()).add(str(value))
    return [name for name, found in values.items() if len(found) > 1]


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
