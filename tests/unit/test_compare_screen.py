"""The output of comparisons: exit codes, the next step, and units."""

import json
from pathlib import Path

import pytest

from loadstone.cli import main
from tests.unit.synthetic_run import write_sweep
from tests.unit.test_headline import in_turns


def test_a_comparison_without_any_ratio_has_an_exit_code_and_a_next_step(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = write_sweep(tmp_path / "run", seconds=4, blocks=5)
    assert main(["compare", str(run), "--factor", "threads"]) == 0
    assert "next" not in capfd.readouterr().out
    for path in (run / "trials").glob("*.json"):
        document = json.loads(path.read_text())
        path.write_text(json.dumps({**document, "labels": ["CORRUPT"]}))
    assert main(["compare", str(run), "--factor", "threads"]) == 4
    *_, first, command = capfd.readouterr().out.splitlines()
    assert first.startswith(" → next")
    assert command.strip() == f"loadstone report {run} --full"
    assert main(["compare", str(run), "--factor", "threads", "-f", "json"]) == 4
    pairs = json.loads(capfd.readouterr().out)["pairs"]
    assert {comparison["verdict"] for pair in pairs for comparison in pair["comparisons"]} == {
        "void"
    }


def test_the_head_of_a_table_names_no_target_unless_all_rows_share_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = [str(in_turns(tmp_path / name)) for name in ("first", "second")]
    assert main(["compare", *runs]) == 0
    (head,) = [line for line in capfd.readouterr().out.splitlines() if line.startswith("all of ")]
    assert not {"one", "other"} & set(head.replace(",", "").split())


def test_times_are_compared_in_the_units_of_time(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = write_sweep(tmp_path / "run", seconds=4, blocks=5)
    assert main(["compare", str(run), "--factor", "threads", "--metric", "service_ns_p95"]) == 0
    text = capfd.readouterr().out
    assert "p95, service time" in text
    assert "service_ns_p95" not in text
    assert " ms " in text
