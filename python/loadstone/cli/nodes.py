"""The machines that a campaign names: asked, with a word on the screen meanwhile."""

import sys
from typing import Any

from loadstone.campaign.schema.campaign import Campaign
from loadstone.cli import plain
from loadstone.execution import secrets
from loadstone.execution.interrupt import Interrupt
from loadstone.execution.programs.nodes import survey


def describe(campaign: Campaign) -> dict[str, Any]:
    """Return what the campaign's nodes say of themselves; those that failed are warned of."""
    print(f"describing {len(campaign.nodes)} nodes", file=sys.stderr)
    secrets.keep_from_programs(campaign.document())
    found = survey(campaign.nodes, Interrupt())
    for name, node in found.items():
        if "failed" in node:
            where = f" ({node['host']})" if node["host"] else ""
            print(plain(f'warning: node "{name}"{where}: {node["failed"]}'), file=sys.stderr)
    return found
