"""Histories: of a sound store no call is contradicted, and each lie that shows in one is named."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loadstone.cli import exit_code
from tests.conformance import store_under_test
from tests.system.command import CommandResult, loadstone, trials_of
from tests.system.hostile_server import Exchange, hostile
from tests.system.test_audit import audit_of
from tests.system.test_clean_up_counts import KEYS

LOAD = ("-t", "16", "-s", "4KiB", "-n", "200", "--object-prefix", "object-", "--seed", "5")
MIX = "get=45,put=15,delete=10"
CONTENDED = (
    "name: swaps\ntargets: {{store: {{driver: s3, endpoint: '{url}'}}}}\n"
    "dataset: {{objects: 8, size: 4KiB, object_prefix: object-}}\nload: {{threads: 8}}\n"
    "phases: [{{contend: {{keys: 4, clients: 8}}, requests: 2000}}]\n"
    "audit: {{history: true}}\n"
)


def bench(url: str, run: Path, operations: str, *options: str) -> CommandResult:
    return loadstone(
        "bench", operations, url, *LOAD, "--audit-history", *options, "-o", run, environment=KEYS
    )


def history_of(audit: dict[str, Any]) -> dict[str, Any]:
    (history,) = audit["histories"]
    assert isinstance(history, dict)
    return history


@pytest.mark.parametrize("interface", ["s3", "swift"])
@pytest.mark.parametrize("operations", ["get=3,put=1", f"{MIX},list=10"])
def test_no_call_of_a_sound_store_is_contradicted(
    operations: str, interface: str, tmp_path: Path
) -> None:
    with store_under_test.store() as url:
        port = url.rsplit(":", 1)[1]
        address = {"s3": url, "swift": f"swift+http://127.0.0.1:{port}/auth/v1.0"}[interface]
        result = bench(address, tmp_path / "run", operations, "-d", "1s")
    assert result.code == 0, (result.out, result.err)
    audit = audit_of(tmp_path / "run")
    history = history_of(audit)
    assert (audit["wrong"], audit["findings"], history["undecided"]) == (0, [], 0)
    assert (history["objects"], history["model"]) == (200, "linear")
    assert history["calls"] > 1000


# With concurrent calls, it may take more than three to prove that a read was stale.
STALE = {"lost", "stale", "unordered"}


def is_proved(finding: dict[str, Any]) -> bool:
    """Tell whether a finding has as many calls as its kind may have."""
    return 1 <= len(finding["calls"]) <= (8 if finding["kind"] == "unordered" else 3)


# So many that a busy host, which makes a tenth of the calls, still tells a dozen.
LIES = {
    "lost_write": ("get=6,put=1", 0.01, {"lost", "stale"}),
    "stale_read": ("get=6,put=1", 0.002, STALE),
    # The resurrected version hides a newer write, if there was one meanwhile.
    "resurrect": (MIX, 0.03, {"resurrected", "lost", "stale"}),
    "corrupt_byte": ("get=6,put=1", 0.01, {"corrupt"}),
}


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_that_a_read_can_show_is_found_and_named(lie: str, tmp_path: Path) -> None:
    operations, rate, kinds = LIES[lie]
    log = tmp_path / "lies.jsonl"
    lies = {lie: rate, "prefix": "object-", "log": str(log), "resurrect_after_ms": 1}
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        answer = bench(url, tmp_path / "run", operations, "-d", "2s")
    assert answer.code == exit_code.FAILED
    lied_about = {
        (lie["bucket"], lie["key"]) for lie in map(json.loads, log.read_text().splitlines())
    }
    audit = audit_of(tmp_path / "run")
    contradicted = {(finding["bucket"], finding["key"]) for finding in audit["findings"]}
    assert {finding["kind"] for finding in audit["findings"]} <= kinds
    # A lie does not show when the object is overwritten before it is read.
    assert contradicted <= lied_about
    assert len(contradicted) > len(lied_about) / 3
    # One call contradicts the put of the fill, which came before the history.
    assert all(is_proved(finding) for finding in audit["findings"])
    report = loadstone("report", tmp_path / "run", "-f", "json").json()
    assert {result["standing"] for result in report["results"]} == {"void"}


@pytest.mark.parametrize("lie", [None, "condition_ignored", "several_winners"])
def test_contended_writes_are_won_by_one_of_those_on_the_same_condition(
    lie: str | None, tmp_path: Path
) -> None:
    path, log = tmp_path / "swaps.yaml", tmp_path / "lies.jsonl"
    lies = {} if lie is None else {lie: 0.05, "prefix": "object-", "log": str(log)}
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        path.write_text(CONTENDED.format(url=url))
        result = loadstone("run", path, "-o", tmp_path / "run", environment=KEYS)
    audit = audit_of(tmp_path / "run")
    kinds = {finding["kind"] for finding in audit["findings"]}
    assert history_of(audit)["undecided"] == 0
    if lie is None:
        assert (result.code, kinds) == (0, set())
        return
    assert result.code == exit_code.FAILED
    named = {"two_winners", "lost_update", "condition_ignored"}
    assert kinds & named
    # Without the named calls, the rest of a key's history may have no valid order.
    unnamed = [finding for finding in audit["findings"] if finding["kind"] not in named]
    assert all(finding["kind"] in ("unordered", "lost", "stale") for finding in unnamed)
    assert len(unnamed) < len(audit["findings"]) / 4


ENTRY = re.compile(r"<Contents>.*?<Key>(object-\d+)</Key>.*?</Contents>")


def without_key(text: str, key: str) -> str:
    """Return a page of a listing that does not show a key."""
    return ENTRY.sub(lambda entry: "" if entry[1] == key else entry[0], text)


def with_key(text: str, key: str) -> str:
    """Return a page of a listing that shows a key before the first that comes after it."""
    behind = next(entry for entry in ENTRY.finditer(text) if entry[1] > key)
    shown = behind[0].replace(f"<Key>{behind[1]}<", f"<Key>{key}<")
    return text.replace(behind[0], shown + behind[0])


@pytest.mark.parametrize("kind", ["ghost", "list_missing"])
def test_a_page_that_is_behind_is_found_while_the_load_runs(kind: str, tmp_path: Path) -> None:
    chance = random.Random(3)
    lied_about: set[str] = set()
    everything = {f"object-{number}" for number in range(200)}

    def spoil(exchange: Exchange) -> bool:
        if "list-type=2" not in exchange.request.path or chance.random() < 0.7:
            return False
        answer = exchange.true_answer()
        text = answer.body.decode()
        keys = ENTRY.findall(text)
        candidates = keys if kind == "list_missing" else everything.difference(keys)
        choice = [key for key in candidates if keys and key < keys[-1]]
        if choice:
            key = chance.choice(sorted(choice))
            lied_about.add(key)
            text = (without_key if kind == "list_missing" else with_key)(text, key)
        exchange.send_status("200 OK", ("Content-Type", "application/xml"), body=text.encode())
        return True

    run = tmp_path / "run"
    with store_under_test.store() as url, hostile(int(url.rsplit(":", 1)[1]), spoil) as lying:
        finished = bench(lying.url, run, f"{MIX},list=10", "-d", "2s")
    assert finished.code == exit_code.FAILED, (finished.out, finished.err)
    findings = audit_of(run)["findings"]
    assert {finding["kind"] for finding in findings} == {kind}
    assert {finding["key"] for finding in findings} <= lied_about
    assert len(findings) > len(lied_about) / 3
    assert all(finding["calls"][-1]["operation"] == "list" for finding in findings)


SKEW = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

int clock_gettime(clockid_t id, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, time);
    if (!result && id == CLOCK_REALTIME && (time->tv_nsec += 50000000) >= 1000000000) {
        time->tv_nsec -= 1000000000;
        time->tv_sec += 1;
    }
    return result;
}
"""
OF_TWO_HOSTS = """\
name: two
targets: {{store: {{driver: s3, endpoint: '{url}'}}}}
hosts: {{launch: local, count: 2, command: 'sh {command}'}}
dataset: {{objects: 50, size: 4KiB, object_prefix: object-}}
load: {{threads: 4, cores: 1}}
phases: [{{mix: {{get: 3, put: 1}}, duration: 1s}}]
audit: {{history: true}}
"""


