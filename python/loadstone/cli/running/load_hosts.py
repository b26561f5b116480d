"""Joins the agents of a campaign's hosts for the duration of a run."""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loadstone.campaign.planning.plan import Plan
from loadstone.campaign.schema.campaign import Campaign
from loadstone.cli import extras
from loadstone.cli.messages import say
from loadstone.documents.manifest import JoinedHost
from loadstone.execution.executor import Executor
from loadstone.execution.executors import EXECUTORS
from loadstone.execution.interrupt import SIGNALS


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The executor of each kind of trial, and the facts that the hosts reported."""

    table: Mapping[str, Executor]
    documents: Sequence[JoinedHost] = ()


@contextlib.contextmanager
def joined(campaign: Campaign, plan: Plan) -> Iterator[Joined]:
    """Start the agents of a campaign's hosts, wait until they join, and dismiss them at the end."""
    if campaign.hosts is None:
        yield Joined(table=EXECUTORS)
        return
    if not extras.has("hosts"):
        raise extras.refuse_hosts()
    from loadstone.hosts.session import HostSession

    with (
        ending_in_order(),
        HostSession(campaign.hosts, plan.run, say, secrets=secrets_of(campaign)) as session,
    ):
        names = ", ".join(session.names)
        print(f"client hosts joined: {names}", file=sys.stderr, flush=True)
        session.refuse_shortages(plan.documents())
        yield Joined(table=session.executors(), documents=session.documents())


@contextlib.contextmanager
def ending_in_order() -> Iterator[None]:
    """Handle termination signals in the same way as Ctrl-C.

    Otherwise agents, their launchers and invitations would be left behind. Signals that were
    ignored at start-up, as with nohup, stay ignored.
    """
    is_main = threading.current_thread() is threading.main_thread()
    unset = [number for number in SIGNALS if signal.getsignal(number) == signal.SIG_DFL]
    numbers = unset if is_main else []
    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def secrets_of(campaign: Campaign) -> set[str]:
    """Return the environment variables that hold secrets of a campaign's targets."""
    from loadstone.hosts.secrets import variables_of

    targets = campaign.targets.values()
    return variables_of((target.driver, target.settings) for target in targets)
