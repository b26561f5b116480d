"""Describe the machines that a campaign names under "nodes": hardware, system, disks, versions.

Each is reached by the system's own ssh, or is this machine, and is only read. A run does the same
before its first trial, and keeps it.

\b
Examples:
  loadstone nodes campaign.yaml
  loadstone nodes campaign.yaml --json | jq '.osd1.disks'
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from loadstone.cli import exit_code
from loadstone.errors import InputError


def command(
    campaign: Annotated[Path, typer.Argument(help="The campaign's file.", metavar="CAMPAIGN")],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a key: KEY=VALUE.", metavar="KEY=VALUE"),
    ] = None,
    is_json: Annotated[bool, typer.Option("--json", help="Print everything, as JSON.")] = False,
) -> None:
    from loadstone.campaign.reading.parse import read_campaign
    from loadstone.cli.nodes import describe
    from loadstone.cli.screen.output import print_table
    from loadstone.report.tables.nodes import node_tables

    asked = read_campaign(campaign, settings or [])
    if not asked.nodes:
        raise InputError(
            f'"{campaign}" names no nodes', "for example: nodes: {osd1: {host: osd1, roles: [osd]}}"
        )
    found = describe(asked)
    if is_json:
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        for table in node_tables(found):
            print(f"\n{table.title}")
            print_table([column.head for column in table.columns], table.rows)
    if any("failed" in node for node in found.values()):
        raise typer.Exit(exit_code.FAILED)