@pytest.mark.parametrize("lie", [None, "stale_read"])
def test_hosts_whose_clocks_are_50_ms_apart_contradict_no_sound_store(
    lie: str | None, tmp_path: Path
) -> None:
    """A host's clock offset is known up to a bound, by which its calls are widened."""
    source, library, command = (tmp_path / name for name in ("skew.c", "skew.so", "command"))
    source.write_text(SKEW)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    # The first of the agents that are started has another clock.
    command.write_text(
        f"mkdir {tmp_path / 'first'} 2> /dev/null && export LD_PRELOAD={library}\n"
        f'exec {sys.executable} -m loadstone "$@"\n'
    )
    lies = {} if lie is None else {lie: 0.01, "prefix": "object-"}
    with store_under_test.store(faults={"seed": 3, "lies": lies}) as url:
        path = tmp_path / "two.yaml"
        path.write_text(OF_TWO_HOSTS.format(url=url, command=command))
        run = tmp_path / "run"
        result = loadstone("run", path, "-o", run, "--allow-commands", environment=KEYS)
    assert result.code == (0 if lie is None else exit_code.FAILED), result.err
    mix = next(trial for trial in trials_of(run) if trial["trial"]["measured"])
    offsets = sorted(host["clock_offset_ns"] for host in mix["summary"]["hosts"])
    assert offsets[1] - offsets[0] == pytest.approx(50_000_000, abs=20_000_000)
    audit = audit_of(run)
    assert bool(audit["wrong"]) is (lie is not None)
    assert history_of(audit)["calls"] > 100


def test_writes_that_failed_may_have_been_done_or_not(tmp_path: Path) -> None:
    errors = {"put": {"rate": 0.05, "status": 500}, "delete": {"rate": 0.05, "status": 500}}
    with store_under_test.store(faults={"seed": 5, "errors": errors}) as url:
        bench(url, tmp_path / "run", MIX, "-d", "1s")
    audit = audit_of(tmp_path / "run")
    assert audit["findings"] == []


def test_objects_that_cannot_hold_a_version_are_refused_when_planning(tmp_path: Path) -> None:
    with store_under_test.store() as url:
        result = bench(url, tmp_path / "run", MIX, "-s", "8", "--dry-run")
    assert result.code == exit_code.FAILED
