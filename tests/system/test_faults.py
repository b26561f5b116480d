"""Faults of a campaign: requests may fail meanwhile, and what was acknowledged must be there."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from loadstone.campaign.schema.hook import EMPTY, FILL, Fault
from loadstone.cli import exit_code
from loadstone.execution.programs.answers import answer_of
from tests.conformance import store_under_test
from tests.system.command import CommandResult, loadstone, trials_of
from tests.system.servers.processes import free_ports
from tests.system.test_audit import audit_of
from tests.system.test_bestiary import SERVE, SERVER_KEYS
from tests.system.test_card import KEYS

CAMPAIGN = """\
name: faults
targets: {{store: {{driver: s3, endpoint: "{url}"}}}}
dataset: {{objects: 5000, size: 4KiB}}
load: {{threads: 4}}
phases: [{{op: put, duration: 2s, rate_limit: 500}}]
audit: true
faults:
  - {fault}
"""


class Store:
    """An embedded store in a process of its own, whose number stands in a file."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.url = f"http://127.0.0.1:{free_ports(1)}"
        self.number = folder / "number"
        serve = f"{SERVE} --port {self.url.rpartition(':')[2]} {' '.join(words)}"
        self.start = folder / "start"
        keys = "".join(f"export {name}={value}\n" for name, value in SERVER_KEYS.items())
        # Its output must not hold the pipes of the command that starts it.
        server = f"{serve} > {folder / 'log'} 2>&1 &\necho $! > {self.number}\n"
        self.start.write_text(keys + server)

    @contextmanager
    def running(self) -> Iterator["Store"]:
        subprocess.run(["/bin/sh", self.start], check=True)
        try:
            while answer_of(self.url) is None:
                time.sleep(0.05)
            yield self
        finally:
            subprocess.run(["kill", "-9", self.number.read_text().strip()], check=False)

    def run(self, fault: str, run: Path) -> CommandResult:
        """Run the campaign with a fault."""
        campaign = run.with_suffix(".yaml")
        campaign.write_text(CAMPAIGN.format(url=self.url, fault=fault))
        return loadstone("run", campaign, "-o", run, "--allow-commands", environment=KEYS)

    @property
    def kill(self) -> str:
        """A kill, after which the store is started again."""
        undo = f"undo: [/bin/sh, {self.start}], ready: '{self.url}'"
        return f"{{at: 700ms, lasts: 300ms, kill: {self.number}, {undo}}}"


def hooks_of(run: Path) -> list[tuple[str, str]]:
    hooks: list[dict[str, Any]] = loadstone("report", run, "-f", "json").json()["hooks"]
    return [(hook["hook"], hook["state"]) for hook in hooks]


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_kill_under_load_is_no_failure_of_the_run_but_a_loss_is(
    is_kept: bool, tmp_path: Path
) -> None:
    words = ["--data", str(tmp_path / "data")] if is_kept else []
    run = tmp_path / "run"
    with Store(tmp_path, *words).running() as store:
        result = store.run(store.kill, run)
    assert result.code == (0 if is_kept else exit_code.FAILED), result.err
    assert hooks_of(run) == [("kill", "ended"), ("kill-undone", "ended")]
    audit = audit_of(run)
    assert audit["acknowledged"] > 0
    assert bool(audit["wrong"]) is not is_kept
    assert trials_of(run)[0]["summary"]["failed"] > 0


def test_a_pause_is_over_before_what_comes_after_its_trial(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with Store(tmp_path).running() as store:
        result = store.run(f"{{at: 1s, lasts: 20s, pause: {store.number}}}", run)
    assert result.code == 0, result.err
    assert hooks_of(run) == [("pause", "ended"), ("pause-undone", "ended")]
    assert audit_of(run)["wrong"] == 0


@pytest.mark.parametrize(
    ("number", "is_pid"),
    [
        ("4711", True),
        ("", False),
        ("0", False),
        ("00", False),
        ("-1", False),
        ("47 11", False),
        ("store", False),
    ],
)
def test_only_a_pid_gets_the_signal_of_a_fault(number: str, is_pid: bool, tmp_path: Path) -> None:
    file = tmp_path / "number"
    file.write_text(f"{number}\n")
    (hook,) = Fault.model_validate({"at": "1s", "kill": str(file)}).hooks
    shell, option, script, *words = hook.run
    # The shell's own kill would end more than this test.
    words = [shell, option, f'kill() {{ echo "$@"; }}\n{script}', *words]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ended.returncode == 0) is is_pid
    assert ended.stdout == (f"-s KILL -- {number}\n" if is_pid else "")
    assert (str(file) in ended.stderr) is not is_pid


