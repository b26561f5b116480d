"""KEY=VALUE pairs of a target's driver, as typed."""

from collections.abc import Sequence
from typing import Any

from loadstone.errors import InputError


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
