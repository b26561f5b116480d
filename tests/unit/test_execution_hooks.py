"""Hooks around the trials: their times, their records, and their ends."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from loadstone.errors import InputError
from loadstone.execution.events import Event, HookEnded, TrialProgress
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.ceilings import check_programs
from loadstone.results.hook_log import HOOKS, append_hook, read_hooks
from loadstone.results.store import read_run
from tests.unit import fake_loadgen
from tests.unit.fake_loadgen import FakeLoadgen, refusal
from tests.unit.surroundings import plan_of, resume, run


def entries(folder: Path) -> list[Any]:
    return [(hook["hook"], hook["at"], hook["trial"]) for hook in read_hooks(folder)]


def hooks(*lines: str) -> str:
    return "hooks:\n" + "".join(f"  - {{{line}}}\n" for line in lines)


def test_hooks_run_at_their_points_with_the_trial_in_their_environment(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    points = ("before_run", "after_run", "before_phase", "after_phase", "before_trial")
    text = hooks(
        *(f'at: {point}, name: {point}, shell: "echo $LOADSTONE_PHASE"' for point in points),
        'at: after_trial, phases: get, name: of-get, run: [echo, "$LOADSTONE_PHASE; reboot"]',
    )
    assert run(tmp_path / "run", text + "rounds: 1\n").state == "finished"
    put, get = (trial.id for trial in plan_of(text).trials if trial.is_measured)
    assert entries(tmp_path / "run") == [
        ("before_run", "before_run", None),
        ("before_phase", "before_phase", put),
        ("before_trial", "before_trial", put),
        ("after_phase", "after_phase", put),
        ("before_phase", "before_phase", get),
        ("before_trial", "before_trial", get),
        ("of-get", "after_trial", get),
        ("after_phase", "after_phase", get),
        ("after_run", "after_run", None),
    ]
    outputs = [hook["said"] for hook in read_hooks(tmp_path / "run")]
    assert outputs[1:3] == ["put", "put"]
    # Nothing of ours, and no shell, goes into a list of words.
    assert outputs[6] == "$LOADSTONE_PHASE; reboot"
    record = next(record for record in read_run(tmp_path / "run").records if record.id == get)
    assert [hook["hook"] for hook in record.hooks] == [
        "before_phase", "before_trial", "of-get", "after_phase",
    ]  # fmt: skip


def test_a_hook_that_fails_ends_the_run_before_the_trial_and_resume_goes_on(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    flag = tmp_path / "flag"
    text = hooks(
        f"at: before_trial, phases: get, name: check, shell: 'echo not yet; test -e {flag}'",
        "at: after_run, name: last, run: ['true']",
    )
    end = run(tmp_path / "run", text)
    assert end.is_cut_unasked
    assert end.state == "interrupted"
    (problem,) = end.problems
    for fact in ('"check"', "before_trial", "0002", "exit code 1", ": not yet"):
        assert fact in problem.message
    assert [document["phase"] for document in loadgen.documents] == ["put"]
    assert entries(tmp_path / "run")[-1] == ("last", "after_run", None)
    flag.touch()
    assert resume(tmp_path / "run", text).state == "finished"
    assert "get" in [document["phase"] for document in loadgen.documents]


def test_a_hook_after_a_trial_runs_after_one_that_failed_too(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    def fail(control: object) -> None:
        raise refusal("it is gone")

    text = hooks(
        "at: before_trial, name: slow-down, run: ['true']",
        "at: after_trial, name: put-right, run: ['true']",
        "at: after_phase, name: tell, run: ['true']",
    )
    put = next(trial.id for trial in plan_of(text).trials if trial.is_measured)
    loadgen.behave[put] = fail
    assert run(tmp_path / "run", text).state == "failed"
    assert entries(tmp_path / "run") == [
        ("slow-down", "before_trial", put),
        ("put-right", "after_trial", put),
        ("tell", "after_phase", put),
    ]


def test_hooks_that_put_right_run_after_a_hook_that_stopped_the_run(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    text = hooks(
        "at: before_trial, name: slow-down, run: ['false']",
        "at: after_trial, name: put-right, run: ['true']",
        "at: after_phase, name: tell, run: ['true']",
    )
    put = next(trial.id for trial in plan_of(text).trials if trial.is_measured)
    assert run(tmp_path / "run", text).is_cut_unasked
    assert entries(tmp_path / "run") == [
        ("slow-down", "before_trial", put),
        ("put-right", "after_trial", put),
        ("tell", "after_phase", put),
    ]


def test_a_hook_whose_failure_is_a_label_lets_the_run_go_on(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    text = hooks("at: before_trial, run: ['false'], on_failure: label")
    end = run(tmp_path / "run", text)
    assert (end.state, end.problems) == ("finished", [])
    assert all(hook["exit_code"] == 1 for hook in read_hooks(tmp_path / "run"))


def test_a_hook_falls_into_its_trial_at_its_time(
    tmp_path: Path, loadgen: FakeLoadgen, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The load says that it has been running for an hour: a hook that does not know comes too late.
    monkeypatch.setitem(fake_loadgen.LIVE, "elapsed_ns", 3600 * 10**9)
    text = hooks(
        "at: 3600.3s, phases: get, name: fault, run: ['true']",
        "at: 10h, phases: get, name: late, run: ['true']",
    )
    is_over = threading.Event()
    trial_starts_ns: list[int] = []

    def listen(event: Event) -> None:
        if isinstance(event, HookEnded) and event.entry["hook"] == "fault":
            is_over.set()
        if isinstance(event, TrialProgress) and event.document["phase"] == "get":
            # The load goes on until its hook has run, however long that takes on a busy machine.
            assert is_over.wait(600)

    get = next(trial.id for trial in plan_of(text).trials if trial.phase == "get")
    loadgen.behave[get] = lambda control: trial_starts_ns.append(time.time_ns())
    assert run(tmp_path / "run", text, listen).state == "finished"
    fault, late = read_hooks(tmp_path / "run")
    assert (fault["hook"], fault["state"]) == ("fault", "ended")
    assert fault["started_unix_ns"] - trial_starts_ns[0] > 0.29 * 10**9
    assert (late["hook"], late["state"], late["exit_code"]) == ("late", "not reached", None)


def test_a_hook_inside_a_trial_can_end_the_trial_and_the_run(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    text = hooks("at: 1s, phases: put, run: ['false']")
    # It would go on for minutes.
    loadgen.seconds = 20_000

    def listen(event: Event) -> None:
        if isinstance(event, TrialProgress):
            time.sleep(0.02)

    end = run(tmp_path / "run", text, listen)
    assert end.is_cut_unasked
    (record,) = read_run(tmp_path / "run").records
    assert record.labels == ("INTERRUPTED",)
    assert 0 < record.intervals.num_rows < loadgen.seconds


def test_a_hook_that_takes_too_long_is_ended(tmp_path: Path, loadgen: FakeLoadgen) -> None:
    text = hooks("at: before_run, run: [sleep, 1000], timeout: 200ms")
    end = run(tmp_path / "run", text)
    assert "timeout" in end.problems[0].message
    assert not loadgen.documents


def test_ctrl_c_ends_a_hook_and_no_trial_begins(tmp_path: Path, loadgen: FakeLoadgen) -> None:
    interrupt = Interrupt()
    begun = tmp_path / "begun"

    def ask() -> None:
        while not begun.exists():
            time.sleep(0.02)
        interrupt.ask()

    threading.Thread(target=ask, daemon=True).start()
    text = hooks(
        f"at: before_trial, shell: 'touch {begun}; exec sleep 1000', timeout: 1h",
        "at: after_run, name: restore, run: ['true']",
    )
    end = run(tmp_path / "run", text, interrupt=interrupt)
    assert (end.state, end.problems) == ("interrupted", [])
    assert not loadgen.documents
    first, last = read_hooks(tmp_path / "run")
    assert (first["state"], last["hook"], last["exit_code"]) == ("stopped", "restore", 0)


def test_a_secret_reaches_the_command_and_not_what_is_kept_of_it(
    tmp_path: Path, loadgen: FakeLoadgen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "correct-horse")
    (tmp_path / "other").write_text("battery-staple\n")
    text = hooks(
        f"at: before_run, shell: 'echo $T $U; test ${{#T}} = 13',"
        f" env: {{T: {{env: MY_TOKEN}}, U: {{file: {tmp_path}/other}}}}",
    )
    assert run(tmp_path / "run", text).problems == []
    (entry,) = read_hooks(tmp_path / "run")
    assert entry["said"] == "*** ***"
    for path in (tmp_path / "run").rglob("*"):
        if path.is_file():
            assert b"correct-horse" not in path.read_bytes()
            assert b"battery-staple" not in path.read_bytes()
    monkeypatch.delenv("MY_TOKEN")
    with pytest.raises(InputError, match='no variable "MY_TOKEN"'):
        check_programs((), plan_of(text).hooks)


def test_a_line_that_a_kill_cut_off_takes_no_other_with_it(tmp_path: Path) -> None:
    append_hook(tmp_path, {"hook": "a"})
    with (tmp_path / HOOKS).open("ab") as stream:
        stream.write(b'{"hook": "b')
    append_hook(tmp_path, {"hook": "c"})
    assert [entry["hook"] for entry in read_hooks(tmp_path)] == ["a", "c"]
