"""Audits accuse no target whose clients failed: late writes, partial files, killed clients."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.conformance import store_under_test
from tests.system.command import NO_STATE, loadstone, start
from tests.system.hostile_server import Exchange, hostile
from tests.system.test_audit import audit_of
from tests.system.test_clean_up_counts import KEYS

OBJECTS = 20
KEY = "object-7"
CAMPAIGN = """\
name: late
targets: {{store: {{driver: s3, endpoints: ["{url}"]}}}}
dataset: {{objects: {objects}, size: 10KiB, object_prefix: object-}}
load: {{threads: 2}}
on_error: continue
phases:
  - {{op: put, requests: {twice}}}
  - {{op: put, name: over}}
audit: true
"""


FILES = """\
name: partial
targets: {{store: {{driver: file, path: "{path}"}}}}
dataset: {{objects: {objects}, size: {{weighted: [[16KiB, 1], [32MiB, 1]]}}}}
load: {{threads: 2}}
on_error: continue
phases: [put]
audit: true
"""
"""Small files, and others that are larger than the process may write."""


class Late:
    """Carries out the first puts of one key late, and leaves them without an answer."""

    def __init__(self, held: int, puts: int) -> None:
        self.left = held
        self.puts = puts
        self.held: list[Exchange] = []
        self.carried_out = 0
        self._lock = threading.Lock()

    def __call__(self, exchange: Exchange) -> bool:
        request = exchange.request
        if request.method != "PUT" or not urlsplit(request.path).path.endswith(KEY):
            return False
        with self._lock:
            if self.left:
                self.left -= 1
                self.held.append(exchange)
                exchange.reset()
            answer = exchange.true_answer()
            self.carried_out += 1
            if self.carried_out == self.puts:
                for late in self.held:
                    late.true_answer()
        exchange.send(answer.head() + answer.body)
        return True


@pytest.mark.parametrize(("held", "carried_out"), [(1, 3), (2, 2)])
def test_a_put_that_is_carried_out_after_an_overwrite_is_not_the_stores_fault(
    held: int, carried_out: int, tmp_path: Path
) -> None:
    # One put that is reset is sent again; two are a put that failed.
    late = Late(held, carried_out)
    with store_under_test.store() as store, hostile(int(store.rsplit(":", 1)[1]), late) as server:
        path = tmp_path / "late.yaml"
        path.write_text(CAMPAIGN.format(url=server.url, objects=OBJECTS, twice=2 * OBJECTS))
        finished = loadstone("run", path, "-o", tmp_path / "run", environment=KEYS)
    audit = audit_of(tmp_path / "run")
    assert (len(late.held), late.carried_out) == (held, carried_out)
    assert audit["findings"] == [], finished.err
    assert audit["unknown"] == 1
    assert audit["read_back"] == audit["acknowledged"] == OBJECTS - 1


def test_a_file_whose_put_failed_midway_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    run, path = tmp_path / "run", tmp_path / "files.yaml"
    path.write_text(FILES.format(path=tmp_path / "files", objects=OBJECTS))
    # Python ignores the signal that the kernel sends at the limit, so that writes fail.
    limited = f'ulimit -f {24 << 10} && exec "$0" -m loadstone run "$1" -o "$2"'
    finished = subprocess.run(
        ["bash", "-c", limited, sys.executable, path, run],
        capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_STATE_HOME": NO_STATE},
    )  # fmt: skip
    audit = audit_of(run)
    assert audit["findings"] == [], finished.stderr
    assert audit["unknown"] > 0
    assert audit["read_back"] == audit["acknowledged"] > 0


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.2, 0.3])
@pytest.mark.parametrize("operations", ["put", "put,put"])
def test_files_of_a_killed_client_are_not_claimed_unless_they_were_whole(
    operations: str, after_s: float, tmp_path: Path
) -> None:
    (tmp_path / "files").mkdir()
    run = tmp_path / "run"
    process = start(
        "bench", operations, f"file:{tmp_path / 'files'}", "-t", "4", "-n", "40", "-s", "16MiB",
        "--audit", "--keep-data", "-o", run,
        environment={**os.environ, "XDG_STATE_HOME": NO_STATE},
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not any((run / "ledger").glob("*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = loadstone("audit", run)
    assert finished.code == 0, (finished.out, finished.err)
