"""Turns of a script on several hosts: their ends, and the objects in doubt.

Sessions of one turn share no objects, so hosts exchange only two facts: that a turn has ended
everywhere, and which objects are in doubt, because a request that changes them failed or the host
that changes them was lost.
"""

from collections.abc import Collection, Sequence

from loadstone.hosts.messages import Begin

DOUBTS_BYTES_MAX = 4 << 20
"""If more subjects are in doubt than fit, at four bytes each, all are in doubt."""


class Turns:
    """The current turn of a trial's script, over all its hosts."""

    def __init__(self, hosts: Sequence[str], attempt: int) -> None:
        """`hosts` are in the order of their portions."""
        self._attempt = attempt
        self._hosts = tuple(hosts)
        self._turn = 0
        self._ended: set[str] = set()
        self._doubts: bytes | None = b""

    def end(self, host: str, turn: int, doubts: bytes | None) -> None:
        """Record that a host has ended its part of a turn; without `doubts` all objects are in
        doubt.
        """
        if turn != self._turn or host in self._ended:
            return
        self._ended.add(host)
        if self._doubts is None or doubts is None:
            self._doubts = None
        else:
            joined = self._doubts + doubts
            self._doubts = joined if len(joined) <= DOUBTS_BYTES_MAX else None

    def next(self, working: Collection[str], lost: Collection[str]) -> Begin | None:
        """Return the next turn, if every remaining host waits for it; otherwise None."""
        if not working or not self._ended.issuperset(working):
            return None
        begin = Begin(
            attempt=self._attempt,
            turn=self._turn + 1,
            doubts=self._doubts,
            lost=[
                index
                for index, host in enumerate(self._hosts)
                if host in lost and host not in self._ended
            ],
        )
        self._turn, self._ended, self._doubts = begin.turn, set(), b""
        return begin
