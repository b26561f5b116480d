"""Asks the stores that a campaign fills for their sizes, before planning."""

from loadstone.campaign.drivers import read_drivers
from loadstone.campaign.planning.case import cases_of
from loadstone.campaign.planning.filling import StoreSize
from loadstone.campaign.planning.trial import targets_in_run
from loadstone.campaign.schema.campaign import Campaign
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.store_sizes import read_size


def store_sizes(campaign: Campaign) -> dict[str, StoreSize]:
    """Return the size of each target that is filled, if its store reports one."""
    if campaign.queries is not None or _names_no_fill(campaign):
        return {}
    cases, _ = cases_of(campaign)
    filled = {case.target for case in cases if case.workload.fill is not None}
    drivers = read_drivers()
    known = {
        name: target
        for name, target in campaign.targets.items()
        if name in filled and target.driver in drivers
    }
    if not known:
        return {}
    documents = targets_in_run(campaign.model_copy(update={"targets": known}), drivers, "")
    sizes = {name: read_size(target.document, Interrupt()) for name, target in documents.items()}
    return {name: size for name, size in sizes.items() if size is not None}


def _names_no_fill(campaign: Campaign) -> bool:
    """Tell whether no workload has fill levels, which is cheaper than generating all cases."""
    workloads = (campaign, *campaign.workloads)
    return not any(workload.fill is not None or "fill" in workload.sweep for workload in workloads)
