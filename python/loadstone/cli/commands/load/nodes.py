"""Describe and probe the machines that a campaign names under "nodes".

A node is reached by the system's own ssh, or is this machine. Hardware, system, disks and versions
are only read. The "probes" of a node are measured: ping and iperf3 between nodes; fio on devices,
which it only reads; and fio on mounts, in a new directory that is removed again.

A run does the same before its first trial and keeps the answers. Given a run's folder, this command
prints them.

\b
Examples:
  loadstone nodes campaign.yaml
  loadstone nodes campaign.yaml --no-probes
  loadstone nodes campaign.yaml -f json | jq '.osd1.disks'
  loadstone nodes runs/mine -f markdown
"""

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from loadstone import units
from loadstone.cli import exit_code
from loadstone.cli.flags import Overrides
from loadstone.documents.node import NodeDocument
from loadstone.errors import InputError

FORMATS = ("terminal", "markdown", "csv", "json")


def command(
    campaign: Annotated[
        Path, typer.Argument(help="The campaign's file, or a run's folder.", metavar="CAMPAIGN|RUN")
    ],
    settings: Overrides = None,
    form: Annotated[
        str, typer.Option("--format", "-f", help="terminal, markdown, csv or json.")
    ] = "terminal",
    with_probes: Annotated[
        bool, typer.Option("--probes/--no-probes", help="Measure the probes of the nodes.")
    ] = True,
) -> None:
    if form not in FORMATS:
        raise InputError.of_value(form, f"a format: {', '.join(FORMATS)}")
    nodes = _nodes_of(campaign, settings or [], with_probes=with_probes)
    _print(nodes, form)
    if any(_has_failed(node) for node in nodes.values()):
        raise typer.Exit(exit_code.FAILED)


def _nodes_of(path: Path, settings: list[str], *, with_probes: bool) -> dict[str, NodeDocument]:
    if path.is_dir():
        from loadstone.results.layout import read_manifest

        recorded: dict[str, NodeDocument] = read_manifest(path).get("nodes") or {}
        if not recorded:
            raise InputError(f'run "{path}" describes no nodes', "its campaign names none")
        return recorded
    from loadstone.campaign.parse import read_campaign
    from loadstone.cli.running.nodes import describe

    asked = read_campaign(path, settings)
    if not asked.nodes:
        raise InputError(
            f'"{path}" names no nodes', "for example: nodes: {osd1: {host: osd1, roles: [osd]}}"
        )
    return describe(asked, with_probes=with_probes)


def _has_failed(node: NodeDocument) -> bool:
    probes = (*(node.get("probes") or ()), *(node.get("paths") or {}).values())
    return "failed" in node or any("failed" in probe for probe in probes)


def _print(nodes: dict[str, NodeDocument], form: str) -> None:
    if form == "json":
        print(json.dumps(nodes, indent=2, ensure_ascii=False))
        return
    if form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(("node", "fact", "value"))
        writer.writerows(
            map(units.csv_cell, (name, *fact))
            for name, node in nodes.items()
            for fact in _facts(node)
        )
        return
    from loadstone.cli.reporting import on_screen
    from loadstone.report import Options
    from loadstone.report.formats.markdown import table_blocks
    from loadstone.report.formats.terminal import render_tables
    from loadstone.report.tables.node_probes import deployment
    from loadstone.report.tables.nodes import node_tables

    tables = list(node_tables(nodes))
    if form == "markdown":
        blocks = [block for table in tables for block in table_blocks(table)]
        print("\n\n".join([deployment(nodes).rstrip(), *blocks]))
    else:
        print(render_tables(tables, on_screen(Options(), is_terminal=sys.stdout.isatty())), end="")


def _facts(value: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a node's facts one at a time, each with its dotted path."""
    match value:
        case dict():
            for name, below in value.items():
                yield from _facts(below, f"{above}.{name}" if above else str(name))
        case list() if value and all(isinstance(item, str) for item in value):
            yield above, "; ".join(value)
        case list():
            for number, below in enumerate(value):
                yield from _facts(below, f"{above}.{number}")
        case None:
            pass
        case _:
            yield above, value
