"""Rules on one trial: labels that it was recorded with, and how it ended."""

from functools import partial

from loadstone.analysis.rules.rule import Rule, View

LABELS = "loadstone.analysis.judgements.labels:"
SEEN = "loadstone.analysis.judgements.trial_findings:"
HOSTS = "loadstone.analysis.instrument.headroom:"
OF_HOSTS = "loadstone.analysis.judgements.host_findings:"
STATES = "loadstone.analysis.limits.target_state:"

_label = partial(Rule, views=("label",), looks_at="trial")
_void = partial(_label, severity="problem", effect="invalid")
_caution = partial(_label, severity="caution", effect="precision")

BOTH: tuple[View, ...] = ("label", "finding")

RULES: tuple[Rule, ...] = (
    _void(
        id="INTERRUPTED",
        short="interrupted",
        says="interrupted before its end by a signal or by hand",
        means="The number covers a part of the trial and is no result.",
        do="Run it to its end: loadstone run CAMPAIGN -o RUN --resume.",
        trial_check=LABELS + "is_interrupted",
    ),
    _void(
        id="STOPPED",
        short="stopped on failed requests",
        says="stopped by the campaign's own rule on failed requests",
        means="The target failed; the rate until then is no result.",
        do="Read which errors came back, mend the target, and run again.",
        trial_check=LABELS + "is_stopped",
    ),
    _void(
        id="STOPPED_ON_LOSS",
        short="stopped on a lost host",
        says="stopped by the campaign's own rule on lost client hosts (on_lost: stop)",
        means="The load ended with the host; the rate until then is no result, and the target has "
        "no part in it.",
        do="Read in the table of hosts which one and why, start its agent again, and repeat the "
        "trial.",
        trial_check=LABELS + "is_stopped_on_loss",
    ),
    _void(
        id="RUNNING",
        short="still running",
        says="still running when it was read",
        means="The number is not final.",
        do="Wait for the run to end, and read it again.",
    ),
    _void(
        id="CORRUPT",
        short="wrong data read back",
        says="data read back was wrong",
        means="The target, or the path to it, returned other bytes than were written: the "
        "performance numbers are void.",
        do="Find out which objects differ before anything else is measured; with data of another "
        "program, read unchecked with verify: 0.",
        trial_check=LABELS + "is_corrupt",
    ),
    _void(
        id="ALTERED",
        short="altered files",
        says="a file of the trial is not the one that loadstone wrote: its SHA-256 does not match",
        means="The origin of the numbers is not known.",
        do="Restore the run folder from the copy that was written, or measure again.",
        is_left_out=True,
    ),
    _void(
        id="CONTRADICTORY",
        short="contradictory records",
        says="the times or counts of the record contradict each other",
        means="A file of the record was edited or damaged: the numbers must not be used.",
        do="Restore the run folder, or measure again.",
        is_left_out=True,
        views=BOTH,
        checks=(SEEN + "find_contradictory",),
    ),
    _void(
        id="STALLED",
        short="the client stalled",
        says="the client stalled for more than 5 % of the measured time",
        means="The numbers show the client, not the target.",
        do="Measure on a host, or at a time, at which nothing else runs; on a virtual machine, "
        "look for CPU steal.",
        covers=("NOISY",),
        trial_check=LABELS + "is_stalled",
        is_left_out=True,
        views=BOTH,
        checks=(SEEN + "find_stalled",),
    ),
    _caution(
        id="NOISY",
        short="the client stalled briefly",
        says="the client stalled briefly, or the load generator's own sleeps ended late (p99.9) by "
        "over a tenth of the p99 shown",
        means="High percentiles contain delays of the client.",
        do="Use a quieter client host, or judge by p50.",
        trial_check=LABELS + "is_stalled_shortly",
        result_check=LABELS + "is_noisy",
        views=BOTH,
        checks=(SEEN + "find_stalled",),
    ),
    _caution(
        id="UNSETTLED",
        short="began before all had settled",
        says="began, after a wait, before what earlier trials had left was gone: resting ports, "
        "closing connections, dirty pages, or requests at a target's disk (host_state)",
        means="What is left of earlier trials, or other work, may slow this one.",
        do="Rest longer between trials (pause_after), or end what else keeps it up.",
        trial_check=LABELS + "is_unsettled",
    ),
    _caution(
        id="UNCHECKED",
        short="reads not checked",
        says="no read was checked (verify: 0): wrong bytes would count as good requests",
        means="The rate may be that of a target that returns anything.",
        do="Check some reads: --verify 0.01 or more costs little.",
        trial_check=LABELS + "is_unchecked",
    ),
    _caution(
        id="LOG_INS",
        short="many log-ins",
        says="the client logged in again more than a few times, or for over 1 % of the time",
        means="The identity service has a share in the numbers.",
        do="Use tokens that live longer than a trial.",
        trial_check=LABELS + "logs_in_often",
    ),
    _label(
        id="HOST_LOST",
        short="a client host was lost",
        severity="problem",
        effect="bound",
        says="a client host was lost: less load was made than the campaign asks for",
        means="The rate is at least this; the target was not asked for more.",
        do="Read in the table of hosts which one and why, start its agent again, and repeat the "
        "trial; with on_lost: stop a trial ends with its first lost host.",
        trial_check=HOSTS + "has_lost_host",
        is_left_out=True,
        views=BOTH,
        checks=(OF_HOSTS + "find_lost_hosts",),
    ),
    _caution(
        id="START_APART",
        short="hosts started apart",
        says="client hosts began their load more than 5 ms from the common start",
        means="The first second holds less load than the others.",
        do="Leave the hosts a core for their agent, and judge by trials of a minute and more.",
        trial_check=HOSTS + "started_apart",
        views=BOTH,
        checks=(OF_HOSTS + "find_started_apart",),
    ),
    Rule(
        id="clocks",
        views=("finding",),
        looks_at="run",
        severity="note",
        effect="none",
        says="the clock of a client host is known to no better than 5 ms",
        means="What hosts did within so short a time of each other cannot be put in order.",
        do="Let the hosts follow one clock (chrony, PTP), and the controller be near to them.",
        checks=(OF_HOSTS + "find_uncertain_clocks",),
    ),
    _caution(
        id="CLOCK_SET",
        short="a host's clock was set",
        says="the clock of a client host was set while it made load",
        means="The figures hold: the load and the probes follow clocks that cannot be set. Logs of"
        " that host do not fit them.",
        do="Have the host's clock corrected slowly (chrony does) or before a run, not during it.",
        trial_check=HOSTS + "has_set_clock",
        views=BOTH,
        checks=(OF_HOSTS + "find_set_clocks",),
    ),
    _caution(
        id="HOSTS_UNEQUAL",
        short="hosts did unequal work",
        says="a client host made less than 80 % of the requests that an equal share would be",
        means="That host, or its way to the target, limits its share; the others waited for it, or "
        "did the work of a smaller number of hosts.",
        do="Look at that host's processors, network card and path: loadstone hosts check CAMPAIGN; "
        "or leave it out.",
        trial_check=HOSTS + "is_unequal",
        views=BOTH,
        checks=(OF_HOSTS + "find_unequal",),
    ),
    _caution(
        id="UNHEALTHY",
        short="cluster not healthy",
        says="the target's cluster was not HEALTH_OK before or after the load",
        means="The number holds for a cluster in this state only.",
        do="Repair the cluster, and measure again.",
        trial_check=STATES + "is_unhealthy",
    ),
    _caution(
        id="REBALANCING",
        short="cluster moved data",
        says="the target's cluster moved or repaired data before or after the load",
        means="Recovery took a share of the target's resources.",
        do="Wait until all placement groups are active+clean.",
        trial_check=STATES + "is_rebalancing",
    ),
    _caution(
        id="HOOK",
        short="a hook failed",
        says="a hook of the campaign failed, or its moment never came",
        means="The target may not have been in the state that the campaign describes.",
        do="Read the hook's output in the run folder, mend it, and run again.",
        trial_check=STATES + "has_failed_hook",
        views=BOTH,
        checks=(SEEN + "find_surroundings",),
    ),
    _label(
        id="IMPORTED",
        severity="note",
        effect="none",
        says="measured by another tool; what that tool does not record is absent",
        means="Only what the tool records can be judged.",
        do="Nothing, or measure with loadstone to have the rest.",
    ),
    _label(
        id="FAILURES_NOT_STATED",
        severity="note",
        effect="none",
        says="the tool's file does not say how many requests failed",
        means="Requests may have failed, and rates may count them.",
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
