"""Agents on the workers of the site's running dask scheduler, with its own security.

No module but this one and `jobs` imports dask, by `import_dask`, with the settings of the site.

Each agent is a process next to a worker, one of whose tasks waits for it. The invitation goes
through that scheduler, so the connection must be encrypted, or stay on this machine.
"""

import contextlib
import importlib
import ipaddress
import logging
import platform
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from loadstone.campaign.schema.hosts import Hosts
from loadstone.errors import HostError
from loadstone.hosts.invitation import Invitation

CONNECT_S = 20.0
OUTPUT_BYTES = 2000


class DaskWorkers:
    """A task for each agent, each on a different worker."""

    def __init__(self, hosts: Hosts, environment: Mapping[str, str]) -> None:
        assert hosts.scheduler is not None, "the schema holds it"
        self._scheduler = hosts.scheduler
        self._command = (hosts.command or "loadstone").split()
        self._client: Any = None
        self._tasks: dict[str, Any] = {}

    def start(self, invitations: Sequence[Invitation]) -> list[str]:
        """Start an agent next to as many workers as there are invitations."""
        distributed = import_dask("distributed", "dask")
        tried = f"start agents by the scheduler at {self._scheduler}"
        _refuse_plain(self._scheduler, tried)
        try:
            self._client = distributed.Client(
                self._scheduler, timeout=CONNECT_S, set_as_default=False
            )
        except Exception as error:
            # Any exception: a client also imports the modules that dask's settings name.
            raise HostError(
                f"{tried}: {in_one_line(error)}",
                "its TLS (distributed.comm.tls.client) and other settings come from dask's own"
                f" files: {settings_files()}",
            ) from error
        workers = sorted(self._client.scheduler_info(n_workers=-1)["workers"])
        if len(workers) < len(invitations):
            raise HostError(
                f"{tried}: it has {len(workers)} workers, hosts.count asks for {len(invitations)}",
                "start more workers, or lower hosts.count",
            )
        for invitation, worker in zip(invitations, workers, strict=False):
            self._tasks[invitation.host] = self._client.submit(
                be_agent, self._command, invitation, workers=[worker],
                allow_other_workers=False, pure=False, key=f"loadstone-{invitation.host}-{worker}",
            )  # fmt: skip
        return []

    def ended(self) -> Mapping[str, str]:
        """Return the hosts whose agents have exited, with their output."""
        return {host: _outcome_of(task) for host, task in self._tasks.items() if task.done()}

    def news(self) -> list[str]:
        """Return nothing: the output of agents stays on their hosts."""
        return []

    def stop(self) -> None:
        """Disconnect from the scheduler: agents leave with the run, which ends their tasks."""
        if self._client is not None:
            for task in self._tasks.values():
                with contextlib.suppress(Exception):
                    task.result(timeout=CONNECT_S / 2)
            self._client.close()


def be_agent(command: Sequence[str], invitation: Invitation) -> str:
    """Run an agent on the worker's host until it exits, and return its output; called on a
    worker.
    """
    try:
        agent = subprocess.Popen(
            [*command, "agent", "--join", "-"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        return (
            f'host {invitation.host}: start "{command[0]}": {error.strerror}\n'
            "hint: hosts.command is the command that starts loadstone on the hosts"
        )
    assert agent.stdin is not None and agent.stderr is not None  # noqa: PT018
    with contextlib.suppress(BrokenPipeError):
        agent.stdin.write(invitation.text().encode())
        agent.stdin.flush()
    printed = agent.stderr.read().decode(errors="replace").strip()[-OUTPUT_BYTES:]
    code = agent.wait()
    return printed.removeprefix("error: ") or f"its agent ended with exit code {code}"


def _outcome_of(task: Any) -> str:
    if task.status == "finished":
        return str(task.result())
    error = task.exception() if task.status == "error" else None
    return f"its worker could not start it: {error or task.status}"


def _refuse_plain(scheduler: str, tried: str) -> None:
    """Refuse an unencrypted scheduler: an invitation holds a key, which must stay secret."""
    from dask import config

    kind, _, rest = scheduler.rpartition("://")
    if kind in ("tls", "wss"):
        if config.get("distributed.comm.tls.ca-file") is None:
            raise HostError(
                f"{tried}: dask's configuration on this machine has no TLS settings",
                "set distributed.comm.tls.ca-file, client.cert and client.key, as the site has it",
            )
        return
    name = rest.rpartition(":")[0].strip("[]")
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(name).is_loopback:
            return
    raise HostError(
        f"{tried}: its connections are not encrypted, and an agent's key would go over them",
        "give the scheduler TLS, and its address as tls://HOST:PORT; or join by hand",
    )


def import_dask(module: str, extra: str) -> Any:
    """Import a module of dask, which reads the settings of the user and the site.

    Raises HostError if it is not installed, with the extra that contains it, and if a settings file
    cannot be read.
    """
    try:
        imported = importlib.import_module(module)
    except ImportError as error:
        raise HostError(
            f"this launcher needs {module.partition('.')[0]}: {error}",
            f"pip install 'loadstone[{extra}]', on the controller",
            kind="program-absent",
        ) from error
    except Exception as error:
        # Dask's message names the file.
        raise HostError(
            f"read dask's settings: {in_one_line(error)}",
            "correct that file, or set DASK_CONFIG to a folder of other settings",
        ) from error
    # Dask gets it from platform, which runs `uname -p`: that program would inherit the secrets in
    # this environment.
    vars(platform.uname())["processor"] = platform.machine()
    # The launcher's own errors already report the problem.
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)
    return imported


def in_one_line(error: Exception) -> str:
    """Return an error's message in one line."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def settings_files() -> str:
    """Return the existing files with dask's settings, for a hint."""
    from dask import config

    files = [str(path) for path, _ in config.collect_yaml(config.paths, return_paths=True)]
    return ", ".join(files) or "DASK_ variables, as there are no files of them"
