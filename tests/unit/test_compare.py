"""Comparisons: which arm is faster, how certain that is, and what must not be claimed."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone import published
from loadstone.analysis.accounts import claims, comparison
from loadstone.analysis.accounts.account import RATE, SECONDS, Account, Measurement
from loadstone.analysis.statistics import ratios as statistics
from loadstone.cli import main
from loadstone.cli.commands.results import compare
from loadstone.errors import InputError
from tests.unit.synthetic_run import write_sweep


def arm(
    name: str,
    rates: dict[str, list[float]],
    *,
    run: str = "",
    is_blocked: bool = False,
    labels: tuple[str, ...] = (),
    metric: str = RATE,
    **given: object,
) -> Account:
    measurements = [
        Measurement(
            target=name,
            workload="w",
            operation=operation,
            parameters={"threads": 8},
            metric=metric,
            value=value,
            block=index + 1 if is_blocked else None,
            repetition=index + 1,
            labels=labels,
        )
        for operation, values in rates.items()
        for index, value in enumerate(values)
    ]
    facts: dict[str, object] = {"name": name, "title": name, "run": run, **given}
    return Account(measurements=tuple(measurements), **facts)  # type: ignore[arg-type]


def rates(centre: float, spread: float = 0.02, n: int = 10, seed: int = 1) -> list[float]:
    generator = np.random.default_rng(seed)
    return [float(value) for value in centre * generator.lognormal(0, spread, n)]


def only(compared: comparison.Comparison) -> comparison.CaseComparison:
    (case,) = compared.comparisons
    return case


def test_the_published_times_of_the_flash_are_compared_query_by_query() -> None:
    a = published.find("theflash-ssd").account()
    b = published.find("theflash-ceph").account()
    compared = comparison.compare(a, b)
    differing = [
        pair.case["query"]
        for pair in compared.comparisons
        if pair.p_holm is not None and pair.p_holm < 0.05
    ]
    assert differing == ["Q01", "Q02", "Q03", "Q04", "Q11", "Q21", "Q22"]
    verdicts = {str(pair.case["query"]): pair.verdict for pair in compared.comparisons}
    assert [name for name, verdict in verdicts.items() if verdict == "slower"] == differing
    assert "equivalent" in verdicts.values()
    assert compared.geometric_mean is not None
    assert compared.geometric_mean.ratio == pytest.approx(1.249, abs=5e-4)
    assert compared.geometric_mean.low == pytest.approx(1.216, abs=1.5e-3)
    assert compared.geometric_mean.high == pytest.approx(1.283, abs=1.5e-3)


def test_the_json_has_ratio_interval_n_method_p_and_verdict_of_every_case() -> None:
    a = published.find("theflash-ssd").account()
    b = published.find("theflash-ceph").account()
    document = claims.to_json(comparison.compare(a, b))
    cases = document["comparisons"]
    assert isinstance(cases, list)
    assert len(cases) == 22
    needed = {"case", "ratio", "ratio_low", "ratio_high", "n", "method", "p", "p_holm", "verdict"}
    assert all(needed <= case.keys() for case in cases)
    assert all(case["ratio_low"] <= case["ratio"] <= case["ratio_high"] for case in cases)
    together = document["geometric_mean"]
    assert isinstance(together, dict)
    assert set(together) == {"ratio", "ratio_low", "ratio_high"}


def test_the_ratio_is_b_over_a_and_turns_round_with_the_arms() -> None:
    a, b = arm("a", {"get": rates(100)}), arm("b", {"get": rates(150, seed=2)})
    there, back = only(comparison.compare(a, b)), only(comparison.compare(b, a))
    assert there.ratio.ratio == pytest.approx(1.5, rel=0.02)
    assert there.ratio.ratio == pytest.approx(1 / back.ratio.ratio)
    assert (there.verdict, back.verdict) == ("faster", "slower")


def test_the_smaller_time_is_the_faster() -> None:
    a = arm("a", {"query": rates(10)}, metric=SECONDS)
    b = arm("b", {"query": rates(5, seed=2)}, metric=SECONDS)
    assert only(comparison.compare(a, b)).verdict == "faster"
    words = claims.sentence(comparison.compare(a, b), only(comparison.compare(a, b)))
    assert "b takes 0.5" in words
    assert "× the time" in words


def test_blocks_of_one_run_are_compared_in_pairs() -> None:
    drift = np.exp(np.random.default_rng(5).normal(0, 0.2, 10))
    a = arm("a", {"get": list(100 * drift)}, run="r", is_blocked=True)
    b = arm("b", {"get": list(103.5 * drift * rates(1, 0.002))}, run="r", is_blocked=True)
    paired = comparison.compare(a, b)
    assert only(paired).ratio.method == "paired-t"
    assert paired.unit_of_replication == "block"
    assert paired.is_one_run
    assert only(paired).verdict == "faster"
    apart = comparison.compare(replace(a, run="r1"), replace(b, run="r2"))
    assert only(apart).ratio.method == "welch-t"
    assert apart.unit_of_replication == "trial"
    assert not apart.is_one_run
    assert only(apart).verdict == "not resolved"


def test_five_blocks_decide_what_every_block_shows() -> None:
    a = arm("a", {"get": rates(100, n=5)}, run="r", is_blocked=True)
    values = [10 * measurement.value for measurement in a.measurements]
    b = arm("b", {"get": [1.01 * values[0], *values[1:]]}, run="r", is_blocked=True)
    case = only(comparison.compare(a, b))
    assert case.verdict == "faster"
    assert case.p is not None
    assert case.p < 0.001
    assert case.p_check == pytest.approx(0.0625)
    exact = arm("b", {"get": values}, run="r", is_blocked=True)
    assert only(comparison.compare(a, exact)).verdict == "faster"
    same = only(comparison.compare(a, replace(a, name="b")))
    assert (same.verdict, same.p) == ("equivalent", 1.0)


def test_sign_flips_that_disagree_withhold_a_claim() -> None:
    # One block against six: t may say 4 %, and the signs do not.
    logs = [0.10, 0.11, 0.12, 0.10, 0.11, 0.12, -0.03]
    a = arm("a", {"get": [100.0] * 7}, run="r", is_blocked=True)
    b = arm("b", {"get": [100 * float(np.exp(log)) for log in logs]}, run="r", is_blocked=True)
    case = only(comparison.compare(a, b))
    assert case.p is not None
    assert case.p < 0.05
    assert case.is_checked == (case.p_check is not None and case.p_check < 0.05)
    unsure = replace(case, is_checked=False)
    assert comparison._verdict(unsure, a.measurements, b.measurements, RATE) == "not resolved"


def test_the_ratio_is_that_of_the_two_numbers_beside_it() -> None:
    uneven = [100.0, 400.0, 100.0, 100.0, 900.0]
    a, b = arm("a", {"get": uneven}), arm("b", {"get": rates(150, n=5, seed=2)})
    case = only(comparison.compare(a, b))
    assert case.b / case.a == pytest.approx(case.ratio.ratio)


def test_a_claim_is_said_as_times_faster_whichever_arm_it_is_of() -> None:
    a = arm("a", {"get": rates(100, n=6)}, run="r", is_blocked=True)
    b = arm("b", {"get": rates(200, n=6, seed=2)}, run="r", is_blocked=True)
    there, back = comparison.compare(a, b), comparison.compare(b, a)
    forth, other = claims.in_words(only(there)), claims.in_words(only(back))
    assert "faster" in forth
    assert forth == other.replace("slower", "faster")


def test_blocks_that_are_needed_follow_from_the_spread_of_those_there_are() -> None:
    a = arm("a", {"get": [100.0] * 5}, run="r", is_blocked=True)
    logs = [0.02, -0.03, 0.05, -0.04, 0.01]
    b = arm("b", {"get": [100 * float(np.exp(log)) for log in logs]}, run="r", is_blocked=True)
    case = only(comparison.compare(a, b))
    assert case.verdict == "not resolved"
    needed = statistics.repetitions_needed(float(np.std(logs, ddof=1)), comparison.MARGIN)
    assert claims.blocks_needed(case) == needed > 5
    apart = only(comparison.compare(replace(a, run=""), replace(b, run="")))
    assert claims.blocks_needed(apart) is None


def test_a_sentence_says_values_ratio_interval_method_n_and_unit() -> None:
    a = arm("A", {"put": rates(3470)}, run="r", is_blocked=True)
    b = arm("B", {"put": rates(10070, seed=2)}, run="r", is_blocked=True)
    compared = comparison.compare(a, b)
    words = claims.sentence(compared, only(compared))
    for part in ("2.89×", "95 % CI", "paired t", "t(9)", "10 blocks", "Holm"):
        assert part in words
    assert "±" not in words
    noted = replace(only(compared), noise_floor=0.018, labels=("SHORT",))
    beside = claims.sentence(compared, noted).removeprefix(words)
    for fact in ("±1.8%", "SHORT"):
        assert fact in beside


@pytest.mark.parametrize(
    ("n", "verdict", "words"),
    [(1, "single trial", "one trial"), (4, "too few trials", "4 trials, 5 ")],
)
def test_with_too_few_trials_there_is_no_claim(n: int, verdict: str, words: str) -> None:
    a, b = arm("a", {"get": rates(100, n=n)}), arm("b", {"get": rates(300, n=n)})
    compared = comparison.compare(a, b)
    assert only(compared).verdict == verdict
    assert words in claims.sentence(compared, only(compared))


def test_two_rounds_are_no_claim_and_their_mean_has_no_interval() -> None:
    account = published.find("hummingbird").account()
    compared = comparison.compare(account.only("Hummingbird"), account.only("Ceph"))
    # The two rounds of a case repeat it.
    assert len(compared.comparisons) == 54
    assert {pair.verdict for pair in compared.comparisons if not pair.reasons} == {"too few trials"}
    # Bounds of the client's link have no ratio, whichever side they are on.
    of_link = {pair.verdict for pair in compared.comparisons if "CLIENT_NIC" in pair.reasons}
    assert of_link == {"no ratio"}
    assert {pair.ratio.n_a for pair in compared.comparisons} == {2}
    assert compared.geometric_mean is not None
    assert compared.geometric_mean.low is None


def test_equal_arms_are_equivalent_only_when_the_interval_is_narrow() -> None:
    narrow = comparison.compare(
        arm("a", {"get": rates(100, 0.005)}), arm("b", {"get": rates(100, 0.005, seed=2)})
    )
    wide = comparison.compare(
        arm("a", {"get": rates(100, 0.2)}), arm("b", {"get": rates(100, 0.2, seed=2)})
    )
    assert only(narrow).verdict == "equivalent"
    assert only(wide).verdict == "not resolved"


def test_one_case_has_one_ratio_and_several_say_what_mean_theirs_is() -> None:
    uneven = [100.0, 100.0, 100.0, 100.0, 400.0]
    a, b = arm("a", {"get": rates(100)}), arm("b", {"get": uneven})
    compared = comparison.compare(a, b)
    assert compared.geometric_mean == only(compared).ratio
    assert only(compared).b / only(compared).a == pytest.approx(only(compared).ratio.ratio)
    two = comparison.compare(
        arm("a", {"get": rates(100), "put": rates(100)}),
        arm("b", {"get": uneven, "put": uneven}),
    )
    assert two.geometric_mean is not None
    assert two.geometric_mean.ratio > 1.1 * two.comparisons[0].ratio.ratio
    assert two.geometric_mean.method == "bootstrap"


def test_a_void_trial_voids_the_comparison_and_is_left_out_of_the_mean() -> None:
    a = arm("a", {"get": rates(100), "put": rates(50)})
    b = arm("b", {"get": rates(200, seed=2), "put": rates(100, seed=3)})
    spoilt = tuple(
        replace(measurement, standing="void", reasons=("CORRUPT",))
        if measurement.operation == "get"
        else measurement
        for measurement in b.measurements
    )
    compared = comparison.compare(a, replace(b, measurements=spoilt))
    verdicts = {str(pair.case["operation"]): pair.verdict for pair in compared.comparisons}
    assert verdicts == {"get": "void", "put": "faster"}
    assert compared.geometric_mean is not None
    assert compared.geometric_mean.ratio == pytest.approx(2, rel=0.05)
    void = next(pair for pair in compared.comparisons if pair.verdict == "void")
    (reason,) = claims.reasons([void])
    assert f"Void: {reason}" in claims.sentence(compared, void)


def with_control(name: str, factor: float) -> Account:
    """Return an arm that brings a twin of itself along, which differs by a factor."""
    account_of_arm = arm(name, {"get": rates(100, 0.003)}, run=name)
    twin = arm("twin", {"get": rates(100 * factor, 0.003, seed=3)}, run=name)
    return replace(
        account_of_arm,
        measurements=(*account_of_arm.measurements, *twin.measurements),
        identical=((name, "twin"),),
    )


def test_a_difference_within_that_of_a_against_a_is_refused() -> None:
    both = with_control("a", 1.04)
    b = arm("b", {"get": rates(103, 0.003, seed=4)})
    compared = comparison.compare(replace(both.only("a"), identical=()), b)
    assert only(compared).verdict == "faster"
    assert not compared.has_control
    held = replace(both.only("a", "twin"), name="a")
    with_b = replace(
        both, measurements=(*held.measurements, *b.measurements), identical=(("a", "twin"),)
    )
    judged = comparison.compare(with_b.only("a"), with_b.only("b"), controls=(with_b,))
    assert only(judged).verdict == "below noise floor"
    assert judged.has_control
    floor = only(judged).noise_floor
    assert floor is not None
    assert f"±{100 * math.expm1(floor):.1f}%" in claims.sentence(judged, only(judged))


def test_holm_is_over_all_cases_of_the_comparison() -> None:
    alone = comparison.compare(
        arm("a", {"get": rates(100, 0.05)}), arm("b", {"get": rates(107, 0.05, seed=2)})
    )
    crowd = {f"op{i}": rates(100, 0.05, seed=10 + i) for i in range(30)}
    others = {f"op{i}": rates(100, 0.05, seed=50 + i) for i in range(30)}
    many = comparison.compare(
        arm("a", {"get": rates(100, 0.05), **crowd}),
        arm("b", {"get": rates(107, 0.05, seed=2), **others}),
    )
    assert only(alone).p_holm == only(alone).p
    first = many.comparisons[0]
    assert first.p == only(alone).p
    assert first.p_holm is not None
    assert first.p is not None
    assert first.p_holm > 10 * first.p


def test_fields_that_differ_refuse_the_ratio_and_are_named() -> None:
    a = arm("a", {"get": rates(100)}, comparable={"a": {"verify": 1.0, "tls": False}})
    b = arm("b", {"get": rates(200)}, comparable={"b": {"verify": 0.0, "tls": False}})
    compared = comparison.compare(a, b)
    assert compared.comparisons == ()
    assert compared.geometric_mean is None
    assert [str(difference) for difference in compared.refused] == ["verify: 1.0 and 0.0"]
    insisted = comparison.compare(a, b, is_insisted=True)
    assert insisted.is_overridden
    assert only(insisted).labels == ("NONCOMPARABLE",)


def test_settings_that_differ_within_one_run_are_what_is_compared() -> None:
    a = arm("a", {"get": rates(100)}, run="r", comparable={"a": {"setting tls": "on"}})
    b = arm("b", {"get": rates(200)}, run="r", comparable={"b": {"setting tls": "off"}})
    compared = comparison.compare(a, b)
    (factor,) = compared.factors
    assert (factor.field, factor.a, factor.b) == ("setting tls", "on", "off")
    assert compared.refused == ()
    assert only(compared).verdict == "faster"


def test_targets_of_one_name_are_matched_when_there_are_several() -> None:
    first = arm("x", {"get": rates(100)})
    second = arm("y", {"get": rates(50)})
    both = replace(first, name="before", measurements=(*first.measurements, *second.measurements))
    after = replace(
        both,
        name="after",
        measurements=tuple(
            replace(measurement, value=2 * measurement.value) for measurement in both.measurements
        ),
    )
    compared = comparison.compare(both, after)
    assert [pair.ratio.ratio for pair in compared.comparisons] == [pytest.approx(2)] * 2
    assert [pair.target for pair in compared.comparisons] == ["x", "y"]


def test_cases_without_a_partner_are_listed_and_none_in_common_is_refused() -> None:
    a = arm("a", {"get": rates(1), "put": rates(1)})
    b = arm("b", {"get": rates(1), "list": rates(1)})
    compared = comparison.compare(a, b)
    assert [case["operation"] for case in compared.only_a] == ["put"]
    assert [case["operation"] for case in compared.only_b] == ["list"]
    assert compared.refused == ()
    apart = comparison.compare(a, arm("b", {"list": rates(1)}))
    (refused,) = apart.refused
    assert (refused.field, refused.a, refused.b) == ("operation", "get, put", "list")
    assert apart.comparisons == ()
    with pytest.raises(InputError, match="operation"):
        comparison.compare(a, arm("b", {"list": rates(1)}), is_insisted=True)
    with pytest.raises(InputError, match="of seconds"):
        comparison.compare(a, b, metric=SECONDS)


def with_threads(account: Account, *threads: int) -> Account:
    """Return an account whose trials ran with these threads, in turns."""
    measurements = tuple(
        replace(
            measurement,
            parameters={**measurement.parameters, "threads": threads[index % len(threads)]},
        )
        for index, measurement in enumerate(account.measurements)
    )
    return replace(account, measurements=measurements)


def test_a_declared_factor_is_compared_and_no_longer_tells_cases_apart() -> None:
    key = {"get: verify": 1.0, "get: load.threads": "few"}
    a = with_threads(arm("a", {"get": rates(100)}, comparable={"a": key}), 4)
    other = {**key, "get: load.threads": "many"}
    b = with_threads(arm("b", {"get": rates(200)}, comparable={"b": other}), 8)
    refused = comparison.compare(a, b)
    assert [difference.field for difference in refused.refused] == ["threads", "get: load.threads"]
    compared = comparison.compare(a, b, factors=["threads"])
    assert compared.refused == ()
    assert str(compared.factors[0]) == "threads: 4 and 8"
    assert only(compared).verdict == "faster"
    assert "threads" not in only(compared).case
    with pytest.raises(InputError, match="threads: 8, 16"):
        comparison.compare(a, with_threads(b, 8, 16), factors=["threads"])


def test_a_factor_excuses_no_other_difference() -> None:
    a = arm("a", {"get": rates(100)}, comparable={"a": {"w get: verify": 1.0, "loadstone": "1"}})
    b = arm("b", {"get": rates(200)}, comparable={"b": {"w get: verify": 0.0, "loadstone": "2"}})
    compared = comparison.compare(a, b, factors=["loadstone"])
    assert [factor.field for factor in compared.factors] == ["loadstone"]
    assert [difference.field for difference in compared.refused] == ["get: verify"]
    assert comparison.compare(a, b, factors=["loadstone", "verify"]).refused == ()


def test_the_effect_of_chance_on_a_against_a_stays_at_its_rate() -> None:
    claims = 0
    for seed in range(40):
        a = arm("a", {f"op{i}": rates(100, 0.05, seed=seed * 20 + i) for i in range(10)})
        b = arm("b", {f"op{i}": rates(100, 0.05, seed=90_000 + seed * 20 + i) for i in range(10)})
        compared = comparison.compare(a, b)
        claims += any(pair.verdict in ("faster", "slower") for pair in compared.comparisons)
    # With 40 families at 5 % each, more than six claims have a probability of one per cent.
    assert claims <= 6


def test_two_runs_are_compared_from_their_folders_and_refused_when_they_differ(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = write_sweep(tmp_path / "first", seconds=4, blocks=5)
    second = write_sweep(tmp_path / "second", seconds=4, blocks=5)
    manifest = json.loads((second / "manifest.json").read_text())
    manifest["run"] = "f" * 32
    (second / "manifest.json").write_text(json.dumps(manifest))
    assert main(["compare", str(first), str(second), "-f", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert len(document["comparisons"]) == 6
    assert {pair["n"] for pair in document["comparisons"]} == {5}
    assert document["geometric_mean"]["ratio"] == pytest.approx(1)
    assert document["refused"] == []
    assert not document["one_run"]
    assert main(["compare", str(first), str(second)]) == 0
    assert "not measured" in capfd.readouterr().out

    for trial in manifest["plan"]:
        trial["verify"] = 0.0
        trial["connections"] = "per_request"
    (second / "manifest.json").write_text(json.dumps(manifest))
    assert main(["compare", str(first), str(second)]) == 1
    message = capfd.readouterr().err
    assert " get: " in message.partition("hint: ")[0]
    hint = message.partition("hint: ")[2].partition(";")[0]
    pasted = hint[hint.index("--factor") :].split()
    assert sorted(pasted[1::2]) == ["connections", "verify"]
    main(["compare", str(first), str(second), *pasted])
    assert "not comparable" not in capfd.readouterr().err
    assert main(["compare", str(first), str(second), "--insist", "-f", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["comparisons"][0]["labels"][-1] == "NONCOMPARABLE"


def test_the_values_of_a_factor_within_one_run_are_compared_block_by_block(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = write_sweep(tmp_path / "run", seconds=4, blocks=5)
    assert main(["compare", str(run), "--factor", "threads", "-f", "json"]) == 0
    pairs = json.loads(capfd.readouterr().out)["pairs"]
    assert [pair["a"] for pair in pairs] == ["1 thread"] * 5
    assert [pair["b"] for pair in pairs] == [f"{n} threads" for n in (4, 8, 12, 16, 20)]
    for pair in pairs:
        assert pair["one_run"]
        assert pair["unit_of_replication"] == "block"
        (case,) = pair["comparisons"]
        assert case["n"] == 5
        assert "threads" not in case["case"]
        assert case["method_id"] == "paired-t"
    # Without the factor it has nothing to compare, and says what it could.
    assert main(["compare", str(run)]) == 1
    assert "--factor threads" in capfd.readouterr().err
    assert main(["compare", str(run), "--factor", "size"]) == 1
    assert re.search(r"\bone\b.*\bsize\b", capfd.readouterr().err)


def test_a_run_is_held_against_the_cases_of_a_published_report_that_are_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = str(write_sweep(tmp_path / "run", seconds=4, blocks=1))
    options = ["--factor", "workload", "--factor", "operation", "--factor", "size"]
    options += ["--only", "operation=download", "--only", "size=4096", "--only", "threads=8"]
    assert main(["compare", run, "published:cern", *options, "-f", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert [pair["case"]["threads"] for pair in document["comparisons"]] == [8]
    assert {"field": "workload", "a": "download", "b": "downloads of 4 KB"} in document["factors"]
    assert main(["compare", run, "published:cern", "--only", "threads"]) == 1
    assert "nodes=5" in capfd.readouterr().err
    assert main(["compare", run, "published:cern", *options, "--only", "threads=7"]) == 1
    message = capfd.readouterr().err
    assert 'threads "7"' in message
    assert "values of" in message
    assert main(["compare", run, "published:cern", *options, "--only", "thread=8"]) == 1
    assert "workload, " in capfd.readouterr().err


def test_two_files_of_one_tool_are_compared_whatever_they_are_called(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sample = Path(__file__).parent.parent / "data" / "importers" / "bluestore-4K-bench-write.txt"
    names = []
    for name in ("before.txt", "after.txt"):
        (tmp_path / name).write_bytes(sample.read_bytes())
        names.append(f"rados-bench:{tmp_path / name}")
    assert main(["compare", *names, "-f", "json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert [pair["ratio"] for pair in document["comparisons"]] == [1.0]
    assert document["refused"] == []


def test_void_cases_are_counted_with_their_reason_and_not_listed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    a, b = (published.find(f"theflash-{name}").account() for name in ("ssd", "ceph"))
    compared = comparison.compare(a, b)
    first, *rest = compared.comparisons
    labels = ("SHORT", "INSTRUMENT_LIMITED")
    void = replace(
        first,
        verdict="void",
        labels=labels[:1],
        reasons=labels[1:],
        standings=("bound", "bound"),
    )
    compared = replace(compared, comparisons=(void, *rest))
    compare._print(compared, is_control=False, is_full=False)
    text = capfd.readouterr().out
    assert f"1 of {len(rest) + 1}" in text
    assert not [label for label in labels if label in text]
    assert len([line for line in text.splitlines() if line.startswith("Q")]) == len(rest)
    # How little was measured is a reason for doubt, and none for giving no ratio.
    assert len(claims.reasons([compared.comparisons[0]])) == 1
