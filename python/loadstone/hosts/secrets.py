"""Secrets of targets that the controller resolves and sends, so that hosts need not have them."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from loadstone import _loadgen
from loadstone.campaign import drivers
from loadstone.documents.trial import TrialDocument
from loadstone.errors import HostError
from loadstone.hosts.messages import Secrets


def variables_of(targets: Iterable[tuple[str, Mapping[str, Any]]]) -> set[str]:
    """Return the environment variables that hold secrets of targets, given as driver and
    settings.
    """
    return {
        name
        for driver, settings in targets
        for kind, name in _references(driver, settings)
        if kind == "env"
    }


def read(document: TrialDocument) -> Secrets:
    """Return the secrets that a trial refers to: `variables` by name, `files` by path.

    Raises HostError if this host lacks one, before any message to a host.
    """
    target = document["target"]
    absent = _loadgen.absent_secret(target["driver"], json.dumps(target["settings"]))
    if absent is not None:
        message, hint = absent
        raise HostError(f'target "{target["name"]}": {message}', hint, kind="secret-absent")
    values: Secrets = {"variables": {}, "files": {}}
    for kind, name in _references(target["driver"], target["settings"]):
        if kind == "env" and name in os.environ:
            values["variables"][name] = os.environ[name]
        elif kind == "file":
            with open(name, encoding="utf-8") as stream:
                values["files"][name] = stream.read()
    return values


def _references(driver: str, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the references in settings, and the variables that the driver itself reads."""
    for value in settings.values():
        if isinstance(value, Mapping) and len(value) == 1:
            ((kind, name),) = value.items()
            if kind in ("env", "file") and isinstance(name, str):
                yield kind, name
    if "profile" not in settings:
        for login in drivers.facts_of(driver).environment:
            yield from (
                ("env", variable.name) for variable in login if variable.setting not in settings
            )
