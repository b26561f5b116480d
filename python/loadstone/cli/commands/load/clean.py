"""Remove the data that a run left on its targets: after Ctrl-C, a kill, a failed clean-up or
--keep-data.

It deletes only objects of that run, in buckets and directories with its mark, and those buckets
once they are empty. It lists them first, and asks. The run folder stays. A run whose data is gone
cannot be resumed. Exit codes: 0, nothing is left; 5, something is left; 1, a target could not be
reached.

\b
Examples:
  loadstone clean runs/first --dry-run
  loadstone clean runs/first
  loadstone clean runs/first --yes
  loadstone clean runs/first --versions
"""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from loadstone.campaign.remains import Remains, is_removed, places_gone
from loadstone.cli import completion, exit_code, plain
from loadstone.cli.flags import AllowCommands
from loadstone.cli.messages import say, tell
from loadstone.cli.running import consent
from loadstone.documents.summary import Summary
from loadstone.errors import LoadstoneError
from loadstone.units import counted

# Hints for places that were not removed, by the reason.
HINTS = {
    "foreign": "loadstone deletes nothing in what others made: use the target's own tools",
    "other_run": "clean up with that run's folder: loadstone clean RUN",
    "other_objects": "look at what it holds: loadstone deletes only what this run wrote; if all of "
    "it can go, remove it with the target's own tools (a file: rm; a device: wipefs -a, then "
    "zeroes over its first and last MiB)",
    "listing": "the target's own tools show what is in it, and remove it",
    "undeletable": "do the credentials allow deletes, and does the target retain or lock objects?",
    "locked": "wait until the retention has ended, or end it with the store's own tools "
    "(governance mode: with the right to bypass it), then: loadstone clean {folder} --versions",
    "hidden": "remove old versions with: loadstone clean {folder} --versions; uploads that were "
    "never completed, with the target's own tools",
    "error": "once the target answers: loadstone clean {folder}",
    "not_there": "mount the file system, or attach the device, and try again with: loadstone clean "
    "{folder}",
    "not_tried": "continue with: loadstone clean {folder}",
}


def command(
    run: Annotated[
        Path,
        typer.Argument(
            help="The run folder.", metavar="RUN", autocompletion=completion.run_folders
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    versions: Annotated[
        bool,
        typer.Option(
            "--versions",
            help="Also delete all versions and delete markers of the run's objects, in versioned "
            "buckets.",
        ),
    ] = False,
    allow_commands: AllowCommands = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, and do nothing.")
    ] = False,
) -> int:
    from loadstone.execution.cleaning import unknown, what_is_left
    from loadstone.results.fault_log import describe_fault, faults_left, how_to_undo
    from loadstone.results.writer import RunWriter

    with RunWriter.lock(run) as writer:
        for fault in faults_left(run):
            say(f"warning: fault {describe_fault(fault)} may still be in effect")
            say(
                "hint: before this clean-up loadstone run CAMPAIGN "
                f"-o {shlex.quote(str(run))} --resume undoes it, and after it nothing does; "
                f"or {how_to_undo(fault, run)}"
            )
        left = what_is_left(run)
        for driver in unknown(run):
            what = f'skipped: this loadstone has no driver "{driver}", and deletes nothing with it'
            say(f"warning: {what}")
        if not left:
            print(f"run {run} has no data left on its targets")
            return 0
        print("written by this run, and possibly still there:")
        for remains in left:
            print(plain(f"  {remains.describe()}"))
        if dry_run:
            return 0
        # The folder, which names the profiles, may come from elsewhere.
        consent.ask_for(
            list(consent.of_profiles(remains.clean_up for remains in left)),
            who="this run",
            is_allowed=allow_commands,
        )
        if not yes and not _is_agreed():
            return exit_code.FAILED
        # Recorded before anything is deleted: a run without some of its objects must not be
        # resumed.
        writer.note_cleaning()
        code, is_reached = _remove(left, run, with_versions=versions)
        if not is_reached:
            writer.withdraw_cleaning()
        return code


def _is_agreed() -> bool:
    if not sys.stdin.isatty():
        print("error: cannot ask for confirmation: there is no terminal", file=sys.stderr)
        print("hint: pass --yes", file=sys.stderr)
        return False
    return typer.confirm("delete it?")


def _remove(left: list[Remains], folder: Path, *, with_versions: bool) -> tuple[int, bool]:
    """Delete the remains; return the exit code, and whether any target was reached."""
    from loadstone.execution.cleaning import remove
    from loadstone.execution.interrupt import Interrupt

    interrupt, code, is_reached = Interrupt(), 0, False
    with interrupt.watching():
        for remains in left:
            if interrupt.is_asked:
                break
            try:
                summary = remove(remains, folder, interrupt, with_versions=with_versions)
            except LoadstoneError as error:
                tell(error)
                code = exit_code.FAILED
                continue
            is_reached = True
            print(plain(f"{remains.describe()}: {account(summary)}"))
            for line in left_behind(summary):
                print(plain(f"  {line}"), file=sys.stderr)
            if not is_removed(summary, remains.clean_up):
                code = code or exit_code.LEFT
                say(f"error: {remains.describe()}: data is left on the target")
                for hint in hints_of(summary, folder):
                    say(f"hint: {hint}")
    if interrupt.is_asked:
        say(f"hint: continue with: loadstone clean {folder}")
        return exit_code.INTERRUPTED, is_reached
    return code, is_reached


def hints_of(summary: Summary, folder: Path) -> list[str]:
    """Return hints for the remains, one for each kind of reason."""
    kinds = dict.fromkeys(place["kind"] for place in summary["places_left"] or ())
    hints = [HINTS[kind].format(folder=folder) for kind in kinds if kind in HINTS]
    return hints or [f"try again with: loadstone clean {folder}"]


def account(summary: Summary) -> str:
    """Return a sentence about a clean-up; objects that others had deleted also count as gone."""
    objects = summary["requests"] - summary["failed"] + summary["objects_swept"]
    buckets = places_gone(summary)
    return f"{counted(objects, 'object')} and {counted(buckets, 'bucket')} gone"


def left_behind(summary: Summary) -> Iterator[str]:
    """Yield each place with remains: its kind, the reason, and the number of objects."""
    if summary["failed"]:
        yield f"{counted(summary['failed'], 'request')} failed"
    for place in summary["places_left"] or ():
        objects = ""
        count = place.get("objects")
        if count is not None:
            more = " or more" if place.get("has_more") else ""
            objects = f", {counted(count, 'object')}{more} in it"
        yield f'left "{place["place"]}" ({place["kind"]}): {place["reason"]}{objects}'
