"""Run one workload from flags, without a file.

OPERATION is one operation, several with commas that run one after another, "mixed", a mix such as
get=3,put=1, or "sessions": users who write, read, list, share and delete, one copy of the same
1009 actions (-n) for each thread, with every answer checked. TARGET is s3+http://HOST:PORT (or
http://…), swift+http://HOST:PORT/v3, swift+http://HOST/auth/v1.0, a directory, block:PATH (a device
or a large file), rados:POOL, or null. Credentials come from AWS_*, OS_* or ST_* in the environment.

Without -n and -d, what reads, a mix, and a put alone are measured for 10 s after 2 s of warm-up.
There are as many objects as fit into 1 GiB, 16 to 10,000; a put alone writes new ones, up to
16 GiB, and then the same again. Puts before other operations, and deletes, go over the objects
once.

Several values with commas between them, of -t, -s, -b and --rate, are a sweep: every combination
is measured, with as many objects as fit of the largest size.

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
"""

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from loadstone.cli import fail_if, session
from loadstone.cli.fail_if import FailIf


def command(
    context: typer.Context,
    operation: Annotated[str, typer.Argument(help="What to do.")],
    target: Annotated[str, typer.Argument(help="Where to.")],
    threads: Annotated[
        str | None,
        typer.Option(
            "--threads",
            "--concurrent",
            "--concurrency",
            "-t",
            "-C",
            "-c",
            help="Requests in flight; 16 without it and --rate. Several sweep: 1,4,16.",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            "--size", "--obj.size", "-s", help="Object size, as 1M; 4KiB without it. Several sweep."
        ),
    ] = None,
    count: Annotated[
        str | None,
        typer.Option(
            "--count",
            "--objects",
            "-n",
            help="Objects, and requests of each phase; without it, by the clock (see above).",
        ),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option(
            "--duration",
            "--timelimit",
            "-d",
            help="How long, instead of how many; 10s without it and -n.",
        ),
    ] = None,
    buckets: Annotated[
        str | None, typer.Option("--buckets", "--containers", "-b", help="Buckets to spread over.")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option("--iterations", "--loops", "-i", help="Repeat reads so often.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Repeat all of it on fresh objects.")] = None,
    blocks: Annotated[
        int | None,
        typer.Option(
            help="Repeat all of it in interleaved blocks; without a number six, which can decide a "
            "comparison."
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(help="Open load: requests a second, which do not wait for answers."),
    ] = None,
    arrivals: Annotated[
        str | None, typer.Option(help="Of an open load: poisson, constant.")
    ] = None,
    clients_max: Annotated[
        int | None, typer.Option(help="Of an open load: most requests in flight.")
    ] = None,
    rate_limit: Annotated[
        str | None, typer.Option("--rate-limit", "--rps-limit", help="Closed load: not faster.")
    ] = None,
    ramp_up: Annotated[
        str | None,
        typer.Option("--ramp-up", "--warm-up", help="Load before measuring; 2s without -n and -d."),
    ] = None,
    ramp_down: Annotated[
        str | None, typer.Option("--ramp-down", "--cool-down", help="Load after measuring.")
    ] = None,
    verify: Annotated[
        str | None, typer.Option(help="Share of reads whose bytes are checked: 100%, 0.01, 0.")
    ] = None,
    block: Annotated[
        str | None,
        typer.Option("--block", "--range", "-B", help="Length of a range, or a block."),
    ] = None,
    range_count: Annotated[int | None, typer.Option(help="Ranges in one multi_range_get.")] = None,
    part_size: Annotated[
        str | None, typer.Option(help="Part size of multipart_put and multipart_get.")
    ] = None,
    part_concurrency: Annotated[
        int | None, typer.Option(help="Parts of one object in flight at once, per client.")
    ] = None,
    keys: Annotated[str | None, typer.Option(help="sequential, uniform or zipf.")] = None,
    theta: Annotated[float | None, typer.Option(help="Exponent of zipf.")] = None,
    prefix: Annotated[str | None, typer.Option(help="What bucket names begin with.")] = None,
    object_prefix: Annotated[str | None, typer.Option(help="What keys begin with.")] = None,
    encrypt: Annotated[
        str | None,
        typer.Option(help="Encrypt objects on the client: aes-256-gcm, aes-256-cbc."),
    ] = None,
    encrypt_paths: Annotated[
        str | None, typer.Option(help="Encrypt keys of objects on the client: aes-256-siv.")
    ] = None,
    timeout: Annotated[str | None, typer.Option(help="How long one request may take.")] = None,
    no_keepalive: Annotated[
        bool, typer.Option("--no-keepalive", help="One connection for each request.")
    ] = False,
    on_error: Annotated[str | None, typer.Option(help="continue or stop.")] = None,
    seed: Annotated[int | None, typer.Option(help="Where all chance comes from.")] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            help="Hosts to log in to by ssh, which make the load together; -t is of each.",
            metavar="HOST,HOST,...",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--target-set", help="A setting of the target's driver.", metavar="KEY=VALUE"),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", help="A campaign key, as in a file.", metavar="KEY=VALUE"),
    ] = None,
    log_requests: Annotated[
        bool, typer.Option("--log-requests", "--full", help="Keep every request in a log.")
    ] = False,
    keep_data: Annotated[
        bool, typer.Option("--keep-data", "--noclear", help="Leave the objects behind.")
    ] = False,
    allow_foreign: Annotated[
        bool, typer.Option("--allow-foreign", help="Write to buckets loadstone did not make.")
    ] = False,
    reuse: Annotated[
        str | None,
        typer.Option(help="Read what this run kept: its folder or identity.", metavar="RUN"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "--out", "-o", help="Run folder.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", "-f", help="Report to print; see: loadstone list reports.")
    ] = "terminal",
    conditions: FailIf = None,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="No progress: only what went wrong, and the report."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done.")
    ] = False,
    trials: Annotated[
        bool, typer.Option("--trials", help="With --dry-run: list each trial.")
    ] = False,
) -> int:
    from loadstone.campaign.reading.quick import campaign_from_flags
    from loadstone.cli.reuse import DatasetFlags, flags_of
    from loadstone.cli.settings import parse_settings

    thresholds = fail_if.read_thresholds(conditions)
    like = flags_of(reuse) if reuse is not None else DatasetFlags()
    changes = list(overrides or ())
    if hosts is not None:
        # Before what is set of them by key.
        changes.insert(0, f"hosts={json.dumps({'launch': 'ssh', 'names': [hosts]})}")
    if log_requests:
        changes.append("log_requests=true")
    campaign = campaign_from_flags(
        operation,
        target,
        settings=parse_settings(settings or ()),
        overrides=changes,
        threads=threads,
        size=size or like.size,
        count=like.count if count is None else count,
        duration=duration,
        buckets=buckets or like.buckets,
        iterations=iterations,
        rounds=rounds,
        blocks=blocks,
        rate=rate,
        arrivals=arrivals,
        clients_max=clients_max,
        rate_limit=rate_limit,
        ramp_up=ramp_up,
        ramp_down=ramp_down,
        verify=verify,
        block=block,
        range_count=range_count,
        part_size=part_size,
        part_concurrency=part_concurrency,
        keys=keys,
        theta=theta,
        prefix=prefix,
        object_prefix=object_prefix or like.object_prefix,
        encryption=encrypt or like.encryption,
        path_encryption=encrypt_paths or like.path_encryption,
        timeout=timeout,
        connections="per_request" if no_keepalive else None,
        on_error=on_error,
        seed=seed,
        keep_data=keep_data,
        allow_foreign=allow_foreign,
        reuse=reuse,
    )
    if dry_run:
        from loadstone.cli.screen.preview import preview

        preview(campaign, are_trials_listed=trials)
        return 0
    folder = output or session.default_folder("bench")
    words = shlex.join(["loadstone", *context.obj])
    return session.measure(
        campaign,
        folder,
        command=words,
        form=form,
        # A profile that the user typed needs no consent for its command.
        allow_commands=True,
        thresholds=thresholds,
        is_quiet=quiet,
    )
