"""Cases in words: the same ones in every report and every finding."""

from collections.abc import Callable, Mapping

from loadstone import units
from loadstone.units import SIZES, describe_size

__all__ = [
    "SIZES",
    "describe_load",
    "describe_parameter",
    "describe_parameters",
    "describe_size",
    "metric_value",
    "metric_words",
]

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

METRIC_WORDS = {
    "requests_per_s": "requests per second",
    "bytes_per_s": "data per second",
    "actions_per_s": "actions per second",
    "actions_busy_per_s": "actions per second that one client would do of these alone",
    "seconds": "seconds",
}


def describe_parameter(name: str, value: object) -> str:
    """Return one parameter in words: "4 KiB", "250 threads", "direct true"."""
    if name in SIZES and isinstance(value, int):
        readable = name.removesuffix("_bytes").replace("_", " ")
        size = describe_size(value)
        return size if name == "size" else f"{readable} {size}"
    if name in _WORDINGS and value is not None:
        return _WORDINGS[name](value)
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{name.replace('_', ' ')} {shown}"


def describe_parameters(parameters: Mapping[str, object]) -> str:
    """Return the parameters of a case in words, the size first."""
    ordered = sorted(parameters.items(), key=lambda item: item[0] != "size")
    return ", ".join(describe_parameter(name, value) for name, value in ordered)


def describe_load(load: Mapping[str, object]) -> str:
    """Return how requests arrive: "closed loop, 250 clients"."""
    if load.get("kind") == "open":
        rate = load.get("rate_per_s")
        shown = f"{rate:,g}" if isinstance(rate, (int, float)) else str(rate)
        return f"open loop, {shown}/s, {load.get('arrivals', 'poisson')} arrivals"
    clients = load.get("clients")
    return f"closed loop, {clients} client{'' if clients == 1 else 's'}"


def metric_words(metric: str) -> str:
    """Return a metric as people call it: "p99" for "service_ns_p99"."""
    if metric in METRIC_WORDS:
        return METRIC_WORDS[metric]
    kind, is_time, quantile = metric.partition("_ns_")
    return f"{quantile}, {kind} time" if is_time else metric.replace("_", " ")


def metric_value(value: float, metric: str) -> str:
    """Return a value with its unit."""
    if "_ns_" in metric:
        return units.format_duration(value)
    if metric == "bytes_per_s":
        return units.format_byte_rate(value)
    return f"{units.format_number(value)}/s" if metric.endswith("_per_s") else (
        units.format_number(value)
    )  # fmt: skip
