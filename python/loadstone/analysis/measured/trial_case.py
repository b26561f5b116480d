"""Values that belong to a planned trial, with its case."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loadstone.documents.trial import TrialDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialCase:
    """A value that belongs to one trial; the fields are from the trial's document."""

    trial: str
    target: str
    workload: str
    phase: str
    parameters: Mapping[str, object]
    round: int
    block: int


def case_of(document: TrialDocument) -> dict[str, Any]:
    """Return the fields of `TrialCase`."""
    case = document["case"]
    return {
        "trial": document["id"],
        "target": case["target"],
        "workload": case["workload"],
        "phase": document["phase"],
        "parameters": case["parameters"],
        "round": document["round"],
        "block": document["block"],
    }
