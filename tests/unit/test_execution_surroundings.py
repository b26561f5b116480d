"""Ceilings and hooks around the trials: when they run, what is kept, what ends them."""

import datetime
import json
import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from loadstone._loadgen import Histogram
from loadstone.analysis.measured_ceilings import left_behind_findings, read_measured_ceilings
from loadstone.campaign.hook import Hook
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.plan import Plan, make_plan
from loadstone.errors import InputError
from loadstone.execution import interrupt as interrupt_module
from loadstone.execution import operations, runner
from loadstone.execution.ceilings import check_programs
from loadstone.execution.events import CeilingFailed, CeilingProgress, Event, TrialProgress
from loadstone.execution.interrupt import Interrupt
from loadstone.results.hook_log import HOOKS, append_hook, read_hooks
from loadstone.results.store import RunWriter, read_run
from tests.unit.campaign_drivers import DRIVERS
from tests.unit.fake_loadgen import FakeLoadgen

DATA = Path(__file__).parent.parent / "data" / "importers"
CAMPAIGN = """
name: test
targets:
  one: {driver: rados, pool: p}
dataset: {objects: 100, size: 4KiB}
load: {threads: 4}
phases: [put, get]
"""


@pytest.fixture
def loadgen(monkeypatch: pytest.MonkeyPatch) -> FakeLoadgen:
    fake = FakeLoadgen()
    monkeypatch.setattr(operations, "_loadgen", fake)
    monkeypatch.setattr(interrupt_module, "_loadgen", fake)
    return fake


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder at the front of the path, for programs that do what a test says."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f'#!/bin/sh\necho "$0 $*" >> {folder}/calls\n{script}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def calls(folder: Path) -> list[str]:
    path = folder / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.removeprefix(f"{folder}/") for line in lines]


def plan_of(text: str) -> Plan:
    return make_plan(parse_campaign(CAMPAIGN + text, drivers=DRIVERS, environ={}), DRIVERS)


def create(path: Path, plan: Plan, text: str = "") -> RunWriter:
    campaign = parse_campaign(CAMPAIGN + text, drivers=DRIVERS, environ={}).document()
    started = datetime.datetime.now(datetime.UTC).isoformat()
    manifest = {"name": plan.name, "plan": plan.documents(), "started": started}
    return RunWriter.create(path, {**manifest, "campaign": campaign})


def run(
    folder: Path, text: str, listen: Any = lambda event: None, interrupt: Interrupt | None = None
) -> runner.RunEnd:
    plan = plan_of(text)
    return runner.execute(plan, create(folder, plan, text), listen, interrupt=interrupt)


def resume(folder: Path, text: str, listen: Any = lambda event: None) -> runner.RunEnd:
    from loadstone.campaign.resume import resume as resume_plan

    writer = RunWriter.reopen(folder)
    return runner.execute(resume_plan(plan_of(text), writer.finished), writer, listen)


# Ceilings

NETWORK = "ceilings: [{kind: network, host: osd, streams: 1, directions: send}]\n"


