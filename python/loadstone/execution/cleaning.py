"""Removes what a run left on its targets: the clean-up trials that it did not come to."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loadstone import _loadgen
from loadstone.campaign.drivers import read_drivers
from loadstone.campaign.remains import Remains, remains
from loadstone.errors import TargetError
from loadstone.execution.interrupt import Interrupt
from loadstone.results.intents import Intents, intended
from loadstone.results.store import read_run


def what_is_left(folder: Path) -> list[Remains]:
    """Return what a run may have left on its targets."""
    run = read_run(folder)
    begun: dict[str, Mapping[str, Any]] = {name: {} for name in intended(folder)}
    begun |= {record.id: record.summary if record.is_whole else {} for record in run.records}
    return remains(run.manifest["plan"], begun, read_drivers(None))


def remove(found: Remains, folder: Path, interrupt: Interrupt) -> Mapping[str, Any]:
    """Delete a dataset and its buckets, and return the load generator's account of that."""
    document = Intents(folder, ()).adopted(found.clean_up)
    try:
        told = _loadgen.run_trial(json.dumps(document), control=interrupt.make_control())
    except (_loadgen.TargetError, ValueError, OSError) as error:
        message, _, hint = str(error).partition("\nhint: ")
        raise TargetError(f'target "{found.target}": {message}', hint or None) from error
    summary: dict[str, Any] = json.loads(told)
    return summary
