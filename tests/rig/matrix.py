"""The confusion matrix of the rig: what was injected, against what loadstone said."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.rig.bottleneck import BOTTLENECKS
from tests.rig.experiment import Outcome

BEGIN, END = "<!-- rig: begin -->", "<!-- rig: end -->"
TARGETS = ("TARGET", "NETWORK_PATH", "BEYOND_CLIENT")


def is_right(outcome: Outcome) -> bool:
    """Tell whether the verdict names what was injected."""
    return outcome.limit in BOTTLENECKS[outcome.bottleneck].expected


def is_blamed(outcome: Outcome) -> bool:
    """Tell whether a limit of the instrument was blamed on what lies beyond it."""
    bottleneck = BOTTLENECKS[outcome.bottleneck]
    return bottleneck.is_instrument and outcome.limit.startswith(TARGETS)


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return the two numbers that count."""
    right = sum(map(is_right, outcomes))
    blamed = sum(map(is_blamed, outcomes))
    ours = sum(BOTTLENECKS[one.bottleneck].is_instrument for one in outcomes)
    return (
        f"{right} of {len(outcomes)} verdicts were right ({right / len(outcomes):.0%});"
        f" {blamed} of {ours} limits of the instrument were blamed on something else's"
    )


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the matrix as Markdown: a row for each bottleneck, a column for each verdict."""
    said = sorted({one.limit for one in outcomes}, key=lambda limit: (_rank(limit), limit))
    counts = Counter((one.bottleneck, one.limit) for one in outcomes)
    lines = [
        "| injected | how | " + " | ".join(f"`{limit}`" for limit in said) + " |",
        "|---|---|" + "---:|" * len(said),
    ]
    for name, bottleneck in BOTTLENECKS.items():
        row = [counts[name, limit] for limit in said]
        if not any(row):
            continue
        cells = [
            "" if not count else f"**{count}**" if limit in bottleneck.expected else f"{count} ✗"
            for limit, count in zip(said, row, strict=True)
        ]
        lines.append(f"| {name} | {bottleneck.summary} | {' | '.join(cells)} |")
    return "\n".join(lines)


def publish(page: Path, outcomes: Sequence[Outcome], machine: str) -> None:
    """Put the matrix and the machine into the page, between its two marks."""
    text = page.read_text(encoding="utf-8")
    body = f"{BEGIN}\n{table(outcomes)}\n\n{summary(outcomes)}. Measured on {machine}.\n{END}"
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    page.write_text(pattern.sub(lambda _: body, text), encoding="utf-8")


def _rank(limit: str) -> int:
    prefixes = ("INSTRUMENT", "CLIENT", "LATENCY", "NOT_", "NETWORK", "BEYOND", "TARGET")
    return next((i for i, prefix in enumerate(prefixes) if limit.startswith(prefix)), len(prefixes))
