"""The table of a script's actions: rates, times and failures."""

from collections.abc import Callable, Sequence

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.cells.actions import ALL, ActionCell
from loadstone.analysis.naming import describe_parameter, varied_parameters
from loadstone.report.result_words import (
    NOT_KNOWN,
    ends_words,
    notes_below,
    rate_words,
    spread_head,
)
from loadstone.report.tables.layout import Field, Table, known, number, tabulated, word
from loadstone.report.tables.results import time_fields

RATE_NOTE = (
    "Rate: actions that all clients completed, per second of their turn's wall time. The turns are:"
    " creating users, all other actions, audits. A turn lasts from the start of its first action to"
    " the end of its last."
)
BUSY_NOTE = (
    "Busy: actions divided by the sum of their own times, the rate of a client that does nothing"
    " else. It leaves out the time that sessions spend on other actions."
)
CRYPTO_NOTE = (
    "Crypto: the share of an action's time that the client spent on encryption, decryption, key"
    " wrapping, encrypted paths and hashing; the rest is the time of the store, the network and the"
    " client's other work."
)

BY_USER_TYPE = "Actions by user type"
ALL_NOTE = f"{ALL}: everything that users of the type did, except their creation and audits."


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
    means = [action.completed for action in actions if action.completed is not None]
    fields: list[Field[ActionCell]] = []
    if len({action.cell.target for action in actions}) > 1:
        fields.append(word("Target", lambda action: action.cell.target))
    fields += [word(name.replace("_", " ").capitalize(), _parameter(name)) for name in names]
    if any(action.user_type for action in actions):
        fields.append(word("User type", lambda action: action.user_type or NOT_KNOWN))
    fields.append(word("Action", lambda action: action.action))
    if any(action.space for action in actions):
        fields.append(word("Space", lambda action: action.space or NOT_KNOWN))
    fields.append(number("Count", lambda action: f"{action.cell.requests:,}"))
    fields.append(number("Rate", lambda a: rate_words(a.cell) if a.completed_per_s else NOT_KNOWN))
    if any(mean.is_spread for mean in means):
        head = spread_head(means)
        fields.append(number(head, lambda a: ends_words(a.completed), is_optional=True))
    # A grouped table has no room for both rates.
    fields += [] if is_grouped else [number("Busy", lambda action: _rate(action.busy_per_s))]
    fields += time_fields(("p50", "p99"), lambda action: action.cell.headline)
    has_crypto = any(action.crypto_share for action in actions)
    if has_crypto:
        fields.append(number("Crypto", lambda action: _share(action.crypto_share)))
    if not is_grouped:
        fields.append(
            number("Requests", known(lambda a: a.requests_per_action, show=".3g"), is_optional=True)
        )
    fields.append(number("Failed", _failed))
    notes = [RATE_NOTE if is_grouped else f"{RATE_NOTE} {BUSY_NOTE}"]
    notes += notes_below([action.cell for action in actions])
    notes += [CRYPTO_NOTE] if has_crypto else []
    notes += [ALL_NOTE] if any(action.action == ALL for action in actions) else []
    caption = ", ".join(_same(actions, names))
    return tabulated(title, actions, fields, caption=caption, notes=notes)


def _parameter(name: str) -> Callable[[ActionCell], str]:
    return lambda action: _value(name, action.cell.parameters.get(name))


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
