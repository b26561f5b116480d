"""Arms: servers that start on new data, are ready, and end with all that they started."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from loadstone.campaign.schema.target import Arm
from loadstone.errors import TargetError
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs import arms as arms_module
from loadstone.execution.programs.arms import ArmServers
from loadstone.results.leg_log import read_legs

RUN = "0123456789abcdef" * 2

SERVER = """\
import http.server, os, subprocess, sys
port, data = int(sys.argv[1]), sys.argv[2]
assert os.listdir(data) == [], data
open(os.path.join(data, "object"), "w").write("x" * 100_000)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[3], "w").write(f"{os.getpid()} {child.pid}")
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(403)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", port), Answer).serve_forever()
"""


def test_a_leg_has_a_server_on_new_data_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    port, pids = free_port(), tmp_path / "pids"
    arms = arms_of(tmp_path, [sys.executable, "-c", SERVER, port, "{data}", pids], port)
    arms.enter(trial(block=1))
    leader, child = map(int, pids.read_text().split())
    (directory,) = (tmp_path / "run" / "arms").iterdir()
    assert (directory / "object").exists()
    state = arms.look(trial(block=1))["server"]
    assert state["processes"] == 2
    assert state["cpu_ns"] > 0
    assert state["memory_peak_bytes"] >= state["memory_bytes"] > 1 << 20
    # The same leg continues with the same server; another target has no figures of it.
    arms.enter(trial(block=1))
    assert pids.read_text() == f"{leader} {child}"
    assert arms.look(trial(block=1, name="other")) == {}
    arms.enter(trial(block=2))
    assert str(leader) not in pids.read_text().split()
    arms.leave()
    assert not (tmp_path / "run" / "arms").exists()
    every = (leader, child, *map(int, pids.read_text().split()))
    wait_until(lambda: not any(map(is_alive, every)))
    first, second = read_legs(tmp_path / "run")
    assert (first["block"], second["block"]) == (1, 2)
    assert first["state"] == "stopped"
    assert first["used"]["processes"] == 2


def test_a_server_that_ends_before_it_is_ready_is_quoted(tmp_path: Path) -> None:
    arms = arms_of(tmp_path, [sys.executable, "-c", "raise SystemExit('no licence')"], free_port())
    with pytest.raises(TargetError) as raised:
        arms.enter(trial(block=1))
    assert "no licence" in raised.value.message
    (leg,) = read_legs(tmp_path / "run")
    assert (leg["state"], leg["exit_code"]) == ("ended", 1)


def test_a_command_that_is_not_there_is_told(tmp_path: Path) -> None:
    arms = arms_of(tmp_path, ["./no-such-server"], free_port())
    with pytest.raises(TargetError) as raised:
        arms.enter(trial(block=1))
    assert "no-such-server" in raised.value.message


def test_a_server_that_is_never_ready_is_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    code = f"import os, time; open({str(pids)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    arms = arms_of(tmp_path, [sys.executable, "-c", code], free_port(), ready_timeout="1s")
    with pytest.raises(TargetError):
        arms.enter(trial(block=1))
    assert not is_alive(int(pids.read_text()))


def test_an_address_that_already_answers_is_not_measured(tmp_path: Path) -> None:
    port, pids = free_port(), tmp_path / "pids"
    first = arms_of(tmp_path, [sys.executable, "-c", SERVER, port, "{data}", pids], port)
    first.enter(trial(block=1))
    second = arms_of(tmp_path, [sys.executable, "-c", SERVER, port, "{data}", pids], port)
    try:
        with pytest.raises(TargetError):
            second.enter(trial(block=1))
    finally:
        first.leave()


def test_a_server_that_ends_by_itself_is_told_after_the_trial(tmp_path: Path) -> None:
    port, pids = free_port(), tmp_path / "pids"
    arms = arms_of(tmp_path, [sys.executable, "-c", SERVER, port, "{data}", pids], port)
    arms.enter(trial(block=1))
    arms.check()
    leader, child = map(int, pids.read_text().split())
    os.kill(leader, 9)
    wait_until(lambda: not is_alive(leader))
    with pytest.raises(TargetError):
        arms.check()
    # Its child processes are killed with it.
    wait_until(lambda: not is_alive(child))


def test_a_stop_command_that_fails_is_logged_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, pids = free_port(), tmp_path / "pids"
    command = [sys.executable, "-c", SERVER, port, "{data}", pids]
    words = "no such service"
    stop = [sys.executable, "-c", f"raise SystemExit({words!r})"]
    arms = arms_of(tmp_path, command, port, stop=stop)
    arms.enter(trial(block=1))
    waits: list[float] = []
    names = ("monotonic", "clock_gettime_ns")
    clock = SimpleNamespace(**{name: getattr(time, name) for name in names}, sleep=waits.append)
    monkeypatch.setattr(arms_module, "time", clock)
    arms.leave()
    assert waits == []
    (leg,) = read_legs(tmp_path / "run")
    assert leg["stop_failed"].endswith(words)
    wait_until(lambda: not any(is_alive(int(pid)) for pid in pids.read_text().split()))


def test_no_leg_has_its_data_behind_a_link_in_the_run_folder(tmp_path: Path) -> None:
    port, pids = free_port(), tmp_path / "pids"
    arms = arms_of(tmp_path, [sys.executable, "-c", SERVER, port, "{data}", pids], port)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / "arms").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TargetError):
        arms.enter(trial(block=1))
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_directory_that_is_another_s_is_neither_used_nor_deleted(tmp_path: Path) -> None:
    port, pids = free_port(), tmp_path / "pids"
    (tmp_path / "data").mkdir()
    theirs = tmp_path / "data" / f"loadstone-{RUN[:12]}-0001-new"
    theirs.mkdir()
    (theirs / "precious").write_text("theirs")
    command = [sys.executable, "-c", SERVER, port, "{data}", pids]
    arms = arms_of(tmp_path, command, port, data=str(tmp_path / "data"))
    with pytest.raises(TargetError):
        arms.enter(trial(block=1))
    # One that took the name of ours meanwhile stays, too.
    arms.enter(trial(block=2))
    made = tmp_path / "data" / f"loadstone-{RUN[:12]}-0002-new"
    made.rename(tmp_path / "moved")
    made.mkdir()
    (made / "precious").write_text("theirs")
    arms.leave()
    assert (theirs / "precious").read_text() == (made / "precious").read_text() == "theirs"
    assert [error.kind for error in arms.left] == ["left-behind"]


def test_mounts_in_a_server_s_directory_are_not_deleted(tmp_path: Path) -> None:
    own_mounts = ("unshare", "--user", "--map-root-user", "--mount")
    if subprocess.run([*own_mounts, "true"], capture_output=True).returncode:
        pytest.skip("needs mount namespaces of its own")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "precious").write_text("theirs")
    code = f"from tests.unit import test_arms as t; t.leave_a_mount(t.Path({str(tmp_path)!r}))"
    finished = subprocess.run(
        [*own_mounts, sys.executable, "-c", code], capture_output=True, text=True
    )
    assert (finished.returncode, finished.stdout) == (0, "left-behind\n"), finished.stderr
    assert (tmp_path / "theirs" / "precious").read_text() == "theirs"


def leave_a_mount(folder: Path) -> None:
    """Run a server that mounts the folder of others in its directory; print the files left."""
    port = free_port()
    serve = f"exec {sys.executable} -m http.server --bind 127.0.0.1 {port}"
    mount = f'mkdir "$0/m" && mount --bind {folder}/theirs "$0/m" && {serve}'
    arms = arms_of(folder, ["/bin/sh", "-c", mount, "{data}"], port)
    arms.enter(trial(block=1))
    arms.leave()
    for error in arms.left:
        print(error.kind)


def test_a_command_of_its_own_stops_a_server(tmp_path: Path) -> None:
    port, pids = free_port(), tmp_path / "pids"
    stop = ["/bin/sh", "-c", f"kill -15 $(cut -d ' ' -f 1 {pids})"]
    command = [sys.executable, "-c", SERVER, port, "{data}", pids]
    arms = arms_of(tmp_path, command, port, stop=stop)
    arms.enter(trial(block=1))
    arms.leave()
    (leg,) = read_legs(tmp_path / "run")
    assert (leg["state"], leg["exit_code"]) == ("ended", 128 + 15)
    wait_until(lambda: not any(is_alive(int(pid)) for pid in pids.read_text().split()))


def arms_of(folder: Path, command: list[Any], port: int, **keys: Any) -> ArmServers:
    (folder / "run").mkdir(exist_ok=True)
    arm = Arm.model_validate(
        {"start": [str(word) for word in command], "ready": f"http://127.0.0.1:{port}/", **keys}
    )
    return ArmServers({"new": arm}, {"0001": 1, "0002": 2}, folder / "run", RUN, Interrupt())


def trial(*, block: int, name: str = "new") -> Any:
    return {
        "id": f"{block:04d}",
        "target": {"name": name},
        "case": {"target": name},
        "block": block,
    }


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(holds: Any) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)
