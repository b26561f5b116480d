"""Rules on numbers that others printed: what their digits, units and words betray.

They know no report: each finds what it finds in the numbers, in their last digits, and in what was
stated beside them. A run of ours has no digits that were rounded and no words, so that none of
these can speak of it.
"""

from functools import partial

from loadstone.analysis import numbers
from loadstone.analysis.accounts.account import Account
from loadstone.analysis.judgements.finding import Finding, by_severity
from loadstone.analysis.rules import Rule

PRINTED = "loadstone.published.rules."

_finding = partial(Rule, views=("finding",), looks_at="numbers")
_problem = partial(_finding, severity="problem", effect="precision")
_caution = partial(_finding, severity="caution", effect="precision")
_note = partial(_finding, severity="note", effect="none")

RULES: tuple[Rule, ...] = (
    _problem(
        id="rate-from-latency",
        checks=(PRINTED + "derived:rate_from_latency",),
        short="rates computed from latency",
        says="throughput computed as threads over mean latency",
        means="It leaves out all time between requests: the true rate is lower.",
        do="Count completions over wall time.",
    ),
    _problem(
        id="unnamed-spread",
        checks=(PRINTED + "stated:unnamed_spread",),
        short="a ± without a name",
        says="a ± whose meaning is not given",
        means="It may be a standard deviation, a standard error or a range.",
        do="Say which, and of what.",
    ),
    _problem(
        id="contradicting-cell",
        checks=(PRINTED + "consistency:contradicting_cell",),
        effect="invalid",
        short="contradicting columns",
        says="columns that contradict each other",
        means="At least one of the numbers is wrong.",
        do="Recalculate them from the raw data.",
    ),
    _caution(
        id="contradicting-statements",
        checks=(PRINTED + "consistency:contradicting_statements", PRINTED + "stated:two_speeds"),
        short="contradicting statements",
        says="one quantity stated twice with different values",
        means="Everything that depends on it is uncertain.",
        do="Find out which statement holds.",
    ),
    _caution(
        id="contradicting-spread",
        checks=(PRINTED + "consistency:contradicting_spread",),
        short="contradicting spreads",
        says="a ± of MB/s that cannot come from the same trials as the ± of requests",
        means="One of the two comes from other data.",
        do="Recalculate both from the same trials.",
    ),
    _caution(
        id="limit-does-not-scale",
        checks=(PRINTED + "stated:limits_that_do_not_scale",),
        short="limits that do not scale",
        says="a limit per bucket, client or the like that does not grow with their number",
        means="A shared resource is the limit.",
        do="Name the shared resource, or measure it.",
    ),
    _caution(
        id="faster-than-beneath",
        checks=(PRINTED + "stated:faster_than_beneath",),
        short="faster than the layer beneath",
        says="a layer that is stated to be faster than the layer below",
        means="Several were used at once, or a cache was measured.",
        do="Say how many, and what was cached.",
    ),
    _note(
        id="ratio-in-words",
        checks=(PRINTED + "stated:ratios_in_words",),
        short="ratios in words",
        says='a ratio in words ("thrice") that its own numbers miss by more than a tenth',
        means="The words claim another result than the numbers.",
        do="Correct the words.",
    ),
    _caution(
        id="threads-and-cores",
        checks=(PRINTED + "stated:threads_and_cores",),
        short="threads and cores contradict",
        says='labels such as "all threads" that contradict each other or the cores',
        means="The load behind a number is not known.",
        do="State the number of threads.",
    ),
    _caution(
        id="mixed-units",
        checks=(PRINTED + "consistency:mixed_units",),
        short="mixed units",
        says="similar numbers in different units",
        means='A "MB" of 2^20 bytes is 5 % more than one of 10^6.',
        do="Give MiB or MB, and say which.",
    ),
    _caution(
        id="megabyte-base",
        checks=(PRINTED + "consistency:megabyte_base",),
        short="MB of which size",
        says='the meaning of "MB" in a table',
        means='A "MB" of 2^20 bytes is 5 % more than one of 10^6.',
        do="Give MiB or MB, and say which.",
    ),
    _caution(
        id="whole-seconds",
        checks=(PRINTED + "quantised:whole_seconds",),
        short="times in whole seconds",
        says="rates over whole seconds",
        means="Short runs are wrong by up to a second in their length.",
        do="Measure time to the millisecond, or much longer.",
    ),
)


def judge(account: Account) -> tuple[Finding, ...]:
    """Return what the rules on numbers find, those on printed ones included, problems first."""
    return by_severity(numbers.found_by((*numbers.RULES, *RULES), account))