def test_a_ceiling_is_measured_before_the_trials_and_kept_with_what_was_printed(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    program(programs, "iperf3", f"cat {DATA}/iperf3-1stream.json")
    events: list[Event] = []
    end = run(tmp_path / "run", NETWORK, events.append)
    assert (end.state, end.problems) == ("finished", [])
    found = read_run(tmp_path / "run")
    (ceiling,) = found.ceilings
    (one,) = ceiling.measurements
    truth = json.loads((DATA / "iperf3-1stream.json").read_text())
    assert one["bytes_per_s"] == truth["end"]["sum_received"]["bits_per_second"] / 8
    assert one["bytes_per_s_min"] <= one["bytes_per_s"] * 1.05
    assert len(one["bytes_per_second"]) == len(truth["intervals"])
    assert (one["bounds"], one["tool"]) == ("write", "iperf3")
    raw = tmp_path / "run" / "ceilings" / one["outputs"][0]
    assert raw.read_bytes() == (DATA / "iperf3-1stream.json").read_bytes()
    assert ceiling.ended_unix_ns <= found.records[0].intervals_path.stat().st_mtime_ns  # type: ignore[union-attr]
    assert any(isinstance(event, CeilingProgress) for event in events)


def test_the_latencies_of_fio_are_kept_as_a_histogram(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    import base64

    program(programs, "fio", f"echo note before; cat {DATA}/fio-randrw-4k.json")
    text = "ceilings: [{kind: device, options: {filename: /x, rw: randread}}]\n"
    assert run(tmp_path / "run", text).state == "finished"
    (ceiling,) = read_run(tmp_path / "run").ceilings
    truth = json.loads((DATA / "fio-randrw-4k.json").read_text())["jobs"]
    by_bounds = {one["bounds"]: one for one in ceiling.measurements}
    assert set(by_bounds) == {"read", "write"}
    read = by_bounds["read"]
    assert read["bytes_per_s"] == sum(job["read"]["bw_bytes"] for job in truth)
    assert read["requests_per_s"] == pytest.approx(sum(job["read"]["iops"] for job in truth))
    if read["service"] is not None:
        times = Histogram.decode(base64.b64decode(read["service"]))
        assert times.count == truth[0]["read"]["clat_ns"]["N"]


def test_osds_of_a_pool_are_asked_alone_and_together_and_then_added_up(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    answer = json.dumps(
        {"bytes_written": 2**30, "blocksize": 2**22, "elapsed_sec": 4.0, "bytes_per_sec": 2**28}
    )
    groups = json.dumps({"pg_stats": [{"acting": [3, 1, 2147483647]}, {"acting": [1]}]})
    script = f"case \"$*\" in *ls-by-pool*) echo '{groups}';; *) echo '{answer}';; esac"
    program(programs, "ceph", script)
    end = run(tmp_path / "run", "ceilings: [{kind: osd_bench}]\n")
    assert end.problems == []
    (ceiling,) = read_run(tmp_path / "run").ceilings
    rates = {one["name"]: one["bytes_per_s"] for one in ceiling.measurements}
    assert rates == {
        "osd.1 alone": 2**28, "osd.3 alone": 2**28, "2 OSDs together": 2**29,
    }  # fmt: skip
    assert sum("osd.1 bench" in call for call in calls(programs)) == 2


def test_a_ceiling_that_fails_is_told_and_the_trials_go_on_without_it(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    program(programs, "iperf3", 'echo \'{"error": "unable to connect"}\'; exit 1')
    events: list[Event] = []
    end = run(tmp_path / "run", NETWORK, events.append)
    assert end.state == "failed"
    assert "exit code 1: unable to connect" in str(end.problems[0])
    assert "iperf3 -c osd" in str(end.problems[0].hint)
    assert any(isinstance(event, CeilingFailed) for event in events)
    found = read_run(tmp_path / "run")
    assert found.ceilings == ()
    assert list(found.manifest["ceilings_failed"]) == ["C001"]
    assert len(found.records) == len(plan_of(NETWORK).trials)
    # Only what is missing is done again.
    program(programs, "iperf3", f"cat {DATA}/iperf3-1stream.json")
    ran = len(loadgen.documents)
    assert resume(tmp_path / "run", NETWORK).state == "finished"
    assert len(read_run(tmp_path / "run").ceilings) == 1
    assert len(loadgen.documents) == ran


def test_a_cut_off_output_is_no_ceiling(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    program(programs, "iperf3", f"head -c 3000 {DATA}/iperf3-1stream.json")
    end = run(tmp_path / "run", NETWORK)
    assert "C001" in end.ceilings_failed
    assert read_run(tmp_path / "run").ceilings == ()


def test_an_interrupted_ceiling_is_measured_again_and_a_finished_one_is_not(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    text = (
        "ceilings:\n"
        "  - {kind: network, host: first, streams: 1, directions: send, name: a}\n"
        "  - {kind: network, host: second, streams: 1, directions: send, name: b}\n"
    )
    good = f"cat {DATA}/iperf3-1stream.json"
    program(programs, "iperf3", f'case "$*" in *second*) sleep 1000;; *) {good};; esac')
    interrupt = Interrupt()

    def listen(event: Event) -> None:
        if isinstance(event, CeilingProgress) and event.document["name"] == "b":
            interrupt.ask()

    end = run(tmp_path / "run", text, listen, interrupt)
    assert end.state == "interrupted"
    assert not loadgen.documents
    assert [one.ceiling["name"] for one in read_run(tmp_path / "run").ceilings] == ["a"]
    program(programs, "iperf3", good)
    assert resume(tmp_path / "run", text).state == "finished"
    assert [one.ceiling["name"] for one in read_run(tmp_path / "run").ceilings] == ["a", "b"]
    assert sum("first" in call for call in calls(programs)) == 1


def test_what_a_ceiling_made_goes_away_when_it_fails_and_what_was_there_stays(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    program(programs, "fio", "echo broken >&2; exit 1")
    text = f"ceilings: [{{kind: mount, directory: {tmp_path}/mount}}]\n"
    (tmp_path / "mount").mkdir()
    end = run(tmp_path / "run", text)
    assert "broken" in end.ceilings_failed["C001"]
    assert list((tmp_path / "mount").iterdir()) == []
    # A directory of that name that somebody else made is not touched.
    folder = plan_of(text).ceilings[0].document["clean_up"][0][-1]
    Path(folder).mkdir()
    (Path(folder) / "precious").touch()
    end = run(tmp_path / "again", text)
    assert "File exists" in end.ceilings_failed["C001"]
    assert (Path(folder) / "precious").exists()


MOUNTS = "ceilings: [{{kind: mount, directory: {folder}}}]\n"


def test_a_good_measurement_outlives_its_clean_up_and_says_what_is_left(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    (tmp_path / "mount").mkdir()
    text = MOUNTS.format(folder=tmp_path / "mount")
    (command,) = plan_of(text).ceilings[0].document["clean_up"]
    program(programs, "fio", f"cat {DATA}/fio-read-4m.json")
    program(programs, "rm", "echo it is busy >&2; exit 1")
    end = run(tmp_path / "run", text)
    assert end.state == "failed"
    assert end.ceilings_failed == {}
    (problem,) = end.problems
    assert 'ceiling "mount" left behind what it had made' in problem.message
    assert "it is busy" in problem.message
    assert problem.hint == f"remove it with: {' '.join(command)}"
    (record,) = read_run(tmp_path / "run").ceilings
    assert record.measurements
    assert record.left_behind == ({"command": command, "why": "it is busy"},)
    (told,) = left_behind_findings(read_run(tmp_path / "run"))
    assert " ".join(command) in told.statement
    assert not any(one.is_cleaned_up for one in read_measured_ceilings(read_run(tmp_path / "run")))


def test_what_an_interrupted_ceiling_left_behind_is_told(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    (tmp_path / "mount").mkdir()
    text = MOUNTS.format(folder=tmp_path / "mount")
    program(programs, "fio", "sleep 1000")
    program(programs, "rm", "echo it is busy >&2; exit 1")
    interrupt = Interrupt()

    def listen(event: Event) -> None:
        if isinstance(event, CeilingProgress):
            interrupt.ask()

    end = run(tmp_path / "run", text, listen, interrupt)
    assert end.state == "interrupted"
    (problem,) = end.problems
    assert "left behind" in problem.message
    assert (problem.hint or "").startswith("remove it with: rm -r -- ")
    assert read_run(tmp_path / "run").ceilings == ()


def test_a_ceiling_that_fails_twice_says_both(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    (tmp_path / "mount").mkdir()
    program(programs, "fio", "echo broken >&2; exit 1")
    program(programs, "rm", "echo it is busy >&2; exit 1")
    end = run(tmp_path / "run", MOUNTS.format(folder=tmp_path / "mount"))
    (problem,) = end.problems
    assert "broken" in problem.message
    assert "it is busy" in problem.message
    assert (problem.hint or "").startswith("remove it with: ")


def test_a_program_that_this_host_lacks_is_told_before_anything_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    plan = plan_of(NETWORK)
    with pytest.raises(InputError, match='ceiling "network" needs the program "iperf3"') as caught:
        check_programs(plan.ceilings)
    assert caught.value.hint == "on Debian: apt-get install iperf3"
    hook = Hook.model_validate({"at": "before_run", "run": ["frobnicate"]})
    with pytest.raises(InputError, match='hook "frobnicate" needs the program'):
        check_programs((), [hook])


def test_a_job_file_that_writes_is_refused_before_anything_begins(
    tmp_path: Path, programs: Path
) -> None:
    program(programs, "fio", "exit 0")
    path = tmp_path / "job.fio"
    path.write_text("[one]\nfilename=/dev/x\nrw=randwrite\n")
    text = f"ceilings: [{{kind: device, job_file: {path}%s}}]\n"
    with pytest.raises(InputError, match='writes to "/dev/x"'):
        check_programs(plan_of(text % "").ceilings)
    check_programs(plan_of(text % ", allow_write: /dev/x").ceilings)


# Hooks


def entries(folder: Path) -> list[Any]:
    return [(one["hook"], one["at"], one["trial"]) for one in read_hooks(folder)]


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
    said = [one["said"] for one in read_hooks(tmp_path / "run")]
    assert said[1:3] == ["put", "put"]
    # Nothing of ours, and no shell, goes into a list of words.
    assert said[6] == "$LOADSTONE_PHASE; reboot"
    record = next(one for one in read_run(tmp_path / "run").records if one.id == get)
    assert [one["hook"] for one in record.hooks] == [
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
    assert end.was_stopped_by_hook
    assert end.state == "interrupted"
    (problem,) = end.problems
    assert 'hook "check" at before_trial of trial 0002: exit code 1: not yet' in problem.message
    assert [one["phase"] for one in loadgen.documents] == ["put"]
    assert entries(tmp_path / "run")[-1] == ("last", "after_run", None)
    flag.touch()
    assert resume(tmp_path / "run", text).state == "finished"
    assert "get" in [one["phase"] for one in loadgen.documents]


def test_a_hook_after_a_trial_runs_after_one_that_failed_too(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    def fail(control: object) -> None:
        raise loadgen.TargetError("it is gone")

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
    assert run(tmp_path / "run", text).was_stopped_by_hook
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
    assert all(one["exit_code"] == 1 for one in read_hooks(tmp_path / "run"))


def test_a_hook_falls_into_its_trial_at_its_time(tmp_path: Path, loadgen: FakeLoadgen) -> None:
    text = hooks(
        "at: 1.3s, phases: get, name: fault, run: ['true']",
        "at: 10h, phases: get, name: late, run: ['true']",
    )
    began: list[int] = []

    def listen(event: Event) -> None:
        if isinstance(event, TrialProgress) and event.document["phase"] == "get" and not began:
            # The fake tells that the load has run for a second by now.
            began.append(time.time_ns() - 10**9)
            time.sleep(0.8)

    assert run(tmp_path / "run", text, listen).state == "finished"
    fault, late = read_hooks(tmp_path / "run")
    assert (fault["hook"], fault["state"]) == ("fault", "ended")
    assert fault["started_unix_ns"] - began[0] > 1.25 * 10**9
    assert (late["hook"], late["state"], late["exit_code"]) == ("late", "not reached", None)


def test_a_hook_inside_a_trial_can_end_the_trial_and_the_run(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    text = hooks("at: 1s, phases: put, run: ['false']")
    loadgen.seconds = 200

    def listen(event: Event) -> None:
        if isinstance(event, TrialProgress):
            time.sleep(0.02)

    end = run(tmp_path / "run", text, listen)
    assert end.was_stopped_by_hook
    (record,) = read_run(tmp_path / "run").records
    assert record.labels == ("INTERRUPTED",)
    assert 0 < record.intervals.num_rows < 200


def test_a_hook_that_takes_too_long_is_ended(tmp_path: Path, loadgen: FakeLoadgen) -> None:
    text = hooks("at: before_run, run: [sleep, 1000], timeout: 200ms")
    end = run(tmp_path / "run", text)
    assert "timeout" in end.problems[0].message
    assert not loadgen.documents


def test_ctrl_c_ends_a_hook_and_no_trial_begins(tmp_path: Path, loadgen: FakeLoadgen) -> None:
    interrupt = Interrupt()
    threading.Timer(0.3, interrupt.ask).start()
    text = hooks(
        "at: before_trial, run: [sleep, 1000], timeout: 1h",
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
