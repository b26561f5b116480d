"""Compares the cost of two programs, and formats the table.

Programs run in turns or concurrently, so that drift of the machine affects all equally: ratios are
computed within each round, and reported as median and spread. Concurrent programs share a core, so
their rates are meaningless and only the CPU time is compared.
"""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CPU_GOAL, RATE_GOAL = 1.0, 0.98

Row = dict[str, Any]


@dataclass(frozen=True)
class Cost:
    """The CPU cost of a request in one round of one program, and its requests per second."""

    cpu_us: float
    per_s: float


# The costs of both in the same round, loadstone's first.
Pair = tuple[Cost, Cost]


def ratio(name: str, ours: Sequence[float], theirs: Sequence[float]) -> Row:
    """Return the median and the spread of a ratio, under this name."""
    quotients = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {
        name: statistics.median(quotients),
        f"{name}_min": min(quotients),
        f"{name}_max": max(quotients),
    }


def compare(case: str, peer: str, rounds: Sequence[Pair]) -> Row:
    """Return a row of the table: the costs of both in the same rounds."""
    return {"case": case, **compare_cpu(peer, rounds), **compare_rate(peer, rounds)}


def compare_cpu(peer: str, rounds: Sequence[Pair]) -> Row:
    """Return the CPU time of a request of both programs in the same rounds."""
    ours, theirs = ([pair[which].cpu_us for pair in rounds] for which in (0, 1))
    medians = {"loadstone_us": statistics.median(ours), f"{peer}_us": statistics.median(theirs)}
    return medians | ratio("cpu_ratio", ours, theirs)


def compare_rate(peer: str, rounds: Sequence[Pair]) -> Row:
    """Return the requests per second of both programs in the same rounds."""
    ours, theirs = ([pair[which].per_s for pair in rounds] for which in (0, 1))
    medians = {
        "loadstone_per_s": statistics.median(ours),
        f"{peer}_per_s": statistics.median(theirs),
    }
    return medians | ratio("rate_ratio", ours, theirs)


class Table:
    """Prints rows as they arrive, and also writes them to a file as JSON if one is given."""

    def __init__(self, columns: Sequence[tuple[str, str]], path: Path | None) -> None:
        """Print the head: each column has a title, which sets its width, and the format of its
        cells.
        """
        self.rows: list[Row] = []
        self._cells, self._path = [cell for _, cell in columns], path
        print(f"| {' | '.join(head for head, _ in columns)} |")
        print(f"|{'|'.join('-' * (len(head) + 2) for head, _ in columns)}|")

    def add(self, row: Row, **shown: str) -> None:
        """Print a row; values in `shown` appear only in the table."""
        self.rows.append(row)
        print(f"| {' | '.join(cell.format_map(row | shown) for cell in self._cells)} |", flush=True)
        if self._path:
            self._path.write_text(json.dumps(self.rows, indent=1) + "\n")


def print_met(rows: Sequence[Row], whose: str, *, at_once: bool) -> None:
    """Print how many rows reached the goals."""
    met = sum(
        row["cpu_ratio"] <= CPU_GOAL and (at_once or row["rate_ratio"] >= RATE_GOAL) for row in rows
    )
    rate = "" if at_once else f" and rate >= {RATE_GOAL}"
    print(f"{met} of {len(rows)} within CPU <= {CPU_GOAL}{rate} of {whose}")
