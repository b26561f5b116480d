"""Check whether a campaign's client hosts can make its load, without making any.

Each host's agent is launched, joins, describes the host, reads from each target, and leaves again.
Hosts are named that cannot reach a target, whose credentials or clock a target refuses, or that may
not open as many connections as their load needs. Nothing is written to a target. The clock is the
host's minus this machine's, with its bound: half of the fastest round trip. The exit code is 1 if a
host cannot make the load.

\b
Examples:
  loadstone hosts check campaign.yaml
  loadstone hosts check campaign.yaml --full
  loadstone hosts check campaign.yaml --set hosts.count=4 -f json
"""

import contextlib
import json
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadstone.cli import extras, plain
from loadstone.cli.flags import AllowCommands, Overrides, TerminalOrJson
from loadstone.cli.messages import say
from loadstone.cli.running import consent
from loadstone.cli.running.load_hosts import ending_in_order, secrets_of
from loadstone.cli.running.reuse import reused_by
from loadstone.cli.running.scripts import making_scripts
from loadstone.cli.running.stores import making_lists, store_sizes
from loadstone.cli.screen.output import print_table
from loadstone.documents.manifest import HostCard
from loadstone.errors import InputError

if TYPE_CHECKING:
    from loadstone.hosts.clock import Clock
    from loadstone.hosts.contact import Obstacle
    from loadstone.hosts.messages import Hello

LINE = 80
GAP = "  "
NAME_MIN = 8
"""At least this many characters of a host's name are shown."""


def command(
    action: Annotated[str, typer.Argument(help="The action: check.", metavar="check")],
    campaign_file: Annotated[
        Path, typer.Argument(help="The campaign, which names its hosts.", metavar="CAMPAIGN")
    ],
    overrides: Overrides = None,
    form: TerminalOrJson = "terminal",
    full: Annotated[
        bool, typer.Option("--full", help="All facts about the hosts, on long lines.")
    ] = False,
    allow_commands: AllowCommands = False,
) -> None:
    if action != "check":
        raise InputError.of_value(action, "check")
    from loadstone.campaign.parse import read_campaign
    from loadstone.campaign.planning.plan import make_plan
    from loadstone.execution.payload_files import PayloadFiles

    campaign = read_campaign(campaign_file, list(overrides or ()))
    if campaign.hosts is None:
        raise InputError(
            f'campaign "{campaign_file}" has no hosts: this machine makes its load',
            "name them, for example: hosts: {launch: local, count: 2}",
        )
    if not extras.has("hosts"):
        raise extras.refuse_hosts()
    from loadstone.hosts.session import HostSession

    run = uuid.uuid4().hex
    with contextlib.ExitStack() as stack:
        stack.enter_context(ending_in_order())
        plan = make_plan(
            campaign, run=run, reused=reused_by(campaign), starts=1,
            scripts=stack.enter_context(making_scripts(campaign)), stores=store_sizes(campaign),
            lists=stack.enter_context(making_lists(campaign)),
            payload_files=PayloadFiles(campaign),
        )  # fmt: skip
        # Hosts read from the targets, with the profiles that the campaign names.
        commands = [*consent.of_profiles(plan.documents()), *consent.of_hosts(campaign.hosts)]
        consent.ask_for(commands, who="this campaign", is_allowed=allow_commands)
        session = stack.enter_context(
            HostSession(campaign.hosts, run, say, secrets=secrets_of(campaign))
        )
        clocks = session.carrier.read_clocks(session.names)
        hosts = [
            AnsweringHost(
                name=name, facts=facts, joined_s=session.joined_s[name], clock=clocks.get(name)
            )
            for name in session.names
            if (facts := session.facts.get(name)) is not None
        ]
        targets = {document["target"]["name"]: document["target"] for document in plan.documents()}
        for name, target in targets.items():
            obstacle_of = session.obstacles(target, run)
            for host in hosts:
                host.obstacles[name] = obstacle_of.get(host.name)
        if form == "json":
            print(json.dumps([host.document() for host in hosts], indent=2, ensure_ascii=False))
        else:
            print_hosts(hosts, is_full=full)
        sys.stdout.flush()
        refuse_obstacles(hosts)
        session.refuse_shortages(plan.documents())


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweringHost:
    """A host that joined: its description, the time that it took, and its clock offset if it was
    measured.
    """

    name: str
    facts: "Hello"
    joined_s: float
    clock: "Clock | None"
    obstacles: "dict[str, Obstacle | None]" = field(default_factory=dict)
    """The obstacle to each target by name; None if the host reached it."""

    def document(self) -> dict[str, object]:
        """Return the host's description as JSON."""
        clock = self.clock.document() if self.clock is not None else {}
        targets = {
            name: {"is_usable": obstacle is None, "obstacle": obstacle and obstacle.text}
            for name, obstacle in self.obstacles.items()
        }
        facts = self.facts.document(self.name)
        return {**facts, "joined_s": self.joined_s, **clock, "targets": targets}


