"""Rules on numbers, of a run or of a published report: what they betray about how they came about.

They know no report: each finds what it finds in the numbers, in their last digits, and in what was
stated beside them.
"""

from functools import partial

from loadstone.analysis.rules.rule import Rule

NUMBERS = "loadstone.analysis.numbers."

_finding = partial(Rule, views=("finding",), looks_at="numbers")
_problem = partial(_finding, severity="problem", effect="precision")
_caution = partial(_finding, severity="caution", effect="precision")
_note = partial(_finding, severity="note", effect="none")

RULES: tuple[Rule, ...] = (
    _problem(
        id="link-ceiling",
        checks=(NUMBERS + "ceilings:link_ceiling",),
        effect="bound",
        short="the network link was full",
        says="results just below the goodput of an Ethernet link",
        means="They are the link's numbers, not the target's.",
        do="Measure over a faster link, or with objects small enough not to fill it.",
    ),
    _note(
        id="lowest-ceiling",
        checks=(NUMBERS + "ceilings:stated_ceiling",),
        says="which ceiling, measured apart, the best result touches",
        means="A result at a ceiling is that resource's number.",
        do="Raise that ceiling to learn what the target can do beyond it.",
    ),
    _note(
        id="bottleneck",
        checks=(NUMBERS + "ceilings:stated_ceiling",),
        says="which of the run's own ceilings its reads and writes touch",
        means="A result at a ceiling is that resource's number.",
        do="Raise that ceiling to learn what the target can do beyond it.",
    ),
    _problem(
        id="socket-limit",
        checks=(NUMBERS + "ceilings:socket_ceiling",),
        effect="bound",
        short="the client ran out of ports",
        says="sweeps of small requests that end where a client runs out of ports",
        means="The end of the sweep is the client's limit.",
        do="Keep connections open, or use several clients.",
    ),
    _problem(
        id="single-trials",
        checks=(NUMBERS + "repetition:single_trials",),
        short="one trial per number",
        says="numbers that were measured once",
        means="There is no interval, and no comparison.",
        do="Repeat in interleaved blocks: --blocks 6, or blocks: 6 in the campaign.",
        covers=("n=1",),
    ),
    _caution(
        id="unequal-repetitions",
        checks=(NUMBERS + "repetition:unequal_repetitions",),
        short="unequal repetitions",
        says="cases repeated less often than others",
        means="Their means are less certain than those beside them.",
        do="Repeat every case equally often.",
    ),
    _problem(
        id="cold-first-run",
        checks=(NUMBERS + "repetition:cold_first",),
        short="cold first repetitions",
        says="first repetitions unlike the others",
        means="The mean mixes cold and warm caches.",
        do="Warm up, or report the first repetition apart.",
    ),
    _caution(
        id="working-set",
        checks=(NUMBERS + "ceilings:working_set",),
        short="dataset fits a CPU cache",
        says="reads of a dataset under 32 MiB, which fits a CPU cache",
        means="The reads may come from a cache.",
        do="Read a dataset larger than the target's memory.",
    ),
    _caution(
        id="rounds-differ",
        checks=(NUMBERS + "order:rounds_differ",),
        short="rounds differ",
        says="rounds that lie far apart",
        means="The dataset's age or something outside changed the rate.",
        do="Repeat in interleaved blocks, and look at what differs between the rounds.",
    ),
    _caution(
        id="not-monotonic",
        checks=(NUMBERS + "order:not_monotonic",),
        short="not monotonic",
        says="more machines, less throughput",
        means="Contention, or chance.",
        do="Repeat the points that fall.",
    ),
    _caution(
        id="slower-when-fuller",
        checks=("loadstone.analysis.fills:declines",),
        short="slower when fuller",
        says="a store that is slower when it is fuller",
        means="The number of the empty store is too high, unless this is chance.",
        do="Repeat it in blocks, and report the level at which the store will be used.",
    ),
    _note(
        id="fill-and-rate",
        checks=("loadstone.analysis.fills:declines",),
        says="how the rate changes as a store is filled",
        means="Near 1, the fill level makes no difference.",
        do="Nothing, or try a higher level: fill: 80%.",
    ),
    _note(
        id="rate-per-machine",
        checks=(NUMBERS + "order:rate_per_machine",),
        says="how the rate of a machine changes as machines are added",
        means="Below 1, a shared resource limits (client, network, metadata), or "
        "the load is too small.",
        do="Add client hosts and requests in flight in step with machines.",
    ),
    _note(
        id="arms-differ",
        checks=(NUMBERS + "differences:arms_differ",),
        says="which targets differ after Holm's correction",
        means="Differences within the noise floor are none.",
        do="Run more blocks where a difference is not decided.",
    ),
    _note(
        id="noise-floor",
        checks=(NUMBERS + "differences:arms_differ",),
        says="the result of an A/A control",
        means="A smaller difference between targets cannot be distinguished from chance.",
        do="Run more blocks to lower it.",
    ),
    _note(
        id="saturation",
        checks=(NUMBERS + "queueing:saturation_point",),
        says="where a sweep saturates, and what load beyond it costs",
        means="Beyond that point more load only queues.",
        do="Operate below the knee.",
    ),
    _note(
        id="scaling-model",
        checks=(NUMBERS + "queueing:scaling_model",),
        says="which curve a sweep follows",
        means="It tells contention from a fixed ceiling.",
        do="Extrapolate with care: the model holds where it was fitted.",
    ),
)
