"""Say whether a campaign's client hosts can make its load, without making any.

Each host's agent is launched, joins, tells what the host has, and leaves again. The clock's offset
is the host's less this machine's; the truth lies within the bound of it.

\b
Examples:
  loadstone hosts check campaign.yaml
  loadstone hosts check campaign.yaml --set hosts.count=4 -f json
"""

import json
import uuid
from pathlib import Path
from typing import Annotated, Any

import typer

from loadstone.cli import extras, plain
from loadstone.cli.load_hosts import secrets_of, tell
from loadstone.cli.screen.output import print_table
from loadstone.errors import InputError


def command(
    action: Annotated[str, typer.Argument(help="check.", metavar="check")],
    campaign_file: Annotated[
        Path, typer.Argument(help="The campaign, which names its hosts.", metavar="CAMPAIGN")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="Put a value in the place of the file's.", metavar="KEY=VALUE"),
    ] = None,
    form: Annotated[str, typer.Option("--format", "-f", help="terminal or json.")] = "terminal",
) -> None:
    if action != "check":
        raise InputError.of_value(action, "check")
    if form not in ("terminal", "json"):
        raise InputError.of_value(form, "a format: terminal, json")
    from loadstone.campaign.reading.parse import read_campaign

    campaign = read_campaign(campaign_file, list(overrides or ()))
    if campaign.hosts is None:
        raise InputError(
            f'campaign "{campaign_file}" names no hosts: this machine makes its load',
            "name them, like: hosts: {launch: local, count: 2}",
        )
    if not extras.can_load_hosts():
        raise extras.refuse_hosts()
    from loadstone.hosts.session import HostSession

    secrets = secrets_of(campaign)
    with HostSession(campaign.hosts, uuid.uuid4().hex, tell, secrets=secrets) as session:
        clocks = session.carrier.read_clocks(session.names)
        rows = [
            {
                **host,
                "joined_s": session.joined_s[host["name"]],
                **(clocks[host["name"]].document() if host["name"] in clocks else {}),
            }
            for host in session.documents()
        ]
    if form == "json":
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    heads = (
        "host", "loadstone", "python", "cores", "memory", "network", "descriptors", "ports",
        "calibrated", "joined", "round trip", "clock",
    )  # fmt: skip
    print_table(heads, [tuple(plain(word) for word in _row(row)) for row in rows])


def _row(host: dict[str, Any]) -> tuple[str, ...]:
    cards = [
        f"{name} {int(card['speed_mbit_per_s']) / 1000:g} Gbit/s"
        for name, card in host["network"].items()
        if card.get("speed_mbit_per_s")
    ]
    clock, trip = "unknown", "unknown"
    if "clock_offset_ns" in host:
        clock = f"{host['clock_offset_ns'] / 1e6:+.2f} ± {host['clock_bound_ns'] / 1e6:.2f} ms"
        trip = f"{host['round_trip_ns'] / 1e6:.2f} ms"
    memory = host["memory_bytes"]
    return (
        host["name"],
        host["loadstone"],
        host["python"],
        str(host["cores"]),
        f"{memory / (1 << 30):.1f} GiB" if memory else "unknown",
        ", ".join(cards) or "speed unknown",
        str(host["descriptors"]),
        str(host["ports"]),
        "no" if "absent" in host["calibration"] else "yes",
        f"{host['joined_s']:.1f} s",
        trip,
        clock,
    )
