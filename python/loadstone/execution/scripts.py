"""Gives files paths that the load generator can open: documents name files in the run."""

from pathlib import Path

from loadstone.documents.trial import (
    LedgerDocument,
    ScriptDocument,
    ScriptFileDocument,
    TrialDocument,
)


def located(document: TrialDocument, folder: Path) -> TrialDocument:
    """Return a document whose script and ledgers are named by their whole paths."""

    def whole(file: ScriptFileDocument) -> ScriptFileDocument:
        return {**file, "path": str((folder / file["path"]).absolute())}

    if owed := document.get("owed"):
        ledgers: list[LedgerDocument] = [
            {**ledger, "path": str((folder / ledger["path"]).absolute())}
            for ledger in owed["ledgers"]
        ]
        return {**document, "owed": {**owed, "ledgers": ledgers}}
    script = document.get("script")
    if not script:
        return document
    requests = script.get("requests")
    named: ScriptDocument = {
        **script,
        "subjects": whole(script["subjects"]),
        "requests": whole(requests) if requests else None,
    }
    return {**document, "script": named}
