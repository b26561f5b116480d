"""A target: its driver, and that driver's own settings, checked against the driver's table.

The target of an arm has a server that loadstone starts for each leg, and stops after it.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from loadstone import units
from loadstone.campaign.drivers import Driver, Drivers, Setting, read_drivers
from loadstone.campaign.reading.mistakes import (
    UNKNOWN_KEY,
    KeyMistake,
    KeyMistakesError,
    listed,
    mistake_of,
    nearest,
)
from loadstone.campaign.schema.values import (
    URL_PATTERN,
    PositiveDuration,
    PositiveNumber,
    Section,
    Words,
)
from loadstone.errors import InputError, shown

SECRET_KEYS = frozenset(
    {"password", "secret_key", "session_token", "application_credential_secret", "key"}
)
# Headers that carry credentials would be recorded with the other settings.
_SECRET_WORDS = frozenset(
    {"apikey", "auth", "authorization", "cookie", "credential", "credentials", "passwd", "password",
     "secret", "sig", "signature", "token"}
)  # fmt: skip
REFERENCE_ALLOWED = "a reference: {env: NAME} or {file: PATH}"
REFERENCE_HINT = "write secrets into the environment or a file, never into a campaign"
# Results have these parameters already, so a fact must not have the same name.
SYSTEM = "system"
"""The fact that names the system of which several targets are instances."""

FACT_LENGTH = 64
NO_FACTS = frozenset(
    {"target", "workload", "phase", "operation", "round", "labels", "size", "threads", "rate",
     "intervention", "fill", "fill_percent", "fill_bytes"}
)  # fmt: skip
FACT_NAME_ALLOWED = (
    "a name of small letters, digits and underscores, at most 32, other than "
    + listed(sorted(NO_FACTS))
)
_FACT_NAME = re.compile(r"^[a-z][a-z0-9_]{0,31}$")
_URL_WITH_USER = re.compile(r"^[a-z0-9+.-]+://[^/?#]*@", re.IGNORECASE)
_URL_WITH_QUERY = re.compile(r"^[a-z0-9+.-]+://[^?#]*[?#]", re.IGNORECASE)
QUERY = "a query or a fragment"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Target(Section):
    """The system under test: a driver and its settings."""

    model_config = ConfigDict(extra="allow")

    driver: str = Field(description=f"How the target is reached: {listed(read_drivers())}.")
    replication: PositiveNumber | None = Field(
        default=None,
        description="Bytes that the target stores for each byte written (3 for three "
        "copies, 1.5 for 4+2 erasure coding); only for the estimate of "
        "space.",
    )

    reuse: str | None = Field(
        default=None,
        description="A run (its folder, or its id of 32 hex digits) whose kept objects "
        "are read instead of new ones; they are neither prepared nor "
        "deleted.",
    )
    facts: dict[str, bool | int | float | str] = Field(
        default={},
        description="Facts about the target, as parameters of its results: `{nodes: 5, "
        "lab: New}`. Targets with the same `system` are one product in "
        "tables and comparisons, which differ in their other facts.",
    )

    @model_validator(mode="before")
    @classmethod
    def _name_a_driver(cls, value: Any) -> Any:
        # Any key may be a driver's setting, so a misspelt `driver` would otherwise not be reported.
        if isinstance(value, dict) and "driver" not in value:
            misspelt = next((key for key in value if nearest(key, ["driver"])), None)
            wrong = KeyMistake(
                ("driver",),
                "nothing",
                "a driver; this key is required",
                hint=f'did you mean "driver" by "{misspelt}"?' if misspelt else None,
            )
            raise KeyMistakesError([wrong])
        return value

    def mistakes(self) -> Iterator[KeyMistake]:
        for name, value in self.facts.items():
            if name in NO_FACTS or not _FACT_NAME.match(name):
                yield KeyMistake(("facts", name), shown(name), FACT_NAME_ALLOWED)
            if allowed := _wrong_fact(name, value):
                yield KeyMistake(("facts", name), shown(value), allowed)

    @property
    def settings(self) -> dict[str, Any]:
        """The driver's settings, as the campaign spells them."""
        return dict(self.model_extra or {})


def _wrong_fact(name: str, value: bool | int | float | str) -> str | None:
    if isinstance(value, float) and not math.isfinite(value):
        return "a number that is finite"
    if isinstance(value, str) and (len(value) > FACT_LENGTH or not value.isprintable()):
        return f"at most {FACT_LENGTH} printable characters"
    if name == SYSTEM and not (isinstance(value, str) and value):
        return "the name of a system"
    return None


