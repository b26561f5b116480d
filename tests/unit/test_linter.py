"""General rules on the published reports: what they find, and what they must not find."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from loadstone import published
from loadstone.analysis.accounts.account import (
    BYTE_RATE,
    MEGABYTE_RATE,
    RATE,
    SECONDS,
    THREAD_RATE,
    Account,
    Disclosure,
    KnownCeiling,
    Measurement,
    Statement,
)
from loadstone.analysis.judgements.finding import Finding
from loadstone.analysis.standards import linter
from loadstone.errors import InputError
from loadstone.published.rules import consistency, judge


@cache
def judged(name: str) -> tuple[Finding, ...]:
    return judge(published.find(name).account())


def findings_of(name: str, rule: str) -> list[Finding]:
    return [finding for finding in judged(name) if finding.rule == rule]


def measurement(value: float, **given: object) -> Measurement:
    facts: dict[str, object] = {
        "target": "a",
        "workload": "w",
        "operation": "get",
        "parameters": {},
        "metric": RATE,
        "value": value,
        **given,
    }
    return Measurement(**facts)  # type: ignore[arg-type]


def account(measurements: Sequence[Measurement], **given: object) -> Account:
    facts: dict[str, object] = {"name": "made up", "title": "", **given}
    return Account(measurements=tuple(measurements), **facts)  # type: ignore[arg-type]


def rules(made: Account) -> set[str]:
    return {finding.rule for finding in judge(made)}


# Report 1


def test_the_deletes_of_1_mib_are_found_to_be_quantised_to_whole_seconds() -> None:
    quantised = {
        finding.statement.split(" of ")[1].split(" that")[0]: finding
        for finding in findings_of("hummingbird", "whole-seconds")
    }
    (finding,) = [
        finding
        for finding in findings_of("hummingbird", "whole-seconds")
        if "DELETE of 1 MiB" in finding.statement
    ]
    assert len(finding.evidence) == 34
    assert finding.chance is not None
    assert finding.chance < 1e-45
    assert "16393 = 1,000,000/61 s" in finding.statement
    assert "16667 = 1,000,000/60 s" in finding.statement
    assert quantised
    # Between 433 and 542 nearly every whole number is such a quotient.
    assert min(float(str(evidence.threshold)) for evidence in finding.evidence) > 1000


def test_the_puts_and_gets_of_1_mib_are_too_small_to_tell() -> None:
    cases = [
        case for finding in findings_of("hummingbird", "whole-seconds") for case in finding.cases
    ]
    of_1_mib = [case.partition(" 1 MiB")[0] for case in cases if " 1 MiB" in case]
    assert {case.split()[-1] for case in of_1_mib} == {"delete"}


def test_the_ties_of_the_performance_lab_are_found_to_be_a_10_gbe_link_and_marked_inferred() -> (
    None
):
    ties = [
        finding
        for finding in findings_of("hummingbird", "link-ceiling")
        if "Performance" in finding.statement
    ]
    assert len(ties) == 2
    for finding in ties:
        assert finding.is_inferred
        assert "12 of 12" in finding.statement
        assert "10 GbE" in finding.statement
        assert all(float(evidence.value) > 0.98 for evidence in finding.evidence)


def test_labs_without_a_plateau_are_not_blamed_on_a_link() -> None:
    statements = " ".join(
        finding.statement for finding in findings_of("hummingbird", "link-ceiling")
    )
    assert "Hummingbird Lab" not in statements
    assert "Old Hummingbird" not in statements


def test_every_number_of_hummingbird_is_a_single_trial() -> None:
    (finding,) = findings_of("hummingbird", "single-trials")
    assert "240 of 240" in finding.statement
    assert "n = 1" in finding.statement
    assert "0.33" in finding.statement


def test_rounds_that_fall_and_nodes_that_do_not_help_are_found() -> None:
    (falls,) = findings_of("hummingbird", "rounds-differ")
    assert "6250 to 2642 (-58%)" in falls.statement
    (steps,) = findings_of("hummingbird", "not-monotonic")
    assert any("get 4 KiB" in case for case in steps.cases)


# Report 2


def test_exactly_seven_queries_differ_after_holm_and_the_geometric_mean_has_its_interval() -> None:
    (finding,) = findings_of("theflash", "arms-differ")
    assert finding.cases == ("Q01", "Q02", "Q03", "Q04", "Q11", "Q21", "Q22")
    assert "1.249 (95 % CI 1.216-1.283)" in finding.statement
    assert "and 1.210 without" in finding.statement
    assert "; 10 without" in finding.statement


def test_the_cold_first_runs_on_ceph_are_found_and_none_on_the_ssd() -> None:
    (finding,) = findings_of("theflash", "cold-first-run")
    assert finding.statement.startswith("Ceph")
    assert "Q06 3.4×" in finding.statement
    assert finding.chance is not None
    assert finding.chance < 1e-4
    assert not findings_of("theflash-ssd", "cold-first-run")
    assert findings_of("theflash-ceph", "cold-first-run")


def test_the_speed_of_the_ssd_is_stated_twice_and_differently() -> None:
    assert len(findings_of("theflash", "contradicting-statements")) == 2
    assert "4.0× apart" in findings_of("theflash", "contradicting-statements")[0].statement


# Report 3


def test_the_uploads_of_10_mb_end_at_1_gbe() -> None:
    (finding,) = findings_of("cern", "link-ceiling")
    assert "uploads" in finding.statement
    assert "98.9%" in finding.statement
    assert "1 GbE" in finding.statement
    assert finding.is_inferred


def test_the_downloads_of_4_kb_end_where_the_client_has_no_more_ports() -> None:
    (finding,) = findings_of("cern", "socket-limit")
    assert "423.5/s" in finding.statement
    assert 8 in [evidence.value for evidence in finding.evidence if evidence.threshold == 0]
    assert finding.is_inferred


def test_each_sweep_of_cern_has_its_saturation_point() -> None:
    points = [finding.evidence[0].value for finding in findings_of("cern", "saturation")]
    assert points == [100, 16, 12, 12]
    statements = [finding.statement for finding in findings_of("cern", "saturation")]
    assert "N* = 7.2" in statements[0]
    assert "29×" in statements[0]
    assert "not saturated" in statements[2]


def test_a_sweep_against_a_link_is_not_forced_into_the_scalability_law() -> None:
    statements = [finding.statement for finding in findings_of("cern", "scaling-model")]
    assert len(statements) == 3
    assert "not hold" in statements[0]
    assert "13%" in statements[0]
    assert "follows" in statements[1]


def test_the_cell_that_contradicts_its_neighbours_is_found_and_no_other() -> None:
    (finding,) = findings_of("cern", "contradicting-cell")
    assert "download" in finding.statement
    assert "24 threads" in finding.statement
    assert "9.28/s and 96 MB/s" in finding.statement


def test_the_megabyte_of_the_small_downloads_is_told_and_that_of_10_mb_left_open() -> None:
    (finding,) = findings_of("cern", "megabyte-base")
    assert "4 KB" in finding.statement
    assert "2^20" in finding.statement
    assert "(1 exactly" in finding.statement


def test_the_spread_without_a_meaning_is_reported() -> None:
    assert "72 numbers" in findings_of("cern", "unnamed-spread")[0].statement


# Report 4


def test_throughput_of_datasafe_is_found_to_be_threads_over_mean_latency() -> None:
    (finding,) = findings_of("datasafe", "rate-from-latency")
    assert "threads /" in finding.statement
    assert "18 of 18" in finding.statement
    assert len(finding.evidence) == 15
    assert finding.chance is not None
    assert finding.chance < 1e-50


# Report 5


def test_the_network_is_the_bottleneck_of_skyhook_once_units_are_converted() -> None:
    (finding,) = findings_of("skyhook", "bottleneck")
    assert re.match(r"the network\b.*\bbottleneck\b", finding.statement)
    assert "950 MiB/s" in finding.statement
    assert "907 MiB/s = 7.61 Gbit/s" in finding.statement
    held = " ".join(evidence.metric for evidence in finding.evidence)
    assert "device" in held
    assert "OSD" not in held
    (mixed,) = findings_of("skyhook", "mixed-units")
    assert "rados bench" in mixed.statement
    assert "2^20" in mixed.statement


# Sound numbers cause no findings


def test_random_rates_are_not_called_quantised() -> None:
    generator = np.random.default_rng(1)
    rates = [
        measurement(float(value), text=str(value), work=1_000_000, parameters={"case": i})
        for i, value in enumerate(generator.integers(3_000, 16_000, 40))
    ]
    assert "whole-seconds" not in rules(account(rates))


def test_rates_all_over_the_place_are_not_called_a_link() -> None:
    generator = np.random.default_rng(2)
    rates = [
        measurement(float(value), target=target, parameters={"size": 2**20, "case": i})
        for i, value in enumerate(generator.uniform(300, 1174, 20))
        for target in ("a", "b")
    ]
    assert "link-ceiling" not in rules(account(rates))


def test_four_values_of_one_target_that_do_not_vary_anything_are_no_plateau() -> None:
    rates = [measurement(1170.0, parameters={"size": 2**20}, repetition=i) for i in range(1, 6)]
    assert "link-ceiling" not in rules(account(rates))


def test_a_finished_sweep_below_the_ports_is_not_blamed_on_sockets() -> None:
    sweep = [
        measurement(rate, parameters={"threads": n, "size": 4096})
        for n, rate in ((1, 50.0), (2, 90.0), (4, 160.0), (8, 220.0))
    ]
    assert "socket-limit" not in rules(account(sweep, planned_threads=(1, 2, 4, 8)))
    keep_alive = [replace(measured, value=measured.value * 50) for measured in sweep]
    assert "socket-limit" not in rules(account(keep_alive, planned_threads=(1, 2, 4, 8, 16)))


def test_repetitions_that_are_alike_have_no_cold_first() -> None:
    generator = np.random.default_rng(3)
    times = [
        measurement(value, metric=SECONDS, parameters={"query": f"Q{q}"}, repetition=r + 1)
        for q in range(22)
        for r, value in enumerate(generator.lognormal(2, 0.05, 10))
    ]
    assert rules(account(times)) == set()


def test_columns_that_agree_are_not_contradicted_and_one_wrong_digit_is() -> None:
    rows = [(1, 1.7), (4, 6.1), (8, 9.1), (12, 10.3), (16, 10.7), (20, 10.8)]
    cells = []
    for threads, rate in rows:
        given = {"parameters": {"size": 10 * 2**20, "threads": threads}}
        cells.append(measurement(rate, text=f"{rate}", **given))
        shown = f"{10 * rate:.0f}"
        cells.append(measurement(float(shown), text=shown, metric=MEGABYTE_RATE, **given))
    assert "contradicting-cell" not in rules(account(cells))
    cells[-1] = replace(cells[-1], value=118.0, text="118")
    assert "contradicting-cell" in rules(account(cells))


def test_rates_that_were_counted_are_not_called_threads_over_latency() -> None:
    cells = []
    for i, rate in enumerate((21.199480270806266, 9.077864651966383, 1.7302486534758463)):
        given = {"parameters": {"threads": 2, "case": i}}
        cells.append(measurement(rate, text=repr(rate), metric=THREAD_RATE, **given))
        cells.append(measurement(1.9 * rate, text=repr(1.9 * rate), **given))
    assert "rate-from-latency" not in rules(account(cells))


def test_a_result_far_from_every_ceiling_is_said_to_reach_none() -> None:
    made = account(
        [measurement(100e6, metric=BYTE_RATE)],
        ceilings=(KnownCeiling(resource="network", name="link", bytes_per_s=1.2e9),),
    )
    (finding,) = [finding for finding in judge(made) if finding.rule == "bottleneck"]
    assert finding.severity == "note"
    assert finding.statement.startswith("no ceiling ")


def test_statements_that_agree_are_not_reported() -> None:
    stated = tuple(Statement(quantity="q", value=v, unit="u", place="p") for v in (100, 105))
    assert "contradicting-statements" not in rules(account([measurement(1.0)], statements=stated))


def blocks(name: str, centre: float, seed: int, spread: float = 0.01) -> list[Measurement]:
    generator = np.random.default_rng(seed)
    return [
        measurement(
            float(value),
            target=name,
            parameters={"case": case},
            block=block + 1,
            repetition=block + 1,
        )
        for case in range(2)
        for block, value in enumerate(centre * generator.lognormal(0, spread, 8))
    ]


def test_a_target_named_twice_gives_the_noise_floor() -> None:
    cells = [*blocks("a", 100, 1), *blocks("twin", 100, 2), *blocks("b", 150, 3)]
    made = account(cells, run="r", identical=(("a", "twin"),))
    finding_of = {finding.rule: finding for finding in judge(made)}
    assert re.search(r"\(a\b.*\btwin\b", finding_of["noise-floor"].statement)
    assert float(finding_of["noise-floor"].evidence[0].value) < 0.03
    assert re.match(r"2 of 2 cases\b.*\ba\b.*\bb\b", finding_of["arms-differ"].statement)
    assert "sign flips" in finding_of["arms-differ"].statement


def test_a_control_that_differs_from_itself_is_a_problem() -> None:
    cells = [*blocks("a", 100, 1), *blocks("twin", 110, 2)]
    judged = judge(account(cells, run="r", identical=(("a", "twin"),)))
    (control,) = [finding for finding in judged if finding.rule == "noise-floor"]
    assert control.severity == "problem"
    assert "2 cases differ" in control.statement


# The list of mistakes


def outcomes(made: Account) -> dict[str, str]:
    return {result.id: result.outcome for result in linter.lint(made)}


def test_every_mistake_has_one_check_and_every_result_its_evidence() -> None:
    assert all(len(rule.checks) == 1 for rule in linter.RULES)
    for name in published.PUBLISHED:
        results = linter.lint(published.find(name).account())
        assert all(result.evidence for result in results)


def test_the_published_reports_fail_their_known_rules() -> None:
    hummingbird = outcomes(published.find("hummingbird").account())
    assert {key for key, value in hummingbird.items() if value == "fail"} == {
        "no-interval", "few-trials", "empty-system", "instrument-limited", "uncorrected-family",
    }  # fmt: skip
    theflash = outcomes(published.find("theflash").account())
    assert (theflash["no-interval"], theflash["few-trials"], theflash["partial-suite"]) == (
        "pass",
        "pass",
        "pass",
    )
    assert theflash["cache-measured"] == "fail"
    assert outcomes(published.find("cern").account())["no-interval"] == "fail"
    assert outcomes(published.find("datasafe").account())["closed-loop-latency"] == "fail"


def test_an_unstated_fact_neither_passes_nor_fails() -> None:
    outcome_of = outcomes(account([measurement(1.0), measurement(2.0, target="b")]))
    for check in (
        "not-interleaved",
        "wrong-unit",
        "unequal-tuning",
        "empty-system",
        "unsteady",
        "errors-as-work",
        "data-not-described",
        "durability-differs",
        "not-verified",
        "picked-trials",
        "tuned-on-results",
    ):
        assert outcome_of[check] == "not stated"


@pytest.mark.parametrize(
    ("fact", "value", "check", "outcome"),
    [
        ("order", "sequential", "not-interleaved", "fail"),
        ("order", "interleaved", "not-interleaved", "pass"),
        ("replication_unit", "second", "wrong-unit", "fail"),
        ("replication_unit", "block", "wrong-unit", "pass"),
        ("suite_members", 22, "partial-suite", "fail"),
        ("aggregate", "arithmetic mean of ratios", "mean-of-ratios", "fail"),
        ("aggregate", "geometric mean of ratios", "mean-of-ratios", "pass"),
        ("tuning", "defaults for both", "unequal-tuning", "pass"),
        ("cache", "mixed", "cache-measured", "fail"),
        ("cache", "cold", "cache-measured", "pass"),
        ("fill", "70 %", "empty-system", "pass"),
        ("steadiness", "not steady: the drift", "unsteady", "fail"),
        ("instrument_ceiling", "u = 0.3", "instrument-limited", "pass"),
        ("client_cost", "5.4 µs a request", "cost-not-shown", "pass"),
        ("errors", "0 of 10,000", "errors-as-work", "pass"),
        ("payload", "not compressible", "data-not-described", "pass"),
        ("durability", "3 copies each", "durability-differs", "pass"),
        ("verified", 0.0, "not-verified", "fail"),
        ("verified", 0.01, "not-verified", "pass"),
        ("correction", "Holm", "uncorrected-family", "pass"),
        ("claims_no_difference", True, "no-difference-claimed", "fail"),
        ("all_trials_listed", False, "picked-trials", "fail"),
        ("chart_lines", "through unmeasured points", "chart-lines", "fail"),
        ("tuning_trials", "same data", "tuned-on-results", "fail"),
    ],
)
def test_each_stated_fact_decides_its_check(
    fact: str, value: object, check: str, outcome: str
) -> None:
    cells = [
        measurement(float(i), target=target, parameters={"size": i})
        for i in (1, 2)
        for target in ("a", "b")
    ]
    stated = Disclosure(**{fact: value})  # type: ignore[arg-type]
    assert outcomes(account(cells, disclosure=stated))[check] == outcome


def test_a_dataset_smaller_than_five_times_the_memory_fails() -> None:
    def outcome(dataset: int) -> str:
        stated = Disclosure(dataset_bytes=dataset, client_memory_bytes=100)
        return outcomes(account([measurement(1.0)], disclosure=stated))["cache-measured"]

    assert outcome(499) == "fail"
    assert outcome(500) == "pass"


@pytest.mark.parametrize(
    ("cached", "cache", "outcome"),
    [
        ((0.0, 0.09), None, "pass"),
        ((0.0, 0.5), None, "fail"),
        ((1.0, 1.0), None, "fail"),
        ((1.0, 1.0), "warm", "pass"),
    ],
)
def test_observations_of_the_page_cache_decide_before_sizes(
    cached: tuple[float, float], cache: str | None, outcome: str
) -> None:
    for dataset in (1, 10**6):
        stated = Disclosure(
            cached=cached, cache=cache, dataset_bytes=dataset, client_memory_bytes=100
        )
        outcome_of = outcomes(account([measurement(1.0)], disclosure=stated))
        # Five times the memory and a statement of the caches are both good.
        assert outcome_of["cache-measured"] == outcome


def test_percentiles_are_checked_for_their_source_their_load_and_their_tail() -> None:
    def outcome(check: str, work: int | None, **stated: object) -> str:
        percentile = measurement(1e6, metric="response_ns_p99", work=work)
        made = account([percentile], disclosure=Disclosure(**stated))  # type: ignore[arg-type]
        return outcomes(made)[check]

    assert outcome("averaged-percentiles", 1, percentiles="averaged") == "fail"
    assert outcome("averaged-percentiles", 1, percentiles="merged histograms") == "pass"
    assert outcome("closed-loop-latency", 1, loop="closed") == "fail"
    assert outcome("closed-loop-latency", 1, loop="open") == "pass"
    assert outcome("unresolved-tail", 999) == "fail"
    assert outcome("unresolved-tail", 1000) == "pass"
    assert outcome("unresolved-tail", None) == "not stated"


@pytest.mark.parametrize(
    ("text", "tool", "bytes_per_s"),
    [
        ("950 MB/s", "rados bench", 950 * 2**20),
        ("950 MB/s", "", 950e6),
        ("2540MB/s", "fio", 2540e6),
        ("907 MiB/s", "", 907 * 2**20),
        ("7.61 Gb/s", "", 951.25e6),
        ("10 Gbit/s", "", 1.25e9),
        ("8 bit/s", "", 1.0),
        ("3 kB/s", "", 3000.0),
    ],
)
def test_printed_rates_mean_what_their_tool_means(text: str, tool: str, bytes_per_s: float) -> None:
    assert consistency.parse_rate_bytes(text, tool) == pytest.approx(bytes_per_s)


def test_a_rate_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="950 MB/s"):
        consistency.parse_rate_bytes("fast")
