"""Remove what a run left on its targets: after Ctrl-C, a kill, a failed clean-up or --keep-data.

Only what that run made is deleted: its own objects, in buckets and directories that carry its mark,
and those buckets once nothing else is in them. It lists them first, and asks. The run folder stays;
a run whose data is gone cannot be resumed. The exit code is 0 when nothing is left.

\b
Examples:
  loadstone clean runs/first --dry-run
  loadstone clean runs/first
  loadstone clean runs/first --yes
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from loadstone.campaign.remains import Remains
from loadstone.errors import LoadstoneError

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def command(
    run: Annotated[Path, typer.Argument(help="The run folder.", metavar="RUN")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be deleted.")
    ] = False,
) -> int:
    from loadstone.execution.cleaning import what_is_left
    from loadstone.results.writer import RunWriter

    with RunWriter.lock(run) as writer:
        found = what_is_left(run)
        if not found:
            print(f"nothing is left of run {run}")
            return 0
        print("what this run wrote, and may have left:")
        for one in found:
            print(f"  {one.describe()}")
        if dry_run:
            return 0
        if not yes and not _is_agreed():
            return EXIT_FAILED
        # Before anything is deleted: a run that misses objects must not be gone on with.
        writer.note_cleaning()
        return _remove(found, run)


def _is_agreed() -> bool:
    if not sys.stdin.isatty():
        print("error: nobody is there to be asked whether to delete it", file=sys.stderr)
        print("hint: say --yes", file=sys.stderr)
        return False
    return typer.confirm("delete it?")


def _remove(found: list[Remains], folder: Path) -> int:
    from loadstone.execution.cleaning import remove
    from loadstone.execution.interrupt import Interrupt

    interrupt, is_left = Interrupt(), False
    with interrupt.watching():
        for one in found:
            if interrupt.is_asked:
                break
            try:
                summary = remove(one, folder, interrupt)
            except LoadstoneError as error:
                print(f"error: {error}", file=sys.stderr)
                is_left = True
                continue
            objects = summary["requests"] - summary["failed"] + summary["objects_swept"]
            buckets = len(summary["buckets_deleted"])
            print(f"{one.describe()}: {objects:,} objects and {buckets:,} buckets deleted")
            left = summary["buckets_left"]
            if left or summary["failed"]:
                is_left = True
                words = f"{summary['failed']:,} requests failed, buckets left: {', '.join(left)}"
                print(f"error: {one.describe()}: {words}", file=sys.stderr)
    if interrupt.is_asked:
        print(f"hint: go on with: loadstone clean {folder}", file=sys.stderr)
        return EXIT_INTERRUPTED
    return EXIT_FAILED if is_left else 0
