"""Measure the load generator's own ceiling on this host, against targets that do nothing.

Drivers are null, s3, swift, file and block; default: all. s3 and swift use a server on loopback
that stores nothing. It shares this host's CPU, so the client's CPU time per request is kept beside
the rate. file and block work in memory (/dev/shm).

The result is kept for this host and this build, and copied into every later run. Reports then say
how close to its own ceiling the load generator was, and print rates from 80 % of it on as "≥". Do
not use the host for anything else meanwhile. Ctrl-C keeps the loads that were measured.

\b
Examples:
  loadstone calibrate
  loadstone calibrate s3 --sizes 4KiB,10MiB --threads 1,64,250
  loadstone calibrate s3 --target-set payload_signing=signed
  loadstone calibrate file block --directory /mnt/tmpfs
  loadstone calibrate --show -f json
"""

import json
import os
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from loadstone import units
from loadstone.cli import completion, exit_code
from loadstone.cli.flags import NoKeepAlive, TargetSettings, TerminalOrJson, parse_settings
from loadstone.cli.messages import say, tell
from loadstone.cli.screen.output import print_table
from loadstone.documents.manifest import HostConditions, HostFacts, Manifest
from loadstone.errors import InputError

if TYPE_CHECKING:
    from loadstone.campaign.calibration_plan import Wish
    from loadstone.campaign.planning.plan import Plan
    from loadstone.execution.runner import RunEnd
    from loadstone.results.calibration import Calibration, CalibrationPoint, Session

SECRET = "LOADSTONE_CALIBRATION_SECRET"
IN_MEMORY = frozenset({"tmpfs", "ramfs"})
MEMORY_BYTES_MAX = 256 << 20
MEMORY_SHARE = 4
DURATION_NS_MIN = 100_000_000


def command(
    drivers: Annotated[
        list[str] | None,
        typer.Argument(
            help="Drivers; default: all.", metavar="DRIVER", autocompletion=completion.calibrated
        ),
    ] = None,
    sizes: Annotated[str, typer.Option("--sizes", "--size", "-s", help="Sizes of objects.")] = (
        "4KiB,1MiB"
    ),
    threads: Annotated[str, typer.Option("--threads", "-t", help="Requests in flight.")] = (
        "1,16,250"
    ),
    operations: Annotated[
        str | None,
        typer.Option(
            help="Operations: put, get, head, delete, read, write; default: those of the driver."
        ),
    ] = None,
    duration: Annotated[
        str, typer.Option("--duration", "-d", help="Measured time of each load.")
    ] = "1s",
    warm_up: Annotated[str, typer.Option(help="Warm-up of each load.")] = "200ms",
    verify: Annotated[str, typer.Option(help="Share of reads whose bytes are checked.")] = "100%",
    no_keepalive: NoKeepAlive = False,
    settings: TargetSettings = None,
    directory: Annotated[
        Path, typer.Option(help="A directory on a tmpfs, for drivers file and block.")
    ] = Path("/dev/shm"),
    show: Annotated[
        bool,
        typer.Option("--show", help="Show the kept calibration of this host; measure nothing."),
    ] = False,
    form: TerminalOrJson = "terminal",
) -> int:
    from loadstone.campaign.calibration_plan import Wish
    from loadstone.campaign.drivers import calibrated_drivers
    from loadstone.execution.host import facts as host
    from loadstone.results import calibration

    names = tuple(drivers or calibrated_drivers())
    calibration.check_drivers(names)
    facts, build = host.fingerprint(), host.versions()["load_generator"]
    if show:
        return _show(facts, build, names, form)
    wish = Wish(
        drivers=names,
        sizes=tuple(sorted({units.parse_size(text) for text in _listed(sizes)})),
        threads=tuple(sorted({units.parse_count(text) for text in _listed(threads)})),
        operations=tuple(_listed(operations or "")),
        duration_ns=units.parse_duration_ns(duration),
        warm_up_ns=units.parse_duration_ns(warm_up),
        verify=units.parse_fraction(verify),
        connections="per_request" if no_keepalive else "keep_alive",
        settings=parse_settings(settings or ()),
        memory_bytes=_memory_bytes(directory, names),
    )
    _check(wish)
    with calibration.alone():
        return _calibrate(wish, directory, facts, build, form)


def _check(wish: "Wish") -> None:
    from loadstone.campaign.calibration_plan import check_wish
    from loadstone.campaign.drivers import read_drivers
    from loadstone.results.calibration import calibrated_operations

    for operation in wish.operations:
        if operation not in calibrated_operations():
            allowed = f"what can be calibrated: {', '.join(sorted(calibrated_operations()))}"
            raise InputError.of_value(operation, allowed)
    if 0 in wish.sizes:
        raise InputError.of_value(0, "objects of at least one byte")
    if 0 in wish.threads:
        raise InputError.of_value(0, "at least one request in flight")
    if wish.duration_ns < DURATION_NS_MIN:
        shown = units.format_duration(wish.duration_ns)
        raise InputError.of_value(shown, "a duration of at least 100ms")
    check_wish(wish, read_drivers())


