"""Cases in words: the same ones in every report and every finding."""

from collections.abc import Callable, Mapping

from loadstone.units import SIZES, describe_size

__all__ = [
    "SIZES",
    "describe_load",
    "describe_parameter",
    "describe_parameters",
    "describe_size",
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
