"""Fills stores before the load, because an empty store gives better results than a used one.

A fill is a dataset in buckets of its own, apart from the measured ones. Levels rise within a block:
each level writes only the difference to the previous one, and deletes any excess.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from loadstone import units
from loadstone.campaign.planning import trial
from loadstone.campaign.planning.case import Case
from loadstone.campaign.planning.lifecycle import FILL, dataset_of
from loadstone.campaign.reading.mistakes import KeyMistake
from loadstone.campaign.schema.dataset import SHARE_MAX, FillLevel
from loadstone.documents.manifest import StoreDocument
from loadstone.documents.python_types import Parameters
from loadstone.documents.trial import DatasetDocument, TrialDocument


@dataclass(frozen=True, slots=True)
class StoreSize:
    """Total and used size of a store, in bytes of client data."""

    total_bytes: int
    used_bytes: int

    @property
    def share(self) -> float:
        """Used share, 0 to 1."""
        return self.used_bytes / self.total_bytes if self.total_bytes else 1.0

    def document(self) -> StoreDocument:
        """Return the size as manifests and records store it."""
        return {"total_bytes": self.total_bytes, "used_bytes": self.used_bytes}


def level_of(case: Case) -> FillLevel:
    """Return the fill level of a case; a case without one writes nothing."""
    return case.workload.fill or FillLevel(size_bytes=0)


def wanted_bytes(case: Case, stores: Mapping[str, StoreSize]) -> int | KeyMistake:
    """Return the bytes to write for a case, beyond those in the store at the start."""
    level = level_of(case)
    if level.is_nothing:
        return 0
    size = stores.get(case.target)
    if level.share is None:
        wanted = level.size_bytes or 0
        if size is not None and size.used_bytes + wanted > SHARE_MAX * size.total_bytes:
            room = max(0, round(SHARE_MAX * size.total_bytes) - size.used_bytes)
            return _mistake(
                case,
                f"{level} more in a store of {units.format_bytes(size.total_bytes)}",
                f"at most {units.format_bytes(room)}, which leaves it {SHARE_MAX:.0%} full",
            )
        return wanted
    if size is None:
        return _mistake(
            case, f"{level} of a store that does not report its size", "bytes, such as 500GiB"
        )
    wanted = round(level.share * size.total_bytes) - size.used_bytes
    if wanted < 0:
        return _mistake(
            case,
            f"{level} of a store that is {size.share:.1%} full",
            "0%, which writes nothing, or more than it is",
        )
    return wanted


def _mistake(case: Case, actual: str, allowed: str) -> KeyMistake:
    key = "sweep" if "fill" in case.source.sweep else "fill"
    path = case.source.path(("sweep", "fill") if key == "sweep" else ("fill",))
    return KeyMistake(path, f"{actual} (target {case.target})", allowed)


def fill_document(measured: TrialDocument, case: Case, threads: int, objects: int) -> TrialDocument:
    """Return the trial that writes this many fill objects beside a measured dataset."""
    size_bytes = case.workload.fill_size_bytes
    dataset: DatasetDocument = {
        **dataset_of(measured),
        "objects": objects,
        "object_prefix": "fill-",
        "size": {"kind": "fixed", "bytes": size_bytes},
        # Incompressible and distinct, as the data of a store's other users is assumed to be.
        "compressible": 0.0,
        "duplicate": 0.0,
        "encryption": None,
        "path_encryption": None,
    }
    plain = measured.copy()
    plain.pop("script", None)
    plain.pop("keeps_ledger", None)
    document = trial.unmeasured({**plain, "dataset": dataset}, FILL, "put", objects, threads)
    parameters = {
        "threads": document["load"]["clients"],
        "size": size_bytes,
        **level_of(case).parameters(),
    }
    return {
        **document,
        "case": {**document["case"], "parameters": cast(Parameters, parameters)},
        # Results for a level would be wrong if the store was less full than stated.
        "on_error": {"action": "stop", "limit": None},
    }
