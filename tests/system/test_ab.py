"""`loadstone ab`: two servers in turns, one answer, and an exit code for a job."""

import dataclasses
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from loadstone.analysis.accounts.gate import judge, rules_of
from loadstone.analysis.accounts.judged_account import read_account
from loadstone.cli import exit_code
from loadstone.cli.running.gate import SoFar
from loadstone.results.layout import ANSWER
from loadstone.results.leg_log import read_legs
from loadstone.results.store import read_run
from tests.system.command import loadstone, start
from tests.system.servers import unsynced
from tests.system.servers.install import BIN, CACHE
from tests.unit.test_gate import keep_gate

KEYS = {
    "LOADSTONE_ACCESS_KEY": "me",
    "LOADSTONE_SECRET_KEY": "a-secret-of-tests",
    "AWS_ACCESS_KEY_ID": "me",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-tests",
    "ROOT_ACCESS_KEY": "me",
    "ROOT_SECRET_KEY": "a-secret-of-tests",
}
ENVIRONMENT = {**{name: text for name, text in os.environ.items() if name[:4] != "AWS_"}, **KEYS}
ANSWERS = (0, exit_code.WORSE, exit_code.VOID, exit_code.UNDECIDED)
SMALL = ("-t", "2", "-n", "100", "-s", "4KiB")


class FinishedGate(NamedTuple):
    """A gate of two builds that are the same."""

    words: tuple[str | Path, ...]
    run: Path
    answer: Any


@pytest.fixture(scope="module")
def finished_gate(tmp_path_factory: pytest.TempPathFactory) -> FinishedGate:
    port, run = free_port(), tmp_path_factory.mktemp("gate") / "run"
    words = (
        "--base", server(port), "--new", server(port), "-o", run, "-q", "--blocks-max", "6",
        # So many that a p99 has its samples.
        "bench", "put,get", f"http://127.0.0.1:{port}", *SMALL, "-n", "200",
    )  # fmt: skip
    ended = loadstone("ab", "-f", "json", *words, environment=KEYS)
    assert ended.code in ANSWERS, ended.err
    return FinishedGate(words, run, ended.json())


@pytest.mark.xdist_group("finished gate")
def test_two_builds_are_measured_in_turns_each_on_new_data(finished_gate: FinishedGate) -> None:
    run, answer = finished_gate.run, finished_gate.answer
    assert answer["blocks"] == 6
    assert {row["metric"] for row in answer["rows"]} == {
        "requests_per_s",
        "response_ns_p99",
        "server_cpu_ns_per_request",
        "server_memory_bytes",
    }
    assert answer["failed"] == {"base": 0, "new": 0}
    legs = read_legs(run)
    assert [leg["block"] for leg in legs] == [block for block in range(1, 7) for _ in range(2)]
    assert {leg["arm"] for leg in legs} == {"base", "new"}
    # Drawn by lot in each block: neither is always the first.
    assert len({leg["arm"] for leg in legs[::2]}) == 2
    assert all((leg["state"], leg["exit_code"]) == ("stopped", 0) for leg in legs)
    assert all(leg["used"]["memory_peak_bytes"] > 1 << 20 for leg in legs)
    assert len({leg["data"] for leg in legs}) == 12
    assert not (run / "arms").exists()
    for record in read_run(run).records:
        before, after = (record.target_state[when]["server"] for when in ("before", "after"))
        assert after["cpu_ns"] >= before["cpu_ns"]


@pytest.mark.xdist_group("finished gate")
def test_results_block_by_block_agree_with_the_whole_run(
    finished_gate: FinishedGate,
) -> None:
    run, rules = read_run(finished_gate.run), rules_of(0.03, 0.05, 6)
    of_block = {
        block: [record for record in run.records if record.trial["block"] == block]
        for block in range(1, 7)
    }
    so_far = SoFar(dataclasses.replace(run, records=tuple(of_block.pop(1))))
    for records in of_block.values():
        so_far.add([record.id for record in records])
    whole, grown = (judge(a, "base", "new", rules, 6) for a in (read_account(run), so_far.account))
    rows = [row for row in whole.rows if row.metric in {other.metric for other in grown.rows}]
    assert rows[0] == whole.rows[0]
    assert list(grown.rows) == rows


def test_a_build_that_takes_twice_the_processor_time_is_worse(tmp_path: Path) -> None:
    port = free_port()
    slow = server(port, "--burn", "200000")
    code, answer = gate(tmp_path, port, server(port), slow, "get", "--metrics", "cpu", "-i", "4")
    assert (code, answer["outcome"]) == (exit_code.WORSE, "worse")
    assert answer["rows"][0]["low"] > answer["margin"]


