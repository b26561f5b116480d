"""Audits of sessions and traces: each call of a script is judged, on sound and on lying stores."""

import csv
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loadstone.cli import exit_code
from tests.conformance import store_under_test
from tests.system.command import CommandResult, loadstone
from tests.system.test_audit import audit_of, lies_in, named
from tests.system.test_clean_up_counts import KEYS
from tests.system.test_history import STALE, history_of, is_proved

CAMPAIGN = """\
name: sessions
targets: {{store: {target}}}
dataset: {{buckets: 2, object_prefix: data/, size: 4KiB}}
load: {{threads: 8}}
phases: [{{name: script, script: {script}}}]
audit: {{history: true, model: {model}}}
"""
SESSIONS = 12
OBJECTS = 40
LENGTHS = (16, 63, 64, 4096, 5000, 12_300)
NAMES = [{"env": name} for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")]


def target_of(url: str, interface: str = "s3") -> str:
    """Return an interface of a store as a target in JSON, which is YAML."""
    if interface == "s3":
        return json.dumps(
            {"driver": "s3", "endpoint": url, "access_key": NAMES[0], "secret_key": NAMES[1]}
        )
    password = {"env": "ST_KEY"}
    auth = {"auth_url": f"{url}/auth/v1.0", "user": KEYS["ST_USER"], "password": password}
    return json.dumps({"driver": "swift", **auth})


def shared_actions(actions: int, chance: random.Random) -> Iterator[tuple[Any, ...]]:
    """Yield actions of sessions that read, overwrite and delete the same objects."""
    for _ in range(actions):
        session, key = chance.randrange(SESSIONS), f"shared/{chance.randrange(OBJECTS)}"
        action = chance.choices(("READ", "WRITE", "DELETE"), (12, 6, 1))[0]
        size = chance.choice(LENGTHS) if action == "WRITE" else ""
        yield session, action, key, size, "" if action == "WRITE" else "any"


def write_script(path: Path, actions: int, length_bytes: int | None = None) -> Path:
    chance = random.Random(7)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(("session", "action", "object", "size", "expect"))
        # Objects that are read before the script writes them must be prepared.
        table.writerows((0, "READ", f"before/{n}", 5000, "exists") for n in range(5))
        for session, action, key, size, expect in shared_actions(actions, chance):
            written = size if length_bytes is None or size == "" else length_bytes
            table.writerow((session, action, key, written, expect))
    return path


def audited(
    folder: Path, target: str, script: str, model: str = "linear", run: str = "run"
) -> tuple[CommandResult, dict[str, Any]]:
    """Run a script in a campaign whose calls are judged, and return its audit."""
    path = folder / f"{run}.yaml"
    path.write_text(CAMPAIGN.format(target=target, script=script, model=model))
    finished = loadstone("run", path, "-o", folder / run, environment=KEYS)
    return finished, audit_of(folder / run)


USERS = "{generator: users, settings: {users: 6, actions: 200, copies: 4, recipients: [1, 3]}}"


@pytest.mark.parametrize(
    ("interface", "script", "model"),
    [
        *((interface, "shared", "linear") for interface in ("s3", "swift", "file")),
        *((interface, "users", "linear") for interface in ("s3", "swift")),
        *(("s3", "shared", model) for model in ("read-after-write", "last-writer-wins")),
    ],
)
def test_no_call_of_sessions_contradicts_a_sound_store(
    interface: str, script: str, model: str, tmp_path: Path
) -> None:
    file = write_script(tmp_path / "shared.csv", 2000)
    named_script = USERS if script == "users" else f"{{file: {file}}}"
    with store_under_test.store() as url:
        folder = json.dumps({"driver": "file", "path": str(tmp_path / "data"), "layout": "rename"})
        target = folder if interface == "file" else target_of(url, interface)
        (tmp_path / "data").mkdir()
        finished, audit = audited(tmp_path, target, named_script, model)
    assert finished.code == 0, (finished.out, finished.err)
    history = history_of(audit)
    assert (audit["wrong"], audit["findings"], history["undecided"]) == (0, [], 0)
    assert history["calls"] > 600
    # Objects that were prepared are judged, too.
    assert history["objects"] >= (OBJECTS + 5 if script == "shared" else 100)


LIES = {
    "lost_write": {"lost", "stale"},
    "stale_read": STALE,
    "corrupt_byte": {"corrupt"},
    "resurrect": {"resurrected", "lost", "stale"},
}


@pytest.mark.parametrize("interface", ["s3", "swift"])
@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_found_in_what_sessions_share_and_rightly_named(
    lie: str, interface: str, tmp_path: Path
) -> None:
    log = tmp_path / "lies.jsonl"
    rate = {"resurrect": 0.3, "stale_read": 0.01}.get(lie, 0.03)
    lies = {lie: rate, "prefix": "data/", "log": str(log), "resurrect_after_ms": 1}
    file = write_script(tmp_path / "shared.csv", 3000)
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        finished, audit = audited(tmp_path, target_of(url, interface), f"{{file: {file}}}")
    assert finished.code == exit_code.FAILED, (finished.out, finished.err)
    lied_about, wrong = lies_in(log)[lie], named(audit)
    assert set(wrong) <= LIES[lie]
    contradicted = set().union(*wrong.values())
    # A lie does not show when the object is overwritten before it is read.
    assert contradicted <= lied_about
    assert len(contradicted) > len(lied_about) / 3
    assert all(is_proved(finding) for finding in audit["findings"])
    assert {call["version"] for finding in audit["findings"] for call in finding["calls"]} <= {
        None, *range(1, 500)
    }  # fmt: skip
    report = loadstone("report", tmp_path / "run", "-f", "json").json()
    assert {result["standing"] for result in report["results"]} == {"void"}
    replay = tmp_path / "run" / str(audit["findings"][0]["replay"])
    assert loadstone("run", replay, "--dry-run", environment=KEYS).code == 0


@pytest.mark.parametrize("lie", [None, "lost_write", "resurrect"])
def test_a_trace_is_replayed_and_judged(lie: str | None, tmp_path: Path) -> None:
    log, trace = tmp_path / "lies.jsonl", tmp_path / "trace.parquet"
    with store_under_test.store() as url:
        finished = loadstone(
            "bench", "get=3,put=2,delete=1", url, "-t", "4", "-n", "30", "-s", "4KiB", "-d", "1s",
            "--log-requests", "-o", tmp_path / "source", environment=KEYS,
        )  # fmt: skip
        assert finished.code == 0, finished.err
    convert = ("script", "convert", "loadstone", tmp_path / "source", "-o", trace)
    assert loadstone(*convert, "--size", "4KiB").code == 0
    rate = {} if lie is None else {lie: 0.05, "prefix": "data/", "log": str(log)}
    with store_under_test.store(
        faults={"seed": 3, "lies": {**rate, "resurrect_after_ms": 1}}
    ) as url:
        finished, audit = audited(tmp_path, target_of(url), f"{{file: {trace}}}")
    history = history_of(audit)
    assert history["undecided"] == 0
    assert history["calls"] > 500
    if lie is None:
        assert (finished.code, audit["findings"]) == (0, [])
        return
    assert finished.code == exit_code.FAILED
    wrong = set().union(*named(audit).values())
    assert wrong
    assert wrong <= lies_in(log)[lie]


def test_requests_of_sessions_that_failed_may_have_been_done_or_not(tmp_path: Path) -> None:
    errors = {"put": {"rate": 0.1, "status": 500}, "delete": {"rate": 0.2, "status": 500}}
    file = write_script(tmp_path / "shared.csv", 2000)
    with store_under_test.store(faults={"seed": 5, "errors": errors}) as url:
        _, audit = audited(tmp_path, target_of(url), f"{{file: {file}}}")
    assert audit["findings"] == []
    assert history_of(audit)["calls"] > 1500


def test_objects_without_a_readable_version_are_refused_when_planning(tmp_path: Path) -> None:
    short = write_script(tmp_path / "short.csv", 100, length_bytes=15)
    right = write_script(tmp_path / "right.csv", 100)
    for script, audit, dataset in (
        (short, "{history: true}", "{size: 4KiB}"),
        (right, "true", "{size: 4KiB}"),
        (right, "{history: true}", "{size: 4KiB, encryption: aes-256-gcm}"),
    ):
        path = tmp_path / "refused.yaml"
        path.write_text(
            f"name: refused\ntargets: {{store: {target_of('http://127.0.0.1:9')}}}\n"
            f"dataset: {dataset}\nload: {{threads: 2}}\n"
            f"phases: [{{name: script, script: {{file: {script}}}}}]\naudit: {audit}\n"
        )
        finished = loadstone("run", path, "--dry-run", environment=KEYS)
        assert finished.code == exit_code.FAILED, script
