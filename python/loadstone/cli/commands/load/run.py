"""Run a campaign file: every trial in order, with everything observed kept in a run folder.

Ctrl-C stops within two seconds and leaves a readable run; --resume continues it. Exit codes: 0, all
well; 1, requests failed (unless the campaign expects it), a target could not be used, or there is
no result; 3, a --fail-if condition was met; 4, a result is void; 5, all well, but data of the run
is left on a target; 130, Ctrl-C.

\b
Examples:
  loadstone run campaign.yaml --dry-run
  loadstone run campaign.yaml --dry-run --trials
  loadstone run campaign.yaml -o runs/first
  loadstone run campaign.yaml --set dataset.objects=10000 --set 'sweep.threads=[1,8,64]'
  loadstone run campaign.yaml -o runs/first --resume
  loadstone run campaign.yaml --fail-if "get p99 > 50ms" --fail-if "failures > 1%"
  sed s/HOST/$HOST/ template.yaml | loadstone run -
"""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from loadstone.cli import fail_if
from loadstone.cli.flags import (
    AllowCommands,
    DryRun,
    FailIf,
    MetricsListen,
    MetricsPush,
    Overrides,
    Quiet,
    Resume,
    RunFolder,
)
from loadstone.cli.running import session
from loadstone.cli.running.session import LiveMetrics
from loadstone.errors import InputError


def command(
    context: typer.Context,
    campaign_file: Annotated[
        Path,
        typer.Argument(
            help="The campaign file (YAML); - reads standard input.", metavar="CAMPAIGN"
        ),
    ],
    output: RunFolder = None,
    overrides: Overrides = None,
    dry_run: DryRun = False,
    trials: Annotated[
        bool, typer.Option("--trials", "--full", help="With --dry-run: list each trial.")
    ] = False,
    resume: Resume = False,
    assume_rate: Annotated[
        str | None, typer.Option(help="With --dry-run: assumed requests per second.")
    ] = None,
    assume_bandwidth: Annotated[
        str | None, typer.Option(help="With --dry-run: assumed bandwidth per second, such as 1GiB.")
    ] = None,
    allow_foreign: Annotated[
        list[str] | None,
        typer.Option(
            help="Target in whose existing buckets loadstone may write.", metavar="TARGET"
        ),
    ] = None,
    allow_commands: AllowCommands = False,
    conditions: FailIf = None,
    metrics_listen: MetricsListen = None,
    metrics_push: MetricsPush = None,
    quiet: Quiet = False,
) -> int:
    from loadstone import units
    from loadstone.campaign.parse import parse_campaign
    from loadstone.campaign.reading.source import read_text

    thresholds = fail_if.read_thresholds(conditions)
    changes = list(overrides or ())
    if allow_foreign:
        changes.append(f"allow_foreign={list(allow_foreign)!r}")
    if resume and output is None and not dry_run:
        run = shlex.quote(str(campaign_file)) if campaign_file.is_dir() else "RUN"
        raise InputError(
            "--resume needs a campaign file and the folder of its run",
            f"loadstone run CAMPAIGN -o {run} --resume",
        )
    is_piped = str(campaign_file) == "-"
    origin = "standard input" if is_piped else str(campaign_file)
    text = read_text(origin, sys.stdin.buffer if is_piped else None)
    campaign = parse_campaign(text, changes, origin=origin)
    if dry_run:
        rate = units.parse_rate(assume_rate) if assume_rate else None
        bandwidth = float(units.parse_size(assume_bandwidth)) if assume_bandwidth else None
        from loadstone.cli.running.preview import preview

        preview(campaign, rate, bandwidth, thresholds=thresholds, are_trials_listed=trials)
        return 0
    folder = output or session.default_folder(campaign.name)
    words = shlex.join(["loadstone", *context.obj])
    return session.measure(
        campaign, folder, resume=resume, file=campaign_file, text=text, command=words,
        allow_commands=allow_commands, thresholds=thresholds, is_quiet=quiet,
        metrics=LiveMetrics(metrics_listen, metrics_push),
    )  # fmt: skip
