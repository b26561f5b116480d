"""Compare a new build of a server with its base; fail if it is worse.

Both servers are started in turns, on new data for each leg, in blocks of random order, until it is
known on which side of the margin the new one lies: by its rate, p99, processor time a request and
memory. What follows the options is what is measured: `bench` with its flags, or a campaign file
with two arms.

With --baseline last-green the base is the command of the newest build that passed its gate, by the
run folders in --history; as that runs what a folder says, it asks first, or takes
--allow-commands.

An arm may also be a client that mounts a file system, measured as file:DIR.

A command is split into words as a shell does, but no shell reads it. It has to stay in the
foreground. {data} in it stands for a new, empty directory of the leg.

Exit codes: 0, no worse; 3, worse; 6, not decided within --blocks-max; 4, results are void or
bounds; 5, a directory of data could not be removed; 1, requests failed, or a server did not start;
130, Ctrl-C.

\b
Examples:
  loadstone ab --base "./minio-old server {data}" --new "./minio-new server {data}"
      bench get http://127.0.0.1:9000 -t 16 -d 5s
  loadstone ab --baseline last-green --new builds/1.9/server bench put http://127.0.0.1:9000
  loadstone ab --margin 5% campaign.yaml
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadstone.cli import completion
from loadstone.cli.flags import AllowCommands, Quiet, Resume, RunFolder
from loadstone.cli.running import consent, session
from loadstone.errors import InputError

if TYPE_CHECKING:
    from loadstone.campaign.schema.campaign import Campaign

CONTEXT_SETTINGS = {"allow_interspersed_args": False}
BASE, NEW = "base", "new"
LAST_GREEN = "last-green"
BLOCKS_MAX = 240
"""The first of 30, 60, 120, … blocks that decides if ratios spread by three margins."""
REFUSED = (
    "reuse", "keep_data", "audit", "card", "existing", "list_file", "blocks", "conditions",
    "dry_run",
)  # fmt: skip
"""Flags of bench that do not apply to a gate: its servers and their data are new in each leg."""


def _forms(incomplete: str) -> list[str]:
    """Complete the format of the answer."""
    from loadstone.cli.running.gate import FORMS

    return [name for name in FORMS if name.startswith(incomplete)]


def command(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            help="bench OPERATION TARGET with its flags, or a campaign file.",
            metavar="WORKLOAD...",
            autocompletion=completion.workload,
        ),
    ],
    base: Annotated[
        str | None,
        typer.Option(help="Command that starts the server of the base build.", metavar="COMMAND"),
    ] = None,
    new: Annotated[
        str | None,
        typer.Option(help="Command that starts the server of the new build.", metavar="COMMAND"),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Instead of --base: last-green, the newest build that passed.",
            metavar="last-green",
        ),
    ] = None,
    history: Annotated[
        Path, typer.Option(help="Folder of earlier runs, for --baseline.", metavar="DIR")
    ] = Path("runs"),
    ready: Annotated[
        str | None,
        typer.Option(
            help="URL that answers once a server is ready, or the directory that a client "
            "mounts; default: the target's.",
            metavar="URL|DIR",
        ),
    ] = None,
    stop: Annotated[
        str | None,
        typer.Option(help="Command that stops a server; default: SIGTERM.", metavar="COMMAND"),
    ] = None,
    margin: Annotated[str, typer.Option(help="How much worse the new build may be.")] = "3%",
    alpha: Annotated[str, typer.Option(help="Accepted probability of a wrong answer.")] = "5%",
    metrics: Annotated[
        str, typer.Option(help="Metrics to judge, separated by commas.", metavar="NAME,...")
    ] = "rate,p99,cpu,memory",
    blocks_max: Annotated[int, typer.Option(min=6, max=1000, help="Most blocks.")] = BLOCKS_MAX,
    output: RunFolder = None,
    resume: Resume = False,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="terminal, markdown, json or junit.",
            autocompletion=_forms,
        ),
    ] = "terminal",
    allow_commands: AllowCommands = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also print a line for each trial.")
    ] = False,
    quiet: Quiet = False,
) -> int:
    from loadstone import units
    from loadstone.analysis.accounts.gate import METRICS, rules_of
    from loadstone.cli.running.gate import FORMS, GateKeeper, last_green

    if form not in FORMS:
        raise InputError.of_value(form, f"a format: {', '.join(FORMS)}")
    shares = [units.parse_fraction(text) for text in (margin, alpha)]
    for text, share in zip((margin, alpha), shares, strict=True):
        if not 0 < share < 0.5:
            raise InputError.of_value(text, "a share above 0 and below 50%")
    names = metrics.split(",")
    for name in names:
        if name not in METRICS:
            raise InputError.of_value(name, f"some of {', '.join(METRICS)}")
    rules = rules_of(shares[0], shares[1], blocks_max, names)
    is_typed = words[0] == "bench"
    if is_typed:
        if new is None or (base is None) == (baseline is None):
            raise InputError(
                "a gate compares two servers, each started by one command",
                "pass --new COMMAND, and --base COMMAND or --baseline last-green",
            )
        if baseline not in (None, LAST_GREEN):
            raise InputError.of_value(baseline or "", LAST_GREEN)
        words_of_base = split_command(base) if base is not None else last_green(history)
        if base is None:
            # A run folder may come from a stranger, or with a branch that is to be tested.
            where = f"the base, from the runs in {history}"
            consent.ask_for(
                [(where, shlex.join(words_of_base))], who="this gate", is_allowed=allow_commands
            )
        commands = {BASE: words_of_base, NEW: split_command(new)}
        campaign = _of_commands(context, words[1:], commands, ready, stop, blocks_max)
    else:
        if (base, new, baseline, ready, stop) != (None,) * 5:
            raise InputError(
                "a campaign file names the commands of its servers under arms",
                "leave out --base and --new",
            )
        campaign = _of_file(words, blocks_max)
    arms = tuple(campaign.arms)
    if len(arms) != 2:
        raise InputError(f"a gate compares two arms, and the campaign has {len(arms)}", "see arms")
    if resume and output is None:
        raise InputError("--resume needs the folder of the run to continue", "name it with -o")
    gate = GateKeeper(rules, *arms, form, is_quiet=quiet, shows_trials=verbose)
    gate.announce()
    return session.measure(
        campaign,
        output or session.default_folder("ab"),
        resume=resume,
        command=shlex.join(["loadstone", *context.obj]),
        # Commands that the user typed need no consent.
        allow_commands=allow_commands or is_typed,
        gate=gate,
        is_quiet=quiet,
    )


def _of_commands(
    context: typer.Context,
    words: Sequence[str],
    commands: Mapping[str, Sequence[str]],
    ready: str | None,
    stop: str | None,
    blocks: int,
) -> "Campaign":
    from loadstone.campaign.parse import campaign_of
    from loadstone.campaign.reading.source import Document
    from loadstone.cli.application import app
    from loadstone.cli.commands.load import bench
    from loadstone.execution.secrets import KEPT_FROM_PROGRAMS

    group = typer.main.get_command(app)
    bench_command = group.get_command(context, "bench")  # type: ignore[attr-defined]
    flags = bench_command.make_context("bench", list(words), parent=context).params
    for name in REFUSED:
        if flags[name]:
            raise InputError(
                f"a gate does not take --{name.replace('_', '-')} of bench", "leave it out"
            )
    document = bench.campaign_of(flags).document()
    ((_, target),) = document["targets"].items()
    awaited = ready or target.get("path") or url_of(flags["target"])
    if "path" in target and "://" not in awaited:
        # A directory is ready once a client has mounted a file system there.
        awaited = os.path.abspath(awaited)
    # The commands were typed by the user for the user's servers, so they get the full environment.
    environment = {name: {"env": name} for name in sorted(KEPT_FROM_PROGRAMS & os.environ.keys())}
    arms = {
        name: {
            "start": list(command_words), "ready": awaited, "env": environment,
            **({"stop": split_command(stop)} if stop else {}),
        }
        for name, command_words in commands.items()
    }  # fmt: skip
    changes = {"targets": dict.fromkeys(commands, target), "arms": arms, "blocks": blocks}
    return campaign_of(Document("", {**document, **changes}))


def _of_file(words: Sequence[str], blocks: int) -> "Campaign":
    from loadstone.campaign.parse import parse_campaign
    from loadstone.campaign.reading.source import read_text

    if len(words) > 1:
        raise InputError(f'"{words[1]}" follows the campaign file', "put options before it")
    return parse_campaign(read_text(words[0]), [f"blocks={blocks}"], origin=words[0])


def url_of(target: str) -> str:
    """Return a URL of a target that responds once its server is ready."""
    scheme, separator, rest = target.partition("://")
    scheme = scheme.rpartition("+")[2]
    if not separator or scheme not in ("http", "https"):
        raise InputError(f'cannot tell when a server of "{target}" is ready', "pass --ready URL")
    return f"{scheme}://{rest.split('/')[0]}/"


def split_command(text: str) -> list[str]:
    """Split a command that a user typed into words."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"the command {text!r} cannot be split into words: {error}") from error