@pytest.mark.real
@pytest.mark.long(cpu_s=60)
def test_a_version_of_a_gateway_that_takes_more_processor_time_is_worse(tmp_path: Path) -> None:
    programs = {"base": CACHE / "versitygw-1.7" / "versitygw", "new": BIN / "versitygw"}
    if not all(program.exists() for program in programs.values()):
        pytest.skip("python -m tests.system.servers install versitygw versitygw-1.7")
    port = free_port()
    servers = [
        f"--{arm}={shlex.quote(str(program))} --port 127.0.0.1:{port} --quiet posix {{data}}"
        for arm, program in programs.items()
    ]
    ended = loadstone(
        "ab", *servers, "--metrics", "cpu", "-o", tmp_path / "run", "-f", "json", "bench", "put",
        f"http://127.0.0.1:{port}", "-t", "4", "-n", "500", "-s", "16KiB", environment=KEYS,
    )  # fmt: skip
    assert ended.code == exit_code.WORSE, ended.err
    # 28 % when it was measured by hand.
    assert ended.json()["rows"][0]["change"] > 0.1


def test_a_server_that_does_not_start_ends_the_gate_with_its_words(tmp_path: Path) -> None:
    port = free_port()
    broken = f"{sys.executable} -c \"raise SystemExit('no licence')\""
    ended = loadstone(
        "ab", "--base", broken, "--new", broken, "-o", tmp_path / "run",
        "bench", "get", f"http://127.0.0.1:{port}", *SMALL, environment=KEYS,
    )  # fmt: skip
    assert ended.code == exit_code.FAILED
    assert "no licence" in ended.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a file system here")
def test_clients_that_mount_a_file_system_are_arms(tmp_path: Path) -> None:
    mount, run = tmp_path / "mount", tmp_path / "run"
    mount.mkdir()
    client = shlex.join([sys.executable, unsynced.__file__, "mount", str(mount)])
    words = ("--blocks-max", "6", "bench", "put,get", f"file:{mount}", *SMALL)
    ended = loadstone("ab", "-f", "json", "--base", client, "--new", client, "-o", run, *words)
    assert ended.code in ANSWERS, ended.err
    legs = read_legs(run)
    assert len(legs) == 12
    assert all(leg["state"] == "stopped" and "ready_after_s" in leg for leg in legs)
    assert {"server_cpu_ns_per_request", "requests_per_s"} <= {
        row["metric"] for row in ended.json()["rows"]
    }
    assert not os.path.ismount(mount)

    # A remaining mount must not be mistaken for the next client's.
    left = f"sh -c {shlex.quote(f'mount -t tmpfs none {mount} && exec sleep 1000')}"
    try:
        ended = loadstone("ab", "--base", left, "--new", left, "-o", tmp_path / "left", *words)
        assert ended.code == exit_code.FAILED
        assert str(mount) in ended.err
    finally:
        subprocess.run(["umount", mount], check=True)


def test_a_build_whose_requests_fail_is_told_at_the_first_look(tmp_path: Path) -> None:
    port = free_port()
    code, answer = gate(tmp_path, port, server(port), server(port), "get", "--set", "prepare=never")
    assert code == exit_code.FAILED
    assert min(answer["failed"].values()) > 0


def test_ctrl_c_ends_a_gate_with_what_is_known_and_it_goes_on(tmp_path: Path) -> None:
    port, run = free_port(), tmp_path / "run"
    words = (
        "ab", "--base", server(port), "--new", server(port), "-f", "json", "-o", run,
        "--blocks-max", "6", "bench", "put,get", f"http://127.0.0.1:{port}", "-t", "1", "-n", "100",
    )  # fmt: skip
    process = start(*words, environment=ENVIRONMENT)
    while process.poll() is None and len(read_legs(run)) < 3:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == exit_code.INTERRUPTED, err
    answer = json.loads(out)
    assert answer["outcome"] == "not decided"
    assert 1 <= answer["blocks"] < 6
    assert answer["rows"]
    # Each block leaves a line, and no trial does.
    blocks = [line.partition("/")[0] for line in err.splitlines() if line.startswith("block ")]
    assert blocks[: answer["blocks"]] == [f"block {block}" for block in range(1, len(blocks) + 1)]
    assert blocks
    assert not has_lines_of_trials(err)
    # A gate that has ended keeps its answer for the next; this one has not.
    assert not (run / ANSWER).exists()
    begun = read_run(run)
    resumed = loadstone("ab", "--resume", "-v", *words[1:], environment=KEYS)
    assert resumed.code in ANSWERS, resumed.err
    assert has_lines_of_trials(resumed.err)
    assert resumed.json()["blocks"] == 6
    assert json.loads((run / ANSWER).read_text()) == resumed.json()
    records = {record.id: record for record in read_run(run).records}
    for record in begun.records:
        assert not record.is_whole or records[record.id].summary == record.summary
    assert sum(record.trial["measured"] for record in records.values()) == 6 * 2 * 2
    assert not any(record.summary.get("failed") for record in records.values())