def _calibrate(wish: "Wish", directory: Path, facts: HostFacts, build: str, form: str) -> int:
    from loadstone.analysis.instrument.calibration_points import points_of
    from loadstone.execution import runner
    from loadstone.results import calibration
    from loadstone.results.store import read_run

    with tempfile.TemporaryDirectory(prefix="loadstone-calibration-") as scratch:
        folder = Path(scratch) / "run"
        with _targets(wish, directory) as plan:
            _warn(wish.seconds)
            end = _measure(plan, folder)
        points = tuple(points_of(read_run(folder)))
    for problem in end.problems:
        tell(problem)
    if end.failed_requests:
        print(
            f"error: {end.failed_requests} requests failed; loads with failures are not kept",
            file=sys.stderr,
        )
    if points:
        session = calibration.Session(
            measured=runner.now(), conditions=calibration.conditions_of(facts), points=points
        )
        standing = calibration.kept_of(facts, build).standing_against(session)
        path = calibration.keep(facts, build, session)
        measured = calibration.Calibration(
            host=calibration.identity_of(facts), build=build, sessions=(session,)
        )
        _print(measured, path, form)
        _tell_standing(standing)
    if end.state == "interrupted":
        return exit_code.INTERRUPTED
    return exit_code.FAILED if end.problems or end.failed_requests or not points else 0


def _tell_standing(
    standing: Sequence[tuple["Session", "CalibrationPoint", "CalibrationPoint"]],
) -> None:
    """Print the loads whose earlier, higher figure is kept: a ceiling is the best rate ever
    reached.
    """
    for session, old, new in standing:
        size = units.format_size(round(old.bytes_per_request))
        print(
            f"note: {old.driver} {old.operation} {size}, {old.clients} clients:"
            f" {units.format_rate(new.requests_per_s)} now, and"
            f" {units.format_rate(old.requests_per_s)} of {session.measured:%Y-%m-%d %H:%M} UTC"
            " is kept: a ceiling is the highest rate reached",
            file=sys.stderr,
        )


def _measure(plan: "Plan", folder: Path) -> "RunEnd":
    from loadstone.cli.screen.progress import make_view
    from loadstone.execution import runner
    from loadstone.results.writer import RunWriter

    manifest: Manifest = {
        "name": plan.name,
        "seed": plan.seed,
        "run": plan.run,
        "plan": plan.documents(),
        **runner.circumstances(),
    }
    view = make_view(plan.trials)
    try:
        with RunWriter.create(folder, manifest) as writer:
            return runner.execute(plan, writer, view.show)
    finally:
        view.close()


@contextmanager
def _targets(wish: "Wish", directory: Path) -> Iterator["Plan"]:
    """Yield the plan while its targets exist."""
    from loadstone.campaign.calibration_plan import (
        address_settings,
        calibration_of,
        plan_calibration,
        served_documents,
    )
    from loadstone.campaign.drivers import facts_of
    from loadstone.execution.programs.null_servers import null_servers

    # The server verifies no signature, but the driver needs a key to sign its requests.
    os.environ[SECRET] = "nothing to protect"
    run = uuid.uuid4().hex
    served = served_documents(wish, run)
    in_memory = directory if _kept_in_memory(wish.drivers) else None
    with (
        tempfile.TemporaryDirectory(prefix="loadstone-calibration-", dir=in_memory) as memory,
        null_servers(list(served.values())) as addresses,
    ):
        address_of = dict(zip(served, addresses, strict=True))

        def settings_of(driver: str, size: int) -> Mapping[str, Any]:
            if (driver, size) in address_of:
                return address_settings(driver, address_of[driver, size])
            if driver not in paths:
                return {}
            (name,) = facts_of(driver).address.settings
            return {name: str(paths[driver])}

        paths = {name: Path(memory) / name for name in _kept_in_memory(wish.drivers)}
        for name, path in paths.items():
            if calibration_of(name).stand_in == "objects_in_memory":
                path.mkdir()
        yield plan_calibration(wish, run, settings_of)


