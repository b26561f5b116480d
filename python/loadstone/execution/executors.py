"""The table of executors, by kind of trial."""

import json
from collections.abc import Iterable, Iterator, Mapping

from loadstone import _loadgen
from loadstone.campaign.planning.kinds import kind_of
from loadstone.campaign.planning.plan import Plan
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.errors import TargetError
from loadstone.execution.executor import Executor, Output
from loadstone.execution.operations import Operations


class _Queries:
    """The executor of queries, imported on first use, because most runs have none."""

    def __init__(self) -> None:
        self._trials: Executor | None = None

    def check(self, documents: Iterable[TrialDocument]) -> None:
        self._executor().check(documents)

    def run(self, document: TrialDocument, output: Output) -> Summary:
        return self._executor().run(document, output)

    def close(self) -> None:
        if self._trials is not None:
            self._trials.close()

    def _executor(self) -> Executor:
        from loadstone.execution.queries.trials import QueryTrials

        if self._trials is None:
            self._trials = QueryTrials()
        return self._trials


EXECUTORS: dict[str, Executor] = {"operations": Operations(), "queries": _Queries()}


def executor_of(document: TrialDocument, table: Mapping[str, Executor] = EXECUTORS) -> Executor:
    """Return the executor of a trial; raise TargetError if the table has none for its kind."""
    kind = kind_of(document)
    if kind not in table:
        known = ", ".join(table)
        raise TargetError(
            f'trial {document["id"]}: kind "{kind}" is unknown, this loadstone runs: {known}',
            "install the loadstone that planned it, or a later one",
        )
    return table[kind]


def check_documents(plan: Plan) -> None:
    """Raise TargetError for the documents that an executor rejects, before any request to a
    target.
    """
    kinds: dict[str, list[TrialDocument]] = {}
    for planned in plan.trials:
        executor_of(planned.document)
        # The first load of a search is not known yet.
        if not planned.is_search:
            kinds.setdefault(kind_of(planned.document), []).append(planned.document)
    for kind, documents in kinds.items():
        EXECUTORS[kind].check(documents)


def absent_secrets(plan: Plan) -> Iterator[TargetError]:
    """Yield an error for each target with a secret that this host lacks."""
    targets = {planned.document["target"]["name"]: planned.document for planned in plan.trials}
    for name, document in targets.items():
        target = document["target"]
        absent = _loadgen.absent_secret(target["driver"], json.dumps(target["settings"]))
        if absent is not None:
            message, hint = absent
            yield TargetError(f'target "{name}": {message}', hint, kind="secret-absent")
