"""`--fail-if`: a run held against thresholds, and the exit code that comes of it."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from loadstone.cli import exit_code, plain

if TYPE_CHECKING:
    from loadstone.analysis import Findings
    from loadstone.analysis.judgements.thresholds import Threshold

CASES_SHOWN = 5

FailIf = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if",
        help="End with exit code 3 when a case does this; can be repeated. Rate, p50 to p999,"
        ' failures: "get p99 > 50ms", "rate < 1000/s", "failures > 1%".',
        metavar="CONDITION",
    ),
]


def read_thresholds(texts: Sequence[str] | None) -> tuple["Threshold", ...]:
    """Return what was typed as thresholds, before anything is measured."""
    if not texts:
        return ()
    from loadstone.analysis.judgements.thresholds import parse_threshold

    return tuple(map(parse_threshold, texts))


def judge_all(thresholds: Sequence["Threshold"], findings: "Findings | None") -> int:
    """Say which cases crossed a threshold, and return the exit code.

    What cannot be decided fails as a command does: it must not pass for a good run.
    """
    from loadstone.analysis.judgements.thresholds import judge

    codes = {0}
    for threshold in thresholds:
        outcomes = judge(threshold, findings) if findings is not None else ()
        if findings is None:
            _say(f'error: --fail-if "{threshold.text}": the run has no result')
            codes.add(exit_code.FAILED)
        for is_crossed, word, code in (
            (True, "failed", exit_code.WORSE),
            (None, "error", exit_code.FAILED),
        ):
            found = [one for one in outcomes if one.is_crossed is is_crossed]
            for one in found[:CASES_SHOWN]:
                cannot = "" if is_crossed else "cannot be decided: "
                _say(f'{word}: --fail-if "{threshold.text}": {cannot}{one.case}: {one.what}')
            if len(found) > CASES_SHOWN:
                _say(f"{word}: and {len(found) - CASES_SHOWN} cases more")
            if found:
                codes.add(code)
    # A case that is known to be too slow says more than another that is not known.
    return max(codes)


def _say(text: str) -> None:
    sys.stdout.flush()
    print(plain(text), file=sys.stderr)
