"""An agent's connection to its controller, with an error message for each obstacle."""

import asyncio
import ssl

from loadstone import units
from loadstone.errors import HostError
from loadstone.hosts import messages
from loadstone.hosts.connection.invitation import Invitation
from loadstone.hosts.connection.stream import (
    Identity,
    MessageStream,
    context_of_host,
    split_address,
)
from loadstone.steady_clock import SteadyClock

CONNECT_S = 20.0
CLOCKS_APART_S_MAX = 12 * 3600
"""A larger difference of clocks means a wrong clock, since no time zone explains it."""


async def join(invitation: Invitation, clock: SteadyClock) -> MessageStream:
    """Connect to the controller and return the connection after its welcome.

    Raises HostError with the reason if the host cannot join. `clock` is the host's own.
    """
    address, port = split_address(invitation.controller)
    identity = Identity(certificate=invitation.certificate, key=invitation.key)
    tried = f"host {invitation.host}: connect to the controller at {invitation.controller}"
    try:
        async with asyncio.timeout(CONNECT_S):
            context = context_of_host(invitation.authority, identity)
            # Certificates contain addresses without the interface.
            name = address.partition("%")[0]
            reader, writer = await asyncio.open_connection(
                address, port, ssl=context, server_hostname=name
            )
            stream = MessageStream(reader, writer)
            first = messages.read_asked(*await stream.receive())
    except TimeoutError as error:
        raise HostError(
            f"{tried}: no answer within {CONNECT_S:g} s",
            "is there a route, and does a firewall between the two let this port pass?"
            " hosts.listen of the campaign sets address and port",
            kind="unreachable",
        ) from error
    except (ssl.SSLError, EOFError) as error:
        # After rejecting the certificate the controller closes a connection that looks open here.
        reason = getattr(error, "verify_message", None) or getattr(error, "reason", None)
        raise HostError(
            f"{tried}: the certificates do not match: {reason or 'it refused that of this host'}",
            "the invitation is of another run; take the one that this run wrote",
            kind="certificates",
        ) from error
    except OSError as error:
        raise HostError(
            f"{tried}: {error.strerror or error}",
            "the run is over, or its address is not this one as seen from here"
            " (hosts.listen of the campaign)",
            kind="unreachable",
        ) from error
    except ValueError as error:
        raise HostError(
            f"{tried}: it sent an invalid message: {error}", "install the same version on all hosts"
        ) from error
    try:
        _check(first, invitation, clock)
    except HostError:
        stream.abort()
        raise
    return stream


def _check(first: messages.FromController, invitation: Invitation, clock: SteadyClock) -> None:
    """Raise HostError unless the controller's first message admits this host."""
    match first:
        case messages.Welcome(unix_ns=unix_ns):
            apart_ns = clock.unix_ns() - unix_ns
            if abs(apart_ns) > CLOCKS_APART_S_MAX * 10**9:
                direction = "ahead of" if apart_ns > 0 else "behind"
                raise HostError(
                    f"host {invitation.host}: its clock is {units.format_duration(abs(apart_ns))}"
                    f" {direction} the controller's",
                    "set the wrong one of the two clocks, best by NTP: timedatectl set-ntp true",
                    kind="clock",
                )
        case messages.Leave(reason=reason):
            raise HostError(
                f"host {invitation.host}: join {invitation.controller}: {reason}",
                "start one agent on each host, with the invitation of its own",
                kind="host-in-use",
            )
        case _:
            raise HostError(
                f"host {invitation.host}: join {invitation.controller}: the controller did not"
                " say welcome first",
                "install the same version on all hosts",
            )
