"""How hosts that cannot take part are named: all of them, and what to do once."""

import re
from collections.abc import Mapping, Sequence

from loadstone.errors import HostError

NAMED_MAX = 8


def some_of(names: Sequence[str]) -> str:
    """Return names, the first of them where they are many."""
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


def refusal(ended: Mapping[str, str]) -> HostError:
    """Return the error that names every host whose agent has ended, and what to do, each once."""
    lines, hints = [], []
    for host, why in sorted(ended.items()):
        message, _, hint = why.partition("\nhint: ")
        is_named = re.search(rf"\bhost {re.escape(host)}(?![\w.-])", message)
        lines.append(message if is_named else f"host {host}: {message}")
        if hint and hint not in hints:
            hints.append(hint)
    more = len(lines) - NAMED_MAX
    if more > 0:
        lines = [*lines[:NAMED_MAX], f"and {more} more hosts"]
    return HostError("\n".join(lines), "; ".join(hints[:2]) or None)
