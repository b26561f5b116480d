"""Optional packages of some commands, and how to install them."""

import importlib.util
from collections.abc import Mapping

from loadstone.errors import LoadstoneError

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "report": ("jinja2", "py_mini_racer", "resvg_py"),
    "arrow": ("pyarrow",),
    "hosts": ("cryptography",),
    "datafusion": ("datafusion",),
    "duckdb": ("duckdb",),
    "otlp": ("opentelemetry",),
}
"""The modules of each extra: pages and charts; scripts and Arrow tables; host certificates; query
engines.
"""


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'loadstone[{extra}]'"


def has(extra: str) -> bool:
    """Tell whether the packages of an extra are installed."""
    return all(importlib.util.find_spec(name) is not None for name in EXTRAS[extra])


def extra_of(module: str) -> str | None:
    """Return the extra that contains a module."""
    name = module.partition(".")[0]
    return next((extra for extra, names in EXTRAS.items() if name in names), None)


def refuse_hosts() -> LoadstoneError:
    """Return the error for a campaign with client hosts if their extra is missing."""
    return LoadstoneError(
        f"client hosts need packages that are not installed: {', '.join(EXTRAS['hosts'])}",
        "pip install 'loadstone[hosts]' on this machine; each host needs only loadstone",
    )


def refuse(what: str, extra: str) -> LoadstoneError:
    """Return the error for a feature whose extra is missing."""
    return LoadstoneError(
        f"{what} needs packages that are not installed: {', '.join(EXTRAS[extra])}", install(extra)
    )
