"""Agents on this machine, for trials, for tests, and to compare several processes."""

import sys

from loadstone.hosts.launchers.processes import Processes


class Local(Processes):
    """Processes of this machine, each of which exits when its standard input is closed."""

    absent_hint = "hosts.command is the command that starts loadstone"

    def words(self, host: str) -> list[str]:
        """Return the command that starts an agent here."""
        words = (self.hosts.command or "").split()
        return [*(words or [sys.executable, "-m", "loadstone"]), "agent", "--join", "-"]

    def why(self, host: str, code: int, text: str) -> str:
        """Return an agent's output, or how it exited."""
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return text.removeprefix("error: ") or f"its agent ended with {how}"
