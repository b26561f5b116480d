"""Trial documents for the steps of a search, and their results as the search's observations."""

import math
from typing import cast

from loadstone.campaign.planning.beyond import BEYOND_MAX
from loadstone.campaign.search import (
    BEYOND_QUANTILE,
    WARM_UP_SHARE,
    Goal,
    Loads,
    Measure,
    Observation,
    SearchTrial,
    Stage,
    is_good,
    is_stalled,
)
from loadstone.documents.python_types import Parameters
from loadstone.documents.trial import LoadDocument, TrialDocument

CLIENTS_MAX = 65_536


def is_search(document: TrialDocument) -> bool:
    """Tell whether a plan's document is a search, whose trials are derived step by step."""
    return "goal" in (document.get("search") or {})


def goal_of(document: TrialDocument) -> Goal:
    """Return the objective of a planned search."""
    return Goal(**document["search"]["goal"])


def loads_of(document: TrialDocument) -> Loads:
    """Return the loads of a planned search."""
    return Loads(**document["search"]["loads"])


def step_document(search: TrialDocument, step: Measure, number: int) -> TrialDocument:
    """Return the trial document of a search's step; `number` starts at 1."""
    vary = search["search"]["vary"]
    duration_s = step.duration_s
    load: LoadDocument = search["load"].copy()
    value: float = step.load
    if vary == "threads":
        load["clients"] = value = int(step.load)
    else:
        load["rate_per_s"] = step.load
        goal = goal_of(search)
        duration_s = max(duration_s, BEYOND_QUANTILE / (1 - goal.quantile) / step.load)
        # Four times the requests in flight at the objective; more would only queue in the client.
        wanted = math.ceil(4 * step.load * goal.latency_ns_max / 1e9)
        load["clients_max"] = min(CLIENTS_MAX, max(load["clients_max"] or 0, wanted))
    warm_up_ns = search["warm_up_ns"] or round(duration_s * 1e9 * WARM_UP_SHARE)
    case = search["case"]
    return {
        **search,
        # The load generator seeds arrivals by the id, so each step has its own.
        "id": f"{search['id']}-{number:03d}",
        # Each step has its own object numbers, so that no step overwrites another's puts.
        "ticket_base": search["ticket_base"] + (number - 1) * BEYOND_MAX
        if search["ticket_base"]
        else 0,
        "search": {
            "of": search["id"],
            "step": number,
            "stage": step.stage,
            "load": step.load,
            "duration_s": step.duration_s,
        },
        "case": {**case, "parameters": cast(Parameters, {vary: value, **case["parameters"]})},
        "load": load,
        "stop": {"requests": None, "duration_ns": round(duration_s * 1e9)},
        "warm_up_ns": warm_up_ns,
    }


def read_step(
    search: TrialDocument, document: TrialDocument, observation: Observation
) -> SearchTrial:
    """Return a step's observation for the search."""
    step, goal = document["search"], goal_of(search)
    return SearchTrial(
        load=step["load"],
        duration_s=step["duration_s"],
        stage=cast(Stage, step["stage"]),
        is_good=is_good(goal, observation),
        elapsed_s=((document["stop"]["duration_ns"] or 0) + document["warm_up_ns"]) / 1e9,
        is_stalled=is_stalled(goal, observation),
    )
