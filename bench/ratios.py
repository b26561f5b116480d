"""What one program costs beside another, and the table of it.

Programs run in turns, so that a slow drift of the machine hits all alike: a ratio is taken within
each round, its median counts, and its spread stands beside it.
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
    """What a request cost in one round of one program, and how many it made in a second."""

    cpu_us: float
    per_s: float


def ratio(name: str, ours: Sequence[float], theirs: Sequence[float]) -> Row:
    """Return the median and the spread of a ratio, under this name."""
    found = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {name: statistics.median(found), f"{name}_min": min(found), f"{name}_max": max(found)}


def compare(case: str, peer: str, ours: Sequence[Cost], theirs: Sequence[Cost]) -> Row:
    """Return a row of the table: what both cost in the same rounds."""
    cpu, peer_cpu = ([round_.cpu_us for round_ in rounds] for rounds in (ours, theirs))
    rate, peer_rate = ([round_.per_s for round_ in rounds] for rounds in (ours, theirs))
    return {
        "case": case,
        "loadstone_us": statistics.median(cpu),
        f"{peer}_us": statistics.median(peer_cpu),
        **ratio("cpu_ratio", cpu, peer_cpu),
        "loadstone_per_s": statistics.median(rate),
        f"{peer}_per_s": statistics.median(peer_rate),
        **ratio("rate_ratio", rate, peer_rate),
    }


class Table:
    """Prints rows as they come, and writes them to a file as JSON besides, if there is one."""

    def __init__(self, columns: Sequence[tuple[str, str]], path: Path | None) -> None:
        """Print the head: each column has one, as wide as it is, and the format of a row's cell."""
        self.rows: list[Row] = []
        self._cells, self._path = [cell for _, cell in columns], path
        print(f"| {' | '.join(head for head, _ in columns)} |")
        print(f"|{'|'.join('-' * (len(head) + 2) for head, _ in columns)}|")

    def add(self, row: Row, **shown: str) -> None:
        """Print a row; what is `shown` stands in the table alone."""
        self.rows.append(row)
        print(f"| {' | '.join(cell.format_map(row | shown) for cell in self._cells)} |", flush=True)
        if self._path:
            self._path.write_text(json.dumps(self.rows, indent=1) + "\n")


def print_met(rows: Sequence[Row], whose: str) -> None:
    """Say how many rows reached the goals."""
    met = sum(row["cpu_ratio"] <= CPU_GOAL and row["rate_ratio"] >= RATE_GOAL for row in rows)
    print(f"{met} of {len(rows)} within CPU <= {CPU_GOAL} and rate >= {RATE_GOAL} of {whose}")
