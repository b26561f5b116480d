"""What the schema of a campaign says of drivers' settings, made from the drivers' own table.

Editors then complete and check the settings of a target by its driver.
"""

from loadstone.campaign.drivers import Driver, Drivers, Setting
from loadstone.campaign.schema.systems.target import SECRET_KEYS
from loadstone.documents.json_schema import JsonSchema

_TEXT: JsonSchema = {"type": "string"}
REFERENCE: JsonSchema = {
    "type": "object",
    "oneOf": [
        {"required": [key], "properties": {key: {**_TEXT, "minLength": 1}}, "maxProperties": 1}
        for key in ("env", "file")
    ],
    "description": "Where a secret stands: {env: NAME} or {file: PATH}.",
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


def add_settings(target: JsonSchema, definitions: dict[str, JsonSchema], drivers: Drivers) -> None:
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


def _settings_of(driver: Driver, common: list[str]) -> JsonSchema:
    settings = {one.name: _setting(one) for one in driver.settings}
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
