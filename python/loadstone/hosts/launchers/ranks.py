"""Agents as the ranks of a parallel program, which mpirun or srun starts.

Each finds its invitation by its rank, in a folder that all hosts share.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Any

from loadstone.campaign.schema.hosts import Hosts
from loadstone.errors import HostError
from loadstone.hosts.invitation import Invitation
from loadstone.hosts.launchers.shared_folder import SharedFolder

END_S = 10.0
TEXT_BYTES = 2000


class Ranks:
    """One process that starts all agents, and exits after the last of them."""

    program = ""
    shell: tuple[str, ...] = ()
    """A command prefix before the agent's own command."""

    def __init__(self, hosts: Hosts, environment: Mapping[str, str]) -> None:
        self._hosts = hosts
        self._environment = environment
        self._names: tuple[str, ...] = ()
        self._folder: SharedFolder | None = None
        self._started: subprocess.Popen[bytes] | None = None
        self._output: IO[Any] | None = None
        self._output_told = 0

    def start(self, invitations: Sequence[Invitation]) -> list[str]:
        """Start the program with a rank for each invitation."""
        self._names = tuple(invitation.host for invitation in invitations)
        self._folder = SharedFolder(self._hosts, invitations[0].run)
        self._folder.write(invitations)
        agent = [*shlex.split(self._hosts.command or "loadstone"), "agent", "--join"]
        agent = [*self.shell, *agent, str(self._folder.path)]
        words = [*self.words(len(invitations)), *self._hosts.options, *agent]
        self._output = tempfile.TemporaryFile()  # noqa: SIM115, read while the program writes
        try:
            self._started = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._output,
                env={**self.settings(), **self._environment},
                # Ctrl-C must only reach the controller, which stops its agents in order.
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise HostError(
                f'start agents by "{self.program}": {error.strerror}',
                f"is {self.program} installed here, and in PATH?",
                kind="program-absent" if isinstance(error, FileNotFoundError) else None,
            ) from error
        return []

    def words(self, number: int) -> list[str]:
        """Return the command line up to the user's own options."""
        raise NotImplementedError

    def settings(self) -> Mapping[str, str]:
        """Return environment variables; the user's own take precedence."""
        return {}

    def ended(self) -> Mapping[str, str]:
        """Return all hosts when the program has exited, since ranks cannot be told apart."""
        if self._started is None or self._started.poll() is None:
            return {}
        text = self._read(0).strip()[-TEXT_BYTES:]
        how = f"{self.program} ended with exit code {self._started.returncode}"
        why = text.removeprefix("error: ") or how
        if "\nhint: " not in why:
            why += f"\nhint: try it by hand: {self.program} with the words of hosts.options"
        return dict.fromkeys(self._names, why)

    def news(self) -> list[str]:
        """Return the complete lines that the program and its ranks have printed since the last
        call.

        The program may continue silently when a rank could not be started.
        """
        text = self._read(self._output_told)
        whole = text[: text.rfind("\n") + 1]
        self._output_told += len(whole.encode(errors="surrogateescape"))
        return [f"{self.program}: {line}" for line in whole.splitlines() if line.strip()]

    def stop(self) -> None:
        """Wait until the agents have left and the program has exited, or kill it."""
        try:
            if self._started is not None:
                self._end(self._started)
        finally:
            # Also needed if a second signal has ended the wait.
            if self._started is not None and self._started.poll() is None:
                os.killpg(self._started.pid, signal.SIGKILL)
                self._started.wait()
            if self._output is not None:
                self._output.close()
                self._output = None
            if self._folder is not None:
                self._folder.remove()

    def _end(self, started: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.wait(END_S)
            return
        # The group includes a program that was started by a wrapper script.
        os.killpg(started.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            started.wait(END_S)

    def _read(self, offset: int) -> str:
        """Return the output from an offset; reading must not move the writers' file position."""
        if self._output is None:
            return ""
        size = os.fstat(self._output.fileno()).st_size
        text = os.pread(self._output.fileno(), size - offset, offset)
        return text.decode(errors="surrogateescape")


class Mpirun(Ranks):
    """Ranks of Open MPI, not bound to processors, and not killed because another one exited."""

    program = "mpirun"
    # With these settings mpirun reports no missing program and never exits; a shell reports it, and
    # exits.
    shell = ("sh", "-c", 'exec "$0" "$@"')

    def words(self, number: int) -> list[str]:
        """Return mpirun with this number of ranks, on the hosts that the campaign names."""
        names = ["--host", ",".join(self._hosts.all_names)] if self._hosts.names else []
        return ["mpirun", "-np", str(number), *names, "--bind-to", "none"]

    def settings(self) -> Mapping[str, str]:
        """Return the settings that let the other ranks continue, because the controller judges
        losses.
        """
        return {"OMPI_MCA_orte_abort_on_non_zero_status": "0", "OMPI_MCA_orte_enable_recovery": "1"}


class Srun(Ranks):
    """Tasks of Slurm, in this process's allocation or a new one."""

    program = "srun"

    def words(self, number: int) -> list[str]:
        """Return srun with this number of tasks, on the nodes that the campaign names."""
        nodes = ["--ntasks", str(number)]
        if self._hosts.names:
            names = ",".join(self._hosts.all_names)
            nodes += ["--nodes", str(number), "--ntasks-per-node", "1", "--nodelist", names]
        # The load places its own threads, and the controller judges lost tasks.
        return ["srun", *nodes, "--cpu-bind=none", "--kill-on-bad-exit=0", "--no-kill"]
