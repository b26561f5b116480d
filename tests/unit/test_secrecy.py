"""Secrets in outputs, permissions of run folders, and the environment of programs."""

import os
import stat
import sys
from pathlib import Path

import pytest

from loadstone.analysis.judgements.labels import label_trial
from loadstone.cli import plain
from loadstone.cli.reporting import for_screen
from loadstone.execution import secrets
from loadstone.execution.programs.program import TAIL_BYTES, run_programs
from loadstone.probes.scraper import fit
from loadstone.results import layout
from loadstone.results.hook_log import read_hooks
from loadstone.results.record import Record
from tests.unit.fake_loadgen import FakeLoadgen
from tests.unit.surroundings import run

SECRET = "canary-5f1e7c90ab24d683"
HOOK = "hooks: [{at: before_run, shell: 'env; echo %s; printf \"\\\\033[2J\"'%s}]\n"


def modes(folder: Path) -> set[int]:
    return {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*"))}


@pytest.fixture
def umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_a_run_folder_is_its_owners_alone_whatever_the_umask(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    run(tmp_path / "run", HOOK % ("x", "") + "log_requests: true\n")
    assert modes(tmp_path / "run") == {0o700, 0o600}


@pytest.mark.usefixtures("umask")
def test_a_shared_run_is_open_to_whom_the_umask_lets(
    tmp_path: Path, loadgen: FakeLoadgen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADSTONE_SHARE", "1")
    run(tmp_path / "run", HOOK % ("x", ""))
    assert modes(tmp_path / "run") == {0o777, 0o666}


def test_a_hook_inherits_no_secret_and_what_it_says_holds_none(
    tmp_path: Path, loadgen: FakeLoadgen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET + "-of-aws")
    monkeypatch.setenv("OWN_SECRET", SECRET)
    monkeypatch.setenv("HARMLESS", "kept")
    run(tmp_path / "run", HOOK % (SECRET[3:14], ", env: {GIVEN: {env: OWN_SECRET}}"))
    (entry,) = read_hooks(tmp_path / "run")
    lines = entry["said"].splitlines()
    assert "HARMLESS=kept" in lines
    assert "GIVEN=***" in lines
    assert not [line for line in lines if line.startswith(("AWS_SECRET", "OWN_SECRET"))]
    assert "***" in lines
    assert "\x1b" not in entry["said"]


def test_the_end_of_a_long_output_holds_no_part_of_a_secret_that_was_cut() -> None:
    script = "import sys; sys.stdout.write('x' * 50 + sys.argv[1] + '.' * int(sys.argv[2]))"
    for shown in range(1, 8):
        filler = str(TAIL_BYTES - shown)
        (ended,) = run_programs(
            [[sys.executable, "-c", script, SECRET, filler]],
            timeout_s=60,
            is_stopped=lambda: False,
            tick=lambda passed_s: None,
        )
        assert set(secrets.hide(ended.tail, [SECRET])) == {"."}


def test_secrets_and_control_characters_from_an_exporter_are_masked() -> None:
    assert fit(f'a="{SECRET}\x1b[31m"', [SECRET]) == 'a="***\ufffd[31m"'


def test_texts_of_a_strangers_run_folder_steer_no_terminal(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"a\\u001b[2J": ["b\\u0007", {"c": "d\\u009b1m\\nü"}], "n": 1.5}')
    document = layout.plain(layout.read_json(path))
    assert document == {"a\ufffd[2J": ["b\ufffd", {"c": "d\ufffd1m\nü"}], "n": 1.5}


def test_a_screen_keeps_colours_and_nothing_else_that_steers() -> None:
    shown = for_screen(b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07 \x1b[2J\n")
    assert shown.decode() == "\x1b[1;31mred\x1b[0m \ufffd]0;title\ufffd \ufffd[2J\n"
    assert plain("error: \x1b[2Jx\n") == "error: \ufffd[2Jx\n"


@pytest.mark.parametrize(
    ("log_ins", "took_s", "lasted_s", "is_reported"),
    [
        (0, 0, 60, False),
        (1, 0.1, 60, False),
        (1, 1, 60, True),
        (3, 0.01, 60, False),
        (5, 0.01, 60, True),
        (20, 1, 24 * 3600, False),
    ],
)
def test_log_ins_that_have_a_share_in_the_numbers_are_told(
    log_ins: int, took_s: float, lasted_s: float, is_reported: bool
) -> None:
    times = {"iteration": 1, "start_ns": 0, "measure_start_ns": 0}
    times |= {"measure_end_ns": round(lasted_s * 1e9), "end_ns": round(lasted_s * 1e9)}
    summary = {"log_ins": log_ins, "log_ins_ns": round(took_s * 1e9), "iterations": [times]}
    record = Record(trial={"id": "0001", "measured": False}, summary=summary)
    assert ("LOG_INS" in label_trial(record)) is is_reported


@pytest.mark.parametrize(
    ("operation", "verify", "driver", "is_reported"),
    [
        ("get", 0, "s3", True),
        ("get", 0.01, "s3", False),
        ("put", 0, "s3", False),
        ("get", 0, "null", False),
    ],
)
def test_reads_that_nobody_checked_are_told(
    operation: str, verify: float, driver: str, is_reported: bool
) -> None:
    trial = {"id": "0001", "measured": True, "verify": verify, "target": {"driver": driver}}
    trial["mix"] = [{"operation": operation, "weight": 1.0}]
    assert ("UNCHECKED" in label_trial(Record(trial=trial, summary={}))) is is_reported
