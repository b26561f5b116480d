"""Audits find and rightly name each lie of a store, and accuse no sound one."""

import json
import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from loadstone.analysis.audits import AUDIT_FAILED
from loadstone.cli import exit_code
from tests.conformance import store_under_test
from tests.system.command import ERRORS_AS_JSON, NO_STATE, CommandResult, loadstone, start
from tests.system.test_clean_up_counts import KEYS

OBJECTS = 2000
LOAD = ("-t", "8", "-n", str(OBJECTS), "-b", "2", "--object-prefix", "object-")


def bench(url: str, run: Path, operations: str, *options: str) -> CommandResult:
    return loadstone(
        "bench", operations, url, *LOAD, "--audit", *options, "-o", run, environment=KEYS
    )


def audit_of(run: Path) -> dict[str, Any]:
    audit = loadstone("report", run, "-f", "json").json()["audit"]
    assert isinstance(audit, dict)
    return audit


def lies_in(log: Path, since: int = 0) -> dict[str, set[tuple[str, str]]]:
    """Return the keys that a store has lied about since so many writes each, by the kind."""
    lies: dict[str, set[tuple[str, str]]] = {}
    for line in log.read_text().splitlines():
        lie = json.loads(line)
        if lie["number"] >= since:
            lies.setdefault(lie["kind"], set()).add((lie["bucket"], lie["key"]))
    return lies


def named(audit: dict[str, Any]) -> dict[str, set[tuple[str, str]]]:
    """Return the keys of an audit's findings, by kind of finding."""
    keys_of_kind: dict[str, set[tuple[str, str]]] = {}
    for finding in audit["findings"]:
        keys_of_kind.setdefault(finding["kind"], set()).add((finding["bucket"], finding["key"]))
    return keys_of_kind


LIES = {
    "lost_write": ("put", "16KiB", {"lost"}),
    "corrupt_byte": ("put", "16KiB", {"corrupt"}),
    # Truncation within the last page cannot be distinguished from damage there.
    "torn": ("put,put", "256KiB", {"torn", "corrupt"}),
    "resurrect": ("put,delete", "4KiB", {"resurrected"}),
}


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_found_and_rightly_named_and_nothing_else(lie: str, tmp_path: Path) -> None:
    operations, size, kinds = LIES[lie]
    log = tmp_path / "lies.jsonl"
    lies = {lie: 0.01, "prefix": "object-", "log": str(log), "resurrect_after_ms": 1}
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        finished = bench(url, tmp_path / "run", operations, "-s", size)
    audit = audit_of(tmp_path / "run")
    wrong = named(audit)
    # A rewritten object is correct again.
    written_wrong = lies_in(
        log, operations.count("put") - 1 if "write" in lie or lie == "torn" else 0
    )[lie]
    assert set(wrong) <= kinds
    assert len(wrong.get("corrupt", ())) < len(written_wrong) / 4 or lie == "corrupt_byte"
    assert set().union(*wrong.values()) == written_wrong
    assert audit["wrong"] == len(audit["findings"]) == len(written_wrong) > 0
    assert audit["acknowledged"] == audit["read_back"]
    assert finished.code == exit_code.FAILED
    report = loadstone("report", tmp_path / "run", "-f", "json").json()
    assert {result["standing"] for result in report["results"]} == {"void"}
    assert AUDIT_FAILED in {finding["rule"] for finding in report["findings"]}


def test_an_overwrite_that_is_lost_is_stale_and_names_the_calls(tmp_path: Path) -> None:
    log = tmp_path / "lies.jsonl"
    lies = {"stale_read": 0.01, "prefix": "object-", "log": str(log)}
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        bench(url, tmp_path / "run", "put,put", "-s", "4KiB")
    audit = audit_of(tmp_path / "run")
    assert set(audit["findings"][0]) >= {"kind", "bucket", "key", "calls", "target", "audit"}
    assert {finding["kind"] for finding in audit["findings"]} == {"stale"}
    for finding in audit["findings"]:
        first, second, read, again = finding["calls"]
        assert (first["version"], second["version"]) == (1, 2)
        assert {first["operation"], second["operation"]} == {"put"}
        assert (read["outcome"], again["operation"]) == ("stale", "get")
        assert first["from_unix_ns"] < second["to_unix_ns"] < read["to_unix_ns"]
    wrong = {(finding["bucket"], finding["key"]) for finding in audit["findings"]}
    assert wrong <= lies_in(log)["stale_read"]
    page = tmp_path / "page.html"
    assert not loadstone("report", tmp_path / "run", "-f", "html", "-o", page).code
    line = re.search(r'<p class="caution void"><b>Audit</b> (.*)</p>', page.read_text())
    assert line is not None
    assert f"{audit['wrong']:,} wrong" in line[1]


