"""Read back what a run wrote and kept, against the ledger of what its targets acknowledged.

The run must have kept a ledger and its data: loadstone bench ... --audit --keep-data. All buckets
are listed, and each object is read, or as many as --sample says. Nothing is written to the target.
The answer is added to the run folder. Exit codes: 0, nothing is wrong; 1, an object is not as it
was acknowledged, none could be read back, or a target could not be reached.

\b
Examples:
  loadstone audit runs/first
  loadstone audit runs/first --sample 100000
"""

from pathlib import Path
from typing import Annotated

import typer

from loadstone.cli import consent, exit_code, plain
from loadstone.cli.messages import say, tell
from loadstone.errors import InputError, LoadstoneError


def command(
    run: Annotated[Path, typer.Argument(help="The run folder.", metavar="RUN")],
    sample: Annotated[
        int | None, typer.Option(min=1, help="Read back so many objects, drawn by chance.")
    ] = None,
    allow_commands: Annotated[
        bool,
        typer.Option("--allow-commands", help="Run a profile's credential_process without asking."),
    ] = False,
) -> int:
    from loadstone.analysis.audits import Audited, describe
    from loadstone.execution.auditing import audit, audits_of
    from loadstone.execution.interrupt import Interrupt
    from loadstone.results.writer import RunWriter

    with RunWriter.lock(run):
        documents = audits_of(run, sample)
        if not documents:
            raise InputError(
                f'run "{run}" has nothing to audit: it kept no ledger, or its data was deleted',
                "write it anew with: loadstone bench put TARGET --audit --keep-data",
            )
        consent.ask_for(
            list(consent.of_profiles(documents)), who="this run", is_allowed=allow_commands
        )
        interrupt, code = Interrupt(), 0
        with interrupt.watching():
            for document in documents:
                if interrupt.is_asked:
                    break
                try:
                    summary = audit(document, run, interrupt)
                except LoadstoneError as error:
                    tell(error)
                    code = exit_code.FAILED
                    continue
                audited = Audited.of(document, summary)
                for line in describe(audited):
                    # Keys are the folder's words.
                    print(plain(line).replace("\n", " "))
                if audited.findings or not audited.has_read:
                    code = exit_code.FAILED
        if interrupt.is_asked:
            say("the audit was stopped, and its answer is not kept")
            return exit_code.INTERRUPTED
    return code
