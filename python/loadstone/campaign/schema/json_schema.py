"""Builds a campaign's JSON Schema, for editors and for mistakes that list the allowed keys.

`python -m loadstone.campaign.schema.json_schema FILE` writes it to a file.
"""

import functools
import json
import sys
from pathlib import Path

from loadstone.campaign.drivers import Driver, Drivers, Setting, read_drivers
from loadstone.campaign.reading.mistakes import KnownKeys
from loadstone.campaign.schema.campaign import Campaign
from loadstone.campaign.schema.target import SECRET_KEYS
from loadstone.documents.json_schema import JsonSchema, schema_of

IDENTITY = "urn:loadstone:schema:campaign:1"
"""The schema's identity; a name, not a URL to download it from."""


def json_schema() -> JsonSchema:
    """Return the JSON Schema of a campaign file, for editors."""
    schema = schema_of(Campaign)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["$id"] = IDENTITY
    schema["title"] = "loadstone campaign"
    definitions = schema["$defs"]
    # Keys with two names, and short forms that the model's own schema does not show.
    dataset = definitions["Dataset"]["properties"]
    dataset["containers"] = {**dataset["buckets"], "description": "The same as buckets."}
    for owner in (schema, *definitions.values()):
        properties = owner.get("properties", {})
        if "$ref" in properties.get("phases", {}).get("items", {}):
            items = properties["phases"]["items"]
            names = definitions["Phase"]["properties"]["op"]["anyOf"][0]["enum"]
            properties["phases"]["items"] = {"anyOf": [items, {"enum": names}]}
        if "on_error" in properties:
            spelled = properties["on_error"]
            reference = spelled.pop("$ref", None) or spelled.pop("allOf")[0]["$ref"]
            spelled["anyOf"] = [{"enum": ["continue", "stop"]}, {"$ref": reference}]
    add_settings(definitions["Target"], definitions, read_drivers())
    return schema


def json_schema_text() -> str:
    """Return the JSON Schema as in the committed file."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


@functools.cache
def known_keys() -> KnownKeys:
    """Return the allowed keys of each section."""
    return KnownKeys(json_schema())


_TEXT: JsonSchema = {"type": "string"}
REFERENCE: JsonSchema = {
    "type": "object",
    "oneOf": [
        {"required": [key], "properties": {key: {**_TEXT, "minLength": 1}}, "maxProperties": 1}
        for key in ("env", "file")
    ],
    "description": "Reference to a secret: {env: NAME} or {file: PATH}.",
}
_TEXT_OR_REFERENCE: JsonSchema = {"anyOf": [_TEXT, {"$ref": "#/$defs/Reference"}]}
_KINDS: dict[str, JsonSchema] = {
    "text": _TEXT,
    "text_or_reference": _TEXT_OR_REFERENCE,
    "texts": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
    "flag": {"type": "boolean"},
    "number": {"type": "number"},
    "map": {"type": "object"},
}


# With these, editors complete and check a target's settings by its driver.
def add_settings(target: JsonSchema, definitions: dict[str, JsonSchema], drivers: Drivers) -> None:
    """Add the settings of each driver to the schema of a target."""
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


def _settings_of(driver: Driver, common: list[str]) -> JsonSchema:
    settings = {setting.name: _setting(setting) for setting in driver.settings}
    if "endpoints" in settings:
        settings["endpoint"] = settings["endpoints"]
    names: JsonSchema = {"enum": [*common, *settings]}
    return {"properties": settings, "propertyNames": names}


def _setting(setting: Setting) -> JsonSchema:
    kind: JsonSchema
    if setting.kind == "secret" or setting.secret or setting.name in SECRET_KEYS:
        is_text_too = setting.kind == "text_or_reference" and setting.name not in SECRET_KEYS
        kind = _TEXT_OR_REFERENCE if is_text_too else {"$ref": "#/$defs/Reference"}
    elif setting.kind == "choice":
        kind = {"enum": list(setting.choices)}
    else:
        kind = _KINDS[setting.kind]
    usual = f" Default: {setting.default}." if setting.default else ""
    about = f"{setting.help[:1].upper()}{setting.help[1:]}.{usual}"
    return {**kind, "description": about}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json_schema_text(), encoding="utf-8")
