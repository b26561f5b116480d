"""`--dry-run` shows a plan on one screen, and its trials on request."""

import re
from pathlib import Path

import pytest

from loadstone import cli

SWEEP = """\
name: wide
targets: {{a: {{driver: "null"}}, b: {{driver: "null"}}}}
dataset: {{objects: 50000, size: 4KiB}}
sweep:
  threads: [1, 2, 4, 8, 16, 32, 64, 128, 250, 500, 750, 1000]
  size: [1KiB, 4KiB, 16KiB, 64KiB, 256KiB, 1MiB]
phases: [{{op: put}}, {{op: get}}, {{op: delete}}]
rounds: 3
blocks: {blocks}
{more}
"""


def shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *flags: str, blocks: int, more: str = ""
) -> list[str]:
    file = tmp_path / "campaign.yaml"
    file.write_text(SWEEP.format(blocks=blocks, more=more))
    assert cli.main(["run", str(file), "--dry-run", *flags]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_plan_of_thousands_of_trials_fits_one_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = "schedule: {times: ['08:00', '20:00'], days: 300}"
    lines = shown(tmp_path, capsys, blocks=4, more=more)
    assert len(lines) < 24
    assert max(map(len, lines)) <= 80
    assert re.findall(r"[\d,]+", lines[0]) == ["432", "12", "5,184"]
    (threads,) = [line for line in lines if line.startswith("threads")]
    assert [int(number) for number in re.findall(r"\d+", threads)[1:]] == [
        1, 2, 4, 8, 16, 32, 64, 128, 250, 500, 750, 1000
    ]  # fmt: skip
    (size,) = [line for line in lines if line.startswith("size")]
    assert size.endswith("256 KiB, 1 MiB")
    starts = next(place for place, line in enumerate(lines) if line.startswith("600 starts"))
    times = [re.search(r"([\d,]+)  \S+ \d\d:00:00$", line) for line in lines[starts + 1 :]]
    assert [time[1] for time in times if time] == ["1", "2", "600"]


def test_a_list_of_trials_has_a_column_for_what_is_swept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(tmp_path, capsys, "--trials", blocks=1)
    head, *rows = [line for line in lines if line.startswith("trial ") or line[:4].isdigit()]
    place = head.index("size")
    assert len(rows) == 1296
    assert {row[place : place + 7].strip() for row in rows} == {
        "1 KiB", "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB"
    }  # fmt: skip


def test_values_that_do_not_fit_are_left_out_in_the_middle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = ",".join(str(threads) for threads in range(101, 151))
    lines = shown(tmp_path, capsys, "--set", f"sweep.threads=[{many}]", blocks=1)
    (threads,) = [line for line in lines if line.startswith("threads")]
    assert len(threads) <= 80
    assert threads.startswith("threads  50 × 101, 102,")
    assert threads.endswith(", …, 150")


def test_loads_and_ends_span_from_the_least_to_the_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(
        """\
name: spans
targets: {a: {driver: "null"}}
dataset: {objects: 12, size: 1KiB}
phases:
  - {name: get, op: get, requests: 100}
sweep: {threads: [2, 9, 10], phases.get.requests: [2664, 10536, 900, 21032]}
"""
    )
    assert cli.main(["run", str(file), "--dry-run"]) == 0
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("get ")]
    assert re.findall(r"([\d,]+) (?:requests )?… ([\d,]+)", row) == [("2", "10"), ("900", "21,032")]


@pytest.mark.parametrize("order", ["random", "as_written"])
def test_the_order_of_the_loads_is_that_of_the_trials(
    order: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_text(
        'name: three\ntargets: {a: {driver: "null"}}\ndataset: {objects: 12, size: 1KiB}\n'
        f"phases: [get]\nsweep: {{threads: [4, 8, 16]}}\nblocks: 2\norder: {order}\n"
    )
    assert cli.main(["run", str(file), "--dry-run"]) == 0
    (shown,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("order")]
    assert cli.main(["run", str(file), "--dry-run", "--trials"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("000")]
    loads = [row[6] for row in rows if row[2] == "get"][:3]
    assert re.findall(r"\d+", shown)[:3] == loads
    assert (loads == ["4", "8", "16"]) is (order == "as_written")
