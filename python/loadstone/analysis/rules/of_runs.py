"""Rules on a whole run: what did not run, what disturbed it, and what its trials say together."""

from functools import partial

from loadstone.analysis.rules.rule import Effect, Rule, Severity


def _finding(
    name: str,
    severity: Severity,
    effect: Effect,
    says: str,
    means: str,
    do: str,
    check: str,
    short: str = "",
    covers: tuple[str, ...] = (),
) -> Rule:
    return Rule(
        id=name,
        views=("finding",),
        severity=severity,
        effect=effect,
        looks_at="run",
        says=says,
        means=means,
        do=do,
        short=short,
        covers=covers,
        checks=(f"loadstone.analysis.trial_findings:{check}",),
    )


_caution = partial(_finding, severity="caution", effect="precision")
_note = partial(_finding, severity="note", effect="none")

RULES: tuple[Rule, ...] = (
    _finding(
        "NOT RUN",
        severity="problem",
        effect="none",
        says="planned trials that left no record",
        means="The run is incomplete; the other results stand.",
        do="Go on with it: loadstone run CAMPAIGN -o RUN --resume.",
        check="find_missing",
    ),
    _finding(
        "LEFT BEHIND",
        severity="caution",
        effect="none",
        says="objects, buckets or processes that the run left behind",
        means="The numbers stand; the target is not as it was before.",
        do="Remove them: loadstone clean RUN.",
        check="find_left_behind",
    ),
    _finding(
        "contradictory",
        severity="problem",
        effect="invalid",
        short="contradictory records",
        says="records whose times or counts contradict each other",
        means="A file was edited or damaged: these numbers must not be used.",
        do="Restore the run folder, or measure again.",
        covers=("CONTRADICTORY",),
        check="find_contradictory",
    ),
    _finding(
        "stalled",
        severity="problem",
        effect="invalid",
        short="the client stalled",
        says="trials whose client stalled for more than 5 % of the measured time",
        means="The numbers show the client, not the target.",
        do="Measure on a host, or at a time, at which nothing else runs.",
        covers=("STALLED",),
        check="find_stalled",
    ),
    _caution(
        "stalled-shortly",
        short="the client stalled briefly",
        says="trials whose client stalled briefly",
        means="High percentiles contain delays of the client.",
        do="Use a quieter client host, or judge by p50.",
        covers=("NOISY",),
        check="find_stalled",
    ),
    _finding(
        "not-steady",
        severity="problem",
        effect="precision",
        short="not steady",
        says="trials whose rate never settled (LS-1, MSER-5, change points)",
        means="The mean depends on when measuring began and ended.",
        do="Warm up longer, measure longer, or find what changes at the target.",
        check="find_unsteady",
    ),
    _note(
        "too-short-for-steadiness",
        effect="precision",
        short="under five minutes each",
        says="trials shorter than the five minutes that a claim of steadiness needs",
        means="Nobody can say whether a longer trial would show the same.",
        do="For a result to publish, measure for five minutes: -d 5m.",
        covers=("SHORT",),
        check="find_unsteady",
    ),
    _caution(
        "cluster-state",
        short="cluster not healthy",
        says="trials of a Ceph cluster that was not healthy, or moved data",
        means="The numbers hold for a cluster in this state only.",
        do="Wait until the cluster is healthy and all placement groups are active+clean.",
        covers=("UNHEALTHY", "REBALANCING"),
        check="find_surroundings",
    ),
    _caution(
        "hook",
        short="a hook failed",
        says="hooks that failed, or whose moment never came",
        means="The target may not have been in the state that the campaign describes.",
        do="Read the hook's output in the run folder, mend it, and run again.",
        covers=("HOOK",),
        check="find_surroundings",
    ),
    _note(
        "not-calibrated",
        says="results whose load generator has no known ceiling on this host",
        means="Whether the client was the limit rests on its CPU alone.",
        do="Calibrate before the next run: loadstone calibrate.",
        check="find_instrument",
    ),
    _caution(
        "calibration-old",
        short="old calibration",
        says="a calibration that is older than it counts for",
        means="The client's ceiling may have changed since.",
        do="Calibrate again: loadstone calibrate.",
        check="find_instrument",
    ),
    _note(
        "kernel-feature",
        says="a feature of the kernel that this host refused (io_uring), and what was done instead",
        means="Requests cost the client more CPU than they would otherwise.",
        do="Allow the feature on the client, where its CPU is the limit.",
        check="find_instrument",
    ),
    _note(
        "verdict",
        says="what limited each result, and how well that is proven",
        means="A result that the client limited is a lower bound and takes part in no ratio.",
        do="Grade A needs an intervention: a second client, half the clients, half the size.",
        check="find_verdicts",
    ),
    _note(
        "capacity",
        says="what a search for a capacity found, and whether fresh trials confirmed it",
        means="The capacity is the highest rate that held the objective.",
        do="Where it was not confirmed, allow the search more trials or more time.",
        check="find_capacities",
    ),
    _note(
        "repetitions",
        effect="none",
        says="how well each result is known, and how many blocks a given precision needs",
        means="The interval narrows with the root of the number of blocks.",
        do="Run as many blocks as it says.",
        check="find_repetitions",
    ),
)
