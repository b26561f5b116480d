"""Shell completion of operations, drivers, reports and run folders."""

from collections.abc import Iterator
from pathlib import Path

import typer


def operations(incomplete: str) -> list[str]:
    """Complete the last operation of a list."""
    from loadstone.campaign.operations import OPERATIONS

    before, comma, _ = incomplete.rpartition(",")
    names = (f"{before}{comma}{name}" for name in (*OPERATIONS, "mixed", "sessions"))
    return [name for name in names if name.startswith(incomplete)]


def workload(context: typer.Context, incomplete: str) -> list[str]:
    """Complete the workload of a gate: bench, then its operations."""
    words = context.params.get("words") or []
    if words == ["bench"]:
        return operations(incomplete)
    return [name for name in ("bench",) if not words and name.startswith(incomplete)]


def drivers(incomplete: str) -> list[str]:
    """Complete the name of a driver."""
    from loadstone.campaign.drivers import read_drivers

    return [name for name in read_drivers() if name.startswith(incomplete)]


def calibrated(incomplete: str) -> list[str]:
    """Complete the name of a driver that `loadstone calibrate` supports."""
    from loadstone.campaign.drivers import calibrated_drivers

    return [name for name in calibrated_drivers() if name.startswith(incomplete)]


def reports(incomplete: str) -> list[str]:
    """Complete the name of a report."""
    from loadstone.report import REPORTS

    return [name for name in REPORTS if name.startswith(incomplete)]


def runs(incomplete: str) -> list[str]:
    """Complete a run folder, or a published report."""
    from loadstone.published import PREFIX, PUBLISHED

    published = (f"{PREFIX}{name}" for name in PUBLISHED)
    return [name for name in (*run_folders(incomplete), *published) if name.startswith(incomplete)]


def run_folders(incomplete: str) -> list[str]:
    """Complete a run folder: those in `runs`, newest first, or in the typed directory."""
    return [name for name in _run_folders(incomplete) if name.startswith(incomplete)]


def _run_folders(incomplete: str) -> Iterator[str]:
    from loadstone.results.layout import MANIFEST

    parents = {Path(incomplete.rpartition("/")[0] or "."), Path("runs")}
    for parent in sorted(parents):
        for manifest in sorted(parent.glob(f"*/{MANIFEST}"), reverse=True):
            yield str(manifest.parent)
