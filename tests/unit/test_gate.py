"""Gates: the error budget of a look, the answer, and how often it is wrong."""

import dataclasses
import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from loadstone import units
from loadstone.analysis.accounts.account import RATE, SERVER_CPU, Account, Measurement
from loadstone.analysis.accounts.gate import BLOCKS_MIN, POWER, GateAnswer, Rules, judge, rules_of
from loadstone.analysis.statistics import sequential
from loadstone.analysis.statistics.ratios import paired_ratio
from loadstone.cli.running.gate import last_green
from loadstone.errors import InputError
from loadstone.report.formats.gate import GateFacts, answer, line_after_block, to_junit
from loadstone.results.layout import ANSWER, MANIFEST

MARGIN, ALPHA = 0.03, 0.05
SECOND_NS = 1_000_000_000


@pytest.mark.parametrize("most", [6, 7, 10, 12, 20, 30, 100])
def test_looks_end_with_the_last_block_and_spend_all_of_the_level(most: int) -> None:
    looks = sequential.looks_until(BLOCKS_MIN, most)
    assert looks[0] == BLOCKS_MIN
    assert looks[-1] == most
    assert list(looks) == sorted(set(looks))
    levels = [sequential.level_at(looks, blocks, ALPHA) for blocks in range(1, most + 1)]
    assert sum(levels) == pytest.approx(ALPHA)
    assert {at for at, level in enumerate(levels, start=1) if level} == set(looks)


def test_a_build_passes_if_it_is_as_good_and_fails_if_it_is_much_worse() -> None:
    assert gate_of(rate=1.0, cpu=1.0).outcome == "no worse"
    worse = gate_of(rate=1.0, cpu=1.1)
    assert worse.outcome == "worse"
    assert {row.metric: row.outcome for row in worse.rows} == {
        RATE: "no worse",
        SERVER_CPU: "worse",
    }
    # Less of a rate is worse, less of processor time is not.
    assert gate_of(rate=0.9, cpu=1.0).outcome == "worse"
    assert gate_of(rate=1.2, cpu=0.8).outcome == "no worse"


def test_an_open_answer_says_how_many_more_blocks_decide_it() -> None:
    open_gate = gate_of(rate=1.0, cpu=1.0, spread=0.04, most=100)
    assert open_gate.outcome == "not decided"
    more = open_gate.blocks_more
    assert more is not None
    assert BLOCKS_MIN + more in open_gate.rules.looks
    # Exactly at the margin no number of blocks is enough.
    assert gate_of(rate=1.0, cpu=1.0 + MARGIN, spread=0.04, most=100).blocks_more is None


def test_between_two_looks_nothing_is_decided() -> None:
    assert gate_of(rate=1.0, cpu=1.2, blocks=BLOCKS_MIN + 1).outcome == "not decided"


def test_after_a_block_one_line_tells_how_a_gate_stands() -> None:
    look, gate = (
        gate_of(rate=1.0, cpu=1.0, spread=0.04, most=100, blocks=blocks)
        for blocks in (BLOCKS_MIN, BLOCKS_MIN + 1)
    )
    assert look.blocks_more is not None
    line = line_after_block(gate, look, SECOND_NS)
    assert line.startswith(f"block {gate.blocks}/100: 100/s → ")
    assert "\n" not in line
    assert f"{gate.rows[0].change:+.1%}" in line
    assert units.format_duration((look.blocks_more - 1) * SECOND_NS) in line
    assert line_after_block(look, look, SECOND_NS).endswith(answer(look, SECOND_NS))


def test_the_line_of_a_block_names_what_tells_the_case_from_the_others() -> None:
    gate = gate_of(rate=1.0, cpu=1.0)
    assert "get" not in line_after_block(gate, None, SECOND_NS)
    rows = [dataclasses.replace(gate.rows[0], case=f"{op}, 4 KiB") for op in ("put", "get")]
    line = line_after_block(dataclasses.replace(gate, rows=tuple(rows)), None, SECOND_NS)
    assert "put" in line
    assert "4 KiB" not in line


def test_the_time_left_is_that_of_all_blocks_where_no_look_knows_better() -> None:
    gate = gate_of(rate=1.0, cpu=1.0 + MARGIN, spread=0.04, most=100, blocks=BLOCKS_MIN + 1)
    far = gate_of(rate=1.0, cpu=1.0 + MARGIN, spread=0.04, most=100)
    assert far.blocks_more is None
    left = units.format_duration((100 - gate.blocks) * SECOND_NS)
    for look in (None, far):
        assert left in line_after_block(gate, look, SECOND_NS)


def test_a_void_result_is_not_the_answer() -> None:
    assert gate_of(rate=1.0, cpu=1.0, standing="void").outcome == "void"


def test_a_gate_in_junit_is_xml_whatever_its_names_hold() -> None:
    gate = gate_of(rate=1.0, cpu=1.1)
    worse = dataclasses.replace(gate, new="new\x1b[31m & <b>", base="base\x00")
    facts = GateFacts(folder="run", commands={}, failed={}, passed_ns=1_500_000_000, blocks=6)
    (suite,) = ElementTree.fromstring(to_junit(worse, facts))
    assert [suite.get(key) for key in ("tests", "failures", "errors")] == ["2", "1", "0"]
    assert suite.get("time") == "1.500"
    assert "<b>" in suite.get("name", "")
    (failure,) = suite.iter("failure")
    assert failure.get("type") == "worse"


