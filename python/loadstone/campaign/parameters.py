"""Parameters of cases as numbers, and cases and trials in the wording of all screens and
reports.
"""

from collections.abc import Callable, Iterable, Mapping

from loadstone.documents.trial import TrialDocument
from loadstone.units import SIZES, describe_size

SWEPT_LOADS = ("threads", "rate", "rate_per_s")
"""The parameters that a sweep of loads varies; `rate_per_s` comes from imported results."""

_WORDINGS: Mapping[str, Callable[[object], str]] = {
    "threads": lambda value: f"{value} threads" if value != 1 else "1 thread",
    "clients": lambda value: f"{value} clients" if value != 1 else "1 client",
    "client": str,
    "hosts": lambda value: f"{value} hosts" if value != 1 else "1 host",
    "buckets": lambda value: f"{value} buckets" if value != 1 else "1 bucket",
    "containers": lambda value: f"{value} containers" if value != 1 else "1 container",
    "fill_percent": lambda value: f"{value} % full",
    "fill_bytes": lambda value: f"{describe_size(int(str(value)))} written before",
    "rate_per_s": lambda value: f"{value:g}/s" if isinstance(value, float) else f"{value}/s",
    "rate": lambda value: f"{value:g}/s" if isinstance(value, float) else f"{value}/s",
}


def whole_parameter(parameters: Mapping[str, object], name: str) -> int | None:
    """Return a parameter that is a whole number; None if it is absent or of another type."""
    value = parameters.get(name)
    return value if isinstance(value, int) else None


def varied_parameters(cases: Iterable[Mapping[str, object]]) -> list[str]:
    """Return the parameters that differ between cases or that some of them lack; the size first."""
    every = list(cases)
    names = dict.fromkeys(name for case in every for name in case)
    varied = [name for name in names if len({str(case.get(name)) for case in every}) > 1]
    return sorted(varied, key=lambda name: name != "size")


def varied_values(cases: Iterable[Mapping[str, object]]) -> dict[str, list[object]]:
    """Return the parameters with several values, each with its sorted values.

    Plans shuffle their cases, so numbers are sorted by size and other values as text.
    """
    values_by_name: dict[str, dict[str, object]] = {}
    for case in cases:
        for name, value in case.items():
            values_by_name.setdefault(name, {})[repr(value)] = value
    varied = {name: list(values.values()) for name, values in values_by_name.items()}
    return {name: _in_order(values) for name, values in varied.items() if len(values) > 1}


def _in_order(values: list[object]) -> list[object]:
    numbers = [value for value in values if isinstance(value, int | float)]
    return [*sorted(numbers)] if len(numbers) == len(values) else sorted(values, key=str)


def describe_value(name: str, value: object) -> str:
    """Return a parameter's value for a column with its name: "4 KiB", "true"; empty for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and (name in SIZES or name.endswith("_bytes")):
        return describe_size(value)
    return f"{value:,g}" if isinstance(value, float) else str(value)


def describe_parameter(name: str, value: object) -> str:
    """Return one parameter in words: "4 KiB", "250 threads", "direct true"."""
    if name in _WORDINGS and value is not None:
        return _WORDINGS[name](value)
    if name in SIZES and isinstance(value, int):
        readable = name.removesuffix("_bytes").replace("_", " ")
        size = describe_size(value)
        return size if name == "size" else f"{readable} {size}"
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{name.replace('_', ' ')} {shown}"


def describe_parameters(parameters: Mapping[str, object]) -> str:
    """Return the parameters of a case in words, the size first."""
    ordered = sorted(parameters.items(), key=lambda item: item[0] != "size")
    return ", ".join(describe_parameter(name, value) for name, value in ordered)


def describe_trial(document: TrialDocument) -> str:
    """Return a trial in words: "minio get round 2, 4 KiB"; its id if nothing else is known."""
    target, case = document.get("target") or {}, document.get("case") or {}
    words = [str(word) for word in (target.get("name"), document.get("phase")) if word]
    if document.get("measured") or document.get("round", 1) > 1:
        words.append(f"round {document.get('round', 1)}")
    if document.get("block", 1) > 1:
        words.append(f"block {document['block']}")
    if "of" in (search := document.get("search") or {}):
        words.append(f"step {search['step']} ({search['stage']})")
    # The facts are left out because the target's name identifies them.
    facts = target.get("facts") or {}
    parameters = case.get("parameters") or {}
    varied = {name: value for name, value in parameters.items() if name not in facts}
    named = ", ".join(filter(None, (" ".join(words), describe_parameters(varied))))
    return named or f"trial {document.get('id', '')}"
