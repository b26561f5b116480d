"""Rules on one trial: labels that it was recorded with, and how it ended."""

from functools import partial

from loadstone.analysis.rules.rule import Rule, View

_label = partial(Rule, views=("label",), looks_at="trial")
_void = partial(_label, severity="problem", effect="invalid")
_caution = partial(_label, severity="caution", effect="precision")

BOTH: tuple[View, ...] = ("label", "finding")

RULES: tuple[Rule, ...] = (
    _void(
        id="INTERRUPTED",
        short="interrupted",
        says="interrupted before its end by a signal or a person",
        means="The number covers only part of the trial and is not a result.",
        do="Run it to its end: loadstone run CAMPAIGN -o RUN --resume.",
    ),
    _void(
        id="STOPPED",
        short="stopped on failed requests",
        says="stopped by the campaign's rule on failed requests (on_error)",
        means="The target failed; the rate until then is not a result.",
        do="Read the errors, repair the target, and run again.",
    ),
    _void(
        id="STOPPED_ON_LOSS",
        short="stopped on a lost host",
        says="stopped by the campaign's rule on lost client hosts (on_lost: stop)",
        means="The load ended with the host; the rate until then is not a result. "
        "The target is not the cause.",
        do="Find the host and the reason in the table of hosts, start its agent "
        "again, and repeat the trial.",
    ),
    _void(
        id="RUNNING",
        short="still running",
        says="still running when the report was made",
        means="The number is not final.",
        do="Wait for the run to end, and make the report again.",
    ),
    _void(
        id="CORRUPT",
        short="wrong data read back",
        says="wrong data was read back",
        means="The target, or the path to it, returned other bytes than were "
        "written. The performance numbers are void.",
        do="Find out which objects differ before you measure anything else. For "
        "data of another program, set verify: 0.",
    ),
    _void(
        id="AUDIT_FAILED",
        short="acknowledged data is wrong",
        says="an audit found objects that are not as the store acknowledged them",
        means="The store loses, damages or brings back data. The performance numbers are void.",
        do="Read the calls that prove it: loadstone report RUN -f json, key audit.",
        views=BOTH,
    ),
    _void(
        id="ALTERED",
        short="altered files",
        says="a file of the trial was changed after loadstone wrote it: its SHA-256 does not match",
        means="The origin of the numbers is unknown.",
        do="Restore the run folder from a copy, or measure again.",
        is_left_out=True,
    ),
    _void(
        id="CONTRADICTORY",
        short="contradictory records",
        says="the times or counts of the record contradict each other",
        means="A file of the record was edited or damaged. The numbers must not be used.",
        do="Restore the run folder, or measure again.",
        is_left_out=True,
        views=BOTH,
    ),
    _void(
        id="STALLED",
        short="the client stalled",
        says="the client stalled for more than 5 % of the measured time",
        means="The numbers show the client, not the target.",
        do="Measure on a host, or at a time, without other work. On a virtual "
        "machine, check the steal time.",
        covers=("NOISY",),
        is_left_out=True,
        views=BOTH,
    ),
    _caution(
        id="NOISY",
        short="the client stalled briefly",
        says="the client stalled briefly, or the load generator's sleeps ended "
        "late (p99.9) by over a tenth of the p99 shown",
        means="High percentiles include delays of the client.",
        do="Use a quieter client host, or judge by p50.",
        views=BOTH,
    ),
    _caution(
        id="UNSETTLED",
        short="began before all had settled",
        says="began, after a wait, before what earlier trials had left was gone: resting ports, "
        "closing connections, dirty pages, or requests at a target's disk (host_state)",
        means="What is left of earlier trials, or other work, may slow this one.",
        do="Rest longer between trials (pause_after), or end what else keeps it up.",
    ),
    _caution(
        id="CACHED",
        short="read from memory",
        says="a tenth or more of the data was in the client's page cache before the trial",
        means="Such reads are answered by the client's memory and never reach the target.",
        do="Set direct: true, or empty the page cache before each trial by a hook.",
    ),
    _caution(
        id="UNCHECKED",
        short="reads not checked",
        says="no read was checked (verify: 0): wrong bytes would count as successes",
        means="A target that returns wrong data would have the same rate.",
        do="Check some reads: --verify 0.01 or more costs little.",
    ),
    _caution(
        id="LOG_INS",
        short="many log-ins",
        says="the client logged in again more than a few times, or for over 1 % of the time",
        means="The numbers include the identity service.",
        do="Use tokens with a longer life than a trial.",
    ),
    _label(
        id="HOST_LOST",
        short="a client host was lost",
        severity="problem",
        effect="bound",
        says="a client host was lost: there was less load than requested",
        means="Lower bound: the target was not asked for more.",
        do="Find the host and the reason in the table of hosts, start its agent "
        "again, and repeat the trial. With on_lost: stop, a trial ends with "
        "its first lost host.",
        is_left_out=True,
        views=BOTH,
    ),
    _caution(
        id="START_APART",
        short="hosts started apart",
        says="client hosts began their load more than 5 ms from the common start",
        means="The first second has less load than the others.",
        do="Leave each host a core for its agent, and use trials of a minute or more.",
        views=BOTH,
    ),
    Rule(
        id="clocks",
        views=("finding",),
        looks_at="run",
        severity="note",
        effect="none",
        says="the clock of a client host is known to no better than 5 ms",
        means="Events on different hosts within this time cannot be ordered.",
        do="Synchronise the hosts with one clock (chrony, PTP), and put the "
        "controller close to them.",
    ),
    _caution(
        id="CLOCK_SET",
        short="a host's clock was set",
        says="the clock of a client host was set while it made load",
        means="The numbers hold: load and probes use monotonic clocks. Logs of "
        "that host no longer match them.",
        do="Let the host's clock be corrected slowly (chrony does this), or before a run.",
        views=BOTH,
    ),
    _caution(
        id="HOSTS_UNEQUAL",
        short="hosts did unequal work",
        says="a client host made less than 80 % of an equal share of the requests",
        means="That host, or its path to the target, limits its share. The others "
        "waited for it, or made the load of fewer hosts.",
        do="Check that host's CPU, network card and path (loadstone hosts check "
        "CAMPAIGN), or leave it out.",
        views=BOTH,
    ),
    _caution(
        id="UNHEALTHY",
        short="cluster not healthy",
        says="the target's cluster was not HEALTH_OK before or after the load",
        means="The number is valid for a cluster in this state only.",
        do="Repair the cluster, and measure again.",
    ),
    _caution(
        id="REBALANCING",
        short="cluster moved data",
        says="the target's cluster moved or repaired data before or after the load",
        means="Recovery took a share of the target's resources.",
        do="Wait until all placement groups are active+clean.",
    ),
    _caution(
        id="HOOK",
        short="a hook failed",
        says="a hook of the campaign failed, or was not reached",
        means="The target may not have been in the state that the campaign describes.",
        do="Read the hook's output in the run folder, correct it, and run again.",
        views=BOTH,
    ),
    _label(
        id="IMPORTED",
        severity="note",
        effect="none",
        says="measured by another tool; values that it does not record are missing",
        means="Only the values that the tool records can be judged.",
        do="Nothing, or measure with loadstone for the missing values.",
    ),
    _label(
        id="FAILURES_NOT_STATED",
        severity="note",
        effect="none",
        says="the tool's file does not say how many requests failed",
        means="Some requests may have failed, and rates may include them.",
        do="Look at the tool's own output, or measure with loadstone.",
    ),
    _caution(
        id="INCOMPLETE",
        short="incomplete file",
        says="the tool's own file does not list every request that it made",
        means="Rates and percentiles rest on a part of the requests.",
        do="Let the tool log every request, and import again.",
    ),
)
