"""Reports that the kernel killed a run for lack of memory, because the run itself cannot.

It waits outside the run's control group until the run reports its end or dies. If the run died, it
reports that on the run's standard error, writes the outcome into the run's manifest, and removes
the control group.
"""

import contextlib
import datetime
import sys
from collections.abc import Sequence
from pathlib import Path

from loadstone import units
from loadstone.execution.host.memory_group import ENDED, MemoryGroup, group_at
from loadstone.results.files.tables import STREAM_SUFFIX
from loadstone.results.layout import MANIFEST, TRIALS
from loadstone.results.writer import RunWriter


def main(arguments: Sequence[str]) -> None:
    """Wait for a run's end; `arguments` are the folders of its group and its own, and the limit."""
    group = group_at(Path(arguments[0]), int(arguments[2]))
    message = sys.stdin.buffer.read()
    if message == ENDED:
        return
    kills = group.kills()
    if kills:
        tell(group, Path(arguments[1]), kills)
    group.remove()


def tell(group: MemoryGroup, run: Path, kills: int) -> None:
    """Report that the kernel killed the run, on standard error and in the manifest if there is
    one.
    """
    limit = units.format_bytes(group.limit_bytes)
    why = f"the kernel killed the run: it used more memory than limits.memory: {limit}"
    lines = [f"error: {why}"]
    if (run / MANIFEST).exists():
        under_way = _note(group, run, kills, why)
        lines += [f"trial {trial} was running" for trial in under_way]
        lines.append(f"hint: finished trials are safe: loadstone report {run}")
    lines.append("hint: with a higher limit, or a smaller load, run it into another folder")
    sys.stderr.write("\n".join(lines) + "\n")


def _note(group: MemoryGroup, run: Path, kills: int, why: str) -> Sequence[str]:
    """Write the end of the run into its manifest; return the trials that had begun."""
    with contextlib.closing(RunWriter.reopen(run)) as writer:
        under_way = [
            document["id"]
            for document in writer.manifest["plan"]
            if document["id"] not in writer.finished
            and (run / TRIALS / f"{document['id']}{STREAM_SUFFIX}").exists()
        ]
        writer.finish(
            {
                "state": "interrupted",
                "ended": datetime.datetime.now(datetime.UTC).isoformat(),
                "failed": dict.fromkeys(under_way, why),
                "limits": {**group.use(), "memory_kills": kills},
            }
        )
    return under_way


if __name__ == "__main__":
    main(sys.argv[1:])
