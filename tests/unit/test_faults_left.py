"""A fault whose controller was killed: the next session undoes it first, or says how."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone.campaign.schema.hook import Fault, FaultHook
from loadstone.cli import main
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.hooks import HookError, HookRunner
from loadstone.results.fault_log import FAULTS, append_fault, faults_left
from loadstone.results.store import read_run
from tests.unit.fake_loadgen import FakeLoadgen
from tests.unit.surroundings import create, plan_of
from tests.unit.test_execution_program import ends


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose PID is in the file `number`."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        (tmp_path / "number").write_text(f"{process.pid}\n")
        yield process
        process.kill()


def state_of(process: subprocess.Popen[bytes]) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


class Killed:
    """A run whose controller was killed while a fault was in effect."""

    def __init__(self, folder: Path, fault: str) -> None:
        self.text = f"faults: [{{at: 1s, lasts: 1s, {fault}}}]\n"
        plan = plan_of(self.text)
        self.folder, self.hooks = folder / "run", plan.hooks
        self.trial = next(trial.document for trial in plan.trials if trial.is_measured)
        create(self.folder, plan, self.text).close()
        self._runner().run_one(self.hooks[0], self.trial)

    def take_up(self) -> list[str]:
        """Undo what is left as the next session does; return its messages."""
        messages: list[str] = []
        self._runner().undo_left({self.trial["id"]: self.trial}, messages.append)
        return messages

    def _runner(self) -> HookRunner:
        return HookRunner(self.hooks, self.folder, lambda event: None, Interrupt(), {})


def test_the_next_session_undoes_a_fault_once(
    tmp_path: Path, loadgen: FakeLoadgen, process: subprocess.Popen[bytes]
) -> None:
    killed = Killed(tmp_path, f"pause: {tmp_path}/number")
    assert state_of(process) == "T"
    (left,) = read_run(killed.folder).faults_left
    assert left["process"].split()[0] == str(process.pid)
    (message,) = killed.take_up()
    assert str(process.pid) in message
    assert state_of(process) == "S"
    assert killed.take_up() == []
    assert read_run(killed.folder).faults_left == ()


def test_a_process_that_has_the_pid_of_the_paused_one_gets_no_signal(
    tmp_path: Path, loadgen: FakeLoadgen, process: subprocess.Popen[bytes]
) -> None:
    killed = Killed(tmp_path, f"pause: {tmp_path}/number")
    (left,) = faults_left(killed.folder)
    append_fault(killed.folder, {**left, "process": f"{process.pid} 1"})
    killed.take_up()
    assert state_of(process) == "T"
    assert faults_left(killed.folder) == []


def test_a_pause_reaches_only_the_process_that_was_recorded(
    tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    fault = Fault.model_validate({"at": "1s", "lasts": "1s", "pause": "FILE"})
    for hook, code in zip(fault.hooks, (1, 0), strict=True):
        assert isinstance(hook, FaultHook)
        assert hook.process_file == "FILE"
        for recorded in (f"{process.pid} 1", f"{process.pid}", ""):
            ended = subprocess.run(
                hook.command, env={"PATH": "/usr/bin:/bin", "LOADSTONE_PROCESS": recorded},
                capture_output=True, check=False,
            )  # fmt: skip
            assert (ended.returncode, state_of(process)) == (code, "S")


def test_a_fault_ends_with_a_controller_that_is_killed(tmp_path: Path) -> None:
    """A file system that an orphan goes on to fill would be full again after the undoing."""
    number = tmp_path / "number"
    fault = f"run: [sh, -c, 'echo $$ > {number}; sleep 1000'], undo: [\"true\"]"
    script = (
        "import sys, pathlib; from tests.unit.test_faults_left import Killed; "
        "Killed(pathlib.Path(sys.argv[1]), sys.argv[2])"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path), fault]) as controller:
        children = Path(f"/proc/{controller.pid}/task/{controller.pid}/children")
        # The second is the shell that guards the first.
        while len(children.read_text().split()) < 2 or not number.exists():
            assert controller.poll() is None
            time.sleep(0.02)
        controller.send_signal(signal.SIGKILL)
    assert ends(int(number.read_text()))


def test_the_first_failure_of_a_fault_and_its_undo_is_reported(tmp_path: Path) -> None:
    text = "faults: [{at: 1ms, lasts: 1s, name: cut, run: [no-such-program], undo: [nor-this]}]\n"
    plan = plan_of(text)
    trial = next(trial.document for trial in plan.trials if trial.is_measured)
    create(tmp_path / "run", plan, text).close()
    timed = HookRunner(plan.hooks, tmp_path / "run", lambda event: None, Interrupt(), {}).of_trial(
        trial
    )
    timed.start(lambda: None)
    timed.note(0)
    while timed.problem is None:
        time.sleep(0.02)
    timed.finish()
    assert "no-such-program" in str(timed.problem)


def test_a_fault_that_cannot_be_undone_ends_the_resumption_and_says_what_to_do(
    tmp_path: Path, loadgen: FakeLoadgen
) -> None:
    killed = Killed(tmp_path, 'run: ["true"], undo: [sh, -c, "test -e $0", /nonexistent/a]')
    with pytest.raises(HookError) as caught:
        killed.take_up()
    assert "/nonexistent/a" in caught.value.hint
    assert str(killed.folder / FAULTS) in caught.value.hint
    assert len(faults_left(killed.folder)) == 1


def test_a_command_that_only_the_log_names_is_not_run(tmp_path: Path, loadgen: FakeLoadgen) -> None:
    killed = Killed(tmp_path, 'run: ["true"], undo: ["true"]')
    (left,) = faults_left(killed.folder)
    append_fault(killed.folder, {**left, "undo": ["touch", str(tmp_path / "foreign")]})
    with pytest.raises(HookError):
        killed.take_up()
    assert not (tmp_path / "foreign").exists()


def test_reports_and_the_clean_up_name_a_fault_that_may_be_in_effect(
    tmp_path: Path, loadgen: FakeLoadgen, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = Killed(tmp_path, 'name: cut, run: ["true"], undo: [mend, the-store]')
    main(["report", str(killed.folder), "-f", "json"])
    assert '"fault-left"' in capsys.readouterr().out
    main(["clean", str(killed.folder), "--dry-run"])
    assert "mend the-store" in capsys.readouterr().err