def refuse_obstacles(hosts: Sequence[AnsweringHost]) -> None:
    """Raise HostError with every host that cannot use a target."""
    from loadstone.hosts.contact import refusal

    why = {}
    for host in hosts:
        obstacles = [
            (name, obstacle) for name, obstacle in host.obstacles.items() if obstacle is not None
        ]
        if obstacles:
            text = "; ".join(f'target "{name}": {obstacle.text}' for name, obstacle in obstacles)
            hint = next((obstacle.hint for _, obstacle in obstacles if obstacle.hint), None)
            why[host.name] = f"host {host.name}: {text}" + (f"\nhint: {hint}" if hint else "")
    if why:
        raise refusal(why)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """One column of the table; details are shown by `--full` only."""

    head: str
    of: Callable[[AnsweringHost], str]
    is_number: bool = True
    is_detail: bool = False


def print_hosts(hosts: Sequence[AnsweringHost], *, is_full: bool) -> None:
    """Print the hosts' descriptions: within 80 columns, or with all details."""
    columns = [column for column in COLUMNS if is_full or not column.is_detail]
    rows = [[plain(column.of(host)) for column in columns] for host in hosts]
    if not is_full:
        used = sum(
            max(len(columns[at].head), *(len(row[at]) for row in rows)) + len(GAP)
            for at in range(1, len(columns))
        )
        for row in rows:
            row[0] = _cut(row[0], max(NAME_MIN, LINE - used))
    numbers = [at for at, column in enumerate(columns) if column.is_number]
    print_table([column.head for column in columns], rows, numbers=numbers)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _memory(host: AnsweringHost) -> str:
    memory = host.facts.memory_bytes
    return f"{memory / (1 << 30):,.0f} GiB" if memory else "unknown"


def _speed(card: HostCard) -> float:
    return int(card.get("speed_mbit_per_s") or 0) / 1000


def _fastest(host: AnsweringHost) -> str:
    speed = max(map(_speed, host.facts.network.values()), default=0.0)
    return f"{speed:g} Gbit/s" if speed else "unknown"


def _cards(host: AnsweringHost) -> str:
    """Return every network card that is up, or whose state is unknown."""
    cards = []
    for name, card in host.facts.network.items():
        if name != "lo" and card.get("state") != "down":
            speed = f"{_speed(card):g} Gbit/s" if _speed(card) else "speed unknown"
            cards.append(f"{name} {speed}")
    return ", ".join(cards) or "unknown"


def _clock(host: AnsweringHost) -> str:
    if host.clock is None:
        return "unknown"
    return f"{host.clock.offset_ns / 1e6:+.2f} ± {host.clock.bound_ns / 1e6:.2f}"


def _round_trip(host: AnsweringHost) -> str:
    return f"{host.clock.round_trip_ns / 1e6:.2f}" if host.clock is not None else "unknown"


COLUMNS = (
    _Column(head="host", of=lambda host: host.name, is_number=False),
    _Column(head="cores", of=lambda host: str(host.facts.cores)),
    _Column(head="memory", of=_memory),
    _Column(head="network", of=_fastest),
    _Column(head="clock, ms", of=_clock),
    _Column(head="trip, ms", of=_round_trip, is_detail=True),
    _Column(
        head="targets",
        of=lambda host: f"{[*host.obstacles.values()].count(None)} of {len(host.obstacles)}",
    ),
    _Column(
        head="calibrated",
        of=lambda host: "no" if "absent" in host.facts.calibration else "yes",
        is_number=False,
    ),
    _Column(head="cards", of=_cards, is_number=False, is_detail=True),
    _Column(head="descriptors", of=lambda host: str(host.facts.descriptors), is_detail=True),
    _Column(head="ports", of=lambda host: str(host.facts.ports), is_detail=True),
    _Column(head="joined, s", of=lambda host: f"{host.joined_s:.1f}", is_detail=True),
    _Column(head="loadstone", of=lambda host: host.facts.loadstone, is_detail=True),
    _Column(head="python", of=lambda host: host.facts.python, is_detail=True),
)
