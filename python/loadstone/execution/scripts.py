"""Gives a script a path that the load generator can open: documents name files in the run."""

from pathlib import Path

from loadstone.documents.trial import ScriptDocument, ScriptFileDocument, TrialDocument


def located(document: TrialDocument, folder: Path) -> TrialDocument:
    """Return a document whose script's files are named by their whole paths."""
    script = document.get("script")
    if not script:
        return document

    def whole(file: ScriptFileDocument) -> ScriptFileDocument:
        return {**file, "path": str((folder / file["path"]).absolute())}

    requests = script.get("requests")
    named: ScriptDocument = {
        **script,
        "subjects": whole(script["subjects"]),
        "requests": whole(requests) if requests else None,
    }
    return {**document, "script": named}