def resolve_settings(target: Target, drivers: Drivers) -> tuple[dict[str, Any], list[KeyMistake]]:
    """Return a target's settings in the driver's spelling, and every mistake in them."""
    return resolve_raw(target.driver, target.settings, drivers)


def resolve_raw(
    driver_name: Any, settings: Mapping[str, Any], drivers: Drivers
) -> tuple[dict[str, Any], list[KeyMistake]]:
    """Do the same as `resolve_settings`, for a target that is not otherwise validated yet."""
    driver = drivers.get(driver_name) if isinstance(driver_name, str) else None
    if driver is None:
        wrong = KeyMistake(
            ("driver",), shown(driver_name), listed(drivers), hint=nearest(driver_name, drivers)
        )
        return {}, [wrong]
    resolved: dict[str, Any] = {}
    mistakes: list[KeyMistake] = []
    for name, value in _without_synonyms(settings, driver, mistakes).items():
        setting = driver.setting(name)
        if setting is None:
            mistakes.append(_unknown(name, driver))
            continue
        try:
            resolved[name] = _resolve(setting, value)
        except InputError as error:
            mistakes.append(mistake_of((name,), error))
    mistakes += [
        KeyMistake(
            (setting.name,),
            "nothing",
            f"a value; driver {driver.name} needs it ({setting.help})",
            hint=_by_environment(driver, setting.name))
        for setting in driver.settings
        if setting.required and setting.name not in settings and setting.name not in resolved
        and not any(mistake.path == (setting.name,) for mistake in mistakes)
    ]  # fmt: skip
    return resolved, mistakes


def _by_environment(driver: Driver, setting: str) -> str | None:
    """Return the environment variables that could replace a setting; None if there are none."""
    variables = driver.variables_of(setting)
    return f"give it here, or export {' or '.join(variables)}" if variables else None


def _without_synonyms(
    settings: Mapping[str, Any], driver: Driver, mistakes: list[KeyMistake]
) -> dict[str, Any]:
    renamed = dict(settings)
    if "endpoint" in renamed and driver.setting("endpoints") is not None:
        if "endpoints" in renamed:
            mistakes.append(KeyMistake(("endpoints",), "this key beside endpoint", "one of them"))
        renamed.setdefault("endpoints", renamed.pop("endpoint"))
        renamed.pop("endpoint", None)
    return renamed


def _unknown(name: str, driver: Driver) -> KeyMistake:
    names = [setting.name for setting in driver.settings]
    return KeyMistake(
        (name,), UNKNOWN_KEY, listed(["driver", "replication", *names]), hint=nearest(name, names)
    )


def _resolve(setting: Setting, value: Any) -> Any:
    if setting.kind == "secret" or setting.secret or setting.name in SECRET_KEYS:
        if setting.kind == "text_or_reference" and setting.name not in SECRET_KEYS:
            return value if isinstance(value, str) else secret_reference(value)
        return secret_reference(value)
    match setting.kind:
        case "text":
            return _text(value)
        case "choice":
            return _choice(value, setting)
        case "text_or_reference":
            return _text(value) if isinstance(value, str) else secret_reference(value)
        case "flag":
            return _of_type(value, bool, "true or false")
        case "number":
            return _number(value)
        case "texts":
            return _texts(value)
        case "map":
            return _map(value)
    return value


def secret_reference(value: Any) -> dict[str, str]:
    """Return a reference to a secret; any other value is refused without repeating it."""
    match value:
        case {"env": str() as name} if len(value) == 1 and _VARIABLE.fullmatch(name):
            return {"env": name}
        case {"env": str()} if len(value) == 1:
            allowed = "{env: NAME}, of letters, digits and underscores"
            raise _wrong("a value that is not a variable name", allowed, REFERENCE_HINT)
        case {"file": str() as path} if len(value) == 1 and path:
            return {"file": path}
    # The value is not shown: it may be the secret itself.
    actual = "nothing" if value is None else f"a literal {type(value).__name__}"
    actual = "a map of other keys" if isinstance(value, dict) else actual
    raise _wrong(actual, REFERENCE_ALLOWED, REFERENCE_HINT)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(shown(value), "text")
    if secret := secret_part(value):
        raise _wrong(f"an address with {secret} in it", "an address without", REFERENCE_HINT)
    return value


