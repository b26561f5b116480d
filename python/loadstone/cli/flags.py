"""Flags that several commands have in common."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from loadstone.errors import InputError

AllowCommands = Annotated[
    bool,
    typer.Option(
        "--allow-commands", help="Run commands of the campaign and of profiles without asking."
    ),
]
AllowForeign = Annotated[
    bool, typer.Option("--allow-foreign", help="Write into buckets that hold objects of others.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show the plan and its cost, and do nothing.")
]
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if",
        help="Exit with code 3 if a case meets this condition; repeatable. Rate, p50 to p999,"
        ' failures: "get p99 > 50ms", "rate < 1000/s", "failures > 1%".',
        metavar="CONDITION",
    ),
]
MetricsListen = Annotated[
    str | None,
    typer.Option(
        "--metrics-listen",
        help="Serve the run's metrics to Prometheus at this address, such as 127.0.0.1:9400.",
        metavar="HOST:PORT",
    ),
]
MetricsPush = Annotated[
    str | None,
    typer.Option(
        "--metrics-push",
        help="Push the run's metrics to an OpenTelemetry collector: http://HOST:4318/v1/metrics.",
        metavar="URL",
    ),
]
NoKeepAlive = Annotated[
    bool, typer.Option("--no-keepalive", help="One connection for each request.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="Set a key of the campaign; repeatable.", metavar="KEY=VALUE"),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Also replace a file that loadstone did not write.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress: only errors and the result.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")]
RunFolder = Annotated[
    Path | None,
    typer.Option("--output", "--out", "-o", help="Run folder; default: runs/<time>-<name>."),
]
TargetSettings = Annotated[
    list[str] | None,
    typer.Option("--target-set", help="A setting of the target's driver.", metavar="KEY=VALUE"),
]
TerminalOrJson = Annotated[
    Literal["terminal", "json"], typer.Option("--format", "-f", help="Format of the output.")
]


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the settings; values are YAML, and a dot leads into a map, as in tls.ca_file=PATH."""
    from ruamel.yaml import YAML

    settings: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not key:
            raise InputError.of_value(pair, "KEY=VALUE, such as addressing=virtual")
        *outer, last = key.split(".")
        place = settings
        for name in outer:
            place = place.setdefault(name, {})
            if not isinstance(place, dict):
                raise InputError.of_value(pair, f'"{name}" as a value or as a map, not as both')
        place[last] = YAML(typ="safe", pure=True).load(text)
    return settings
