"""Whether each host lets its share of a plan have its connections."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from loadstone.campaign.drivers import facts_of
from loadstone.campaign.planning.lifecycle import CLEAN_UP
from loadstone.documents.trial import TrialDocument
from loadstone.execution.host.limits import Demand, Limits, Shortage, demand_of, shortages
from loadstone.hosts.division import divide
from loadstone.hosts.messages import Hello


def shortages_of_hosts(
    documents: Iterable[TrialDocument], facts: Mapping[str, Hello]
) -> dict[str, list[Shortage]]:
    """Return what does not fit on each host, of files that it may open and of local ports.

    `facts` are in the order in which hosts take part.
    """
    demands: dict[str, list[Demand]] = {host: [] for host in facts}
    for document in documents:
        # A clean-up has a few connections, whatever load stands in its document.
        has_load = bool(document.get("load")) and document["phase"] != CLEAN_UP
        if not has_load or not facts_of(document["target"]["driver"]).connects:
            continue
        for host, share in divide(document, list(facts)).shares.items():
            # A share has the rate of the whole: how many ports rest is not counted from it.
            demands[host].append(replace(demand_of(share), is_per_request=False))
    return {host: shortages(own, _limits(facts[host])) for host, own in demands.items()}


def _limits(facts: Hello) -> Limits:
    return Limits(
        descriptors=facts.descriptors, first_port=1, last_port=facts.ports, time_wait=0,
        tcp_tw_reuse=1,
    )  # fmt: skip
