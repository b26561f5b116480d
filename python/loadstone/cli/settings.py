"""KEY=VALUE pairs of a target's driver, as typed."""

from collections.abc import Sequence
from typing import Any

from loadstone.errors import InputError


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the settings; values are read as YAML."""
    from ruamel.yaml import YAML

    found: dict[str, Any] = {}
    for pair in pairs:
        key, sign, text = pair.partition("=")
        if not sign or not key:
            raise InputError.of_value(pair, "KEY=VALUE, such as addressing=virtual")
        found[key] = YAML(typ="safe", pure=True).load(text)
    return found
