"""Runs trials of storage operations through the load generator."""

import json
from collections.abc import Iterable

from loadstone import _loadgen
from loadstone.campaign.planning.lifecycle import dataset_of
from loadstone.documents.load_event import LoadEvent
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.execution.executor import Output
from loadstone.execution.refusals import Raised, target_error
from loadstone.results.layout import located


class Operations:
    """The executor of kind `operations`."""

    def check(self, documents: Iterable[TrialDocument]) -> None:
        """Check one trial of each phase and dataset in the load generator, representative of
        all.
        """
        names = set()
        for document in documents:
            dataset = dataset_of(document)
            like = (
                *(document["target"]["name"], document["case"]["workload"], document["phase"]),
                *(dataset["bucket_prefix"], dataset["object_prefix"], dataset["buckets"]),
                *(json.dumps(dataset["size"]), document["options"]["part_bytes"]),
            )
            if like in names:
                continue
            names.add(like)
            try:
                _loadgen.check(json.dumps(document))
            except ValueError as error:
                raise target_error(document["target"]["name"], error) from error

    def run(self, document: TrialDocument, output: Output) -> Summary:
        """Run the load."""
        observer = _Observer(output)
        control = _loadgen.Control()
        output.begin(control.stop)
        try:
            text = _loadgen.run_trial(
                json.dumps(located(document, output.folder)), observer.take, control
            )
        except Raised as error:
            if observer.error is not None:
                raise
            raise target_error(document["target"]["name"], error) from error
        summary: Summary = json.loads(text)
        return summary

    def close(self) -> None:
        """Do nothing: trials share no resources."""


class _Observer:
    """Forwards the load generator's events; stores an exception raised while handling one."""

    def __init__(self, output: Output) -> None:
        self.error: BaseException | None = None
        self._output = output

    def take(self, event: LoadEvent) -> None:
        try:
            self._output.take(event)
        except BaseException as error:
            self.error = self.error or error
            raise
