"""Stores that are filled before they are measured: levels, writes, and messages."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loadstone.analysis import analyse
from loadstone.analysis.measured.fill import describe_fill
from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.filling import StoreSize
from loadstone.campaign.planning.plan import Plan, make_plan
from loadstone.campaign.remains import remains
from loadstone.campaign.resume import resume
from loadstone.campaign.schema.dataset import FillLevel
from loadstone.cli import main
from loadstone.errors import CampaignError, InputError
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs import store_sizes
from loadstone.execution.programs.program import Ended
from loadstone.results.store import read_run
from tests.system.command import settled
from tests.unit.campaign_drivers import DRIVERS
from tests.unit.synthetic_run import Folder, trial

GIB = 1 << 30
CAMPAIGN = """\
name: filled
targets: {{a: {{driver: {driver}{settings}}}}}
dataset: {{objects: 10, size: 4KiB, buckets: 2}}
load: {{threads: 2}}
phases: [put, get]
fill_size: 1GiB
{more}
"""
SIZE = {"a": StoreSize(total_bytes=100 * GIB, used_bytes=0)}


def plan_of(
    more: str,
    *,
    driver: str = "s3",
    settings: str = ", endpoint: http://c",
    fill_size: str = "1GiB",
    stores: Mapping[str, StoreSize] = SIZE,
) -> Plan:
    text = CAMPAIGN.format(driver=driver, settings=settings, more=more)
    text = text.replace("fill_size: 1GiB", f"fill_size: {fill_size}")
    campaign = parse_campaign(text, (), drivers=DRIVERS, environ={})
    return make_plan(campaign, DRIVERS, "0123456789abcdef" * 2, stores=stores)


def outline(plan: Plan) -> list[tuple[Any, ...]]:
    """Return the phase of each trial, its level and how much a fill writes."""
    return [
        (
            planned.phase,
            planned.document["case"]["parameters"].get("fill_percent"),
            *((planned.document["stop"]["requests"],) if planned.phase == "fill" else ()),
        )
        for planned in plan.trials
    ]


def refused(more: str, **keys: Any) -> str:
    with pytest.raises(CampaignError) as stop:
        plan_of(more, **keys)
    return str(stop.value)


def test_levels_rise_and_each_writes_only_the_rest() -> None:
    assert outline(plan_of("sweep: {fill: [60%, 0%, 30%]}")) == [
        ("put", 0), ("get", 0), ("clean-up", None),
        ("fill", 30, 30), ("put", 30), ("get", 30), ("clean-up", None),
        ("fill", 60, 30), ("put", 60), ("get", 60), ("clean-up", None),
        ("clean-up", None), ("clean-up", None),
    ]  # fmt: skip


def test_every_block_begins_with_the_lowest_level_again() -> None:
    plan = plan_of("blocks: 2\nsweep: {fill: [0%, 30%]}")
    measured = [planned.document["case"]["parameters"]["fill_percent"] for planned in plan.trials
                if planned.phase == "get"]  # fmt: skip
    assert measured == [0, 30, 0, 30]
    fills = [
        planned.document["dataset"]["bucket_prefix"]
        for planned in plan.trials
        if planned.phase == "fill"
    ]
    assert len(set(fills)) == 2
    assert all(not fill.startswith(other) for fill in fills for other in fills if fill != other)


def test_existing_data_counts_towards_the_fill_level() -> None:
    held = {"a": StoreSize(total_bytes=100 * GIB, used_bytes=20 * GIB)}
    (filled,) = [step for step in outline(plan_of("fill: 30%", stores=held)) if step[0] == "fill"]
    assert filled == ("fill", 30, 10)
    assert "40.0% full" in refused("fill: 30%", stores={"a": StoreSize(100 * GIB, 40 * GIB)})


def test_bytes_need_no_size_and_a_share_does() -> None:
    (filled,) = [
        planned for planned in plan_of("fill: 7GiB", stores={}).trials if planned.phase == "fill"
    ]
    assert filled.document["stop"]["requests"] == 7
    assert filled.document["case"]["parameters"]["fill_bytes"] == 7 * GIB
    message = refused("fill: 30%", stores={})
    assert "30%" in message
    assert "target a" in message
    assert "such as 500GiB" in message


def test_a_store_is_never_filled_to_the_brim() -> None:
    assert "90% full" in refused("fill: 95GiB")
    for level in ("95%", "0.6", "110%", "-1", "true"):
        with pytest.raises(CampaignError, match="share"):
            plan_of(f"fill: {level}")


@pytest.mark.parametrize(
    ("more", "keys", "fact"),
    [
        ("fill: 1GiB", {"driver": '"null"', "settings": ""}, "driver null"),
        ("fill: 1GiB\nkeep_data: true", {}, "keep_data"),
        ("sweep: {fill: [1GiB, 2GiB]}\nkeep_data: true", {}, "keep_data"),
        ("fill: 12GiB", {"fill_size": "6GiB"}, "at most 5GiB"),
    ],
)
def test_a_fill_that_cannot_be_made_is_refused(more: str, keys: dict[str, Any], fact: str) -> None:
    assert fact in refused(more, **keys)


def test_a_plan_counts_the_bytes_and_the_space_of_its_fills() -> None:
    estimate = plan_of("sweep: {fill: [0%, 30%, 60%]}").estimate(bytes_per_s=GIB)
    assert estimate.bytes_written >= 60 * GIB
    assert 60 * GIB <= estimate.peak_bytes["a"] < 61 * GIB
    assert estimate.time_ns is not None
    assert estimate.time_ns >= 60 * 10**9


def test_a_fill_that_was_cut_off_is_made_again_and_one_that_was_not_stays() -> None:
    plan = plan_of("sweep: {fill: [0%, 30%]}")
    numbers = {planned.phase: planned.id for planned in plan.trials if planned.phase == "fill"}
    before = [planned.id for planned in plan.trials if planned.id < numbers["fill"]]
    again = resume(plan, before, [*before, numbers["fill"]])
    assert [planned.phase for planned in again.trials[:3]] == ["clean-up", "fill", "put"]
    after = resume(plan, [*before, numbers["fill"]], [*before, numbers["fill"]])
    assert [planned.phase for planned in after.trials] == ["put", "get", "clean-up", "clean-up"]


def test_leftovers_of_a_fill_are_found_by_clean_up() -> None:
    plan = plan_of("fill: 30%")
    (filled,) = [planned.document for planned in plan.trials if planned.phase == "fill"]
    (left,) = remains(plan.documents(), {filled["id"]: {}}, DRIVERS)
    assert left.clean_up["dataset"]["bucket_prefix"] == filled["dataset"]["bucket_prefix"]
    assert left.clean_up["dataset"]["objects"] == 30


def test_a_level_reads_back_as_it_was_written() -> None:
    for text, level in (("60%", FillLevel(share=0.6)), ("12.5%", FillLevel(share=0.125))):
        assert str(level) == text
        again = parse_campaign(
            CAMPAIGN.format(driver="s3", settings=", endpoint: http://c", more=f"fill: {text}"),
            (), drivers=DRIVERS, environ={},
        )  # fmt: skip
        assert again.fill == level
        assert again.document()["fill"] == text


CEPH_DF = {"pools": [{"name": "p", "stats": {"stored": 10, "max_avail": 90}}]}


def pool_size(monkeypatch: pytest.MonkeyPatch, output: bytes, code: int = 0) -> Any:
    ended = Ended(
        command=("ceph",), state="ended", exit_code=code, output=output,
        tail="Error EACCES: access denied" if code else "", started_unix_ns=0, ended_unix_ns=0,
    )  # fmt: skip
    monkeypatch.setattr(store_sizes, "run_programs", lambda *arguments, **keys: [ended])
    target: Any = {"name": "a", "driver": "rados", "settings": {"pool": "p"}}
    return store_sizes.read_size(target, Interrupt())


def test_a_pool_is_as_large_as_ceph_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pool_size(monkeypatch, json.dumps(CEPH_DF).encode()) == StoreSize(100, 10)


@pytest.mark.parametrize(
    ("output", "code", "message", "cause"),
    [
        (b"", 1, "access denied", type(None)),
        (b'{"pools": []}', 0, 'pool "p"\n', type(None)),
        (b"[1]", 0, "ceph df", ValueError),
        (b"\xff", 0, "ceph df", UnicodeDecodeError),
        (b'{"pools": [{"name": "p", "stats": {"stored": "x"}}]}', 0, "stored", ValueError),
        (b'{"pools": [{"name": "p", "stats": {"stored": 1}}]}', 0, "free bytes", type(None)),
        (b'{"pools": [{"name": "p"}]}', 0, "free bytes", type(None)),
    ],
)
def test_missing_values_of_ceph_are_errors_with_a_hint(
    output: bytes, code: int, message: str, cause: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=message) as stop:
        pool_size(monkeypatch, output, code)
    # The error has the underlying exception as its cause.
    assert stop.value.__cause__ is not None
    assert isinstance(stop.value.__cause__.__cause__, cause)
    assert str(stop.value.hint).endswith("500GiB")


def test_a_directory_tells_the_size_of_its_file_system(tmp_path: Path) -> None:
    target: Any = {"name": "a", "driver": "file", "settings": {"path": str(tmp_path)}}
    size = store_sizes.read_size(target, Interrupt())
    status = os.statvfs(tmp_path)
    assert size is not None
    assert size.total_bytes <= status.f_blocks * status.f_frsize
    absent: Any = {**target, "settings": {"path": str(tmp_path / "absent")}}
    with pytest.raises(InputError, match="No such"):
        store_sizes.read_size(absent, Interrupt())


def write_campaign(tmp_path: Path, more: str) -> Path:
    (tmp_path / "data").mkdir()
    campaign = tmp_path / "c.yaml"
    text = CAMPAIGN.replace("fill_size: 1GiB", "fill_size: 1MiB")
    campaign.write_text(text.format(driver="file", settings=f", path: {tmp_path}/data", more=more))
    return campaign


def test_a_run_fills_measures_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A store of 40 MiB: what lies in the directory, and what is left of them.
    def size_of(target: Any, interrupt: Interrupt) -> StoreSize:
        files = (tmp_path / "data").rglob("*")
        used = sum(file.stat().st_size for file in files if file.is_file())
        return StoreSize(40 << 20, used)

    monkeypatch.setattr(store_sizes, "read_size", size_of)
    monkeypatch.setattr("loadstone.cli.running.stores.read_size", size_of)
    campaign = write_campaign(tmp_path, "sweep: {fill: [0%, 20%, 40%]}")
    code = main(["run", str(campaign), "-o", str(tmp_path / "run"), "-q"])
    assert settled(code, capsys.readouterr().err) == 0
    assert list((tmp_path / "data").iterdir()) == []
    run = read_run(tmp_path / "run")
    assert run.manifest["stores"] == {"a": {"total_bytes": 40 << 20, "used_bytes": 0}}
    fills = [record for record in run.records if record.trial["phase"] == "fill"]
    after = [fill.target_state["after"]["store"]["used_bytes"] >> 20 for fill in fills]
    assert after == [8, 16]
    described = describe_fill(run) or ""
    assert "20 % full" in described
    assert "20.0% to 20" in described
    rules = {finding.rule for finding in analyse(run).findings}
    assert "fill-missed" not in rules
    assert rules & {"slower-when-fuller", "fill-and-rate"}
    assert main(["report", str(tmp_path / "run"), "-f", "json"]) == 0
    cells = json.loads(capsys.readouterr().out)["rounds"]
    assert {cell["parameters"]["fill_percent"] for cell in cells} == {0, 20, 40}


def test_a_preview_says_what_filling_costs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    campaign = write_campaign(tmp_path, "sweep: {fill: [0, 8MiB]}")
    assert main(["run", str(campaign), "--dry-run"]) == 0
    assert "0 B, 8 MiB" in capsys.readouterr().out
    assert main(["run", str(campaign), "--dry-run", "--trials"]) == 0
    shown = capsys.readouterr().out
    assert "(fill)" in shown
    assert "8 requests" in shown
    assert list((tmp_path / "data").iterdir()) == []


def test_a_fill_that_is_stopped_is_cleaned(tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path, "fill: 2GiB")
    run = tmp_path / "run"
    command = [sys.executable, "-m", "loadstone"]
    with subprocess.Popen(
        [*command, "run", str(campaign), "-o", str(run), "-q"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        while process.poll() is None and not list((tmp_path / "data").glob("*-f1-*/*")):
            pass
        process.kill()
    assert list((tmp_path / "data").iterdir())
    subprocess.run([*command, "clean", str(run), "--yes"], check=True, stdout=subprocess.DEVNULL)
    assert list((tmp_path / "data").iterdir()) == []


def recorded(
    tmp_path: Path, rates: Mapping[int, int], fill_of_level: Mapping[int, float], *, blocks: int = 1
) -> Any:
    folder = Folder(tmp_path / "run", "filled", seconds=3)
    levels = [(block, *level) for block in range(1, blocks + 1) for level in rates.items()]
    for number, (block, level, rate) in enumerate(levels, start=1):
        document = trial(number, "a", "get", block=block)
        document["case"]["parameters"] |= {"fill_percent": level}
        # Blocks differ by a few percent, as repeated trials do.
        folder.add(document, round(rate * (1 + number % 3 / 50)))
    run = read_run(folder.close(campaign={"name": "f", "targets": {"a": {}}}, campaign_file=""))
    for record in run.records:
        level = record.trial["case"]["parameters"]["fill_percent"]
        state = {"total_bytes": 1000, "used_bytes": round(1000 * fill_of_level[level])}
        object.__setattr__(record, "target_state", {"before": {"store": state}})
    return SimpleNamespace(
        run=run, findings={finding.rule: finding for finding in analyse(run).findings}
    )


def test_a_store_that_declines_is_a_finding_and_a_steady_one_a_note(tmp_path: Path) -> None:
    levels = {0: 0.01, 30: 0.3, 60: 0.61}
    (tmp_path / "falls").mkdir()
    rates = {0: 500, 30: 450, 60: 300}
    falls = recorded(tmp_path / "falls", rates, levels, blocks=5).findings
    (share,) = falls["slower-when-fuller"].evidence
    assert share.value == pytest.approx(0.6, rel=0.05)
    for fact in ("60 %", "0 %", "95 % CI", "5 trials"):
        assert fact in falls["slower-when-fuller"].statement
    assert "fill-and-rate" not in falls
    assert "fill-missed" not in falls
    (tmp_path / "holds").mkdir()
    holds = recorded(tmp_path / "holds", {0: 500, 30: 500, 60: 499}, levels, blocks=5).findings
    assert "slower-when-fuller" not in holds
    assert "fill-and-rate" in holds


@pytest.mark.parametrize("blocks", [1, 4])
def test_no_decline_is_claimed_of_too_few_trials(tmp_path: Path, blocks: int) -> None:
    levels = {0: 0.01, 60: 0.6}
    findings = recorded(tmp_path, {0: 500, 60: 300}, levels, blocks=blocks).findings
    assert "slower-when-fuller" not in findings
    (share,) = findings["fill-and-rate"].evidence
    assert share.value == pytest.approx(0.6, rel=0.05)


def test_a_store_that_is_not_as_full_as_it_is_said_to_be_is_a_finding(tmp_path: Path) -> None:
    recorded_findings = recorded(tmp_path, {30: 500, 60: 500}, {30: 0.3, 60: 0.45}).findings
    assert "45.0%" in recorded_findings["fill-missed"].statement
    assert "60%" in recorded_findings["fill-missed"].statement