def has_lines_of_trials(err: str) -> bool:
    return any(line.startswith("[") for line in err.splitlines())


def test_a_server_does_not_survive_a_kill(tmp_path: Path) -> None:
    port, run = free_port(), tmp_path / "run"
    process = start(
        "ab", "--base", server(port), "--new", server(port), "-o", run, "bench", "put",
        f"http://127.0.0.1:{port}", "-t", "1", "-n", "1000000",
        environment=ENVIRONMENT,
    )  # fmt: skip
    while process.poll() is None and not list((run / "trials").glob("*.arrows")):
        time.sleep(0.05)
    with socket.create_connection(("127.0.0.1", port)):
        process.kill()
        process.communicate()
    until = time.monotonic() + 60
    while is_listening(port):
        assert time.monotonic() < until
        time.sleep(0.05)


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_commands_of_a_campaign_need_consent_and_typed_ones_do_not(tmp_path: Path) -> None:
    port = free_port()
    target = {"driver": "s3", "endpoint": f"http://127.0.0.1:{port}"}
    arm = {"start": ["/bin/false"], "ready": f"http://127.0.0.1:{port}/"}
    campaign = {
        "name": "gate", "targets": {"a": target, "b": target}, "arms": {"a": arm, "b": arm},
        "dataset": {"objects": 5, "size": "4KiB"}, "load": {"threads": 1}, "phases": ["put"],
    }  # fmt: skip
    (tmp_path / "gate.yaml").write_text(json.dumps(campaign))
    words = ("ab", "-o", tmp_path / "run")
    refused = loadstone(*words, tmp_path / "gate.yaml", environment=KEYS)
    assert refused.code == exit_code.FAILED
    assert not (tmp_path / "run").exists()
    allowed = loadstone(*words, "--allow-commands", tmp_path / "gate.yaml", environment=KEYS)
    assert allowed.code == exit_code.FAILED
    assert (tmp_path / "run").exists()


def test_the_command_of_a_run_folder_needs_consent(tmp_path: Path) -> None:
    port, marker = free_port(), tmp_path / "has-run"
    history = tmp_path / "runs"
    history.mkdir()
    keep_gate(history / "theirs", "2026-01-01", "no worse", 0)
    manifest = history / "theirs" / "manifest.json"
    manifest.write_text(manifest.read_text().replace("./theirs", "/bin/touch").replace(
        "{data}", str(marker)))  # fmt: skip
    words = (
        "ab", "--baseline", "last-green", "--history", history, "--new", server(port),
        "-o", tmp_path / "run", "bench", "put", f"http://127.0.0.1:{port}", *SMALL,
    )  # fmt: skip
    refused = loadstone(*words, environment=KEYS)
    assert refused.code == exit_code.FAILED
    assert str(marker) in refused.err
    assert not marker.exists()
    allowed = loadstone("ab", "--allow-commands", *words[1:], environment=KEYS)
    assert allowed.code == exit_code.FAILED
    assert marker.exists()


@pytest.mark.xdist_group("finished gate")
@pytest.mark.parametrize("form", ["terminal", "markdown", "junit"])
def test_the_answer_comes_in_the_form_that_was_asked_for(
    finished_gate: FinishedGate, form: str
) -> None:
    ended = loadstone("ab", "--resume", "-f", form, *finished_gate.words, environment=KEYS)
    assert ended.code in ANSWERS, ended.err
    answer = {"terminal": "no worse than", "markdown": "**no worse than", "junit": "<?xml"}
    # On a terminal the last line stays in sight.
    assert ended.out.splitlines()[-1 if form == "terminal" else 0].startswith(answer[form])
    assert ended.out.count("\n") > 4
    # A gate that has all its blocks runs none again.
    assert len(read_legs(finished_gate.run)) == 12


def gate(
    folder: Path, port: int, base: str, new: str, operation: str, *options: str
) -> tuple[int, Any]:
    """Run a gate, and return its exit code and its answer."""
    of_gate = [word for word in options if word.startswith("--metrics") or word in ("cpu",)]
    load = [word for word in options if word not in of_gate]
    ended = loadstone(
        "ab", "--base", base, "--new", new, "-o", folder / "run", "-f", "json",
        "--blocks-max", "6", *of_gate, "bench", operation, f"http://127.0.0.1:{port}", *SMALL,
        *load, environment=KEYS,
    )  # fmt: skip
    assert ended.out, ended.err
    return ended.code, ended.json()


def server(port: int, *options: str) -> str:
    words = [sys.executable, "-m", "loadstone", "serve", "--port", str(port), "--threads", "1"]
    return f"{shlex.join([*words, *options])} --data {{data}}"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
