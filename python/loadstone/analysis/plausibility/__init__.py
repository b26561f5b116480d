"""Rules that judge any account: what its numbers betray about how they came about.

Every rule is general: it knows no report, and finds what it finds in the numbers, in their last
digits and in what was stated beside them. A rule returns findings with their evidence; what rests
on an assumption is marked as inferred.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from loadstone.analysis.account import Account
from loadstone.analysis.finding import Finding
from loadstone.analysis.plausibility import (
    ceilings,
    consistency,
    differences,
    order,
    quantised,
    queueing,
    repetition,
    stated,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: its name, what it looks for, and the function that looks."""

    name: str
    summary: str
    check: Callable[[Account], Iterator[Finding]]


RULES: tuple[Rule, ...] = (
    Rule(
        name="link-ceiling",
        summary="results that crowd below the goodput of an Ethernet link",
        check=ceilings.link_ceiling,
    ),
    Rule(
        name="lowest-ceiling",
        summary="the best result against ceilings measured apart",
        check=ceilings.stated_ceiling,
    ),
    Rule(
        name="socket-limit",
        summary="sweeps that end where a client runs out of ports",
        check=ceilings.socket_ceiling,
    ),
    Rule(
        name="rate-from-latency",
        summary="throughput computed as threads over mean latency",
        check=queueing.rate_from_latency,
    ),
    Rule(
        name="single-trials",
        summary="numbers that were measured once",
        check=repetition.single_trials,
    ),
    Rule(
        name="unnamed-spread",
        summary="a ± without a meaning",
        check=repetition.unnamed_spread,
    ),
    Rule(
        name="cold-first-run",
        summary="first repetitions unlike the others",
        check=repetition.cold_first,
    ),
    Rule(
        name="contradicting-cell",
        summary="columns that cannot both be right",
        check=consistency.contradicting_cell,
    ),
    Rule(
        name="whole-seconds",
        summary="rates that are work over whole seconds",
        check=quantised.whole_seconds,
    ),
    Rule(
        name="mixed-units",
        summary="numbers that look alike in different units",
        check=consistency.mixed_units,
    ),
    Rule(
        name="megabyte-base",
        summary='which "MB" a table means',
        check=consistency.megabyte_base,
    ),
    Rule(
        name="contradicting-statements",
        summary="one quantity stated twice",
        check=consistency.contradicting_statements,
    ),
    Rule(
        name="contradicting-statements",
        summary="one device with two speeds",
        check=stated.two_speeds,
    ),
    Rule(
        name="contradicting-spread",
        summary="two ± of the same trials that differ",
        check=consistency.contradicting_spread,
    ),
    Rule(
        name="limit-does-not-scale",
        summary="limits per bucket, client or the like that more of them do not multiply",
        check=stated.limits_that_do_not_scale,
    ),
    Rule(
        name="faster-than-beneath",
        summary="a layer faster than what carries it",
        check=stated.faster_than_beneath,
    ),
    Rule(
        name="ratio-in-words",
        summary="ratios in words that the numbers do not have",
        check=stated.ratios_in_words,
    ),
    Rule(
        name="threads-and-cores",
        summary="labels of threads that contradict each other or the cores",
        check=stated.threads_and_cores,
    ),
    Rule(
        name="working-set",
        summary="reads of so few bytes that a cache holds all of them",
        check=stated.working_set,
    ),
    Rule(
        name="unequal-repetitions",
        summary="cases repeated less often than others",
        check=repetition.unequal_repetitions,
    ),
    Rule(
        name="rounds-differ",
        summary="rounds that lie far apart",
        check=order.rounds_differ,
    ),
    Rule(
        name="not-monotonic",
        summary="more machines, less throughput",
        check=order.not_monotonic,
    ),
    Rule(
        name="arms-differ",
        summary="which targets differ by more than chance, and how far A against A does",
        check=differences.arms_differ,
    ),
    Rule(
        name="saturation",
        summary="where a sweep saturates and what load beyond it costs",
        check=queueing.saturation_point,
    ),
    Rule(
        name="scaling-model",
        summary="which curve a sweep follows",
        check=queueing.scaling_model,
    ),
)


def judge(account: Account) -> tuple[Finding, ...]:
    """Return what all rules find, problems first."""
    found = [finding for rule in RULES for finding in rule.check(account)]
    order_of = ("problem", "caution", "note")
    return tuple(sorted(found, key=lambda finding: order_of.index(finding.severity)))
