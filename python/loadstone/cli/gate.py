"""A gate beside its run: it looks after some blocks, says how it stands, and answers at the end."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from loadstone.analysis.accounts.gate import POWER, GateAnswer, Outcome, Rules, judge
from loadstone.analysis.accounts.judged_account import read_account
from loadstone.cli import exit_code
from loadstone.cli.messages import say
from loadstone.execution.runner import RunEnd
from loadstone.report.formats import gate as reports
from loadstone.results.leg_log import read_legs
from loadstone.results.store import read_run

FORMS: Mapping[str, Callable[[GateAnswer, reports.GateFacts], str]] = {
    "terminal": reports.to_terminal,
    "markdown": reports.to_markdown,
    "md": reports.to_markdown,
    "json": reports.to_json,
    "junit": reports.to_junit,
}
CODES: Mapping[Outcome, int] = {
    "no worse": 0,
    "worse": exit_code.WORSE,
    "void": exit_code.VOID,
    "not decided": exit_code.UNDECIDED,
}


class GateKeeper:
    """Asks at each look whether the new arm of a run is no worse than its base."""

    def __init__(self, rules: Rules, base: str, new: str, form: str, *, is_quiet: bool) -> None:
        self._rules = rules
        self._arms = base, new
        self._form = form
        self._is_quiet = is_quiet

    def announce(self) -> None:
        """Say before the start what the gate can tell, and how often it is wrong."""
        rules = self._rules
        if self._is_quiet:
            return
        say(
            f"up to {rules.looks[-1]} blocks, with looks after {', '.join(map(str, rules.looks))}."
            f" A build that is equal passes with a power of {POWER:.0%} where the ratios of blocks"
            f" spread by up to {rules.spread:.1%}; {reports.error_rates(rules)}."
        )

    def decide(self, folder: Path, blocks: int) -> bool:
        """Look, where the block is one to look after; return whether it was the last."""
        if blocks not in self._rules.looks:
            return False
        gate = self._judge(folder, blocks)
        facts = self._facts(folder)
        if not self._is_quiet:
            say(f"after {blocks} blocks: {reports.answer(gate, facts)}")
        return gate.outcome in ("no worse", "worse") or any(facts.failed.values())

    def conclude(self, folder: Path, end: RunEnd) -> int:
        """Print the answer and return its exit code."""
        facts = self._facts(folder)
        gate = self._judge(folder, facts.blocks)
        print(FORMS[self._form](gate, facts), end="")
        sys.stdout.flush()
        if end.state == "failed" or any(facts.failed.values()):
            if any(facts.failed.values()):
                each = ", ".join(f"{arm} {count:,}" for arm, count in facts.failed.items())
                say(f"error: requests failed: {each}")
            return exit_code.FAILED
        return CODES[gate.outcome]

    def _judge(self, folder: Path, blocks: int) -> GateAnswer:
        return judge(read_account(read_run(folder)), *self._arms, self._rules, blocks)

    def _facts(self, folder: Path) -> reports.GateFacts:
        run = read_run(folder)
        failed = dict.fromkeys(self._arms, 0)
        for record in run.records:
            if record.trial["measured"]:
                failed[record.trial["target"]["name"]] += record.summary.get("failed", 0)
        legs = read_legs(folder)
        commands = {leg["arm"]: leg["command"] for leg in reversed(legs)}
        times = [
            (leg["started_unix_ns"], leg["ended_unix_ns"])
            for leg in legs
            if "ended_unix_ns" in leg and "started_unix_ns" in leg
        ]
        passed_ns = max(end for _, end in times) - min(start for start, _ in times) if times else 0
        blocks = len({leg["block"] for leg in legs})
        return reports.GateFacts(
            folder=str(folder), commands=commands, failed=failed, passed_ns=passed_ns,
            blocks=blocks,
        )  # fmt: skip
