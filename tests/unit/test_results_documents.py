"""Run folders that were edited by hand: an error that names the file and the value."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadstone.analysis import analyse
from loadstone.analysis.measured import reading
from loadstone.cli import main
from loadstone.cli.messages import FORM
from loadstone.errors import ResultError
from loadstone.results import layout
from loadstone.results.documents import JUDGED
from loadstone.results.store import read_run
from tests.unit.synthetic_run import write_sweep


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_sweep(tmp_path / "run", seconds=4, blocks=1)


def change(path: Path, way: str, value: Any) -> None:
    document = json.loads(path.read_text())
    inner = document
    *outer, last = [int(step) if step.isdigit() else step for step in way.split(".")]
    for step in outer:
        inner = inner[step]
    inner[last] = value
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("way", "value", "expected"),
    [
        ("plan.0.case", [], "an object"),
        ("plan.0.case.parameters.threads", True, "a whole number"),
        ("plan.0.round", "first", "a whole number"),
        ("plan.0.mix.0.operation", 7, "text"),
        ("plan.0.dataset", True, "an object"),
        ("host", "a host", "an object"),
        ("host.cpu", "fast", "an object"),
        ("hosts", 2, "a list"),
        ("seed", 10**30, "a number that can be"),
        ("calibration", True, "an object"),
        ("plan.0.target.settings.pool", 7, "text"),
        ("host.cpu.cores", "all", "a whole number"),
    ],
)
def test_a_value_of_another_kind_in_the_manifest_is_named(
    run: Path, way: str, value: Any, expected: str
) -> None:
    change(run / "manifest.json", way, value)
    with pytest.raises(ResultError) as caught:
        read_run(run)
    for fact in ('manifest.json"', f'"{way}"', repr(value), expected):
        assert fact in caught.value.message


@pytest.mark.parametrize(
    ("key", "value", "place", "missing"),
    [
        ("hosts", [{"fingerprint": {}}], "hosts.0", "name"),
        ("ceilings", [{"kind": "fio"}], "ceilings.0", "id"),
        ("nodes", {"a": {"probes": [{"path": "/x"}]}}, "nodes.a.probes.0", "kind"),
        (
            "nodes",
            {"a": {"paths": {"b": {"ping": {"sent": 1}}}}},
            "nodes.a.paths.b.ping",
            "received",
        ),
        ("stores", {"ceph": {"total_bytes": 1}}, "stores.ceph", "used_bytes"),
    ],
)
def test_missing_keys_of_a_manifest_are_named(
    run: Path, key: str, value: Any, place: str, missing: str
) -> None:
    change(run / "manifest.json", key, value)
    with pytest.raises(ResultError, match=f'manifest.json", "{place}": lacks "{missing}"'):
        read_run(run)


def test_a_value_of_another_kind_in_a_ceiling_is_named(run: Path) -> None:
    (run / "ceilings").mkdir()
    path = run / "ceilings" / "C001.json"
    whole = {
        "ceiling_format": 1,
        "ceiling": {"id": "C001"},
        "measurements": [{"bytes_per_s": "fast"}],
    }
    path.write_text(json.dumps(whole))
    with pytest.raises(ResultError, match=r'C001.json", "measurements.0.bytes_per_s": found'):
        read_run(run)


def test_a_value_of_another_kind_in_a_record_is_named(run: Path) -> None:
    record = min((run / "trials").glob("*.json"))
    change(record, "summary.iterations.0.end_ns", "late")
    with pytest.raises(ResultError, match=r'"summary.iterations.0.end_ns": found \'late\''):
        read_run(run)


def test_missing_keys_of_a_summary_of_queries_are_named(run: Path) -> None:
    ended = {"stream": 1, "query": "Q01", "outcome": "ok", "start_ns": 0}
    record = min((run / "trials").glob("*.json"))
    change(record, "summary.streams", {"time_ns": 1, "queries": [ended]})
    with pytest.raises(ResultError, match=r'"summary.streams.queries.0": lacks "end_ns"'):
        read_run(run)


def test_times_stated_by_another_tool_are_complete_or_refused(run: Path) -> None:
    record = min((run / "trials").glob("*.json"))
    change(record, "summary.stated_latency", {"get": {"count": 7, "mean_ns": 1, "min_ns": 1}})
    with pytest.raises(ResultError, match=r'"summary.stated_latency.get": lacks "max_ns"'):
        read_run(run)


def test_observations_of_a_target_are_complete_or_refused(run: Path) -> None:
    record = min((run / "trials").glob("*.json"))
    change(record, "target_state", {"before": {"store": {"total_bytes": 1}}})
    with pytest.raises(ResultError, match=r'"target_state.before.store": lacks "used_bytes"'):
        read_run(run)
    change(record, "target_state", {"after": {"ceph": {"health": "HEALTH_OK", "fill": "half"}}})
    with pytest.raises(ResultError, match=r'"target_state.after.ceph.fill": found \'half\''):
        read_run(run)


def test_an_endless_document_is_refused(run: Path) -> None:
    (run / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(ResultError, match="JSON"):
        read_run(run)


@pytest.mark.parametrize("way", JUDGED)
def test_a_trial_that_does_not_say_what_was_measured_is_refused(run: Path, way: str) -> None:
    path = run / "manifest.json"
    document = json.loads(path.read_text())
    *steps, last = way.split(".")
    inner = document["plan"][0]
    for step in steps:
        inner = inner[step]
    del inner[last]
    path.write_text(json.dumps(document))
    with pytest.raises(ResultError, match=f'lacks "{way}"'):
        analyse(read_run(run))


@pytest.mark.parametrize("command", ["report", "analyse", "compare"])
def test_inconsistent_input_is_an_error_and_not_a_crash(
    run: Path,
    command: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LOADSTONE_DEBUG", raising=False)
    monkeypatch.setenv(FORM, "json")
    # As if what is missing here had been forgotten.
    monkeypatch.setattr(reading, "check_judged", lambda path, document: None)
    documents: dict[Path, Callable[[Any], Any]] = {
        path: lambda document: document["trial"] for path in (run / "trials").glob("*.json")
    }
    for path, trial_of in documents.items():
        document = json.loads(path.read_text())
        del trial_of(document)["case"]
        path.write_text(json.dumps(document))
    names = [str(run)] * (2 if command == "compare" else 1)
    assert main([command, *names]) == 1
    error = json.loads(capfd.readouterr().err)["error"]
    assert error["kind"] == "unreadable"
    assert "KeyError: 'case'" in error["message"]
    assert "--debug" in error["hint"]


@pytest.mark.parametrize(
    "content",
    [
        b'{"a": ["plain text, \\"quoted\\"", {"b/c": 1.5, "d": null}]}',
        b'{"a": "rises \\u001b[31m", "b\\u0007": 1}',
        '{"a": "deletes \x7f", "b": "turns \u202e round"}'.encode(),
        # UTF-16 may consist of ASCII bytes: U+202E is a full stop after a space.
        '{"a": "turns \u202e round"}'.encode("utf-16-le"),
        '{"a": "turns \u202e round"}'.encode("utf-16-be"),
    ],
)
def test_a_document_to_be_shown_steers_no_terminal_however_it_is_written(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "document.json"
    path.write_bytes(content)
    written = layout.read_json(path)
    shown = layout.read_plain(path)
    assert shown == layout.plain(written)
    texts = [*shown, *(text for text in shown.values() if isinstance(text, str))]
    assert all(text.isprintable() for text in texts)
