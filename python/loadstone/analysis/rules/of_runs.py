"""Rules on a whole run: what did not run, what disturbed it, and what its trials say together."""

from functools import partial

from loadstone.analysis.rules.rule import Rule

_finding = partial(Rule, views=("finding",), looks_at="run")
_caution = partial(_finding, severity="caution", effect="precision")
_note = partial(_finding, severity="note", effect="none")

RULES: tuple[Rule, ...] = (
    _finding(
        id="NOT RUN",
        severity="problem",
        effect="none",
        says="planned trials without a record",
        means="The run is incomplete; the other results stand.",
        do="Continue it: loadstone run CAMPAIGN -o RUN --resume.",
    ),
    _finding(
        id="NOTHING ENDED",
        severity="problem",
        effect="invalid",
        short="no request ended in the measured time",
        says="trials in which no request ended in the measured time",
        means="There is no number: requests take longer than the measured time.",
        do="Measure for ten times as long as a request takes: -d 30s.",
    ),
    _finding(
        id="LEFT BEHIND",
        severity="caution",
        effect="none",
        says="objects, buckets or processes that the run left behind",
        means="The numbers stand; the target still holds data of the run.",
        do="Remove them: loadstone clean RUN.",
    ),
    _finding(
        id="clean-up-miscounted",
        severity="problem",
        effect="invalid",
        short="clean-up found unexpected objects",
        says="a clean-up found fewer or more objects than the records say",
        means="The store acknowledged puts that it lost, or deletes that it did "
        "not do; or somebody else wrote or deleted there; or its listings "
        "lag behind.",
        do="Put and read back with verify: 1, look at the store's own log, and find out who else "
        "uses the bucket.",
    ),
    _finding(
        id="fault-left",
        severity="problem",
        effect="precision",
        short="a fault may still be in effect",
        says="faults that began and were not undone: the controller was killed, or undoing failed",
        means="The target is still as the fault left it, for other users too.",
        do="Continue the run, which first undoes it: loadstone run CAMPAIGN -o RUN --resume; "
        "loadstone clean RUN says how to undo it by hand.",
    ),
    _finding(
        id="failed-outside-faults",
        severity="problem",
        effect="none",
        short="requests failed without a fault",
        says="requests that failed while no fault of the campaign was under way",
        means="The target was not back when its recovery should have been over, or fails without a "
        "fault.",
        do="Look at the chart over time; state a longer recovery of the fault where that is right.",
    ),
    _note(
        id="audited",
        effect="none",
        says="how much of what was acknowledged was read back, and what share of wrong objects "
        "that excludes",
        means="What was read back was as it had been acknowledged, at the time of the audit.",
        do="Nothing. To look again later, keep the data: loadstone audit RUN.",
    ),
    _note(
        id="durability",
        effect="none",
        says="what was acknowledged before a process kill or a power cut, and is lost after it",
        means="The durability class of the target's acknowledgements: volatile, buffered, kill-safe"
        " or synced. Rates of targets that survive other faults do not compare.",
        do="State it beside the rates. For a tighter bound: loadstone audit durability with more"
        " --times.",
    ),
    _caution(
        id="connections-closed",
        short="the store closes each connection",
        says="a store that closes connections after each request, although asked to keep them",
        means="Each request pays for a new connection, and with TLS for a handshake: times and "
        "rates are those of the store with this setting.",
        do="Turn keep-alive on in the store or in the proxy before it; where it must be off, say "
        "so beside the number.",
        is_of_store=True,
    ),
    _note(
        id="requests-retried",
        says="requests outside the measurement that were retried after temporary errors",
        means="The store was overloaded while buckets were created, filled or "
        "cleaned up. No measured request was retried.",
        do="Nothing. If it happens again, let the store rest before the measurement.",
        is_of_store=True,
    ),
    _caution(
        id="nodes-differ",
        says="nodes of one role that differ in hardware or versions",
        means="A cluster waits for its slowest node: that node may be the limit.",
        do="Make them equal, or state the differences in the report.",
    ),
    _note(
        id="node-not-described",
        says="nodes that could not be described",
        means="The hardware behind the number is not known.",
        do="Try it alone: loadstone nodes CAMPAIGN.",
    ),
    _caution(
        id="fill-missed",
        says="stores that were not as full as planned",
        means="Somebody else wrote or deleted meanwhile, or the store counts copies differently.",
        do="Look at target_state of those trials, and let nothing else use the store.",
    ),
    _finding(
        id="mount-is-another",
        severity="problem",
        effect="none",
        says="mounts of nodes that are not the stated file system",
        means="Another storage may have been measured, such as the local disk below.",
        do="Mount it, and measure again.",
    ),
    _note(
        id="node-probe-failed",
        says="probes of nodes that failed",
        means="The ceiling of that device, mount or path is not known.",
        do="Try it alone: loadstone nodes CAMPAIGN.",
    ),
    _caution(
        id="node-probe-cached",
        says="mounts of nodes whose files fit into the node's memory and were not read directly",
        means="The read rate may be that of memory.",
        do="Set direct: true, or make file_size larger than the memory.",
    ),
    _caution(
        id="nodes-perform-unlike",
        says="a device, mount or network path of a node that is much slower than on other nodes",
        means="A cluster waits for its slowest node: that node may be the limit.",
        do="Repair the slow one, or name it in the report.",
    ),
    _finding(
        id="wrong-answer",
        severity="problem",
        effect="invalid",
        short="wrong answers",
        says="queries whose answer differs from that of the reference engine",
        means="A wrong answer has no time: those runs are left out.",
        do="Look at the answer in RUN/answers and at the engine's version.",
    ),
    _finding(
        id="query-failed",
        severity="problem",
        effect="none",
        says="queries that ended in an error, a timeout or the engine's death",
        means="They have no time; totals over the other queries are not comparable.",
        do="Give the engine more memory or time, or leave the query out for every arm.",
    ),
    _caution(
        id="cold-not-proven",
        effect="invalid",
        short="called cold, read nothing",
        says="queries called cold that read no bytes from the storage",
        means="A cache answered: the time says nothing about the storage.",
        do="Use a scale larger than the memory, or drop the server's caches by a hook.",
    ),
    _note(
        id="answer-not-checked",
        says="queries whose answers were not checked",
        means="The answers may be wrong.",
        do="Name an engine under queries.answers.",
    ),
    _finding(
        id="not-steady",
        severity="problem",
        effect="precision",
        short="not steady",
        says="trials whose rate never settled (LS-1, MSER-5, change points)",
        means="The mean depends on when measuring began and ended.",
        do="Warm up longer, measure longer, or find out what changes at the target.",
    ),
    _note(
        id="too-short-for-steadiness",
        effect="precision",
        short="under five minutes each",
        says="trials shorter than the five minutes that a claim of steadiness needs",
        means="A longer trial might show something else.",
        do="For a result to publish, measure for five minutes: -d 5m.",
        covers=("SHORT",),
    ),
    _caution(
        id="cluster-state",
        short="cluster not healthy",
        says="trials of a Ceph cluster that was not healthy, or moved data",
        means="The numbers are valid for a cluster in this state only.",
        do="Wait until the cluster is healthy and all placement groups are active+clean.",
        covers=("UNHEALTHY", "REBALANCING"),
    ),
    _note(
        id="not-calibrated",
        says="results whose load generator has no known ceiling on this host",
        means="Whether the client was the limit is judged by its CPU only.",
        do="Calibrate before the next run: loadstone calibrate.",
    ),
    _caution(
        id="calibration-old",
        short="old calibration",
        says="an outdated calibration",
        means="The client's ceiling may have changed since.",
        do="Calibrate again: loadstone calibrate.",
    ),
    _note(
        id="kernel-feature",
        says="a kernel feature that this host refused (io_uring), and its replacement",
        means="Requests cost the client more CPU time.",
        do="Allow the feature on the client if its CPU is the limit.",
    ),
    _note(
        id="verdict",
        says="what limited each result, and how well that is proven",
        means="A result that the client limited is a lower bound and takes part in no ratio.",
        do="Grade A needs an intervention: a second client, half the hosts, clients or size.",
    ),
    _note(
        id="capacity",
        says="what a search for a capacity found, and whether fresh trials confirmed it",
        means="The capacity is the highest rate that held the objective.",
        do="Where it was not confirmed, allow the search more trials or more time.",
    ),
    _note(
        id="repetitions",
        effect="none",
        says="how well each result is known, and how many blocks a given precision needs",
        means="The interval narrows with the root of the number of blocks.",
        do="Run as many blocks as it says.",
    ),
)
