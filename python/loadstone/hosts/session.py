"""The hosts of one run, from their launch to their end."""

import queue
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Self

from loadstone.campaign.drivers import facts_of
from loadstone.campaign.planning.lifecycle import CLEAN_UP
from loadstone.campaign.schema.hosts import NAMED_ONLY, Hosts
from loadstone.documents.manifest import JoinedHost
from loadstone.documents.trial import TargetDocument, TrialDocument
from loadstone.errors import HostError
from loadstone.execution.executor import Executor
from loadstone.execution.executors import EXECUTORS
from loadstone.execution.host.limits import Demand, Limits, Shortage, demand_of, shortages
from loadstone.hosts import messages
from loadstone.hosts.carrier import Carrier
from loadstone.hosts.contact import Contact, Obstacle, contact_document, refusal, some_of
from loadstone.hosts.division import divide
from loadstone.hosts.executor import OnHosts
from loadstone.hosts.invitation import Invitation
from loadstone.hosts.launchers import listen_address, make_launcher
from loadstone.hosts.messages import Hello
from loadstone.hosts.relaunch import Relaunch

LOOK_S = 0.1
MORE_S = 20.0
"""How long to wait for other hosts after the first failure, in seconds, to report all of them."""

TELL_S = 5.0
AGAIN = ("local", "ssh")
"""Launchers with a process per host, which can relaunch a single one."""


class HostSession:
    """Agents on all hosts of a campaign, joined for the duration of the context."""

    def __init__(
        self, hosts: Hosts, run: str, tell: Callable[[str], None], *, secrets: Collection[str] = ()
    ) -> None:
        """`tell` shows a line to the user, who may have to start the agents.

        `secrets` names the environment variables to send, if the hosts key asks for it.
        """
        self.facts: dict[str, messages.Hello] = {}
        self.joined_s: dict[str, float] = {}
        self._hosts = hosts
        self._carrier = Carrier(run, listen_address(hosts))
        self._launcher = make_launcher(hosts, secrets if hosts.sends_secrets else ())
        self._tell = tell
        self._ended_at: float | None = None
        self._contacts = 0
        self._invitations: dict[str, Invitation] = {}

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
        """The connections to the hosts."""
        return self._carrier

    def executors(self) -> dict[str, Executor]:
        """Return the executor of each kind of trial on these hosts."""
        operations = OnHosts(
            self._carrier,
            self.names,
            EXECUTORS["operations"],
            stops_on_loss=self._hosts.on_lost == "stop",
            sends_secrets=self._hosts.sends_secrets,
            profiles=self._hosts.profiles,
            launch_again=Relaunch(self._carrier, self._launcher, self._invitations)
            if self._hosts.launch in AGAIN
            else None,
        )
        return {"operations": operations}

    def obstacles(self, target: TargetDocument, run: str) -> Mapping[str, Obstacle]:
        """Let each host read from a target, and return the obstacles."""
        self._contacts += 1
        prefix = f"loadstone-contact-{run[:8]}-"
        contact = Contact(
            self._carrier, contact_document(target, run, prefix), -self._contacts,
            sends_secrets=self._hosts.sends_secrets, profiles=self._hosts.profiles,
        )  # fmt: skip
        return contact.obstacles(self.names, self._tell)

    def refuse_shortages(self, documents: Iterable[TrialDocument]) -> None:
        """Raise HostError if a host lacks descriptors or ports for its share of a plan."""
        facts = {name: self.facts[name] for name in self.names if name in self.facts}
        short = shortages_of_hosts(documents, facts)
        ended = {
            host: f"{shortage.text}\nhint: {shortage.hint}"
            for host, shortages_of_host in short.items()
            for shortage in shortages_of_host
            if shortage.is_certain
        }
        if ended:
            raise refusal(ended)

    def documents(self) -> list[JoinedHost]:
        """Return the facts that the hosts reported, for the manifest."""
        return [self.facts[name].document(name) for name in self.names if name in self.facts]

    def _launch(self) -> None:
        began = time.monotonic()
        is_alone = self._hosts.launch != "local"
        # A scheduler may place several ranks, jobs or workers of one run on a host.
        is_only = self._hosts.launch in NAMED_ONLY
        self._invitations = {
            name: self._carrier.invite(name, is_alone=is_alone, is_only=is_only)
            for name in self.names
        }
        for line in self._launcher.start(list(self._invitations.values())):
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
                    f" {some_of(missing)}"
                )
            if now - began > self._hosts.join_s:
                raise HostError(
                    f"host {some_of(missing)}: its agent did not join within"
                    f" {self._hosts.join_s:g} s",
                    "does the host reach hosts.listen of the campaign, "
                    f"{self._carrier.address}? hosts.join_timeout waits"
                    " longer",
                )
            try:
                received = self._carrier.inbox.get(timeout=LOOK_S)
            except queue.Empty:
                continue
            if received.name == "gone":
                self.facts.pop(received.host, None)
                continue
            try:
                message = messages.read(received.name, received.body)
            except ValueError as error:
                build = messages.build_of(received.body)
                raise HostError(
                    f"host {received.host}: its agent sent an invalid message: {error}"
                    + (f"; its build of the load generator is {build}" if build else ""),
                    "install the same wheel on all hosts",
                ) from error
            if isinstance(message, messages.Hello):
                self.facts[received.host] = message
                self.joined_s[received.host] = time.monotonic() - began
        self._refuse_other_builds()

    def _refuse_ended(self, missing: list[str]) -> None:
        ended = {host: why for host, why in self._launcher.ended().items() if host in missing}
        if not ended:
            return
        now = time.monotonic()
        self._ended_at = self._ended_at or now
        if len(ended) == len(missing) or now - self._ended_at >= MORE_S:
            # The last lines of output may contain the reason.
            for line in self._launcher.news():
                self._tell(line)
            raise refusal(ended)

    def _refuse_other_builds(self) -> None:
        builds = {facts.build for facts in self.facts.values()}
        if len(builds) > 1:
            listing = ", ".join(f"{host} {facts.build}" for host, facts in self.facts.items())
            raise HostError(
                f"hosts have different builds of the load generator: {listing}",
                "install the same wheel on all hosts",
            )


def shortages_of_hosts(
    documents: Iterable[TrialDocument], facts: Mapping[str, Hello]
) -> dict[str, list[Shortage]]:
    """Return the shortages of each host: descriptors and local ports.

    `facts` are in the order in which hosts take part.
    """
    demands: dict[str, list[Demand]] = {host: [] for host in facts}
    for document in documents:
        # A clean-up has few connections, whatever load its document states.
        has_load = bool(document.get("load")) and document["phase"] != CLEAN_UP
        if not has_load or not facts_of(document["target"]["driver"]).connects:
            continue
        for host, share in divide(document, list(facts)).shares.items():
            # A share has the rate of the whole, so its ports in TIME_WAIT cannot be estimated from
            # it.
            demands[host].append(replace(demand_of(share), is_per_request=False))
    return {host: shortages(demand, _limits(facts[host])) for host, demand in demands.items()}


def _limits(facts: Hello) -> Limits:
    return Limits(
        descriptors=facts.descriptors, first_port=1, last_port=facts.ports, time_wait=0,
        tcp_tw_reuse=1,
    )  # fmt: skip
