"""Agents on this machine: for trying out, for tests, and to compare several processes."""

import sys

from loadstone.hosts.launchers.processes import Processes


class Local(Processes):
    """Processes of this machine, each of which ends when its standard input does."""

    absent_hint = "hosts.command is the command that starts loadstone"

    def words(self, host: str) -> list[str]:
        """Return the command that starts an agent here."""
        words = (self.hosts.command or "").split()
        return [*(words or [sys.executable, "-m", "loadstone"]), "agent", "--join", "-"]

    def why(self, host: str, code: int, text: str) -> str:
        """Return what an agent said, or how it ended."""
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return text.removeprefix("error: ") or f"its agent ended with {how}"
