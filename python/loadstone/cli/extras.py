"""Packages that a host which only makes load does not need, and how to install them."""

import importlib.util

from loadstone.errors import LoadstoneError

REPORT_MODULES = ("jinja2", "numpy", "py_mini_racer", "pyarrow", "resvg_py", "scipy")
"""What the extra "report" brings: statistics, charts, scripts and Parquet of other programs."""

INSTALL = "pip install 'loadstone[report]'"


def can_report() -> bool:
    """Tell whether this installation can judge and render what was measured."""
    return all(importlib.util.find_spec(name) is not None for name in REPORT_MODULES)


HOST_MODULES = ("cryptography",)
"""What the extra "hosts" brings: what starts agents on client hosts, and knows them."""


def can_load_hosts() -> bool:
    """Tell whether this installation can have other hosts make a load."""
    return all(importlib.util.find_spec(name) is not None for name in HOST_MODULES)


def refuse_hosts() -> LoadstoneError:
    """Return the error for a campaign with client hosts without what it takes."""
    return LoadstoneError(
        f"client hosts need packages that are not installed: {', '.join(HOST_MODULES)}",
        "pip install 'loadstone[hosts]' on this machine; each host needs loadstone alone",
    )


def refuse(what: str) -> LoadstoneError:
    """Return the error for what this installation cannot do."""
    return LoadstoneError(
        f"{what} needs packages that are not installed: {', '.join(REPORT_MODULES)}",
        f"{INSTALL}; or do it on another host, with a copy of the run folder",
    )
