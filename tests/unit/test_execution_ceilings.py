"""Ceilings before the trials: their times, their records, and their ends."""

import json
from pathlib import Path

import pytest

from loadstone._loadgen import Histogram
from loadstone.analysis.limits.measured_ceilings import find_left_behind, read_measured_ceilings
from loadstone.campaign.schema.hook import Hook
from loadstone.errors import InputError, LeftBehindError
from loadstone.execution.events import CeilingFailed, CeilingProgress, Event
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.ceilings import check_programs
from loadstone.results.store import read_run
from tests.unit.fake_loadgen import FakeLoadgen
from tests.unit.surroundings import calls, plan_of, program, resume, run

DATA = Path(__file__).parent.parent / "data" / "importers"
NETWORK = "ceilings: [{kind: network, host: osd, streams: 1, directions: send}]\n"


def test_a_ceiling_is_measured_before_the_trials_and_kept_with_what_was_printed(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    program(programs, "iperf3", f"cat {DATA}/iperf3-1stream.json")
    end = run(tmp_path / "run", NETWORK)
    assert (end.state, end.problems) == ("finished", [])
    finished = read_run(tmp_path / "run")
    (ceiling,) = finished.ceilings
    (measurement,) = ceiling.measurements
    truth = json.loads((DATA / "iperf3-1stream.json").read_text())
    assert measurement["bytes_per_s"] == truth["end"]["sum_received"]["bits_per_second"] / 8
    assert measurement["bytes_per_s_min"] <= measurement["bytes_per_s"] * 1.05
    assert len(measurement["bytes_per_second"]) == len(truth["intervals"])
    assert (measurement["bounds"], measurement["tool"]) == ("write", "iperf3")
    raw = tmp_path / "run" / "ceilings" / measurement["outputs"][0]
    assert raw.read_bytes() == (DATA / "iperf3-1stream.json").read_bytes()
    assert ceiling.ended_unix_ns <= finished.records[0].intervals_path.stat().st_mtime_ns  # type: ignore[union-attr]


def test_the_latencies_of_fio_are_kept_as_a_histogram(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    import base64

    program(programs, "fio", f"echo note before; cat {DATA}/fio-randrw-4k.json")
    text = "ceilings: [{kind: device, options: {filename: /x, rw: randread}}]\n"
    assert run(tmp_path / "run", text).state == "finished"
    (ceiling,) = read_run(tmp_path / "run").ceilings
    truth = json.loads((DATA / "fio-randrw-4k.json").read_text())["jobs"]
    by_bounds = {measurement["bounds"]: measurement for measurement in ceiling.measurements}
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
    rates = {
        measurement["name"]: measurement["bytes_per_s"] for measurement in ceiling.measurements
    }
    assert rates == {
        "osd.1 alone": 2**28, "osd.3 alone": 2**28, "2 OSDs together": 2**29,
    }  # fmt: skip
    assert sum("osd.1 bench" in call for call in calls(programs)) == 2


@pytest.mark.parametrize("groups", ["[1]", '{"pg_stats": [{}]}', '[{"acting": ["x"]}]', "no JSON"])
def test_an_invalid_list_of_placement_groups_ends_the_ceiling(
    groups: str, tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    program(programs, "ceph", f"echo '{groups}'")
    (problem,) = run(tmp_path / "run", "ceilings: [{kind: osd_bench}]\n").problems
    assert "placement groups" in problem.message


def test_a_ceiling_that_fails_is_told_and_the_trials_go_on_without_it(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    program(programs, "iperf3", 'echo \'{"error": "unable to connect"}\'; exit 1')
    events: list[Event] = []
    end = run(tmp_path / "run", NETWORK, events.append)
    assert end.state == "failed"
    assert "exit code 1" in str(end.problems[0])
    assert "unable" in str(end.problems[0])
    assert "iperf3 -c osd" in str(end.problems[0].hint)
    assert any(isinstance(event, CeilingFailed) for event in events)
    finished = read_run(tmp_path / "run")
    assert finished.ceilings == ()
    assert list(finished.manifest["ceilings_failed"]) == ["C001"]
    assert len(finished.records) == len(plan_of(NETWORK).trials)
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
    assert [ceiling.ceiling["name"] for ceiling in read_run(tmp_path / "run").ceilings] == ["a"]
    program(programs, "iperf3", good)
    assert resume(tmp_path / "run", text).state == "finished"
    assert [ceiling.ceiling["name"] for ceiling in read_run(tmp_path / "run").ceilings] == [
        "a",
        "b",
    ]
    assert sum("first" in call for call in calls(programs)) == 1


def test_a_failed_ceiling_removes_its_own_data_only(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    program(programs, "fio", "echo broken >&2; exit 1")
    text = f"ceilings: [{{kind: mount, directory: {tmp_path}/mount}}]\n"
    (tmp_path / "mount").mkdir()
    end = run(tmp_path / "run", text)
    assert "broken" in end.ceilings_failed["C001"]
    assert list((tmp_path / "mount").iterdir()) == []
    # A directory of that name that another user made is not touched.
    folder = plan_of(text).ceilings[0].document["clean_up"][0][-1]
    Path(folder).mkdir()
    (Path(folder) / "precious").touch()
    end = run(tmp_path / "again", text)
    assert "File exists" in end.ceilings_failed["C001"]
    assert (Path(folder) / "precious").exists()


BUSY = "it is busy"

MOUNTS = "ceilings: [{{kind: mount, directory: {folder}}}]\n"


def test_a_good_measurement_outlives_its_clean_up_and_says_what_is_left(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    (tmp_path / "mount").mkdir()
    text = MOUNTS.format(folder=tmp_path / "mount")
    (command,) = plan_of(text).ceilings[0].document["clean_up"]
    program(programs, "fio", f"cat {DATA}/fio-read-4m.json")
    program(programs, "rm", f"echo {BUSY} >&2; exit 1")
    end = run(tmp_path / "run", text)
    assert end.state == "finished"
    assert end.ceilings_failed == {}
    (problem,) = end.problems
    assert isinstance(problem, LeftBehindError)
    assert problem.kind == "left-behind"
    assert '"mount"' in problem.message
    assert BUSY in problem.message
    assert str(problem.hint).endswith(f": {' '.join(command)}")
    (record,) = read_run(tmp_path / "run").ceilings
    assert record.measurements
    assert record.left_behind == ({"command": command, "why": BUSY},)
    (finding,) = find_left_behind(read_run(tmp_path / "run").ceilings)
    assert " ".join(command) in finding.statement
    assert not any(
        measured_ceiling.is_cleaned_up
        for measured_ceiling in read_measured_ceilings(read_run(tmp_path / "run"))
    )


def test_leftovers_of_an_interrupted_ceiling_are_reported(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    (tmp_path / "mount").mkdir()
    text = MOUNTS.format(folder=tmp_path / "mount")
    program(programs, "fio", "sleep 1000")
    program(programs, "rm", f"echo {BUSY} >&2; exit 1")
    interrupt = Interrupt()

    def listen(event: Event) -> None:
        if isinstance(event, CeilingProgress):
            interrupt.ask()

    end = run(tmp_path / "run", text, listen, interrupt)
    assert end.state == "interrupted"
    (problem,) = end.problems
    assert "left behind" in problem.message
    assert (problem.hint or "").partition(": ")[2].startswith("rm -r -- ")
    assert read_run(tmp_path / "run").ceilings == ()


def test_ctrl_c_while_a_directory_is_made_leaves_none(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    (tmp_path / "mount").mkdir()
    program(programs, "fio", "sleep 1000")
    program(programs, "mkdir", '/bin/mkdir "$@"; sleep 0.3')
    interrupt = Interrupt()

    def listen(event: Event) -> None:
        if isinstance(event, CeilingProgress):
            interrupt.ask()

    end = run(tmp_path / "run", MOUNTS.format(folder=tmp_path / "mount"), listen, interrupt)
    assert end.state == "interrupted"
    assert end.problems == []
    assert list((tmp_path / "mount").iterdir()) == []


def test_a_ceiling_that_fails_twice_says_both(
    tmp_path: Path, loadgen: FakeLoadgen, programs: Path
) -> None:
    (tmp_path / "mount").mkdir()
    program(programs, "fio", "echo broken >&2; exit 1")
    program(programs, "rm", f"echo {BUSY} >&2; exit 1")
    end = run(tmp_path / "run", MOUNTS.format(folder=tmp_path / "mount"))
    (problem,) = end.problems
    assert "broken" in problem.message
    assert BUSY in problem.message
    assert (problem.hint or "").partition(": ")[2].startswith("rm ")


def test_a_program_that_this_host_lacks_is_told_before_anything_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    plan = plan_of(NETWORK)
    with pytest.raises(InputError, match=r'"network".*"iperf3"') as caught:
        check_programs(plan.ceilings)
    assert caught.value.kind == "program-absent"
    assert str(caught.value.hint).endswith(": apt-get install iperf3")
    hook = Hook.model_validate({"at": "before_run", "run": ["frobnicate"]})
    with pytest.raises(InputError, match='hook "frobnicate"') as caught:
        check_programs((), [hook])
    assert caught.value.kind == "program-absent"


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
