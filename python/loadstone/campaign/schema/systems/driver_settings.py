"""What the schema of a campaign says of drivers' settings, made from the drivers' own table.

Editors then complete and check the settings of a target by its driver.
"""

from typing import Any

from loadstone.campaign.drivers import Driver, Drivers, Setting
from loadstone.campaign.schema.systems.target import SECRET_KEYS

_TEXT = {"type": "string"}
REFERENCE = {
    "type": "object",
    "oneOf": [
        {"required": [key], "properties": {key: {**_TEXT, "minLength": 1}}, "maxProperties": 1}
        for key in ("env", "file")
    ],
    "description": "Where a secret stands: {env: NAME} or {file: PATH}.",
}
_KINDS: dict[str, Any] = {
    "text": _TEXT,
    "text_or_reference": {"anyOf": [_TEXT, {"$ref": "#/$defs/Reference"}]},
    "texts": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
    "flag": {"type": "boolean"},
    "number": {"type": "number"},
    "map": {"type": "object"},
}


def add_settings(target: dict[str, Any], definitions: dict[str, Any], drivers: Drivers) -> None:
    """Say in the schema of a target which settings go with which driver."""
    definitions["Reference"] = REFERENCE
    target["properties"]["driver"]["enum"] = list(drivers)
    common = list(target["properties"])
    target["allOf"] = [
        {
            "if": {"properties": {"driver": {"const": name}}, "required": ["driver"]},
            "then": _settings_of(driver, common),
        }
        for name, driver in drivers.items()
    ]


def _settings_of(driver: Driver, common: list[str]) -> dict[str, Any]:
    settings = {one.name: _setting(one) for one in driver.settings}
    if "endpoints" in settings:
        settings["endpoint"] = settings["endpoints"]
    names = {"enum": [*common, *settings]}
    return {"properties": settings, "propertyNames": names}


def _setting(setting: Setting) -> dict[str, Any]:
    kind: dict[str, Any]
    if setting.kind == "secret" or setting.secret or setting.name in SECRET_KEYS:
        is_text_too = setting.kind == "text_or_reference" and setting.name not in SECRET_KEYS
        kind = _KINDS["text_or_reference"] if is_text_too else {"$ref": "#/$defs/Reference"}
    elif setting.kind == "choice":
        kind = {"enum": list(setting.choices)}
    else:
        kind = _KINDS[setting.kind]
    usual = f" Default: {setting.default}." if setting.default else ""
    about = f"{setting.help[:1].upper()}{setting.help[1:]}.{usual}"
    return {**kind, "description": about}
