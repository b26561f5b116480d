"""JSON Schema, typed: the keywords that are read or written here, at any depth."""

from typing import TypedDict, cast

from pydantic import BaseModel

JsonSchema = TypedDict(
    "JsonSchema",
    {
        "$schema": str,
        "$id": str,
        "$ref": str,
        "$defs": "dict[str, JsonSchema]",
        "title": str,
        "description": str,
        "type": str | list[str],
        "enum": list[str],
        "const": str,
        "properties": "dict[str, JsonSchema]",
        "propertyNames": "JsonSchema",
        "additionalProperties": "bool | JsonSchema",
        "required": list[str],
        "maxProperties": int,
        "minLength": int,
        "items": "JsonSchema",
        "anyOf": "list[JsonSchema]",
        "oneOf": "list[JsonSchema]",
        "allOf": "list[JsonSchema]",
        "if": "JsonSchema",
        "then": "JsonSchema",
    },
    total=False,
)


def schema_of(model: type[BaseModel]) -> JsonSchema:
    """Return the schema of a model; pydantic itself does not type it."""
    return cast(JsonSchema, model.model_json_schema(by_alias=True))
