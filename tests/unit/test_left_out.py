"""Trials with a fault of the client or the record: left out where most of their result ran well."""

import random
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
import pytest

from loadstone.analysis import Findings, analyse
from loadstone.analysis.accounts.account import SERVER_CPU, Measurement
from loadstone.analysis.accounts.comparison import Comparison, compare
from loadstone.analysis.accounts.in_turns import pairs_in_turns
from loadstone.analysis.accounts.judged_account import read_account
from loadstone.analysis.answers.answer import answer_of
from loadstone.analysis.judgements.judgement import spoiled_trials, without_spoiled
from loadstone.analysis.measured.part import Mix, Part, WindowWork
from loadstone.analysis.rules import RULES
from loadstone.analysis.statistics.ratios import paired_ratio
from loadstone.cli.running.gate import SoFar
from loadstone.results.record import Record
from loadstone.results.store import read_run
from tests.unit.synthetic_run import SECOND_NS, Folder, trial, trial_rows
from tests.unit.test_headline import closed

SECONDS = 4
# Both cores of the client stalled for half of the measured time.
STALL = {
    "stalls": [
        {"core": core, "seconds": [[1, SECOND_NS], [2, SECOND_NS]]} for core in (None, 0, 1)
    ],
    "cores_watched": 2,
}
HOST = {"requests": 100, "clients": 125, "reason": None, "lost_ns": None}
LOST = {
    "hosts": [
        HOST | {"name": "a", "state": "finished"},
        HOST | {"name": "b", "state": "lost", "reason": "it went", "lost_ns": SECOND_NS},
    ]
}
OF_CLIENT_OR_RECORD = {
    "STALLED": {"changes": STALL},
    "HOST_LOST": {"changes": LOST},
    "ALTERED": {"labels": ["ALTERED"]},
    "CONTRADICTORY": {"changes": {"requests": 1}},
    "LITTLE": {"clients": 1},
}
OF_TARGET_OR_PERSON = {
    "CORRUPT": {"changes": {"mismatches": {"get": 1}}},
    "STOPPED": {"changes": {"state": "stopped"}},
    "STOPPED_ON_LOSS": {"changes": {"state": "stopped", "stopped_on_loss": True}},
    "INTERRUPTED": {"changes": {"state": "interrupted"}},
    "RUNNING": {"labels": ["RUNNING"]},
    "errors": {"failed_per_s": 1},
    "OUTAGE": {"silent": (1,), "failed_in": 0},
    "LAG": {"load": {"kind": "open", "rate_per_s": 50.0, "clients_max": 50}, "lag_ns": 5_000_000},
}
"""How a trial of each reason is made."""


