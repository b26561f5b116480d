"""A trial's script, where the load generator can open it: documents name files in their run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

Document = Mapping[str, Any]


def located(document: Document, folder: Path) -> Document:
    """Return a document whose script's files are named by their whole paths."""
    script = document.get("script")
    if not script:
        return document

    def whole(file: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return None if file is None else {**file, "path": str((folder / file["path"]).absolute())}

    named = {key: whole(script.get(key)) for key in ("subjects", "requests")}
    return {**document, "script": {**script, **named}}
