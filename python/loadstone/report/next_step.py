"""The next step after a run: the most helpful command."""

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from loadstone.analysis import Findings
from loadstone.analysis.answers.answer import Answer
from loadstone.analysis.limits.verdict import UNDETERMINED, Verdict
from loadstone.campaign.drivers import addresses_of, facts_of
from loadstone.results.record import Run


def next_step(
    run: Run, findings: Findings, answer: Answer, *, is_on_page: bool
) -> tuple[str, str] | None:
    """Return the reason and the command; None if a page needs no further step."""
    folder = folders_of(run)
    words = _typed_words(run)
    kind = words[1] if len(words) > 1 else ""
    missing = any(trial.state in ("not run", "interrupted") for trial in findings.trials)
    if missing and kind == "run":
        return "run the missing trials", f"{_without_output(words)} -o {folder} --resume"
    if replays := [replay for audit in findings.audits for replay in audit.replays]:
        count = f"of the first finding of {len(replays)}" if replays[1:] else "of the finding"
        return f"make the calls {count} again", f"loadstone run {folder}/{replays[0]}"
    if any(result.is_void for result in answer.results):
        return "see what went wrong", f"loadstone report {folder} --full"
    if kind == "demo":
        return "measure a store of your own", (
            "loadstone bench put,get,delete http://127.0.0.1:9000 --blocks 6"
        )
    deciding = _deciding(run, findings) if kind in ("bench", "run") else None
    if deciding is not None:
        return deciding
    if any(result.rate.n < 2 for result in answer.results) and kind in ("bench", "run"):
        blocks = "queries.loops" if findings.queries is not None else "blocks"
        more = "--blocks 6" if kind == "bench" else f"--set {blocks}=6"
        once = _without_output(_without(words, ("--blocks",)))
        return "repeat it, for an interval", f"{once} {more}"
    calibration = next(
        (finding.todo for finding in findings.findings if finding.rule == "not-calibrated"), ""
    )
    if calibration:
        return "learn the client's own ceiling", calibration
    if len({result.target for result in answer.results}) > 1:
        return "compare the targets", f"loadstone compare {folder}"
    if is_on_page:
        return None
    return "charts and evidence", f"loadstone report {folder} -f html -o report.html"


def _deciding(run: Run, findings: Findings) -> tuple[str, str] | None:
    """Return the measurement that would decide the limit of the results, if unknown."""
    verdicts = [cell.verdict for cell in findings.rounds if cell.verdict is not None]
    step = next((verdict.next for verdict in verdicts if verdict.next), ())
    if not step or any(verdict.limit != UNDETERMINED for verdict in verdicts):
        return None
    return f"{step[0]}, to learn the limit", _command_of(run, step[1])


def deciding_step(run: Run, verdict: Verdict) -> str:
    """Return the measurement that would decide or narrow a verdict; empty if none would."""
    if not verdict.next:
        return ""
    why, command = verdict.next
    return f"{why}: {_command_of(run, command)}"


def _typed_words(run: Run) -> list[str]:
    """Return the words of the run's command; none if a manifest holds no shell's words."""
    try:
        return shlex.split(str(run.manifest.get("command") or ""))
    except ValueError:
        return []


def _command_of(run: Run, command: str) -> str:
    """Return a verdict's command as the run's own command with an addition, if known."""
    words = _typed_words(run)
    # The host first: the run's own words may hold "HOST", too.
    command = command.replace("HOST", next(iter(_hosts(run)), "HOST"))
    if len(words) > 1 and words[1] in ("bench", "run"):
        command = command.replace("loadstone run CAMPAIGN", _without_output(words))
    return command


def _hosts(run: Run) -> Iterator[str]:
    """Yield the hosts that the targets' addresses name."""
    for document in run.plan:
        facts = facts_of(document["target"]["driver"])
        for address in addresses_of(facts, document["target"].get("settings") or {}):
            with contextlib.suppress(ValueError):
                host = urlsplit(address if "://" in address else f"//{address}").hostname
                if host:
                    yield host


def _without_output(words: Sequence[str]) -> str:
    """Return a command without its output folder and flags of a resumption."""
    return shlex.join(_without(words, ("-o", "--output", "--out"), ("--resume",)))


def _without(words: Sequence[str], options: Sequence[str], flags: Sequence[str] = ()) -> list[str]:
    """Return a command's words without some options, with their values, and flags."""
    left: list[str] = []
    words_left = iter(words)
    for word in words_left:
        if word in options:
            next(words_left, None)
        elif word not in flags and not word.startswith(tuple(f"{option}=" for option in options)):
            left.append(word)
    return left


def folders_of(run: Run) -> str:
    """Return the folders of a run as a command names them."""
    return shlex.join(
        [f"{member.client}={member.path}" for member in run.members] or [str(run.path)]
    )