def _write(folder: Folder, document: dict, rate: int, how: dict) -> None:
    """Add a trial with a fault."""
    rows = trial_rows(document, rate, SECONDS, failed_per_s=how.get("failed_per_s", 0))
    document["load"] |= {"clients": how["clients"]} if "clients" in how else {}
    document["load"] = how.get("load", document["load"])
    if "silent" in how:
        failed = next(row for row in rows if row["second"] == how["failed_in"])
        rows = [row for row in rows if row["second"] not in how["silent"]]
        rows.append(failed | {"outcome": "timeout", "requests": 1, "objects": 0, "bytes": 0})
    if "lag_ns" in how:
        lag = trial_rows(document | {"load": {"clients": 1}}, 10**9 // how["lag_ns"], SECONDS)
        rows = [row | {"lag": late["response"]} for row, late in zip(rows, lag, strict=True)]
    folder.write(document, rows, changes=how.get("changes"), labels=how.get("labels", ()))


def _blocks(path: Path, wrong: Collection[int], how: dict, *, blocks: int = 5) -> Findings:
    folder = Folder(path / "run", "blocks", seconds=SECONDS)
    for block in range(1, blocks + 1):
        document = trial(block, "one", "get", block=block, clients=4)
        is_wrong = block in wrong
        _write(folder, document, 50 if is_wrong else 100 + block, how if is_wrong else {})
    return analyse(read_run(closed(folder)))


@pytest.mark.parametrize("reason", OF_CLIENT_OR_RECORD)
def test_a_block_with_a_fault_of_the_client_or_the_record_is_left_out(
    tmp_path: Path, reason: str
) -> None:
    findings = _blocks(tmp_path, {3}, OF_CLIENT_OR_RECORD[reason])
    (cell,) = findings.rounds
    assert cell.trials == ("0001", "0002", "0004", "0005")
    assert cell.requests_per_s == pytest.approx((101 * 102 * 104 * 105) ** (1 / 4))
    assert "LEFT_OUT" in cell.labels
    assert reason not in cell.labels
    (result,) = answer_of(findings).results
    assert not result.is_void
    assert not result.is_bound
    assert not [caution for caution in answer_of(findings).cautions if caution.weight != "caution"]
    # Never silently: which trial, and why.
    (left_out,) = [finding for finding in findings.findings if finding.rule == "LEFT_OUT"]
    assert left_out.cases == ("trial 0003",)
    (rule,) = [row for row in RULES if row.id == reason]
    assert f"trial 0003 ({rule.short})" in left_out.statement
    (account,) = [read_account(read_run(tmp_path / "run"))]
    assert {measurement.block for measurement in account.of("requests_per_s")} == {1, 2, 4, 5}


@pytest.mark.parametrize("reason", OF_CLIENT_OR_RECORD)
def test_all_blocks_stay_if_half_of_them_have_a_fault(tmp_path: Path, reason: str) -> None:
    findings = _blocks(tmp_path, {2, 3}, OF_CLIENT_OR_RECORD[reason], blocks=4)
    (cell,) = findings.rounds
    assert len(cell.trials) == 4
    assert "LEFT_OUT" not in cell.labels
    (result,) = answer_of(findings).results
    assert result.is_bound if reason == "HOST_LOST" else result.is_void
    if reason == "HOST_LOST":
        assert cell.verdict is not None
        assert cell.verdict.limit == "INVALID(HOST_LOST)"


@pytest.mark.parametrize("is_stalled", [False, True])
@pytest.mark.parametrize("reason", OF_TARGET_OR_PERSON)
def test_trials_spoiled_by_the_target_or_a_person_are_not_left_out(
    tmp_path: Path, reason: str, is_stalled: bool
) -> None:
    """A stall of the client beside it takes nothing of it away."""
    how = OF_TARGET_OR_PERSON[reason]
    stall = STALL if is_stalled and reason != "LAG" else {}
    findings = _blocks(tmp_path, {3}, how | {"changes": how.get("changes", {}) | stall})
    (cell,) = findings.rounds
    assert "0003" in cell.trials
    assert "LEFT_OUT" not in cell.labels
    assert not [finding for finding in findings.findings if finding.rule == "LEFT_OUT"]
    if reason not in ("errors", "LAG"):
        assert reason in cell.labels
        (result,) = answer_of(findings).results
        assert result.is_void
    assert spoiled_trials(_parts_of(tmp_path)) == {}


def _parts_of(path: Path) -> list[Part]:
    from loadstone.analysis.measured.reading import read_measured

    return read_measured(read_run(path / "run")).parts


def test_different_reasons_count_together(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "run", "blocks", seconds=SECONDS)
    kinds = [{}, OF_CLIENT_OR_RECORD["ALTERED"], {}, OF_CLIENT_OR_RECORD["HOST_LOST"]]
    for block, how in enumerate(kinds, start=1):
        _write(folder, trial(block, "one", "get", block=block, clients=4), 100, how)
    (cell,) = analyse(read_run(closed(folder))).rounds
    assert len(cell.trials) == 4


def test_a_run_without_faults_leaves_nothing_out(tmp_path: Path) -> None:
    (cell,) = _blocks(tmp_path, set(), {}).rounds
    assert len(cell.trials) == 5
    assert "LEFT_OUT" not in cell.labels


def _arms(path: Path, how: dict, block_of: int = 3) -> Comparison:
    folder = Folder(path / "run", "arms", seconds=SECONDS)
    for block in range(1, 7):
        for number, (target, rate) in enumerate([("one", 100), ("other", 150)]):
            document = trial(2 * block + number, target, "get", block=block, clients=4)
            is_wrong = (target, block) == ("one", block_of)
            # A block is as fast as it is for both: what differs between blocks is no noise.
            made = 20 if is_wrong else rate * (block + 1)
            _write(folder, document, made, how if is_wrong else {})
    account = read_account(read_run(closed(folder)))
    first, other = (
        replace(account, measurements=tuple(m for m in account.measurements if m.target == name))
        for name in ("one", "other")
    )
    return compare(first, other, metric="requests_per_s")


def test_a_comparison_pairs_the_blocks_that_both_targets_have(tmp_path: Path) -> None:
    (case,) = _arms(tmp_path, {"changes": STALL}).comparisons
    assert case.verdict == "faster"
    assert (case.ratio.n_a, case.ratio.n_b) == (5, 5)
    assert case.ratio.ratio == pytest.approx(1.5, rel=0.01)
    assert case.ratio.method == "paired-t"
    assert "LEFT_OUT" in case.labels


def test_a_block_in_which_nothing_succeeded_voids_the_comparison(tmp_path: Path) -> None:
    """It has no rate, and without it the target that failed would look better."""
    folder = Folder(tmp_path / "run", "arms", seconds=SECONDS)
    for block in range(1, 7):
        for number, target in enumerate(["one", "other"]):
            document = trial(2 * block + number, target, "get", block=block, clients=4)
            rows = trial_rows(document, 100, SECONDS)
            if (target, block) == ("other", 3):
                rows = [row | {"outcome": "http_500", "objects": 0, "bytes": 0} for row in rows]
            folder.write(document, rows)
    account = read_account(read_run(closed(folder)))
    arms = [account.only(name) for name in ("one", "other")]
    (case,) = compare(*arms, metric="requests_per_s").comparisons
    assert case.verdict == "void"
    assert "EMPTY" in case.reasons


def _part(number: int, target: str, rate: float, summary: dict) -> Part:
    """A part that was never on disk: a second of so many requests."""
    document = trial(number, target, "get", block=number)
    window = {
        "iteration": 1,
        "measure_start_ns": 0,
        "measure_end_ns": SECOND_NS,
        "end_ns": SECOND_NS,
    }
    record = Record(
        trial=document,
        summary={"iterations": [window], "requests": 1, "failed": 0, **summary},
    )
    return Part(
        record=record, operation="get", iteration=1, start_ns=0, end_ns=SECOND_NS,
        first_done_ns=None, last_done_ns=None, in_flight_ns=None,
        good=round(rate), objects=0, bytes=0,
        work=WindowWork(requests=round(rate), objects=0, bytes=0),
        errors={}, parts_failed=0, histograms={},
        rates=np.zeros(0), byte_rates=np.zeros(0),
        mix=Mix(answered=1, sent=1, due=1, median_ns=1.0, service_count=0, service_sum_ns=0.0),
    )  # fmt: skip


BLOCKS, RUNS, RATE = 6, 3000, 1e6
ONE_SECOND_OF_TEN = {"stalls": [{"core": None, "seconds": [[0, SECOND_NS // 10]]}]}


def parts_counted(
    chance: random.Random, target: str, effects: list[float], faults: float
) -> list[Part]:
    """Return the trials kept of one run of a target, with faults at random."""
    parts = []
    for number, effect in enumerate(effects, start=1):
        fault = chance.choice([ONE_SECOND_OF_TEN, LOST]) if chance.random() < faults else {}
        parts.append(_part(number, target, RATE * effect * chance.lognormvariate(0, 0.2), fault))
    return without_spoiled(parts, spoiled_trials(parts))


def test_leaving_out_by_chance_biases_no_rate() -> None:
    """Property: faults that do not depend on the rate leave its mean where it is, and it spreads
    more widely for having fewer trials.
    """
    chance = random.Random(7)
    means: dict[int, list[float]] = {}
    for _ in range(RUNS):
        parts = parts_counted(chance, "one", [1.0] * BLOCKS, 0.25)
        means.setdefault(len(parts), []).append(fmean(part.good for part in parts))
    assert {4, 5, 6} <= means.keys()
    truth = RATE * np.exp(0.2**2 / 2)
    every = [rate for mean in means.values() for rate in mean]
    assert abs(fmean(every) - truth) < 4 * stdev(every) / len(every) ** 0.5
    for mean in means.values():
        assert len(mean) < 30 or abs(fmean(mean) - truth) < 4 * stdev(mean) / len(mean) ** 0.5
    assert stdev(means[4]) > stdev(means[6])


def test_leaving_out_by_chance_biases_no_ratio() -> None:
    """Property: of pairs in blocks, too, however fast a block was for both."""
    chance, logs = random.Random(8), []
    for _ in range(RUNS // 3):
        effects = [chance.lognormvariate(0, 0.5) for _ in range(BLOCKS)]
        arms = []
        for target, factor in (("one", 1.0), ("other", 1.5)):
            made = partial(
                Measurement, target=target, workload="", operation="get", parameters={},
                metric="requests_per_s",
            )  # fmt: skip
            parts = parts_counted(chance, target, [factor * effect for effect in effects], 0.2)
            arms.append([made(value=part.good, block=part.record.trial["block"]) for part in parts])
        pairs = pairs_in_turns(*arms)
        if pairs:
            ratio = paired_ratio(
                [pair.a[0].value for pair in pairs], [pair.b[0].value for pair in pairs]
            ).ratio
            logs.append(float(np.log(ratio)))
    assert len(logs) > RUNS // 4
    assert abs(fmean(logs) - np.log(1.5)) < 4 * stdev(logs) / len(logs) ** 0.5


def test_a_target_gains_nothing_by_failing_in_its_slow_trials() -> None:
    """Property: where slow trials fail more often, every trial is kept."""
    chance = random.Random(9)
    for _ in range(200):
        parts = []
        for number in range(1, BLOCKS + 1):
            rate = RATE * chance.lognormvariate(0, 0.5)
            is_slow = rate < RATE
            failed = {"requests": 1000, "failed": chance.choice([2, 20, 900])}
            stalled = ONE_SECOND_OF_TEN if chance.random() < 0.5 else {}
            parts.append(_part(number, "one", rate, (failed | stalled) if is_slow else {}))
        assert without_spoiled(parts, spoiled_trials(parts)) == parts


@pytest.mark.parametrize(("reason", "blocks"), [("STALLED", 5), ("HOST_LOST", 4), ("ALTERED", 4)])
def test_server_resources_are_known_even_if_the_client_stalled(
    tmp_path: Path, reason: str, blocks: int
) -> None:
    _blocks(tmp_path, {3}, OF_CLIENT_OR_RECORD[reason])
    run = read_run(tmp_path / "run")
    server = {"cpu_ns": 0, "memory_peak_bytes": 1 << 20}
    states = {"before": {"server": server}, "after": {"server": server | {"cpu_ns": 10**9}}}
    records = [replace(record, target_state=states) for record in run.records]
    account = read_account(replace(run, records=records))
    measurements = account.of(SERVER_CPU)
    assert len({measurement.block for measurement in measurements}) == len(measurements) == blocks
    assert {measurement.standing for measurement in measurements} == {"valid"}


def test_an_account_that_grows_by_blocks_leaves_out_what_the_whole_one_does(tmp_path: Path) -> None:
    _blocks(tmp_path, {3}, OF_CLIENT_OR_RECORD["STALLED"])
    run = read_run(tmp_path / "run")
    first, *others = run.records
    so_far = SoFar(replace(run, records=(first,)))
    for record in others:
        so_far.add([record.id])
    whole, grown = (
        sorted((rate.target, rate.block or 0, rate.value, rate.standing) for rate in rates)
        for rates in (read_account(run).of("requests_per_s"), so_far.account.of("requests_per_s"))
    )
    assert grown == whole
    assert {standing for *_, standing in grown} == {"valid"}
