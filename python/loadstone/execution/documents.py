"""What the load generator says of a plan's documents, before anything is asked of a target."""

import json

from loadstone import _loadgen
from loadstone.campaign.plan import Plan
from loadstone.errors import TargetError


def check_documents(plan: Plan) -> None:
    """Raise TargetError with what a driver finds wrong; one trial of each kind stands for all."""
    seen = set()
    for planned in plan.trials:
        document = planned.document
        dataset = document["dataset"]
        kind = (
            *(document["target"]["name"], document["case"]["workload"], document["phase"]),
            *(dataset["bucket_prefix"], dataset["object_prefix"], dataset["buckets"]),
            *(json.dumps(dataset["size"]), document["options"]["part_bytes"]),
        )
        # The first load of a search is not known yet.
        if kind in seen or planned.is_search:
            continue
        seen.add(kind)
        try:
            _loadgen.check(json.dumps(document))
        except ValueError as error:
            raise TargetError(f'target "{document["target"]["name"]}": {error}') from error
