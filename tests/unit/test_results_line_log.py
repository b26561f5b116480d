"""Every line of a log has a checksum, so that a changed line is not believed."""

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from loadstone.campaign.parse import parse_campaign
from loadstone.campaign.planning.plan import make_plan
from loadstone.cli import main
from loadstone.cli.running import session
from loadstone.execution import runner
from loadstone.execution.cleaning import begun
from loadstone.results import line_log
from loadstone.results.hook_log import HOOKS
from loadstone.results.intents import INTENTS, Intents, note_intent
from loadstone.results.line_log import append_line, read_lines
from loadstone.results.store import read_run
from loadstone.results.writer import RunWriter
from tests.unit.campaign_drivers import DRIVERS, STORE
from tests.unit.fake_loadgen import FakeLoadgen

KIND: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
KEYS = frozenset(("trial", "names", "said"))
ENTRIES: list[dict[str, Any]] = [
    {"trial": "0001", "names": ["b-0", "b-1"]},
    {"trial": "0002", "said": 'ä "quoted", "crc32": "00000000"}'},
    {"trial": "0003", "names": []},
]


def written(path: Path) -> bytes:
    for entry in ENTRIES:
        append_line(path.parent, path.name, entry)
    return path.read_bytes()


def flipped(content: bytes) -> Iterator[bytes]:
    """Yield the content with each of its bits flipped."""
    for at in range(len(content)):
        for bit in range(8):
            yield content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


def test_written_values_are_read(tmp_path: Path) -> None:
    written(tmp_path / "log")
    assert read_lines(tmp_path / "log", KIND, KEYS) == line_log.Lines(entries=tuple(ENTRIES))
    assert read_lines(tmp_path / "absent", KIND, KEYS) == line_log.Lines()


def test_the_checksum_is_that_of_zlib(tmp_path: Path) -> None:
    line = written(tmp_path / "log").splitlines()[0]
    text, _, end = line.rpartition(b', "crc32": "')
    assert end == f'{zlib.crc32(text):08x}"}}'.encode()


def test_no_flipped_bit_of_a_log_passes_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    path = tmp_path / "log"
    for content in flipped(written(path)):
        path.write_bytes(content)
        lines = read_lines(path, KIND, KEYS)
        assert lines.is_damaged, content
        assert all(entry in ENTRIES for entry in lines.entries), content
        # The next line neither completes it nor is lost with it.
        append_line(path.parent, path.name, {"trial": "0004"})
        after = read_lines(path, KIND, KEYS)
        assert after.is_damaged, content
        assert after.entries == (*lines.entries, {"trial": "0004"}), content


def test_a_log_that_was_cut_off_anywhere_is_whole_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    whole = written(path)
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        # A line that lacks no more than its line feed is whole.
        count = sum(size >= end - 1 for end in ends)
        assert read_lines(path, KIND, KEYS) == line_log.Lines(entries=tuple(ENTRIES[:count]))
        append_line(path.parent, path.name, {"trial": "0004"})
        wanted = (*ENTRIES[:count], {"trial": "0004"})
        assert read_lines(path, KIND, KEYS) == line_log.Lines(entries=wanted)


def test_lines_of_earlier_builds_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in ENTRIES))
    append_line(path.parent, path.name, {"trial": "0004"})
    wanted = (*ENTRIES, {"trial": "0004"})
    assert read_lines(path, KIND, KEYS) == line_log.Lines(entries=wanted)
    path.write_text('{"trial": "0001", "nam%s": []}\n')
    assert read_lines(path, KIND, KEYS) == line_log.Lines(is_damaged=True)


def interrupted_run(folder: Path, loadgen: FakeLoadgen) -> None:
    """Leave a run whose first trial was killed after it had noted its intent."""
    text = f"name: test\n{STORE}dataset: {{objects: 10, size: 1}}\nload: {{threads: 1}}\n"
    campaign = parse_campaign(text + "phases: [put, get]\n", drivers=DRIVERS, environ={})
    plan = make_plan(campaign, DRIVERS)
    manifest = {
        "name": "test",
        "run": plan.run,
        "seed": plan.seed,
        "plan": plan.documents(),
        "started": runner.now().isoformat(),
    }
    writer = RunWriter.create(folder, manifest)
    note_intent(folder, plan.trials[0].document, ["loadstone"], "now")
    append_line(folder, HOOKS, {"hook": "a", "at": "run-start"})
    writer.close()


@pytest.mark.parametrize("name", [INTENTS, HOOKS])
def test_a_damaged_log_of_a_run_is_named(
    tmp_path: Path, loadgen: FakeLoadgen, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    interrupted_run(folder, loadgen)
    assert read_run(folder).altered == ()
    path = folder / name
    path.write_bytes(path.read_bytes().replace(b'"', b"'", 1))
    assert read_run(folder).altered == (name,)
    assert main(["report", str(folder), "-f", "csv"]) == 1
    assert str(path) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "entry"),
    [(INTENTS, {"target": "a", "names": 7}), (HOOKS, {"hook": "a", "exit_code": "0"})],
)
def test_a_line_with_a_value_of_another_kind_is_damage(
    tmp_path: Path, loadgen: FakeLoadgen, name: str, entry: dict[str, Any]
) -> None:
    folder = tmp_path / "run"
    interrupted_run(folder, loadgen)
    append_line(folder, name, entry)
    assert read_run(folder).altered == (name,)


def test_a_damaged_journal_adopts_nothing_and_hides_no_trial_from_a_clean_up(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    folder = tmp_path / "run"
    interrupted_run(folder, loadgen)
    planned = [trial["id"] for trial in read_run(folder).manifest["plan"]]
    assert set(begun(folder)) == {"0001"}
    path = folder / INTENTS
    # Another place, which may be another's.
    path.write_bytes(path.read_bytes().replace(b'["loadstone"]', b'["loadstonf"]'))
    document = dict(read_run(folder).manifest["plan"][0])
    assert Intents(folder).adopted(document) == document
    assert set(begun(folder)) == set(planned)


def test_a_run_goes_on_without_a_damaged_line_and_says_so(
    tmp_path: Path,
    loadgen: FakeLoadgen,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "run"
    text = 'name: t\ntargets: {one: {driver: "null"}}\ndataset: {objects: 10, size: 1}\n'
    campaign = parse_campaign(text + "load: {threads: 1}\nphases: [put]\n")
    loadgen.behave["0001"] = lambda control: {"state": "interrupted"}
    # Its histograms are empty, which no report reads.
    monkeypatch.setattr(session, "_print_report", lambda folder, form, **options: None)
    session.measure(campaign, folder)
    append_line(folder, HOOKS, {"hook": "a"})
    (folder / HOOKS).write_bytes((folder / HOOKS).read_bytes().replace(b'"a"', b'"c"'))
    loadgen.behave.clear()
    capsys.readouterr()
    assert session.measure(campaign, folder, resume=True) == 0
    assert f'"{folder / HOOKS}"' in capsys.readouterr().err
    run = read_run(folder)
    assert (run.state, run.altered) == ("finished", (HOOKS,))