SOUND = {
    "put": (),
    "put,get,put,delete": (),
    "put,bulk_delete": (),
    "multipart_put": ("--part-size", "5MiB", "-s", "6MiB", "-n", "8"),
    "mixed": ("-d", "2s"),
    "get=1,put=3,delete=2": ("-d", "2s"),
}


@pytest.mark.parametrize("interface", ["s3", "swift"])
@pytest.mark.parametrize("operations", SOUND)
def test_a_correct_store_gives_no_findings(operations: str, interface: str, tmp_path: Path) -> None:
    with store_under_test.store() as url:
        port = url.rsplit(":", 1)[1]
        address = {"s3": url, "swift": f"swift+http://127.0.0.1:{port}/auth/v1.0"}[interface]
        if interface == "swift" and operations == "multipart_put":
            pytest.skip("objects in segments are looked at by S3")
        finished = bench(address, tmp_path / "run", operations, "-s", "16KiB", *SOUND[operations])
    assert finished.code == 0, finished.err
    audit = audit_of(tmp_path / "run")
    assert audit["findings"] == []
    assert audit["wrong"] == 0
    objects = 8 if operations == "multipart_put" else OBJECTS
    assert audit["read_back"] == audit["acknowledged"] >= objects
    assert audit["unknown"] == audit["unanswered"] == audit["listings_failed"] == 0
    assert 0 < audit["wrong_share_max"] < 3.1 / objects


def test_requests_that_failed_leave_open_what_is_there(tmp_path: Path) -> None:
    errors = {"put": {"rate": 0.1, "status": 500}, "delete": {"rate": 0.1, "status": 500}}
    with store_under_test.store(faults={"seed": 5, "errors": errors}) as url:
        bench(url, tmp_path / "run", "put,put,delete", "-s", "4KiB")
    audit = audit_of(tmp_path / "run")
    assert audit["findings"] == []
    assert audit["unknown"] > OBJECTS / 10
    assert audit["acknowledged"] + audit["unknown"] > OBJECTS


