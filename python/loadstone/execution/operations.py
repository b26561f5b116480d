"""Trials of storage operations: through the load generator."""

import json
from collections.abc import Iterable

from loadstone import _loadgen
from loadstone._loadgen import Table
from loadstone.campaign.planning.lifecycle import dataset_of
from loadstone.documents.python_types import Live
from loadstone.documents.summary import Summary
from loadstone.documents.trial import TrialDocument
from loadstone.execution.executor import Output
from loadstone.execution.refusals import Raised, target_error
from loadstone.execution.scripts import located


class Operations:
    """The executor of kind `operations`."""

    def check(self, documents: Iterable[TrialDocument]) -> None:
        """Ask the load generator; one trial of each phase on each dataset stands for all."""
        seen = set()
        for document in documents:
            dataset = dataset_of(document)
            like = (
                *(document["target"]["name"], document["case"]["workload"], document["phase"]),
                *(dataset["bucket_prefix"], dataset["object_prefix"], dataset["buckets"]),
                *(json.dumps(dataset["size"]), document["options"]["part_bytes"]),
            )
            if like in seen:
                continue
            seen.add(like)
            try:
                _loadgen.check(json.dumps(document))
            except ValueError as error:
                raise target_error(document["target"]["name"], error) from error

    def run(self, document: TrialDocument, output: Output) -> Summary:
        """Make the load."""
        observer = _Observer(output)
        control = _loadgen.Control()
        output.begin(control.stop)
        try:
            told = _loadgen.run_trial(
                json.dumps(located(document, output.folder)),
                observer.on_interval,
                control,
                observer.on_requests,
                observer.on_intent,
                observer.on_unmade,
                on_actions=observer.on_actions,
                on_retry=output.retry,
                on_volume=observer.on_volume,
            )
        except Raised as error:
            if observer.error is not None:
                raise
            raise target_error(document["target"]["name"], error) from error
        summary: Summary = json.loads(told)
        return summary

    def close(self) -> None:
        """Nothing: trials share nothing."""


class _Observer:
    """What the load generator calls while it runs; remembers an error of ours among its own."""

    def __init__(self, output: Output) -> None:
        self.error: BaseException | None = None
        self._output = output

    def on_interval(self, batch: Table | None, live: Live) -> None:
        try:
            if batch is not None:
                self._output.intervals(batch)
            self._output.progress(live)
        except BaseException as error:
            self.error = self.error or error
            raise

    def on_actions(self, batch: Table) -> None:
        try:
            self._output.actions(batch)
        except BaseException as error:
            self.error = self.error or error
            raise

    def on_requests(self, batch: Table) -> None:
        try:
            self._output.requests(batch)
        except BaseException as error:
            self.error = self.error or error
            raise

    def on_intent(self, names: list[str]) -> None:
        try:
            self._output.intent(names)
        except BaseException as error:
            self.error = self.error or error
            raise

    def on_volume(self, volume: str) -> None:
        try:
            self._output.volume(volume)
        except BaseException as error:
            self.error = self.error or error
            raise

    def on_unmade(self, names: list[str]) -> None:
        try:
            self._output.unmade(names)
        except BaseException as error:
            self.error = self.error or error
            raise


"""What `_loadgen.run_trial` raises by itself."""