def secret_part(address: str) -> str | None:
    """Return the part of an address that may be a secret and must not be shown."""
    if _URL_WITH_USER.match(address):
        return "a user or a password"
    return QUERY if _URL_WITH_QUERY.match(address) else None


def http_url(value: Any) -> str:
    """Return an HTTP URL that may be recorded; raise InputError, without showing it, if it may hold
    a secret.

    Unlike an endpoint it may have a query, unless a parameter's name suggests a credential.
    """
    text = str(value)
    secret = secret_part(text)
    if secret == QUERY:
        names = [name.replace("_", "-") for name, _ in parse_qsl(urlsplit(text).query)]
        secret = "a credential" if any(map(carries_credential, names)) else None
    if secret:
        raise _wrong(f"an address with {secret} in it", "an address without", REFERENCE_HINT)
    if not re.match(URL_PATTERN, text):
        raise InputError.of_value(text, "an HTTP address like http://host:9100/metrics")
    return text


def _ready(value: Any) -> str:
    """Return what shows that a leg's server is ready: an HTTP address, or a mount point."""
    return value if isinstance(value, str) and value.startswith("/") else http_url(value)


def _choice(value: Any, setting: Setting) -> Any:
    if setting.choices and value not in setting.choices:
        raise _wrong(shown(value), listed(setting.choices), nearest(value, setting.choices))
    return value


def _of_type(value: Any, kind: type, allowed: str) -> Any:
    if not isinstance(value, kind):
        raise _wrong(shown(value), allowed)
    return value


def _number(value: Any) -> float | int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(shown(value), "a number")
    return value


def _texts(value: Any) -> list[str]:
    written = [value] if isinstance(value, str) else value
    if not isinstance(written, (list, tuple)) or not written:
        raise _wrong(shown(value), "one text or a list of them")
    return [name for text in written for name in units.expand_hosts(_text(text))]


def _map(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(shown(value), "a map of keys")
    for name in value:
        if carries_credential(str(name)):
            raise _wrong(f'the header "{name}"', "headers without credentials", REFERENCE_HINT)
    return dict(value)


def carries_credential(header: str) -> bool:
    """Tell whether a header with this name carries a credential."""
    words = header.lower().split("-")
    return words[-1] == "key" or not _SECRET_WORDS.isdisjoint(words)


def _wrong(actual: str, allowed: str, hint: str | None = None) -> InputError:
    error = InputError(f"found {actual}, allowed {allowed}", hint)
    error.actual = actual
    error.allowed = allowed
    return error


def read_environment(value: Any) -> Any:
    """Return environment variables as texts and references to secrets; raise InputError
    otherwise.
    """
    if not isinstance(value, dict):
        raise InputError.of_value(value, "names with their values, like {CLUSTER: north}")
    return {
        str(name): secret_reference(item) if isinstance(item, dict) else str(item)
        for name, item in value.items()
    }


DATA = "{data}"
"""Placeholder in commands for the leg's directory."""


class Arm(Section):
    """How the server or client of a leg is started, when it is ready, and how it ends."""

    start: Words = Field(
        min_length=1,
        description="Command that runs the server until it is stopped, as a list of words; no "
        f"shell reads it. {DATA} stands for a new, empty directory of the leg.",
    )
    ready: Annotated[str, BeforeValidator(_ready)] = Field(
        pattern=rf"^/|{URL_PATTERN}",
        description="A URL that answers once the server is ready, with any status below 500; of a "
        "client that mounts, the absolute path at which its file system is then mounted.",
    )
    stop: Words = Field(
        default=(),
        description="The command that stops the server; default: SIGTERM to its process group.",
    )
    data: str | None = Field(
        default=None,
        description="Directory in which each leg gets a directory of its own; default: the run "
        "folder.",
    )
    ready_timeout_ns: PositiveDuration = Field(
        default=60_000_000_000,
        alias="ready_timeout",
        description="Time limit for it to become ready.",
    )
    stop_timeout_ns: PositiveDuration = Field(
        default=30_000_000_000,
        alias="stop_timeout",
        description="Time limit for it to end; then its process group is killed.",
    )
    env: Annotated[dict[str, str | dict[str, str]], BeforeValidator(read_environment)] = Field(
        default={},
        description="Variables for the commands; a secret as {env: NAME} or {file: PATH}.",
    )

    def mistakes(self) -> Iterator[KeyMistake]:
        if self.data is not None and not any(DATA in word for word in self.start):
            allowed = f"{DATA} in the command of start, where the directory is used"
            yield KeyMistake(("data",), shown(self.data), allowed)
