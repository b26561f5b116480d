"""The schema of the JSON report, made from its types: `documents/report/`.

Run it (`python -m tests.docs.report_schema`) to write `docs/reference/report.schema.json` anew.
"""

import json
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from loadstone.documents import report
from loadstone.documents.report import result, workloads

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "reference" / "report.schema.json"


def schema() -> str:
    """Return the schema as it is published: every key named, and no other allowed."""
    for value in {**vars(report), **vars(result), **vars(workloads)}.values():
        if isinstance(value, type) and hasattr(value, "__required_keys__"):
            config = ConfigDict(extra="forbid", use_attribute_docstrings=True)
            value.__pydantic_config__ = config
    made = TypeAdapter(report.JsonReport).json_schema(mode="serialization")
    document = {"$schema": GenerateJsonSchema.schema_dialect, **_plain(made)}
    document["title"] = "loadstone report"
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    """Leave out the titles that only repeat names, and join the lines of descriptions."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    is_named = "title" in value and isinstance(value["title"], str)
    plain = {key: item for key, item in value.items() if not (key == "title" and is_named)}
    if isinstance(plain.get("description"), str):
        plain["description"] = " ".join(plain["description"].split())
    return {key: item if key == "description" else _plain(item) for key, item in plain.items()}


if __name__ == "__main__":
    SCHEMA.write_text(schema(), encoding="utf-8")
