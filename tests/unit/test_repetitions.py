"""Advice on repetitions: from a known spread, the number that reaches the width asked for."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loadstone.analysis import analyse
from loadstone.analysis.statistics.ratios import repetitions_needed
from loadstone.analysis.statistics.repetitions import HALF_WIDTH, _levels, advise, describe
from loadstone.results.store import read_run
from tests.unit import synthetic_run


@pytest.mark.parametrize(("spread", "blocks"), [(0.02, 4), (0.05, 7), (0.10, 19), (1.0, 1616)])
def test_more_spread_takes_more_blocks_without_an_end(spread: float, blocks: int) -> None:
    assert repetitions_needed(spread, HALF_WIDTH) == blocks


def test_the_advised_number_of_blocks_is_enough() -> None:
    generator = np.random.default_rng(1)
    n = repetitions_needed(0.05, HALF_WIDTH)
    widths = []
    for _ in range(500):
        logs = generator.normal(0, 0.05, n)
        widths.append(2.45 * logs.std(ddof=1) / math.sqrt(n))
    assert np.median(widths) <= math.log1p(HALF_WIDTH)


def test_iterations_are_worth_it_where_they_vary_and_trials_are_dear() -> None:
    generator = np.random.default_rng(2)

    def best(within: float, between: float, cost: float) -> int | None:
        logs = [generator.normal(generator.normal(0, between), within, 200) for _ in range(200)]
        return _levels(logs, cost)[2]

    # √(c2/c1 · T1²/T2²): 2 · 0.06/0.02 = 6; dear trials and noisy iterations ask for more of them.
    assert best(0.06, 0.02, 4.0) in (6, 7)
    assert best(0.02, 0.06, 1.0) == 1


def test_a_run_without_repetition_gets_no_advice(tmp_path: Path) -> None:
    findings = analyse(read_run(synthetic_run.write_rounds(tmp_path / "run")))
    assert [finding for finding in findings.findings if finding.rule == "repetitions"] == []


def test_a_run_with_repetition_is_told_how_many_more(tmp_path: Path) -> None:
    findings = analyse(read_run(synthetic_run.write_sweep(tmp_path / "run")))
    cell = findings.rounds[0]
    rates = [
        replace(cell.trial_rates[0], trial=str(number), requests_per_s=rate)
        for number, rate in enumerate((90.0, 100.0, 112.0))
    ]
    repeated = replace(cell, trials=("0", "1", "2"), trial_rates=tuple(rates))
    (advice,) = advise([repeated], [replace(repeated, iteration=1)], {})
    assert advice.half_width > HALF_WIDTH
    assert f" {advice.blocks} blocks" in describe(advice, of=1)


def test_the_report_shows_it(tmp_path: Path) -> None:
    findings = analyse(read_run(synthetic_run.write_sweep(tmp_path / "run")))
    (advice,) = [finding for finding in findings.findings if finding.rule == "repetitions"]
    assert "±5%" in advice.statement
    assert len(advice.evidence) == len(findings.rounds)
