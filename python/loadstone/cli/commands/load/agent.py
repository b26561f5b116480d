"""Make load on this host for a controller elsewhere, until its run ends.

The invitation names the controller, and contains the certificate by which both identify each other:
keep it as secret as a password. "loadstone run" writes or sends one for each host of a campaign
with hosts. The agent obeys its controller. Its load ends with the connection.

\b
Examples:
  loadstone agent --join client3.invitation
  loadstone agent --join - < client3.invitation
"""

import asyncio
import signal
import sys
from typing import Annotated

import typer

from loadstone.cli import exit_code


def command(
    join: Annotated[
        str, typer.Option("--join", help="The invitation to the run; - reads standard input.")
    ],
) -> int:
    from loadstone.hosts.agent import serve
    from loadstone.hosts.invitation import read_invitation
    from loadstone.hosts.messages import RUN_OVER

    invitation = read_invitation(join)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    why = asyncio.run(serve(invitation, until_input_ends=join == "-"))
    print(f"host {invitation.host} left run {invitation.run[:8]}: {why}", file=sys.stderr)
    return 0 if why == RUN_OVER else exit_code.FAILED
