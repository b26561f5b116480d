"""Calibrations: the load generator's rates on this host against targets that do nothing.

There is a JSON file per host and build of the load generator in the user's state folder, which is
copied into the manifest of each run on that host.

History of the format:
    1  the first: sessions with their conditions, and the points measured in each.
"""

import contextlib
import datetime
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import AwareDatetime, ValidationError

from loadstone.campaign.drivers import addresses_of, calibrated_drivers, facts_of
from loadstone.documents.manifest import (
    HostConditions,
    HostFacts,
    HostGroup,
    HostIdentity,
    HostProcessor,
    KeptCalibration,
)
from loadstone.documents.mistake import adapter_of, first_mistake
from loadstone.errors import InputError, LoadstoneError, ResultError
from loadstone.results.files import durable
from loadstone.results.layout import LOCK, check_format, read_plain, state_folder

CALIBRATION_FORMAT = 1

NOT_CALIBRATED = "this host has not been calibrated"
OTHER_BUILDS_ONLY = "this host was calibrated with other builds of the load generator only"

AGE_MAX = datetime.timedelta(days=7)
"""An older point is replaced by a new one, even if that is lower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationPoint:
    """The rate of one load against a target that does nothing.

    `cpu_ns_per_request` is the time of load threads, `run_delay_share` the share of the measured
    time that the worst of them waited for a core.
    """

    driver: str
    operation: str
    clients: int
    bytes_per_request: float
    requests_per_s: float
    cpu_ns_per_request: float
    cores: int
    verify: float
    connections: str
    settings: Mapping[str, Any]
    requests: int
    duration_s: float
    service_ns_p50: int | None = None
    service_ns_p99: int | None = None
    hiccup_ns_p99_9: int | None = None
    run_delay_share: float | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """The key of the load, the same in all measurements of it."""
        return (
            self.driver,
            self.operation,
            self.clients,
            round(self.bytes_per_request),
            self.cores,
            self.verify,
            self.connections,
            json.dumps(self.settings, sort_keys=True),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Points that were measured together, with their time and conditions."""

    measured: AwareDatetime
    conditions: HostConditions
    points: tuple[CalibrationPoint, ...]

    def document(self) -> dict[str, Any]:
        """Return the session as a JSON document."""
        return {
            "measured": self.measured.isoformat(timespec="seconds"),
            "conditions": self.conditions,
            "points": [asdict(point) for point in self.points],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The calibration of one host and build, or its part for one run."""

    host: HostIdentity
    build: str
    sessions: tuple[Session, ...]

    def document(self) -> KeptCalibration:
        """Return the calibration as a JSON document."""
        return {
            "format": CALIBRATION_FORMAT,
            "host": self.host,
            "build": self.build,
            "sessions": [session.document() for session in self.sessions],
        }

    def with_session(self, new: Session) -> "Calibration":
        """Return the calibration with a new session.

        A ceiling is the highest rate that this host and build have reached: of two measurements of
        a load under equal conditions the higher one is kept, unless it is too old.
        """
        standing = {old.key for _, old, _ in self.standing_against(new)}
        better = [point for point in new.points if point.key not in standing]
        renewed = {point.key for point in better}
        calibrations = [
            _only(session, [point for point in session.points if point.key not in renewed])
            for session in self.sessions
        ]
        sessions = tuple(
            session for session in (*calibrations, _only(new, better)) if session.points
        )
        return Calibration(host=self.host, build=self.build, sessions=sessions)

    def standing_against(
        self, new: Session
    ) -> tuple[tuple[Session, CalibrationPoint, CalibrationPoint], ...]:
        """Return pairs of kept and new points where the new session has a lower rate."""
        lower = {point.key: point for point in new.points}
        return tuple(
            (session, old, lower[old.key])
            for session in self.sessions
            if session.conditions == new.conditions and new.measured - session.measured <= AGE_MAX
            for old in session.points
            if old.key in lower and old.requests_per_s > lower[old.key].requests_per_s
        )

    def of_drivers(self, drivers: Sequence[str]) -> "Calibration":
        """Return the points of some drivers."""
        calibrations = (
            _only(session, [point for point in session.points if point.driver in drivers])
            for session in self.sessions
        )
        sessions = tuple(session for session in calibrations if session.points)
        return Calibration(host=self.host, build=self.build, sessions=sessions)


def folder() -> Path:
    """Return the folder of calibrations."""
    return state_folder() / "calibration"


def identity_of(host: HostFacts) -> HostIdentity:
    """Return the facts that identify a host."""
    model = (host.get("cpu") or {}).get("model")
    return {"name": host.get("name"), "machine": host.get("machine"), "cpu_model": model}


def conditions_of(host: HostFacts) -> HostConditions:
    """Return the facts of a host that affect a ceiling and may change."""
    cpu: HostProcessor = host.get("cpu") or {}
    group: HostGroup = host.get("cgroup") or {}
    facts = {
        "kernel": host.get("kernel"),
        "kernel_options": host.get("kernel_options"),
        "cpu_cores": cpu.get("cores"),
        "cpu_cores_allowed": cpu.get("cores_allowed"),
        "cpu_governor": cpu.get("governor"),
        "cpu_frequency_khz_max": cpu.get("frequency_khz_max"),
        "cpu_turbo": cpu.get("turbo"),
        "cpu_smt_active": cpu.get("smt_active"),
        "cgroup_cpu.max": group.get("cpu.max"),
        "cgroup_cpuset.cpus.effective": group.get("cpuset.cpus.effective"),
    }
    known = {name: value for name, value in facts.items() if value not in (None, [], "")}
    return cast(HostConditions, known)


def costs_of(driver: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a target that affect the cost of a request, defaults included."""
    facts = facts_of(driver)
    costs = {
        name: usual if settings.get(name) is None else settings[name]
        for name, usual in usual_costs(driver).items()
    }
    if facts.is_served:
        addresses = addresses_of(facts, settings)
        costs["tls"] = any(address.startswith("https:") for address in addresses)
    return costs


def usual_costs(driver: str) -> dict[str, Any]:
    """Return the defaults of a driver's settings that affect the cost of a request."""
    known = calibrated_drivers().get(driver)
    calibration = known.facts.calibration if known else None
    if known is None or calibration is None:
        return {}
    return {
        setting.name: setting.usual
        for setting in known.settings
        if setting.name in calibration.costs
    }


def calibrated_operations() -> tuple[str, ...]:
    """Return the operations that can be calibrated, of any driver."""
    every = [driver.facts.calibration for driver in calibrated_drivers().values()]
    return tuple(
        dict.fromkeys(name for calibration in every if calibration for name in calibration.can)
    )


def path_of(host: HostFacts, build: str) -> Path:
    """Return the file of the calibration of a host and build."""
    return folder() / f"{_digest(identity_of(host))}-{build}.json"


def read(path: Path) -> Calibration:
    """Read a calibration; raise ResultError if it is not valid."""
    document = read_plain(path)
    check_format(path, document, "format", CALIBRATION_FORMAT)
    try:
        return parse(document)
    except ValidationError as error:
        raise ResultError(
            f'"{path}" holds no calibration: {first_mistake(error)}',
            "delete it, and run: loadstone calibrate",
        ) from error


def parse(document: Mapping[str, object]) -> Calibration:
    """Return the calibration in a document of a file or manifest; raise ValidationError if
    invalid.
    """
    return adapter_of(Calibration).validate_python(document)


def keep(host: HostFacts, build: str, session: Session) -> Path:
    """Add a session to the calibration of this host and build, atomically."""
    path = path_of(host, build)
    with durable.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    durable.write_json(
        path.parent, path.name, kept_of(host, build).with_session(session).document()
    )
    return path


def kept_of(host: HostFacts, build: str) -> Calibration:
    """Return the calibration of this host and build; empty if missing or unreadable."""
    path = path_of(host, build)
    if path.exists():
        with contextlib.suppress(ResultError):
            return read(path)
    return Calibration(host=identity_of(host), build=build, sessions=())


def copy_for(host: HostFacts, build: str, drivers: Sequence[str]) -> KeptCalibration:
    """Return the calibration for a run's manifest, or the reason why there is none."""
    path = path_of(host, build)
    try:
        if not path.exists():
            return {"absent": _why_absent(host)}
        calibration = read(path).of_drivers(drivers)
    except (ResultError, OSError) as error:
        return {"absent": str(error).partition("\n")[0]}
    if not calibration.sessions:
        return {"absent": f"nothing has been calibrated here for {', '.join(sorted(set(drivers)))}"}
    now = datetime.datetime.now(datetime.UTC)
    oldest = min(session.measured for session in calibration.sessions)
    return {**calibration.document(), "age_s": round((now - oldest).total_seconds())}


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold the lock that prevents concurrent calibrations of one user."""
    with durable.writing(folder()):
        folder().mkdir(parents=True, exist_ok=True)
    try:
        lock = durable.FolderLock(folder(), LOCK)
    except ResultError as error:
        if error.kind != "run-in-use":
            raise
        raise LoadstoneError(
            "another calibration is running", "wait until it ends: each would slow the other"
        ) from error
    try:
        yield
    finally:
        lock.release()


def check_drivers(names: Sequence[str]) -> None:
    """Refuse drivers without a target that does nothing."""
    for name in names:
        if name not in calibrated_drivers():
            allowed = f"a driver that can be calibrated: {', '.join(calibrated_drivers())}"
            raise InputError.of_value(name, allowed)


def _why_absent(host: HostFacts) -> str:
    others = sorted(folder().glob(f"{_digest(identity_of(host))}-*.json"))
    if others:
        return OTHER_BUILDS_ONLY
    return NOT_CALIBRATED


def _only(session: Session, points: Sequence[CalibrationPoint]) -> Session:
    return Session(measured=session.measured, conditions=session.conditions, points=tuple(points))


def _digest(identity: HostIdentity) -> str:
    text = json.dumps(identity, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
