"""Agents as jobs of a batch system, submitted and removed by dask-jobqueue.

The site's settings of dask-jobqueue apply. A job starts `loadstone agent` instead of a dask worker.
"""

import asyncio
import contextlib
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loadstone.campaign.schema.hosts import Hosts
from loadstone.errors import HostError, InputError
from loadstone.hosts.invitation import Invitation
from loadstone.hosts.launchers.dask_workers import import_dask, settings_files
from loadstone.hosts.launchers.shared_folder import SharedFolder

OUTPUT_BYTES = 2000
OF_DASK = (
    "scheduler", "name", "processes", "nanny", "protocol", "security", "interface",
    "death_timeout", "local_directory", "extra", "worker_command", "worker_extra_args", "job_extra",
    "env_extra", "header_skip", "python", "config_name", "project",
)  # fmt: skip
"""Settings of dask-jobqueue that only apply to its own worker, or were renamed."""


class Jobs:
    """A job for each agent; its output and exit code are written next to its invitation."""

    def __init__(self, hosts: Hosts, environment: Mapping[str, str]) -> None:
        self._hosts = hosts
        self._environment = environment
        self._folder: SharedFolder | None = None
        self._jobs: dict[str, Any] = {}
        self._files: dict[str, Path] = {}

    def start(self, invitations: Sequence[Invitation]) -> list[str]:
        """Submit a job for each invitation, and return a line about them."""
        self._folder = SharedFolder(self._hosts, invitations[0].run)
        paths = self._folder.write(invitations)
        for invitation, path in zip(invitations, paths, strict=True):
            self._files[invitation.host] = path
            self._jobs[invitation.host] = self.job(invitation.host, path)
        try:
            asyncio.run(self._submit())
        except (OSError, RuntimeError, ValueError) as error:
            raise HostError(
                f"submit a job for an agent: {error}",
                f"hosts.job holds settings of dask-jobqueue; is {self.submit_program} here?",
                kind="program-absent" if isinstance(error, FileNotFoundError) else None,
            ) from error
        return [f"{host} is job {job.job_id}" for host, job in self._jobs.items()]

    submit_program = ""

    def job(self, host: str, invitation: Path) -> Any:
        """Return the job that starts an agent; raise InputError for an unknown setting."""
        kind, settings = self.kind(), dict(self._hosts.job)
        known = [name for name in _parameters(kind) if name not in OF_DASK]
        for name in settings:
            if name not in known:
                raise InputError.of_value(name, f"a key of hosts.job: {', '.join(sorted(known))}")
        try:
            job = kind(scheduler="", name=host, **self.settings(host, settings))
        except (TypeError, ValueError) as error:
            raise HostError(
                f"host {host}: describe its job: {error}",
                f"see hosts.job, or the settings of dask-jobqueue: {settings_files()}",
            ) from error
        replace_command(job, self.command(invitation))
        return job

    def kind(self) -> Any:
        """Return the class of dask-jobqueue."""
        raise NotImplementedError

    def settings(self, host: str, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the settings of a host's job."""
        return settings

    def command(self, invitation: Path) -> str:
        """Return the shell command that a job runs."""
        agent = self._hosts.command or "loadstone"
        file = shlex.quote(str(invitation))
        return f"{agent} agent --join {file} 2> {file}.printed; echo $? > {file}.ended"

    def ended(self) -> Mapping[str, str]:
        """Return the hosts whose agents have exited, with their last output."""
        reasons = {}
        for host, path in self._files.items():
            with contextlib.suppress(OSError, ValueError):
                code = int(path.with_name(path.name + ".ended").read_text())
                printed = path.with_name(path.name + ".printed").read_text(errors="replace").strip()
                last = printed[-OUTPUT_BYTES:].removeprefix("error: ")
                reasons[host] = last or f"its agent ended with exit code {code}"
        return reasons

    def news(self) -> list[str]:
        """Return nothing: the output of agents stays on their hosts."""
        return []

    def stop(self) -> None:
        """Cancel the remaining jobs; agents leave with the run by themselves."""
        asyncio.run(self._cancel())
        if self._folder is not None:
            self._folder.remove()

    async def _submit(self) -> None:
        for job in self._jobs.values():
            await job.start()

    async def _cancel(self) -> None:
        for host, job in self._jobs.items():
            if getattr(job, "job_id", None) and host not in self.ended():
                with contextlib.suppress(OSError, RuntimeError):
                    await job.close()


class Slurm(Jobs):
    """Jobs of Slurm, by sbatch."""

    submit_program = "sbatch"

    def kind(self) -> Any:
        """Return dask-jobqueue's job of Slurm."""
        return import_dask("dask_jobqueue.slurm", "jobqueue").SLURMJob

    def settings(self, host: str, settings: dict[str, Any]) -> dict[str, Any]:
        """Add the node of a host that has a name."""
        directives = list(settings.get("job_extra_directives", ()))
        if "log_directory" not in settings:
            # The agent's output is next to its invitation; Slurm's own file would be left behind.
            directives.insert(0, "--output=/dev/null")
        if self._hosts.names:
            directives.append(f"--nodelist={host}")
        return {**settings, "job_extra_directives": directives, "job_name": f"loadstone-{host}"}


class HTCondor(Jobs):
    """Jobs of HTCondor, by condor_submit. Its scripts were checked as text only."""

    submit_program = "condor_submit"

    def kind(self) -> Any:
        """Return dask-jobqueue's job of HTCondor."""
        return import_dask("dask_jobqueue.htcondor", "jobqueue").HTCondorJob


def replace_command(job: Any, command: str) -> None:
    """Make a job run a shell command in place of dask's worker."""
    # dask-jobqueue builds the job's script from this attribute only.
    job._command_template = command


def _parameters(kind: Any) -> set[str]:
    import inspect

    names = {name for base in kind.__mro__ for name in inspect.signature(base.__init__).parameters}
    return names - {"self", "args", "kwargs", "base_class_kwargs"}
