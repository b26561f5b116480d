"""A gate beside its run: it looks after some blocks, says how it stands, and answers at the end."""

import contextlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from loadstone.analysis.accounts.gate import POWER, GateAnswer, Outcome, Rules, judge
from loadstone.analysis.accounts.judged_account import read_account
from loadstone.cli import exit_code
from loadstone.cli.messages import say
from loadstone.errors import InputError, LeftBehindError, LoadstoneError
from loadstone.execution.events import Event
from loadstone.execution.runner import RunEnd
from loadstone.report.formats import gate as reports
from loadstone.results.files import durable
from loadstone.results.layout import ANSWER, read_json, read_manifest
from loadstone.results.leg_log import read_legs
from loadstone.results.record import Run
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
    "no ratio": exit_code.VOID,
    "void": exit_code.VOID,
    "not decided": exit_code.UNDECIDED,
}


class GateKeeper:
    """Asks at each look whether the new arm of a run is no worse than its base."""

    is_resumable = True

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

    def watch(self, event: Event) -> None:
        """Let it happen: a gate looks at whole blocks only."""

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
        """Print the answer, keep it in the run folder, and return its exit code.

        Of a run that was interrupted, it is what the whole blocks until then say.
        """
        facts = self._facts(folder)
        gate = self._judge(folder, facts.blocks)
        print(FORMS[self._form](gate, facts), end="")
        sys.stdout.flush()
        if end.state == "interrupted":
            return exit_code.FAILED if end.is_cut_unasked else exit_code.INTERRUPTED
        # The first answer stands: the rules of a later call may be others.
        if end.state == "finished" and not (folder / ANSWER).exists():
            durable.write_file(folder, ANSWER, reports.to_json(gate, facts).encode())
        if end.state == "failed" or any(facts.failed.values()):
            if any(facts.failed.values()):
                each = ", ".join(f"{arm} {count:,}" for arm, count in facts.failed.items())
                say(f"error: requests failed: {each}")
            return exit_code.FAILED
        left = any(isinstance(problem, LeftBehindError) for problem in end.problems)
        return CODES[gate.outcome] or (exit_code.LEFT if left else 0)

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
        passed_ns = sum(
            leg["ended_unix_ns"] - leg["started_unix_ns"]
            for leg in legs
            if "ended_unix_ns" in leg and "started_unix_ns" in leg
        )
        return reports.GateFacts(
            folder=str(folder), commands=commands, failed=failed, passed_ns=passed_ns,
            blocks=_whole_blocks(run),
        )  # fmt: skip


def last_green(history: Path) -> tuple[str, ...]:
    """Return the command of the newest build in a folder of runs that passed its gate.

    Raises InputError where none did.
    """
    for folder in sorted(history.iterdir() if history.is_dir() else (), reverse=True, key=_began):
        with contextlib.suppress(LookupError, TypeError, AttributeError, LoadstoneError):
            answer = read_json(folder / ANSWER)
            if answer["outcome"] == "no worse" and not any(answer["failed"].values()):
                campaign = read_manifest(folder)["campaign"] or {}
                return tuple(map(str, campaign["arms"][answer["new"]]["start"]))
    raise InputError(
        f'no run in "{history}" has a build that passed its gate',
        "name the base with --base COMMAND the first time, and keep the run folders there",
    )


def _began(folder: Path) -> str:
    with contextlib.suppress(LoadstoneError):
        return read_manifest(folder).get("started") or ""
    return ""


def _whole_blocks(run: Run) -> int:
    """Return how many blocks have ended, each with all of its measured trials."""
    recorded = {record.id for record in run.records if record.is_whole}
    planned: dict[int, set[str]] = {}
    for document in run.manifest["plan"]:
        if document["measured"]:
            planned.setdefault(document["block"], set()).add(document["id"])
    return sum(ids <= recorded for ids in planned.values())
