"""Formats an account in the layout of its kind of report: seconds of queries, or rates."""

import statistics
from collections.abc import Mapping, Sequence

from loadstone.analysis.accounts.account import RATE, SECONDS, Account, Measurement
from loadstone.analysis.grouping import grouped
from loadstone.analysis.naming import describe_parameters, metric_value, metric_words
from loadstone.published.tables.layouts import queries_table, rates_table


def account_table(account: Account) -> str:
    """Return an account's table, with the mean of several trials."""
    if SECONDS in account.metrics:
        return _queries(account)
    if not any(m.threads or m.size_bytes for m in account.measurements):
        return _plain(account)
    return _rates(account)


def is_markdown(account: Account) -> bool:
    """Tell whether the table is Markdown; otherwise it is separated by tabs."""
    return SECONDS in account.metrics


def _queries(account: Account) -> str:
    systems: dict[str, dict[str, list[float]]] = {}
    groups = grouped(account.of(SECONDS), lambda m: (m.target, m.parameters["query"]))
    for group in groups.values():
        query = str(group[0].parameters["query"])
        systems.setdefault(group[0].target, {})[query] = [member.value for member in group]
    return queries_table(systems)


def _rates(account: Account) -> str:
    """Return a table per action; its head has the parameters other than size and threads."""
    rates = account.of(RATE)
    sizes = list(dict.fromkeys(rate.size_bytes or 0 for rate in rates))
    heads = [_size_head(size) for size in sizes]
    has_targets = len(account.targets) > 1
    parts = []
    for group in grouped(rates, lambda rate: _head(rate, has_target=has_targets)).values():
        by_threads = grouped(group, lambda m: m.threads or 0)
        lines: Mapping[int, Sequence[str]] = {
            int(str(threads)): [
                _cell([member for member in members if (member.size_bytes or 0) == size])
                for size in sizes
            ]
            for threads, members in by_threads.items()
        }
        parts.append(rates_table(_head(group[0], has_target=has_targets), heads, lines))
    return "".join(parts)


def _plain(account: Account) -> str:
    """Return a line per metric and case, omitting unknown threads and sizes."""
    names = list(dict.fromkeys(name for m in account.measurements for name in m.parameters))
    lines = ["\t".join(("Operation", *names, "Trials", "Mean", "Of"))]
    groups = grouped(account.measurements, lambda m: (m.operation, m.metric, str(m.parameters)))
    for members in groups.values():
        first = members[0]
        mean = sum(member.value for member in members) / len(members)
        cells = [first.operation, *(str(first.parameters.get(name, "")) for name in names)]
        cells += [str(len(members)), metric_value(mean, first.metric), metric_words(first.metric)]
        lines.append("\t".join(cells))
    return "\n".join(lines) + "\n"


def _head(measurement: Measurement, *, has_target: bool) -> str:
    rest = {
        name: v for name, v in measurement.parameters.items() if name not in ("size", "threads")
    }
    words = [
        measurement.operation.upper(),
        measurement.target if has_target else "",
        describe_parameters(rest),
    ]
    return ", ".join(word for word in words if word)


def _cell(members: Sequence[Measurement]) -> str:
    """Return a number as printed, the mean of several, or a blank."""
    if len(members) == 1 and members[0].text:
        return members[0].text
    return repr(statistics.fmean(member.value for member in members)) if members else ""


def _size_head(size_bytes: int) -> str:
    """Return a size as these tables write it: "100kb", "1mb"."""
    for power, unit in ((2, "mb"), (1, "kb")):
        if size_bytes and size_bytes % 1024**power == 0:
            return f"{size_bytes // 1024**power}{unit}"
    return str(size_bytes)
