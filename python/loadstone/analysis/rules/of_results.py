"""Rules on one result: labels beside the number, and limits that kept it from being higher."""

from functools import partial

from loadstone.analysis.rules.rule import Effect, Rule, Severity, View

LABELS = "loadstone.analysis.labels:"
LIMITED = "loadstone.analysis.trial_findings:find_limited"


def _row(
    name: str,
    views: tuple[View, ...],
    severity: Severity,
    effect: Effect,
    says: str,
    means: str,
    do: str,
    short: str = "",
    check: str = "",
) -> Rule:
    return Rule(
        id=name,
        views=views,
        severity=severity,
        effect=effect,
        looks_at="result",
        says=says,
        means=means,
        do=do,
        short=short,
        checks=(check if ":" in check else LABELS + check,) if check else (),
    )


_void = partial(_row, views=("label",), severity="problem", effect="invalid")
_caution = partial(_row, views=("label",), severity="caution", effect="precision")
_limit = partial(_row, views=("limit",), severity="note", effect="none")
_bound = partial(
    _row, views=("limit", "finding"), severity="problem", effect="bound", check=LIMITED
)

RULES: tuple[Rule, ...] = (
    _caution(
        "ERRORS",
        short="some requests failed",
        says="some requests failed; rates count the good ones only",
        means="A failed request may be faster or slower than a good one.",
        do="Read which errors came back; lower the load or mend the target.",
        check="has_errors",
    ),
    _void(
        "NOTHING",
        short="no request succeeded",
        says="not one request succeeded",
        means="There is no number.",
        do="Read the first error, and correct the target's address, credentials or dataset.",
        check="has_nothing",
    ),
    _row(
        "n=1",
        views=("label",),
        severity="note",
        effect="precision",
        short="one trial per number",
        says="one trial: nothing is known about how far another one would lie",
        means="No interval, and no comparison, can be given.",
        do="Repeat it in interleaved blocks: --blocks 6.",
        check="is_single",
    ),
    _row(
        "SHORT",
        views=("label",),
        severity="note",
        effect="precision",
        short="under a minute each",
        says="measured for less than a minute, or fewer than 1000 requests",
        means="Caches, start-up and chance weigh more than in a long trial.",
        do="Measure for at least a minute: -d 60s.",
        check="is_short",
    ),
    _void(
        "LITTLE",
        short="contradicts Little's law",
        says="requests in flight do not agree with rate times time (Little's law)",
        means="The accounting is in doubt.",
        do="Look at the trial's record; if it was not edited, report this as a defect.",
        check="breaks_little",
    ),
    _row(
        "IDLE",
        views=("label",),
        severity="caution",
        effect="bound",
        short="clients idle between requests",
        says="clients spent more than 2 % of the time outside requests",
        means="The rate may be the client's limit: the target can do at least this.",
        do="Use fewer threads a core, more cores, or a second client.",
        check="is_idle",
    ),
    _caution(
        "OVERLOAD",
        short="the rate was not sustained",
        says="requests were answered at less than 99 % of the rate at which they were due",
        means="The target does not sustain this rate, and latency grows as long as it lasts.",
        do="Lower the rate, or search for the capacity.",
        check="is_overloaded",
    ),
    _void(
        "LAG",
        short="requests left late",
        says="requests left later than they were due: the load generator could not keep the "
        "schedule",
        means="The load was not the one that was asked for.",
        do="Lower the rate, or give the client more cores.",
        check="has_lag",
    ),
    _row(
        "INSTRUMENT_LIMITED",
        views=("label", "limit"),
        severity="problem",
        effect="bound",
        says="the load generator used 80 % or more of its own ceiling",
        means="The target can do at least this.",
        do="Use a second client or more cores, and measure again.",
        short="load generator",
        check="is_at_ceiling",
    ),
    _caution(
        "NEAR_CEILING",
        short="client near its own ceiling",
        says="the load generator used half or more of its own ceiling",
        means="Latency contains some of the client's own work.",
        do="Use a second client where latency matters.",
        check="is_near_ceiling",
    ),
    _caution(
        "NOISY",
        short="the client stalled briefly",
        says="the load generator's own sleeps ended late (p99.9) by over a tenth of the p99 shown",
        means="High percentiles contain delays of the client.",
        do="Use a quieter client host, or judge by p50.",
        check="is_noisy",
    ),
    _bound(
        "INSTRUMENT_CPU",
        says="the client's processors were busy",
        means="Lower bound: the target can do at least this.",
        do="Use more cores or a second client, or check fewer reads (--verify).",
        short="client CPU",
    ),
    _bound(
        "SHARED_HOST",
        says="client and store share this host's CPU",
        means="Lower bound: each took CPU time from the other.",
        do="Measure from another host.",
        short="shared CPU",
    ),
    _bound(
        "INSTRUMENT_MEM",
        says="the client's memory was full",
        means="Lower bound: the client may have been held up.",
        do="Use fewer threads or smaller objects, or a client with more memory.",
        short="client memory",
    ),
    _bound(
        "INSTRUMENT_SOCKETS",
        says="the client ran out of ports or descriptors",
        means="Lower bound: requests waited for a connection.",
        do="Keep connections open, raise ulimit -n, or use a second client.",
        short="client sockets",
    ),
    _bound(
        "CLIENT_NIC",
        says="the client's network card was full",
        means="Lower bound: the target can do at least this.",
        do="Use a faster card or a second client.",
        short="client network",
    ),
    _limit(
        "INSTRUMENT_LAG",
        effect="bound",
        says="the load generator could not keep its schedule",
        means="Lower bound: the target was not asked for as much as the campaign says.",
        do="Lower the rate, or give the client more cores.",
        short="client schedule",
    ),
    _limit(
        "INVALID",
        severity="problem",
        effect="invalid",
        says="a check of the trial's accounting failed",
        means="The number must not be used as a result.",
        do="Read the reason, mend it, and measure again.",
        short="invalid",
    ),
    _limit(
        "TARGET_THROTTLED",
        says="the target told clients to slow down",
        means="The rate is what the target's limit allows.",
        do="Raise the limit at the target, or measure at a rate below it.",
        short="throttled",
    ),
    _limit(
        "LATENCY_BOUND",
        says="too few requests in flight: the rate is load over time",
        means="The target can do more than it was asked for.",
        do="Raise the number of threads.",
        short="too few threads",
    ),
    _limit(
        "NOT_SATURATED",
        says="more load brings more, or all that was asked for was achieved",
        means="The target can do more than it was asked for.",
        do="Raise the number of threads or the rate.",
        short="not saturated",
    ),
    _limit(
        "NETWORK_PATH",
        says="the measured ceiling of the network path was reached",
        means="The number is that of the network.",
        do="Use a faster path or smaller objects to see the target's own limit.",
        short="network",
    ),
    _limit(
        "TARGET_DISK",
        says="the measured ceiling of the target's devices was reached",
        means="The number is that of the devices.",
        do="More or faster devices would raise it.",
        short="target disk",
    ),
    _limit(
        "TARGET_CPU",
        says="the target's processors were busy",
        means="The number is the target's own.",
        do="More or faster cores at the target would raise it.",
        short="target CPU",
    ),
    _limit(
        "TARGET_NETWORK",
        says="the target's network was busy",
        means="The number is that of the target's network.",
        do="A faster network at the target would raise it.",
        short="target network",
    ),
    _limit(
        "TARGET_SOFTWARE",
        says="saturated, while client, path and the target's resources had room",
        means="The number is the target's own: locks, queues or its configuration.",
        do="Profile the target.",
        short="target software",
    ),
    _limit(
        "TARGET",
        says="saturated, while client and path had room",
        means="The number is the target's own.",
        do="Watch the target's resources to learn which one.",
        short="target",
    ),
    _limit(
        "TARGET_CONTENTION",
        says="more in flight slow the target down",
        means="The load lies beyond the target's best point.",
        do="Use fewer threads.",
        short="target contention",
    ),
    _limit(
        "BEYOND_CLIENT",
        says="saturated, while the client had room",
        means="The limit is the network path or the target.",
        do="Measure the path's ceiling to tell which.",
        short="path or target",
    ),
    _limit(
        "UNDETERMINED",
        says="nothing that was looked at limits it",
        means="The number stands, and why it is not higher is not known.",
        do="Measure at other loads, calibrate, and watch the target.",
        short="not known",
    ),
)
