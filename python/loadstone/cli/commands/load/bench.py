"""Run one workload from flags, without a file.

OPERATION is one operation, several in order (put,get,delete), "mixed", a mix such as get=3,put=1,
or "sessions": users who write, read, list, share and delete, with every answer checked. Each thread
runs a copy of the same 1009 actions (-n).

TARGET is s3+http://HOST:PORT (or http://…), swift+http://HOST:PORT/v3,
swift+http://HOST/auth/v1.0, a directory, block:PATH (a device or a large file), rados:POOL, or
null. Credentials come from the environment: AWS_*, OS_* or ST_*.

Without -n and -d, reads, mixes and a single put are measured for 10 s after 2 s of warm-up, on as
many objects as fit into 1 GiB (16 to 10,000; with -d, 16 to 1,000). A single put writes up to
16 GiB, and then overwrites the same objects. Puts before other operations, and deletes, process
each object once.

Lists with commas for -t, -s, -b and --rate are a sweep: every combination is measured, with as many
objects as fit at the largest size.

\b
Examples:
  loadstone bench get http://127.0.0.1:9000 --blocks
  loadstone bench put,get,delete s3+http://127.0.0.1:9000 -t 64 -s 4KiB -n 100000
  loadstone bench put,get http://127.0.0.1:9000 -t 1,4,16 -s 4KiB,1MiB
  loadstone bench get swift+http://10.0.0.5:5000/v3 -t 250 -s 1MiB -n 10000 -i 3 -b 100
  loadstone bench mixed http://minio{1...4}:9000 -t 32 -d 5m
  loadstone bench sessions s3+http://rgw:7480 -t 8 -s 100KiB
  loadstone bench get s3+http://rgw:7480 --rate 2000 -d 60s
  loadstone bench put,get /mnt/cephfs/bench -t 16 -s 64KiB -n 10000
  loadstone bench write,read block:/dev/nvme1n1 -s 1GiB -n 16 -B 4KiB -d 60s
  loadstone bench get s3+http://rgw:7480 -d 60s --fail-if "p99 > 50ms"
  loadstone bench get s3+http://rgw:7480 -t 32 --hosts client1,client2
  loadstone bench get http://rgw:7480/backups/2026/ --existing -d 60s --keys uniform
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadstone.cli import completion, fail_if
from loadstone.cli.flags import (
    AllowForeign,
    DryRun,
    FailIf,
    MetricsListen,
    MetricsPush,
    NoKeepAlive,
    Overrides,
    Quiet,
    RunFolder,
    TargetSettings,
    parse_settings,
)
from loadstone.cli.running import session
from loadstone.cli.running.session import LiveMetrics

if TYPE_CHECKING:
    from loadstone.campaign.schema.campaign import Campaign


def command(
    context: typer.Context,
    operation: Annotated[
        str,
        typer.Argument(help="Operation, mix or workload.", autocompletion=completion.operations),
    ],
    target: Annotated[str, typer.Argument(help="Address of the target.")],
    threads: Annotated[
        str | None,
        typer.Option(
            "--threads",
            "--concurrent",
            "--concurrency",
            "-t",
            "-C",
            "-c",
            help="Requests in flight; default 16, unless --rate is given. A list sweeps: 1,4,16.",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size", "--obj.size", "-s", help="Object size; default 4KiB. A list sweeps."
        ),
    ] = None,
    count: Annotated[
        str | None,
        typer.Option(
            "--count",
            "--objects",
            "-n",
            help="Number of objects, and of requests per phase; default: see above.",
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(
            "--duration",
            "--timelimit",
            "-d",
            help="Time per phase, instead of -n; default 10s without -n.",
        ),
    ] = None,
    buckets: Annotated[
        str | None, typer.Option("--buckets", "--containers", "-b", help="Number of buckets.")
    ] = None,
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations",
            "--loops",
            "-i",
            help="Number of passes over the same objects; only for reads.",
        ),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Repeat everything on fresh objects.")] = None,
    blocks: Annotated[
        int | None,
        typer.Option(help="Repeat everything in interleaved blocks; --blocks alone means 6."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(help="Open load: requests per second, sent without waiting for responses."),
    ] = None,
    arrivals: Annotated[str | None, typer.Option(help="Open load: poisson or constant.")] = None,
    clients_max: Annotated[
        int | None, typer.Option(help="Open load: maximum number of requests in flight.")
    ] = None,
    cpus: Annotated[
        str | None, typer.Option(help="CPUs to bind load threads to, one each, in turn: 0-3,8.")
    ] = None,
    numa: Annotated[
        str | None, typer.Option(help="NUMA nodes to bind load threads to, in turn: 0,1.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            help="Addresses of this host to connect from, in turn.",
            metavar="ADDRESS,ADDRESS,...",
        ),
    ] = None,
    rate_limit: Annotated[
        str | None,
        typer.Option("--rate-limit", "--rps-limit", help="Closed load: maximum rate."),
    ] = None,
    ramp_up: Annotated[
        str | None,
        typer.Option(
            "--ramp-up",
            "--warm-up",
            help="Length of the load before the measurement; default 2s without -n and -d.",
        ),
    ] = None,
    ramp_down: Annotated[
        str | None,
        typer.Option(
            "--ramp-down", "--cool-down", help="Length of the load after the measurement."
        ),
    ] = None,
    verify: Annotated[
        str | None, typer.Option(help="Share of reads whose bytes are checked: 100%, 0.01, 0.")
    ] = None,
    block: Annotated[
        str | None, typer.Option("--block", "--range", "-B", help="Length of a range or block.")
    ] = None,
    range_count: Annotated[int | None, typer.Option(help="Ranges in one multi_range_get.")] = None,
    part_size: Annotated[
        str | None, typer.Option(help="Part size of multipart_put and multipart_get.")
    ] = None,
    part_concurrency: Annotated[
        int | None, typer.Option(help="Parts of one object in flight at once, per client.")
    ] = None,
    keys: Annotated[
        str | None, typer.Option(help="Order of objects: sequential, uniform or zipf.")
    ] = None,
    theta: Annotated[float | None, typer.Option(help="Exponent of zipf.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Prefix of bucket names.")] = None,
    object_prefix: Annotated[str | None, typer.Option(help="Prefix of keys.")] = None,
    encrypt: Annotated[
        str | None, typer.Option(help="Encrypt objects on the client: aes-256-gcm, aes-256-cbc.")
    ] = None,
    encrypt_paths: Annotated[
        str | None, typer.Option(help="Encrypt keys of objects on the client: aes-256-siv.")
    ] = None,
    timeout: Annotated[str | None, typer.Option(help="Time limit of one request.")] = None,
    no_keepalive: NoKeepAlive = False,
    on_error: Annotated[
        str | None, typer.Option(help="After a failed request: continue or stop.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random choices.")] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            help="Hosts that generate the load together, reached by ssh; -t is per host.",
            metavar="HOST,HOST,...",
        ),
    ] = None,
    settings: TargetSettings = None,
    overrides: Overrides = None,
    log_requests: Annotated[
        bool, typer.Option("--log-requests", "--full", help="Log every request.")
    ] = False,
    keep_data: Annotated[
        bool, typer.Option("--keep-data", "--noclear", help="Do not delete the objects.")
    ] = False,
    audit: Annotated[
        bool,
        typer.Option(
            "--audit", help="Keep a ledger of acknowledged writes, and read everything back."
        ),
    ] = False,
    audit_history: Annotated[
        bool,
        typer.Option(
            "--audit-history",
            help="Judge each call of sessions or a mix by its times; all clients then read, "
            "write and delete the objects of a mix.",
        ),
    ] = False,
    card: Annotated[
        bool | None,
        typer.Option(
            "--card/--no-card",
            help="First test what the target supports, as loadstone card does; default: in runs of "
            "five minutes or more.",
        ),
    ] = None,
    allow_foreign: AllowForeign = False,
    reuse: Annotated[
        str | None,
        typer.Option(help="Read the objects that this run kept: its folder or id.", metavar="RUN"),
    ] = None,
    existing: Annotated[
        bool,
        typer.Option(
            "--existing",
            help="Read existing objects: TARGET names their bucket (and a prefix), or "
            "directory. They are listed first; nothing is written.",
        ),
    ] = False,
    list_file: Annotated[
        Path | None,
        typer.Option(
            "--list",
            help="Like --existing, for objects listed in a file: Parquet, CSV, or a"
            " key on each line.",
            metavar="FILE",
        ),
    ] = None,
    output: RunFolder = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            help="Report to print; see: loadstone list reports.",
            autocompletion=completion.reports,
        ),
    ] = "terminal",
    conditions: FailIf = None,
    metrics_listen: MetricsListen = None,
    metrics_push: MetricsPush = None,
    quiet: Quiet = False,
    dry_run: DryRun = False,
    trials: Annotated[
        bool, typer.Option("--trials", help="With --dry-run: list each trial.")
    ] = False,
) -> int:
    thresholds = fail_if.read_thresholds(conditions)
    # Passed by name, since `loadstone ab` has the same flags.
    campaign = campaign_of(context.params)
    if dry_run:
        from loadstone.cli.running.preview import preview

        preview(campaign, thresholds=thresholds, are_trials_listed=trials)
        return 0
    folder = output or session.default_folder("bench")
    words = shlex.join(["loadstone", *context.obj])
    return session.measure(
        campaign,
        folder,
        command=words,
        form=form,
        # The user typed the profile, so its command needs no consent.
        allow_commands=True,
        thresholds=thresholds,
        is_quiet=quiet,
        metrics=LiveMetrics(metrics_listen, metrics_push),
    )


def campaign_of(flags: Mapping[str, Any]) -> "Campaign":
    """Return the campaign for the flags of this command, given by parameter name."""
    from loadstone.campaign.quick import Flags, campaign_from_flags
    from loadstone.cli.running.reuse import DatasetFlags, flags_of

    reuse = flags["reuse"]
    like = flags_of(reuse) if reuse is not None else DatasetFlags()
    settings = flags["settings"] or ()
    if flags["source"] is not None:
        settings = [*settings, f"source=[{flags['source']}]"]
    changes = _overrides(
        flags["overrides"] or (), flags["hosts"], log_requests=flags["log_requests"]
    )
    listed = flags["list_file"]
    # All other flags have the same name there.
    same = {name: value for name, value in flags.items() if name in Flags.__annotations__}
    changed = {
        "size": flags["size"] or like.size,
        "count": like.count if flags["count"] is None else flags["count"],
        "buckets": flags["buckets"] or like.buckets,
        "object_prefix": flags["object_prefix"] or like.object_prefix,
        "encryption": flags["encrypt"] or like.encryption,
        "path_encryption": flags["encrypt_paths"] or like.path_encryption,
        "connections": "per_request" if flags["no_keepalive"] else None,
        "existing": flags["existing"] or listed is not None,
        "list_file": None if listed is None else str(Path(listed).absolute()),
    }
    return campaign_from_flags(
        flags["operation"],
        flags["target"],
        settings=parse_settings(settings),
        overrides=changes,
        **{**same, **changed},
    )


def _overrides(given: Sequence[str], hosts: str | None, *, log_requests: bool) -> list[str]:
    """Return the overrides: those given by key, and those that flags imply."""
    # Placed first, so that overrides by key take precedence.
    ssh = [] if hosts is None else [f"hosts={json.dumps({'launch': 'ssh', 'names': [hosts]})}"]
    return [*ssh, *given, *(["log_requests=true"] if log_requests else [])]
