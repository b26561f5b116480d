"""The files that a trial document names: scripts, ledgers, object lists, payload."""

import copy
from collections.abc import Sequence
from pathlib import Path

from loadstone.documents.trial import LedgerDocument, NamedFileDocument, TrialDocument


def named_in(document: TrialDocument) -> Sequence[NamedFileDocument | LedgerDocument]:
    """Return the files that a trial names, with path and SHA-256 as in the document."""
    if owed := document.get("owed"):
        return owed["ledgers"]
    script, dataset = document.get("script") or {}, document.get("dataset") or {}
    files = (
        script.get("subjects"), script.get("requests"), dataset.get("existing"),
        dataset.get("payload"),
    )  # fmt: skip
    return [file for file in files if file]


def located(document: TrialDocument, folder: Path) -> TrialDocument:
    """Return a document with absolute paths of its files, for the load generator.

    Documents give paths relative to the run folder; payload files lie outside of it.
    """
    if not named_in(document):
        return document
    located_here = copy.deepcopy(document)
    for file in named_in(located_here):
        file["path"] = str((folder / file["path"]).absolute())
    return located_here
