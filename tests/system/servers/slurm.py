"""A real Slurm of one node on loopback: munged, slurmctld and slurmd, in a folder of their own."""

import contextlib
import getpass
import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.system.servers.processes import ServerError, free_ports

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "sinfo")
PATH = f"{os.environ['PATH']}:/usr/sbin"
WAIT_S = 60.0

CONFIGURATION = """\
ClusterName=loadstone
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={port}
SlurmdPort={port_of_node}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SchedulerType=sched/builtin
SelectType=select/linear
ReturnToService=2
SlurmctldParameters=enable_configless
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=load Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


def missing_programs() -> list[str]:
    """Return what is not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Mapping[str, str]]:
    """Start the daemons, and give the environment in which Slurm's commands reach them."""
    lacking = missing_programs()
    if lacking:
        raise ServerError(f"not installed: {', '.join(lacking)}: install slurm with its installer")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o400)
    port = free_ports(2)
    config = folder / "slurm.conf"
    config.write_text(
        CONFIGURATION.format(
            host=socket.gethostname(), user=getpass.getuser(), folder=folder,
            port=port, port_of_node=port + 1, cores=os.cpu_count(),
        )
    )  # fmt: skip
    environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(config)}
    with contextlib.ExitStack() as stack:
        for words in (
            ["munged", "-F", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
             f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log",
             f"--seed-file={folder}/munge.seed"],
            ["slurmctld", "-D", "-f", str(config)],
            ["slurmd", "-D", "-f", str(config)],
        ):  # fmt: skip
            log = stack.enter_context((folder / f"{words[0]}.said").open("wb"))
            daemon = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
            stack.callback(daemon.wait)
            stack.callback(daemon.terminate)
            if words[0] == "munged":
                _wait_for(lambda: (folder / "munge.socket").exists(), folder)
        _wait_for(lambda: "idle" in _states(environment), folder)
        yield {"PATH": PATH, "SLURM_CONF": str(config)}


def _states(environment: Mapping[str, str]) -> str:
    words = ["sinfo", "-h", "-o", "%T"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    return done.stdout


def _wait_for(holds: object, folder: Path) -> None:
    assert callable(holds)
    end = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > end:
            output = "".join(path.read_text()[-800:] for path in folder.glob("*.said"))
            raise ServerError(f"Slurm did not come up: {output}")
        time.sleep(0.1)
