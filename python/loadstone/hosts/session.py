"""The hosts of one run, from their launch to their end."""

import queue
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Self

from loadstone.campaign.schema.systems.hosts import NAMED_ONLY, Hosts
from loadstone.documents.manifest import JoinedHost
from loadstone.errors import HostError
from loadstone.execution.executor import Executor
from loadstone.execution.executors import EXECUTORS
from loadstone.hosts import messages
from loadstone.hosts.connection.carrier import Carrier
from loadstone.hosts.executor import OnHosts
from loadstone.hosts.launchers import listen_address, make_launcher

LOOK_S = 0.1
MORE_S = 20.0
"""How long to wait for the other hosts after the first that failed, so that all are named."""

TELL_S = 5.0
NAMED_MAX = 8


class HostSession:
    """Agents on all hosts of a campaign, joined and known, for as long as the context lasts."""

    def __init__(
        self,
        hosts: Hosts,
        run: str,
        tell: Callable[[str], None],
        *,
        secrets: Collection[str] = (),
    ) -> None:
        """`tell` shows a line to the user, who may have to start the agents.

        `secrets` names the environment variables that are sent, where the hosts say so.
        """
        self.facts: dict[str, messages.Hello] = {}
        self.joined_s: dict[str, float] = {}
        self._hosts = hosts
        self._carrier = Carrier(run, listen_address(hosts))
        self._launcher = make_launcher(hosts, secrets if hosts.sends_secrets else ())
        self._tell = tell
        self._ended_at: float | None = None

    def __enter__(self) -> Self:
        self._carrier.__enter__()
        try:
            self._launch()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._carrier.__exit__()
        finally:
            self._launcher.stop()

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts in the campaign's order."""
        return self._hosts.all_names

    @property
    def carrier(self) -> Carrier:
        """What reaches the hosts."""
        return self._carrier

    def executors(self) -> dict[str, Executor]:
        """Return what carries out each kind of trial on these hosts."""
        operations = OnHosts(
            self._carrier,
            self.names,
            EXECUTORS["operations"],
            stops_on_loss=self._hosts.on_lost == "stop",
            sends_secrets=self._hosts.sends_secrets,
        )
        return {"operations": operations}

    def documents(self) -> list[JoinedHost]:
        """Return what the hosts told of themselves, as the manifest keeps it."""
        return [self.facts[name].document(name) for name in self.names if name in self.facts]

    def _launch(self) -> None:
        began = time.monotonic()
        is_alone = self._hosts.launch != "local"
        # Ranks, jobs and workers of one run may be several on a host, as its scheduler has it.
        is_only = self._hosts.launch in NAMED_ONLY
        invitations = [
            self._carrier.invite(name, is_alone=is_alone, is_only=is_only) for name in self.names
        ]
        for line in self._launcher.start(invitations):
            self._tell(line)
        next_told = began + TELL_S
        while missing := [name for name in self.names if name not in self.facts]:
            for line in self._launcher.news():
                self._tell(line)
            self._refuse_ended(missing)
            now = time.monotonic()
            if now >= next_told:
                next_told = now + TELL_S
                self._tell(
                    f"{len(self.facts)} of {len(self.names)} client hosts have joined, after"
                    f" {now - began:.0f} s of at most {self._hosts.join_s:.0f}: waiting for"
                    f" {_some(missing)}"
                )
            if now - began > self._hosts.join_s:
                raise HostError(
                    f"host {_some(missing)}: its agent did not join within"
                    f" {self._hosts.join_s:g} s",
                    "does the host reach hosts.listen of the campaign, "
                    f"{self._carrier.address}? hosts.join_timeout waits"
                    " longer",
                )
            try:
                heard = self._carrier.heard.get(timeout=LOOK_S)
            except queue.Empty:
                continue
            if heard.say == "gone":
                self.facts.pop(heard.host, None)
                continue
            try:
                said = messages.read(heard.say, heard.body)
            except ValueError as error:
                build = messages.build_of(heard.body)
                raise HostError(
                    f"host {heard.host}: its agent said what is no message: {error}"
                    + (f"; its build of the load generator is {build}" if build else ""),
                    "install the same wheel on all hosts",
                ) from error
            if isinstance(said, messages.Hello):
                self.facts[heard.host] = said
                self.joined_s[heard.host] = time.monotonic() - began
        self._refuse_other_builds()

    def _refuse_ended(self, missing: list[str]) -> None:
        ended = {host: why for host, why in self._launcher.ended().items() if host in missing}
        if not ended:
            return
        now = time.monotonic()
        self._ended_at = self._ended_at or now
        if len(ended) == len(missing) or now - self._ended_at >= MORE_S:
            # What was printed last may be the reason.
            for line in self._launcher.news():
                self._tell(line)
            raise refusal(ended)

    def _refuse_other_builds(self) -> None:
        builds = {facts.build for facts in self.facts.values()}
        if len(builds) > 1:
            told = ", ".join(f"{host} {facts.build}" for host, facts in self.facts.items())
            raise HostError(
                f"hosts have different builds of the load generator: {told}",
                "install the same wheel on all hosts",
            )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more


def refusal(ended: Mapping[str, str]) -> HostError:
    """Return the error that names every host whose agent has ended, and what to do, each once."""
    lines, hints = [], []
    for host, why in sorted(ended.items()):
        message, _, hint = why.partition("\nhint: ")
        is_named = re.search(rf"\bhost {re.escape(host)}(?![\w.-])", message)
        lines.append(message if is_named else f"host {host}: {message}")
        if hint and hint not in hints:
            hints.append(hint)
    more = len(lines) - NAMED_MAX
    if more > 0:
        lines = [*lines[:NAMED_MAX], f"and {more} more hosts"]
    return HostError("\n".join(lines), "; ".join(hints[:2]) or None)
