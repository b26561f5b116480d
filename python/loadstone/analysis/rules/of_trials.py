"""Rules on one trial: labels that it was recorded with, and how it ended."""

from functools import partial

from loadstone.analysis.rules.rule import Rule, View

LABELS = "loadstone.analysis.labels:"
SEEN = "loadstone.analysis.trial_findings:"
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
        means="Nobody can say where the numbers come from.",
        do="Restore the run folder from the copy that was written, or measure again.",
    ),
    _void(
        id="CONTRADICTORY",
        short="contradictory records",
        says="the times or counts of the record contradict each other",
        means="A file of the record was edited or damaged: the numbers must not be used.",
        do="Restore the run folder, or measure again.",
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
        trial_check=LABELS + "is_stalled",
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
        id="LOG_INS",
        short="many log-ins",
        says="the client logged in again more than a few times, or for over 1 % of the time",
        means="The identity service has a share in the numbers.",
        do="Use tokens that live longer than a trial.",
        trial_check=LABELS + "logs_in_often",
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
    _caution(
        id="INCOMPLETE",
        short="incomplete file",
        says="the tool's own file does not list every request that it made",
        means="Rates and percentiles rest on a part of the requests.",
        do="Let the tool log every request, and import again.",
    ),
)
