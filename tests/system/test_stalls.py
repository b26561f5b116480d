"""A client that is stopped in the middle of a trial, as a host that is suspended would stop it."""

import os
import signal
import subprocess
import time
from pathlib import Path

from loadstone.results.store import read_run
from tests.system.command import loadstone, start

STOPPED_S = 1.5


def test_a_client_that_was_stopped_while_it_measured_has_no_valid_number(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = ["bench", "put", tmp_path, "-s", "4KiB", "-d", "3s", "--rate", "100", "-o", run]
    process = start(*command, out=subprocess.DEVNULL, err=subprocess.DEVNULL)
    measured = run / "trials" / "0001.arrows"
    try:
        while process.poll() is None and not (measured.exists() and measured.stat().st_size > 4000):
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        os.kill(process.pid, signal.SIGCONT)
        process.wait()
    finally:
        process.kill()
        process.wait()
    (record,) = [record for record in read_run(run).records if record.trial["measured"]]
    whole = {entry["core"]: entry["seconds"] for entry in record.summary["stalls"]}
    assert sum(ns for _, ns in whole[None]) >= 0.9 * STOPPED_S * 1e9
    assert set(whole) == {None, *os.sched_getaffinity(0)}
    document = loadstone("report", run, "-f", "json").json()
    (trial,) = [planned for planned in document["trials"] if planned["measured"]]
    assert "STALLED" in trial["labels"]
    assert any(finding["rule"] == "STALLED" for finding in document["findings"])
