"""Cases in words: the same ones in every report and every finding."""

from typing import cast

from loadstone import units
from loadstone.campaign.parameters import (
    describe_parameter,
    describe_parameters,
    describe_value,
    varied_parameters,
    varied_values,
)
from loadstone.documents.trial import LoadDocument
from loadstone.units import SIZES, describe_size

__all__ = [
    "SIZES",
    "describe_load",
    "describe_parameter",
    "describe_parameters",
    "describe_size",
    "describe_value",
    "metric_value",
    "metric_words",
    "varied_parameters",
    "varied_values",
]

METRIC_WORDS = {
    "requests_per_s": "requests per second",
    "bytes_per_s": "data per second",
    "actions_per_s": "actions per second",
    "actions_busy_per_s": "actions per second that one client would do of these alone",
    "seconds": "seconds",
    "server_cpu_ns_per_request": "CPU per request",
    "server_memory_bytes": "memory",
}


def describe_load(load: LoadDocument) -> str:
    """Return how requests arrive: "closed loop, 250 clients"."""
    if load.get("kind") == "open":
        rate = load.get("rate_per_s")
        shown = f"{rate:,g}" if rate is not None else str(rate)
        return f"open loop, {shown}/s, {load.get('arrivals', 'poisson')} arrivals"
    clients = load.get("clients")
    if clients is None:
        return "closed loop, clients not stated"
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
    if metric.endswith("_bytes"):
        return units.format_bytes(value)
    return f"{units.format_number(value)}/s" if metric.endswith("_per_s") else (
        units.format_number(value)
    )  # fmt: skip


def number_in(value: object) -> float | None:
    """Return the value of a parameter that is a number; None of others."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return cast("float", value) if is_number else None