def test_a_kept_run_is_audited_again_and_a_sample_states_its_power(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with store_under_test.store() as url:
        result = bench(url, run, "put", "-s", "4KiB", "--keep-data")
        assert result.code == 0, result.err
        again = loadstone("audit", run, "--sample", "500", environment=KEYS)
        assert again.code == 0, again.err
        sampled = loadstone("report", run, "-f", "json").json()["audits"][-1]
        assert 300 < sampled["read_back"] < 700
        assert 0.002 < sampled["wrong_share_max"] < 0.01
        client = store_under_test.s3(url)
        listed = client.list_objects_v2(Bucket=client.list_buckets()["Buckets"][0]["Name"])
        key = next(entry["Key"] for entry in listed["Contents"] if "object-" in entry["Key"])
        client.delete_object(Bucket=listed["Name"], Key=key)
        finished = loadstone("audit", run, environment=KEYS)
        assert finished.code == exit_code.FAILED
        audit = loadstone("report", run, "-f", "json").json()["audits"][-1]
        assert named(audit) == {"lost": {(listed["Name"], key)}}
        ledger = run / "ledger" / "0001.ledger"
        written = ledger.read_bytes()
        ledger.write_bytes(written[:-1])
        assert loadstone("audit", run, environment=KEYS).code == exit_code.FAILED
        ledger.write_bytes(written)
        assert loadstone("clean", run, "--yes", environment=KEYS).code == 0
        nothing = loadstone("audit", run, environment=KEYS)
        assert nothing.code == exit_code.FAILED


def test_an_audit_of_a_store_that_is_gone_ends_soon(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with store_under_test.store() as url:
        assert bench(url, run, "put", "-s", "4KiB", "--keep-data").code == 0
    gone = loadstone(*ERRORS_AS_JSON, "audit", run, environment=KEYS)
    assert (gone.code, gone.kinds) == (exit_code.FAILED, ["unreachable"])
    assert not (run / "audits").exists()


def kill_at(url: str, run: Path, operations: str, after_s: float) -> None:
    """Start a load, and kill its process after so long."""
    process = start(
        "bench", operations, url, *LOAD, "-s", "4KiB", "--audit", "--keep-data", "-o", run,
        environment={**os.environ, "XDG_STATE_HOME": NO_STATE, **KEYS},
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not (run / "ledger").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.wait()


def check_killed(number: int, folder: Path) -> None:
    """Kill a client at some moment, and check the store against the client's ledger."""
    operations = ("put", "put,put", "get=1,put=3,delete=2", "put,delete")[number % 4]
    with store_under_test.store() as url:
        kill_at(url, folder / "run", operations, random.Random(number).uniform(0.0, 1.0))
        finished = loadstone("audit", folder / "run", environment=KEYS)
        assert finished.code == 0, (finished.out, finished.err)


@pytest.mark.parametrize("number", range(4))
def test_a_killed_clients_ledger_claims_what_was_flushed_and_no_more(
    number: int, tmp_path: Path
) -> None:
    check_killed(number, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("number", range(4, 44))
def test_a_client_killed_at_many_moments_claims_no_more(number: int, tmp_path: Path) -> None:
    check_killed(number, tmp_path)


def test_phases_without_a_ledger_are_refused_with_audit_when_planning(tmp_path: Path) -> None:
    (tmp_path / "blocks").write_bytes(bytes(1 << 20))
    finished = loadstone("bench", "write", f"block:{tmp_path / 'blocks'}", "--audit", "--dry-run")
    assert finished.code != 0
    with store_under_test.store() as url:
        finished = loadstone("bench", "sessions", url, "--audit", "--dry-run", environment=KEYS)
        assert finished.code != 0


def test_a_run_that_only_writes_says_that_nothing_was_read_back(tmp_path: Path) -> None:
    with store_under_test.store() as url:
        put = loadstone("bench", "put", url, *LOAD, "-o", tmp_path / "put", environment=KEYS)
        both = loadstone("bench", "put,get", url, *LOAD, "-o", tmp_path / "both", environment=KEYS)
    assert put.out.count("--audit") == 1
    assert both.out.count("--audit") == 0


AGAIN = """\
name: again
targets: {{store: {{driver: s3, endpoint: "{url}"}}}}
dataset: {{objects: 100, size: 4KiB, object_prefix: object-}}
load: {{threads: 4}}
phases: {phases}
audit: {audit}
"""


def run_twice_audited(url: str, folder: Path, phases: str, audit: str) -> list[dict[str, Any]]:
    """Run a campaign whose objects are read back twice; return both audits."""
    path = folder / "again.yaml"
    path.write_text(AGAIN.format(url=url, phases=phases, audit=audit))
    loadstone("run", path, "-o", folder / "run", environment=KEYS)
    audits: list[dict[str, Any]] = loadstone("report", folder / "run", "-f", "json").json()[
        "audits"
    ]
    return audits


def test_a_wrong_second_reading_names_the_right_first_one(
    tmp_path: Path,
) -> None:
    lies = {"stale_read": 0.3, "prefix": "object-"}
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        audits = run_twice_audited(
            url, tmp_path, "[put, {op: put, name: over}]", "{again_after: 100ms}"
        )
    first, second = audits
    was_wrong = {(finding["bucket"], finding["key"]) for finding in first["findings"]}
    went_wrong = 0
    for finding in second["findings"]:
        earlier = [call for call in finding["calls"] if call["trial"] == first["trials"][0]]
        assert bool(earlier) is ((finding["bucket"], finding["key"]) not in was_wrong)
        assert all(call["outcome"] == "ok" for call in earlier)
        went_wrong += bool(earlier)
    assert went_wrong > 0


def test_a_history_is_judged_again_with_what_the_first_reading_saw(tmp_path: Path) -> None:
    phases = "[{mix: {get: 1, put: 1}, duration: 500ms}]"
    with store_under_test.store() as url:
        audits = run_twice_audited(url, tmp_path, phases, "{history: true, again_after: 100ms}")
    first, second = (audit["histories"][0]["calls"] for audit in audits)
    assert second == first + 100
    assert not any(audit["wrong"] for audit in audits)
