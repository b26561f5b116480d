"""A run that stops after any file operation, with any of its syncs missing, can go on."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.schema.campaign import Campaign
from loadstone.cli import exit_code
from loadstone.cli.running import session
from loadstone.execution import runner
from loadstone.results.store import read_run
from loadstone.results.writer import TrialWriter, is_only_begun
from tests.unit.crash_disk import Crash, Disk, crashes
from tests.unit.fake_loadgen import FakeLoadgen

CAMPAIGN = """
name: test
targets: {one: {driver: "null"}}
dataset: {objects: 10, size: 4KiB}
load: {threads: 1}
log_requests: true
phases: [put, get]
"""
TRIALS = ["0001", "0002"]
PLACE = "loadstone"
MADE = "places made"
FAILED = {"failed": 3}


@pytest.fixture
def campaign(loadgen: FakeLoadgen, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    """A campaign of two trials, of which the first has failed requests: its exit code is 1."""
    loadgen.seconds = 1
    loadgen.makes = {trial: [PLACE] for trial in TRIALS}
    loadgen.behave["0001"] = lambda control: FAILED
    circumstances = runner.circumstances()
    # Neither changes what is written, and both take most of the time.
    monkeypatch.setattr(
        runner, "circumstances", lambda: {**circumstances, "started": runner.now().isoformat()}
    )
    monkeypatch.setattr(session, "_print_report", lambda folder, form, **options: None)
    return parse_campaign(CAMPAIGN)


def crashes_of(
    root: Path, loadgen: FakeLoadgen, go: Callable[[Path], int], crash: Crash | None = None
) -> list[Crash]:
    """Return the crashes of `go`, which starts on the disk that another crash left."""
    if crash is None:
        root.mkdir()
    else:
        crash.put(root)
    promised = crash.marks if crash is not None else ()
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(root)
        for mark in promised:
            disk.mark(mark)
        disk.watch(patch)
        intend, finish = loadgen.run_trial, TrialWriter.finish

        def run_trial(text: str, on_event: Any, control: Any) -> str:
            def heard(event: Any) -> None:
                on_event(event)
                if event["kind"] == "intent":
                    # From here on the places are on the target.
                    disk.mark(MADE)

            return intend(text, heard, control)

        def finished(trial: TrialWriter, *arguments: Any, **named: Any) -> None:
            finish(trial, *arguments, **named)
            disk.mark(trial._id)

        patch.setattr(loadgen, "run_trial", run_trial)
        patch.setattr(TrialWriter, "finish", finished)
        assert go(root / "run") == exit_code.FAILED
    return crashes(disk)


def check_reading(crash: Crash, folder: Path) -> set[str]:
    """Read a crashed run; return the trials that are finished, each of them whole."""
    promised = crash.marks & set(TRIALS)
    if is_nothing(folder) or is_only_begun(folder):
        assert not crash.marks, f"{crash.how}: nothing is left of {set(crash.marks)}"
        return set()
    run = read_run(folder)
    whole = {record.id for record in run.records if record.is_whole}
    assert promised <= whole, f"{crash.how}: {promised - whole} lost"
    assert not run.altered, crash.how
    for record in run.records:
        rows = record.intervals.num_rows, sum(batch.num_rows for batch in record.read_requests())
        assert rows == (1, 1) or not record.is_whole, crash.how
        assert record.probes.num_rows or not record.is_whole, crash.how
    return whole


def check_going_on(
    crash: Crash, folder: Path, whole: set[str], campaign: Campaign, loadgen: FakeLoadgen
) -> None:
    """Resume a crashed run; every trial must be there once, and the exit code be true."""
    loadgen.documents.clear()
    code = session.measure(campaign, folder, resume=not is_nothing(folder))
    assert code == exit_code.FAILED, crash.how
    assert [document["id"] for document in loadgen.documents] == [
        trial for trial in TRIALS if trial not in whole
    ]
    if MADE in crash.marks and "0001" not in whole:
        # Data that may be on the target belongs to the run in all remaining trials.
        assert all(PLACE in document["ownership"]["adopt"] for document in loadgen.documents), (
            crash.how
        )
    run = read_run(folder)
    assert (run.state, run.altered) == ("finished", ()), crash.how
    assert [(record.id, record.labels) for record in run.records] == [(id_, ()) for id_ in TRIALS]
    assert run.manifest["failed_requests"] == sum(FAILED.values()), crash.how
    assert check_reading(crash, folder) == set(TRIALS)


def is_nothing(folder: Path) -> bool:
    return not folder.exists() or not any(folder.iterdir())


@pytest.fixture
def crashes_found(tmp_path: Path, campaign: Campaign, loadgen: FakeLoadgen) -> list[Crash]:
    """Crashes of a run, and of its resumption after the crash that left most to do."""
    first = crashes_of(
        tmp_path / "first", loadgen, lambda folder: session.measure(campaign, folder)
    )
    # The second trial was running, and the streams of the first were still there.
    old = max(
        (crash for crash in first if "0001" in crash.marks and "0002" not in crash.marks),
        key=lambda crash: len(crash.tree),
    )
    second = crashes_of(
        tmp_path / "second",
        loadgen,
        lambda folder: session.measure(campaign, folder, resume=True),
        old,
    )
    assert len(first) > 300
    assert len(second) > 200
    return [*first, *second]


def test_no_crash_loses_or_doubles_a_finished_trial(
    crashes_found: list[Crash], tmp_path: Path, campaign: Campaign, loadgen: FakeLoadgen
) -> None:
    for number, crash in enumerate(crashes_found):
        crash.put(tmp_path / f"{number}")
        whole = check_reading(crash, tmp_path / f"{number}/run")
        if not crash.is_reordered:
            check_going_on(crash, tmp_path / f"{number}/run", whole, campaign, loadgen)
        shutil.rmtree(tmp_path / f"{number}")


@pytest.mark.long(cpu_s=30)
def test_a_run_goes_on_after_every_order_of_syncs(
    crashes_found: list[Crash], tmp_path: Path, campaign: Campaign, loadgen: FakeLoadgen
) -> None:
    for number, crash in enumerate(crashes_found):
        crash.put(tmp_path / f"{number}")
        whole = check_reading(crash, tmp_path / f"{number}/run")
        check_going_on(crash, tmp_path / f"{number}/run", whole, campaign, loadgen)
        shutil.rmtree(tmp_path / f"{number}")
