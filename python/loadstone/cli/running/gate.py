"""Runs a gate beside its run: prints its state after each block, and its answer at the end."""

import contextlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from loadstone.analysis.accounts.account import Account
from loadstone.analysis.accounts.gate import POWER, GateAnswer, Outcome, Rules, judge
from loadstone.analysis.accounts.judged_account import read_account
from loadstone.analysis.accounts.run_account import leave_out_spoiled
from loadstone.cli import exit_code
from loadstone.cli.messages import say
from loadstone.errors import InputError, LeftBehindError, LoadstoneError
from loadstone.execution.events import Event, TrialEnded, TrialStarted
from loadstone.execution.runner import RunEnd
from loadstone.report.formats import gate as reports
from loadstone.results.files import durable
from loadstone.results.layout import ANSWER, read_json, read_manifest
from loadstone.results.leg_log import read_legs
from loadstone.results.record import Run
from loadstone.results.store import read_record, read_run

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
    """Decides at each interim look whether the new arm of a run is no worse than its base."""

    is_resumable = True

    def __init__(
        self, rules: Rules, base: str, new: str, form: str, *, is_quiet: bool, shows_trials: bool
    ) -> None:
        self.shows_trials = shows_trials
        self._rules = rules
        self._arms = base, new
        self._form = form
        self._is_quiet = is_quiet
        self._began_s: float | None = None
        self._blocks_passed = 0
        self._ended: list[str] = []
        self._so_far: SoFar | None = None
        self._look: GateAnswer | None = None

    def announce(self) -> None:
        """Print before the start what the gate can decide, and its error rates."""
        rules = self._rules
        if self._is_quiet:
            return
        say(
            f"up to {rules.looks[-1]} blocks, with looks after {', '.join(map(str, rules.looks))}."
            f" An equal build passes with a power of {POWER:.0%} where the ratios of blocks"
            f" spread by up to {rules.spread:.1%}; {reports.error_rates(rules)}. Each"
            " line shows, for one block:"
            f" {' → '.join(self._arms)} so far, the difference, and its 95 % interval."
        )

    def watch(self, event: Event) -> None:
        """Record which trials form a block, and when the first began."""
        match event:
            case TrialStarted() if self._began_s is None:
                self._began_s = time.monotonic()
            case TrialEnded(document=document):
                self._ended.append(document["id"])

    def decide(self, folder: Path, blocks: int) -> bool:
        """Print the gate's state; return whether this look decided it."""
        self._blocks_passed += 1
        is_look = blocks in self._rules.looks
        if self._is_quiet and not is_look:
            return False
        # Records are read only at looks: reading all after each block would take longer than a
        # block.
        if self._so_far is None or is_look:
            self._so_far = SoFar(read_run(folder))
        else:
            self._so_far.add(self._ended)
        self._ended.clear()
        gate = judge(self._so_far.account, *self._arms, self._rules, blocks)
        self._look = gate if is_look else self._look
        if not self._is_quiet:
            say(reports.line_after_block(gate, self._look, self._block_ns()))
        if not is_look:
            return False
        return gate.outcome in ("no worse", "worse") or any(self._failed(self._so_far.run).values())

    def conclude(self, folder: Path, end: RunEnd) -> int:
        """Print the answer, store it in the run folder, and return its exit code.

        For an interrupted run, the answer covers the blocks completed until then.
        """
        run = read_run(folder)
        facts = self._facts(run)
        gate = judge(read_account(run), *self._arms, self._rules, facts.blocks)
        print(FORMS[self._form](gate, facts), end="")
        sys.stdout.flush()
        if end.state == "interrupted":
            return exit_code.FAILED if end.is_cut_unasked else exit_code.INTERRUPTED
        # The first answer is kept, because a later build may apply other rules.
        if end.state == "finished" and not (folder / ANSWER).exists():
            durable.write_file(folder, ANSWER, reports.to_json(gate, facts).encode())
        if end.state == "failed" or any(facts.failed.values()):
            if any(facts.failed.values()):
                each = ", ".join(f"{arm} {count:,}" for arm, count in facts.failed.items())
                say(f"error: requests failed: {each}")
            return exit_code.FAILED
        left = any(isinstance(problem, LeftBehindError) for problem in end.problems)
        return CODES[gate.outcome] or (exit_code.LEFT if left else 0)

    def _block_ns(self) -> int:
        """Return the mean duration of a block in this session, in nanoseconds."""
        assert self._began_s is not None, "a block has trials"
        return round((time.monotonic() - self._began_s) * 1e9) // self._blocks_passed

    def _failed(self, run: Run) -> dict[str, int]:
        failed = dict.fromkeys(self._arms, 0)
        for record in run.records:
            if record.trial["measured"]:
                failed[record.trial["target"]["name"]] += record.summary.get("failed", 0)
        return failed

    def _facts(self, run: Run) -> reports.GateFacts:
        legs = read_legs(run.path)
        begun = {leg["arm"]: leg["command"] for leg in reversed(legs)}
        commands = {arm: begun[arm] for arm in self._arms if arm in begun}
        passed_ns = sum(
            leg["ended_unix_ns"] - leg["started_unix_ns"]
            for leg in legs
            if "ended_unix_ns" in leg and "started_unix_ns" in leg
        )
        return reports.GateFacts(
            folder=str(run.path), commands=commands, failed=self._failed(run), passed_ns=passed_ns,
            blocks=_whole_blocks(run),
        )  # fmt: skip


class SoFar:
    """The account of a running run, extended by each trial that ends.

    Quantiles that need the requests of many trials together are not updated.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._account: Account = read_account(run)

    def add(self, trials: Sequence[str]) -> None:
        """Add trials by their records alone."""
        records = tuple(read_record(self.run.path, trial) for trial in trials)
        account = read_account(replace(self.run, records=records))
        measurements = (*self._account.measurements, *account.measurements)
        self._account = replace(self._account, measurements=measurements)

    @property
    def account(self) -> Account:
        """The account of all trials so far."""
        return leave_out_spoiled(self._account)


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