def _memory_bytes(directory: Path, drivers: Sequence[str]) -> int:
    """Return how much memory files may use; refuse a directory that is not in memory."""
    from loadstone.formats.node_probes import read_mount

    in_memory = " and ".join(_kept_in_memory(drivers))
    if not in_memory:
        return MEMORY_BYTES_MAX
    try:
        where = directory.resolve(strict=True)
        space = os.statvfs(where)
    except OSError as error:
        raise InputError(
            f'cannot calibrate {in_memory} in "{directory}": {error.strerror}',
            "name a directory on a tmpfs with --directory, or other drivers",
        ) from error
    kind = read_mount(Path("/proc/self/mountinfo").read_text(), str(where)).file_system
    if kind not in IN_MEMORY:
        raise InputError(
            f'cannot calibrate {in_memory} in "{directory}": it is on {kind}, not in memory',
            "a disk would limit the rates, not the load generator; name a tmpfs",
        )
    return min(MEMORY_BYTES_MAX, space.f_bavail * space.f_frsize // MEMORY_SHARE)


def _kept_in_memory(drivers: Sequence[str]) -> list[str]:
    """Return the drivers that are calibrated with objects in the memory of this host."""
    from loadstone.campaign.drivers import facts_of

    calibrations = ((name, facts_of(name).calibration) for name in drivers)
    return [
        name
        for name, calibration_facts in calibrations
        if calibration_facts is not None and calibration_facts.is_in_memory
    ]


def _warn(seconds: float) -> None:
    print(
        f"this takes about {seconds * 1.2:.0f} s; do not use the host for anything else",
        file=sys.stderr,
    )
    busy = os.getloadavg()[0]
    if busy > len(os.sched_getaffinity(0)) / 2:
        say(
            f"warning: the host is busy (load {busy:.1f}): ceilings will be too low; higher"
            " ones of the last 7 days are kept"
        )


def _show(facts: HostFacts, build: str, drivers: Sequence[str], form: str) -> int:
    from loadstone.results import calibration

    copy = calibration.copy_for(facts, build, drivers)
    if "absent" in copy:
        print(f"error: {copy['absent']}", file=sys.stderr)
        print("hint: measure with: loadstone calibrate", file=sys.stderr)
        return exit_code.FAILED
    stored = calibration.parse(copy)
    _print(stored, calibration.path_of(facts, build), form)
    if form == "terminal":
        _print_sessions(stored, calibration.conditions_of(facts))
    return 0


def _print_sessions(stored: "Calibration", conditions: HostConditions) -> None:
    """Print when the points were measured, and whether they apply to the host's present state."""
    from loadstone.analysis.instrument.headroom import AGE_MAX_DAYS
    from loadstone.analysis.instrument.own_ceiling import changes_between
    from loadstone.execution import runner

    for session in stored.sessions:
        age_s = (runner.now() - session.measured).total_seconds()
        changed = changes_between(session.conditions, conditions)
        loads = units.counted(len(session.points), "load")
        words = [f"{loads} measured {session.measured:%Y-%m-%d %H:%M} UTC"]
        words += [f"more than {AGE_MAX_DAYS} days ago"] if age_s > AGE_MAX_DAYS * 86_400 else []
        words += [f"no longer hold: {'; '.join(changed)}"] if changed else []
        print(", ".join(words))


def _print(stored: "Calibration", path: Path, form: str) -> None:
    from loadstone.campaign.drivers import calibrated_drivers, facts_of

    if form == "json":
        document = {**stored.document(), "path": str(path)}
        print(json.dumps(document, indent=2, ensure_ascii=False))
        return
    rows = [_row(point) for session in stored.sessions for point in session.points]
    head = (
        "driver",
        "does",
        "bytes",
        "clients",
        "requests/s",
        "MiB/s",
        "CPU µs/request",
        "/s per core",
        "p99 µs",
        "hiccup p99.9 µs",
    )
    print_table(head, rows)
    print()
    served = ", ".join(name for name in calibrated_drivers() if facts_of(name).is_served)
    print(f"{served}: the server shares this host's processors, and the rates are those of both.")
    print('With a target on another host, the client has all cores: at most cores × "/s per core".')
    print(f"kept in {path}")


def _row(point: "CalibrationPoint") -> tuple[str, ...]:
    def shown(value: float | None, scale: float = 1.0) -> str:
        return "-" if value is None else units.format_number(value / scale)

    return (
        point.driver,
        point.operation,
        units.format_size(round(point.bytes_per_request)) if point.bytes_per_request else "-",
        str(point.clients),
        shown(point.requests_per_s),
        shown(point.requests_per_s * point.bytes_per_request, 2**20),
        shown(point.cpu_ns_per_request, 1e3),
        shown(1e9 / point.cpu_ns_per_request) if point.cpu_ns_per_request else "-",
        shown(point.service_ns_p99, 1e3),
        shown(point.hiccup_ns_p99_9, 1e3),
    )


def _listed(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