def test_a_full_disk_is_empty_again_and_a_file_of_others_is_kept(tmp_path: Path) -> None:
    """The file system of a namespace of its own: `unshare` gives it to any user."""
    script = f"""
        mount -t tmpfs -o size=1M none "$1" || exit 9
        export LOADSTONE_RUN=another
        /bin/sh -c '{FILL}' sh "$1" 2> /dev/null || exit 1
        /bin/sh -c '{EMPTY}' sh "$1" || exit 4
        echo theirs > "$1/loadstone-disk-full-another"
        /bin/sh -c '{FILL}' sh "$1" 2> /dev/null && exit 6
        export LOADSTONE_RUN=ours
        /bin/sh -c '{FILL}' sh "$1" 2> /dev/null || exit 1
        echo x > "$1/more" 2> /dev/null && exit 2
        /bin/sh -c '{FILL}' sh "$1" 2> /dev/null && exit 3
        /bin/sh -c '{EMPTY}' sh "$1" || exit 4
        echo x > "$1/more" || exit 5
        grep -q theirs "$1/loadstone-disk-full-another" || exit 7
    """
    words = ["unshare", "--user", "--map-root-user", "--mount", "/bin/sh", "-c", script, "sh"]
    ended = subprocess.run([*words, str(tmp_path)], capture_output=True, text=True, check=False)
    if ended.returncode == 9 or "unshare" in ended.stderr:
        pytest.skip("this host gives no namespaces")
    assert ended.returncode == 0, ended.stderr


def test_a_link_of_a_namespace_goes_down_and_comes_up() -> None:
    fault = Fault.model_validate(
        {"at": "1s", "lasts": "1s", "partition": {"namespace": "NAME", "device": "lo"}}
    )
    down, up = (" ".join(hook.run).replace("-n NAME ", "") for hook in fault.hooks)
    script = f"ip link set lo up; {down}; ip link show lo | grep -c DOWN; {up}; ip link show lo"
    words = ["unshare", "--user", "--map-root-user", "--net", "/bin/sh", "-c", script]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    if "unshare" in ended.stderr or "ip: not found" in ended.stderr:
        pytest.skip("this host gives no namespaces, or has no ip")
    count, state = ended.stdout.split("\n", 1)
    assert (count, "LOWER_UP" in state) == ("1", True)


FAILING = """\
name: failing
targets: {{store: {{driver: s3, endpoint: "{url}"}}}}
dataset: {{objects: 5000, size: 4KiB}}
load: {{threads: 2}}
on_error: continue
phases: [{{op: put, duration: 3s, rate_limit: 300}}]
faults: [{{at: 100ms, lasts: 100ms, run: ["true"], undo: ["true"], recovery: {recovery}}}]
"""


@pytest.mark.parametrize(("recovery", "is_expected"), [("1ms", False), ("1m", True)])
def test_only_what_fails_in_the_time_of_a_fault_is_expected(
    recovery: str, is_expected: bool, tmp_path: Path
) -> None:
    path, run = tmp_path / "failing.yaml", tmp_path / "run"
    errors = {"put": {"rate": 0.1, "status": 500}}
    with store_under_test.store(faults={"seed": 3, "errors": errors}) as url:
        path.write_text(FAILING.format(url=url, recovery=recovery))
        finished = loadstone("run", path, "-o", run, "--allow-commands", environment=KEYS)
    findings = loadstone("report", run, "-f", "json").json()["findings"]
    outside = [finding for finding in findings if finding["rule"] == "failed-outside-faults"]
    assert trials_of(run)[0]["summary"]["failed"] > 0
    assert bool(outside) is not is_expected
    assert (finished.code == exit_code.FAILED) is not is_expected, finished.err
