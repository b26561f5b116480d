"""Relaunches the agents of lost hosts before the next trial, if this process launched them."""

import time
from collections.abc import Callable, Mapping, Sequence

from loadstone.hosts.carrier import Carrier
from loadstone.hosts.invitation import Invitation
from loadstone.hosts.launchers import Launcher

Tell = Callable[[str, bool], None]
"""Receives a line for the user, and whether it reports a problem."""

WAIT_S = 20.0
"""How long a trial waits for lost hosts, in seconds: ssh takes some to detect a dead connection."""

LOOK_S = 0.1
SKIPS_MAX = 64


class Relaunch:
    """Relaunches lost hosts, and remembers which launches failed.

    After a failed launch a host is retried after one trial, then after two, then four: a
    permanently lost host must not delay each trial.
    """

    def __init__(
        self, carrier: Carrier, launcher: Launcher, invitations: Mapping[str, Invitation]
    ) -> None:
        self._carrier = carrier
        self._launcher = launcher
        self._invitations = invitations
        self._failures: dict[str, int] = {}
        self._skips: dict[str, int] = {}

    def __call__(self, names: Sequence[str], tell: Tell, is_over: Callable[[], bool]) -> None:
        """Launch the agents of these hosts, and wait until they have joined or exited again.

        It also returns when `is_over` returns True.
        """
        due = [name for name in names if self._is_due(name)]
        if not due:
            return
        tell(f"launching {', '.join(due)} again", False)
        begun: set[str] = set()
        end = time.monotonic() + WAIT_S
        while waiting := [name for name in due if name not in self._carrier.hosts]:
            if is_over():
                return
            ended = self._launcher.ended()
            # The earlier agent must have exited, because it would still hold the host.
            again = [name for name in waiting if name in ended and name not in begun]
            if again:
                self._launcher.start([self._invitations[name] for name in again])
                begun.update(again)
            failed = [name for name in waiting if name in begun and name in ended]
            if time.monotonic() > end or (not again and len(failed) == len(waiting)):
                for name in waiting:
                    self._fail(name, ended.get(name, f"it did not join within {WAIT_S:g} s"), tell)
                break
            time.sleep(LOOK_S)
        for name in due:
            if name in self._carrier.hosts:
                self._failures.pop(name, None)
                tell(f"client host {name} has joined again", False)

    def _is_due(self, name: str) -> bool:
        self._skips[name] = self._skips.get(name, 0) - 1
        return self._skips[name] < 0

    def _fail(self, name: str, why: str, tell: Tell) -> None:
        self._failures[name] = self._failures.get(name, 0) + 1
        self._skips[name] = min(SKIPS_MAX, 2 ** (self._failures[name] - 1))
        tell(f"client host {name} could not be launched again: {'; '.join(why.splitlines())}", True)
