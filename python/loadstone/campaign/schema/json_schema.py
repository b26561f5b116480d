"""The JSON Schema of a campaign file, for editors, and for mistakes that name the allowed keys.

`python -m loadstone.campaign.schema.json_schema FILE` writes it to a file.
"""

import functools
import json
import sys
from pathlib import Path

from loadstone.campaign.drivers import read_drivers
from loadstone.campaign.reading.mistakes import KnownKeys
from loadstone.campaign.schema.campaign import Campaign
from loadstone.campaign.schema.systems.driver_settings import add_settings
from loadstone.documents.json_schema import JsonSchema, schema_of

IDENTITY = "urn:loadstone:schema:campaign:1"
"""What names the schema wherever it lies: it is fetched from nowhere."""


def json_schema() -> JsonSchema:
    """Return the JSON Schema of a campaign file, for editors."""
    schema = schema_of(Campaign)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["$id"] = IDENTITY
    schema["title"] = "loadstone campaign"
    definitions = schema["$defs"]
    # One key with two names, and short spellings that the model itself does not show.
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
    """Return the JSON Schema as the committed file holds it."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


@functools.cache
def known_keys() -> KnownKeys:
    """Return which keys may stand where."""
    return KnownKeys(json_schema())


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json_schema_text(), encoding="utf-8")