def test_the_last_green_build_is_the_newest_that_passed(tmp_path: Path) -> None:
    for name, started, outcome, failed in (
        ("c", "2026-01-01", "no worse", 0),
        ("b", "2026-01-02", "no worse", 0),
        ("a", "2026-01-03", "no worse", 7),
        ("d", "2026-01-04", "worse", 0),
        ("e", "2026-01-05", "not decided", 0),
    ):
        keep_gate(tmp_path / name, started, outcome, failed)
    keep_gate(tmp_path / "broken", "2026-01-06", "no worse", 0)
    (tmp_path / "broken" / ANSWER).write_text("{")
    (tmp_path / "no-run").mkdir()
    (tmp_path / "a-file").write_text("")
    assert last_green(tmp_path) == ("./b", "{data}")
    for empty in (tmp_path / "no-run", tmp_path / "absent"):
        with pytest.raises(InputError):
            last_green(empty)


def keep_gate(folder: Path, started: str, outcome: str, failed: int) -> None:
    """Write those files of a run folder that a later gate reads."""
    folder.mkdir()
    arms = {
        arm: {"start": [f"./{text}", "{data}"], "ready": "http://127.0.0.1:9000/"}
        for arm, text in (("base", "old"), ("new", folder.name))
    }
    manifest = {
        "format": 1, "run": "r", "name": "ab", "seed": 1, "state": "finished", "started": started,
        "plan": [], "campaign": {"arms": arms},
    }  # fmt: skip
    answer = {"outcome": outcome, "new": "new", "failed": {"base": 0, "new": failed}}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    (folder / ANSWER).write_text(json.dumps(answer))


def test_a_gate_is_wrong_no_more_often_than_it_says() -> None:
    check_error_rates(gates=300, seed=1)


@pytest.mark.long(cpu_s=60)
def test_many_gates_are_wrong_no_more_often_than_they_say() -> None:
    for seed, spread in enumerate((0.005, 0.02, 0.05, 0.2), start=2):
        check_error_rates(gates=10_000, seed=seed, spread=spread)


def check_error_rates(*, gates: int, seed: int, spread: float = 0.02) -> None:
    """Draw gates of builds exactly at the margin, and of equal ones at the given spread."""
    rules = rules_of(MARGIN, ALPHA, 30)
    chance = np.random.default_rng(seed)
    at_margin = [outcome(rules, chance, np.log1p(MARGIN), spread) for _ in range(gates)]
    # Three standard errors of a share.
    most = ALPHA + 3 * (ALPHA * (1 - ALPHA) / gates) ** 0.5
    assert at_margin.count("no worse") / gates < most
    assert at_margin.count("worse") / gates < most
    # The looks use the error rate up: a rate far below the stated one would waste blocks.
    assert at_margin.count("no worse") / gates > ALPHA / 3
    equal = [outcome(rules, chance, 0.0, rules.spread) for _ in range(gates)]
    assert equal.count("no worse") / gates > POWER - 3 * (POWER * (1 - POWER) / gates) ** 0.5
    assert equal.count("worse") / gates < ALPHA / 10


def outcome(rules: Rules, chance: np.random.Generator, shift: float, spread: float) -> str:
    """Return the final verdict of a gate on one metric, from look to look."""
    logs = chance.normal(shift, spread, rules.looks[-1])
    for blocks in rules.looks:
        ratio = paired_ratio(np.ones(blocks), np.exp(logs[:blocks]))
        excess = sequential.excess_of(ratio, 1 + rules.margin, is_inverse=False)
        assert excess is not None
        level = sequential.level_at(rules.looks, blocks, rules.alpha)
        if excess.below_p < level:
            return "no worse"
        if excess.above_p < level:
            return "worse"
    return "not decided"


def gate_of(
    *,
    rate: float,
    cpu: float,
    spread: float = 0.002,
    most: int = 30,
    blocks: int = BLOCKS_MIN,
    standing: str = "valid",
) -> GateAnswer:
    """Judge arms that differ by these factors, with a spread that follows from no chance."""
    measurements = [
        Measurement(
            target=arm,
            workload="w",
            operation="get",
            parameters={},
            metric=metric,
            value=100.0 * (factor if arm == "new" else 1.0) * (1 + wobble(block, arm) * spread),
            block=block,
            started_unix_ns=block * 10**9,
            standing=standing,  # type: ignore[arg-type]
            reasons=("STALLED",) if standing == "void" else (),
        )
        for arm in ("base", "new")
        for block in range(1, BLOCKS_MIN + 1)
        for metric, factor in ((RATE, rate), (SERVER_CPU, cpu))
    ]
    account = Account(name="run", title="run", measurements=tuple(measurements), run="r")
    return judge(account, "base", "new", rules_of(MARGIN, ALPHA, most), blocks)


def wobble(block: int, arm: str) -> float:
    return (1 if block % 2 else -1) * (1 if arm == "new" else 0)
