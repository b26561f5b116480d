"""Writes a run folder so that a kill at any moment loses no finished trial."""

import contextlib
import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self, cast

from loadstone._loadgen import Schema, Table
from loadstone.documents.manifest import Manifest
from loadstone.documents.summary import AuditSummary, Summary
from loadstone.documents.target_state import TargetState
from loadstone.documents.trial import TrialDocument
from loadstone.errors import ResultError
from loadstone.results import layout
from loadstone.results.ceiling_record import CEILINGS
from loadstone.results.contents import Contents
from loadstone.results.documents import RecordDocument
from loadstone.results.fault_log import FAULTS
from loadstone.results.files import durable, tables
from loadstone.results.files.history_file import HistoryWriter
from loadstone.results.files.ledger_file import LedgerWriter
from loadstone.results.hook_log import HOOKS
from loadstone.results.intents import INTENTS, Intents
from loadstone.results.layout import (
    ACTIONS,
    LOCK,
    MANIFEST,
    MANIFEST_FORMAT,
    NODES,
    OPERATIONS,
    PARTIAL_SUFFIX,
    PROBES,
    RECORD_SUFFIX,
    TRIALS,
    read_json,
    read_manifest,
)
from loadstone.results.ledgers import Ledgers, is_whole, judge
from loadstone.results.output import check_outside_runs
from loadstone.results.record import (
    ACTION_SCHEMA,
    INTERRUPTED,
    INTERVAL_SCHEMA,
    PROBE_SCHEMA,
    RECORD_FORMAT,
)
from loadstone.results.replays import write_replays


class RunWriter:
    """Writes a run folder, with an exclusive lock from its creation to its end."""

    def __init__(self, path: Path, manifest: Manifest, lock: durable.FolderLock) -> None:
        """Use `create` or `reopen`."""
        self.path = path
        self.manifest = manifest
        self._lock = lock
        self._made: Sequence[Path] = ()
        # A wrong digest is not renewed, which would hide the change.
        self._is_sealed_anew = layout.is_as_sealed(manifest)
        # Later intents belong to this process, which marks the places that it creates or fails the
        # trial.
        self.intents = Intents(path)
        self.contents = Contents(self.records)
        self.ledgers = Ledgers(path, self.records)

    @classmethod
    def create(cls, path: str | Path, manifest: Manifest) -> Self:
        """Create the folder and its manifest, with the state "running".

        The folder may exist if it is empty: nothing is ever overwritten.
        """
        folder = Path(path)
        check_outside_runs(folder)
        _refuse_what_is_there(folder)
        absent = [parent for parent in (folder, *folder.parents) if not parent.exists()]
        try:
            with durable.writing(folder):
                durable.make_folder(folder)
            lock = durable.FolderLock(folder, LOCK)
            try:
                _refuse_what_is_there(folder)
                durable.make_folder_in(folder, TRIALS)
                durable.make_folder_in(folder, PROBES)
                whole: Manifest = {"format": MANIFEST_FORMAT, "state": "running", **manifest}
                whole.pop("manifest_sha256", None)
                run = cls(folder, whole, lock)
                run._write_manifest()
            except BaseException:
                _remove_begun(folder)
                lock.release()
                raise
        except BaseException:
            _remove_folders(absent)
            raise
        run._made = absent
        return run

    @classmethod
    def reopen(cls, path: str | Path) -> Self:
        """Reopen an interrupted run; finished trials are kept."""
        folder = Path(path)
        read_manifest(folder)
        lock = durable.FolderLock(folder, LOCK)
        try:
            manifest = read_manifest(folder)
            if manifest["state"] == "finished":
                raise ResultError(
                    f'run "{folder}" is finished: nothing is left to run',
                    "choose another folder with -o to run the campaign again",
                )
            if manifest.get("cleaned"):
                raise ResultError(
                    f'run "{folder}" cannot be resumed: "loadstone clean" deleted its data',
                    "choose another folder with -o to run the campaign again",
                )
            if others := manifest.get("deleted_by"):
                raise ResultError(
                    f'run "{folder}" cannot be resumed: run {others[0]} deleted its kept data',
                    "choose another folder with -o to run the campaign again",
                )
            run = cls(folder, manifest, lock)
            manifest["state"] = "running"
            # The files will change, and so will their digests.
            manifest.pop("files", None)
            # Copies of a run may lack empty folders.
            durable.make_folder_in(folder, TRIALS)
            durable.make_folder_in(folder, PROBES)
            run._write_manifest()
            run._remove_leftovers()
        except BaseException:
            lock.release()
            raise
        return run

    @classmethod
    def lock(cls, path: str | Path) -> Self:
        """Lock a run folder, so that no other process resumes it."""
        folder = Path(path)
        read_manifest(folder)
        lock = durable.FolderLock(folder, LOCK)
        try:
            return cls(folder, read_manifest(folder), lock)
        except BaseException:
            lock.release()
            raise

    def note_cleaning(self) -> None:
        """Record that the run's data is being deleted from its targets."""
        now = datetime.datetime.now(datetime.UTC).isoformat()
        self.amend({"cleaned": [*self.manifest.get("cleaned", ()), now]})

    def withdraw_cleaning(self) -> None:
        """Withdraw the last record of a clean-up, because no target was reached."""
        self.amend({"cleaned": list(self.manifest.get("cleaned", ()))[:-1]})

    def note_deleting(self, run: str) -> None:
        """Record that another run is about to delete this one's data."""
        others = self.manifest.get("deleted_by", [])
        if run not in others:
            self.amend({"deleted_by": [*others, run]})

    def _remove_leftovers(self) -> None:
        """Remove streams of finished trials, and drafts, left behind by kills."""
        for trial in self.finished:
            for kind in (TRIALS, ACTIONS, PROBES):
                with contextlib.suppress(OSError):
                    durable.remove_file(self.path, f"{kind}/{trial}{tables.STREAM_SUFFIX}")
        durable.remove_drafts(self.path)

    def records(self) -> Iterator[RecordDocument]:
        """Yield the records of finished trials, unchecked."""
        for name in sorted(self.finished):
            yield cast(RecordDocument, read_json(self.path / TRIALS / (name + RECORD_SUFFIX)))

    @property
    def finished(self) -> frozenset[str]:
        """The ids of finished trials, which are never run again."""
        names = (path.name for path in (self.path / TRIALS).glob(f"*{RECORD_SUFFIX}"))
        return frozenset(
            name.removesuffix(RECORD_SUFFIX) for name in names if not name.endswith(PARTIAL_SUFFIX)
        )

    def begin_trial(self, document: TrialDocument) -> "TrialWriter":
        """Open the files of a trial, and remove those of an interrupted attempt."""
        if document["id"] in self.finished:
            raise ResultError(f'trial {document["id"]} of run "{self.path}" is finished already')
        return TrialWriter(self.path, document)

    def amend(self, changes: Manifest) -> None:
        """Change some keys of the manifest."""
        self.manifest = {**self.manifest, **changes}
        self._write_manifest()

    def _write_manifest(self) -> None:
        if self._is_sealed_anew:
            self.manifest = layout.sealed(self.manifest)
        durable.write_json(self.path, MANIFEST, self.manifest)

    def finish(self, end: Manifest) -> None:
        """Write the end of the run (`state`, `ended` …) and release the folder."""
        try:
            files = layout.digests_of(self.path, self._finished_files())
            self.amend({**end, "files": files})
        finally:
            self.close()

    def _finished_files(self) -> Iterator[Path]:
        """Yield the files that do not change after the end; digests of tables are in their
        records.
        """
        yield from (self.path / TRIALS / (trial + RECORD_SUFFIX) for trial in self.finished)
        yield from (self.path / CEILINGS).glob("*")
        yield from (self.path / NODES).glob("*")
        yield from self.path.glob(HOOKS)
        yield from self.path.glob(FAULTS)
        yield from self.path.glob(INTENTS)

    def discard_if_empty(self) -> bool:
        """Remove the folder if it only contains what `create` made; return whether it did."""
        names = {entry.name for entry in self.path.iterdir()}
        if MANIFEST not in names or not _is_begun(self.path, names - {MANIFEST}):
            return False
        (self.path / MANIFEST).unlink()
        _remove_begun(self.path)
        self.close()
        _remove_folders(self._made)
        return True

    def close(self) -> None:
        """Release the folder; without `finish`, the run counts as interrupted."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class TrialWriter:
    """Writes the data of a trial while it runs, and its record at the end.

    Until `finish` has returned, the trial counts as interrupted, with all data so far.
    """

    def __init__(self, folder: Path, document: TrialDocument) -> None:
        """Use `RunWriter.begin_trial`."""
        self._document = document
        self._folder = folder
        self._id = str(document["id"])
        self._operations_name = f"{OPERATIONS}/{self._id}{tables.OPERATIONS_SUFFIX}"
        self._operations: tables.StreamWriter | None = None
        self._target_state: Mapping[str, TargetState] = {}
        self._remove_leftovers()
        self._intervals = self._stream(TRIALS, INTERVAL_SCHEMA)
        self._probes: tables.StreamWriter | None = None
        self._actions: tables.StreamWriter | None = None
        self._ledger: LedgerWriter | None = None
        if document.get("keeps_ledger"):
            # Written before the load: without any frame, nothing would be known of the attempt.
            self._ledger = LedgerWriter(folder, self._id)
        self._history = HistoryWriter(folder, self._id) if document.get("keeps_history") else None

    def write_intervals(self, rows: Table) -> None:
        """Append intervals."""
        self._intervals.write(rows)

    def write_probes(self, rows: Table) -> None:
        """Append readings of the probes."""
        if self._probes is None:
            self._probes = self._stream(PROBES, PROBE_SCHEMA)
        self._probes.write(rows)

    def write_actions(self, rows: Table) -> None:
        """Append intervals of a script's actions."""
        if self._actions is None:
            durable.make_folder_in(self._folder, ACTIONS)
            self._actions = self._stream(ACTIONS, ACTION_SCHEMA)
        self._actions.write(rows)

    def write_operations(self, rows: Table) -> None:
        """Append logged requests, compressed."""
        if self._operations is None:
            durable.make_folder_in(self._folder, OPERATIONS)
            self._operations = tables.StreamWriter(
                self._folder, self._operations_name, rows.schema, is_packed=True
            )
        self._operations.write(rows)

    def write_ledger(self, frames: bytes) -> None:
        """Append to the ledger; the frames are on disk when this returns."""
        assert self._ledger is not None, "only a trial that keeps a ledger has frames of one"
        self._ledger.write(frames)

    def write_history(self, calls: bytes) -> None:
        """Append calls of the history."""
        assert self._history is not None, "only a trial that keeps a history has calls of one"
        self._history.write(calls)

    def judge_history(self) -> AuditSummary:
        """Judge the histories of the trial's document, together with its own."""
        assert self._history is not None, "its reads are the last calls of the history"
        self._history.finish()
        return judge(self._document, self._folder, self._history.name)

    def note_target(self, state: Mapping[str, TargetState]) -> None:
        """Add the state of the target before and after the load to the record."""
        self._target_state = state

    def finish(
        self,
        summary: Summary,
        labels: Sequence[str] = (),
        absent_probes: Mapping[str, str] | None = None,
    ) -> None:
        """Convert the streams to Parquet and finally write the record."""
        written = []
        if self._operations is not None:
            self._operations.finish()
            written.append(self._operations.path)
        if self._ledger is not None:
            self._ledger.finish(is_whole=is_whole(summary))
            written.append(self._ledger.path)
        if self._history is not None:
            self._history.finish()
            written.append(self._history.path)
        self.close()
        for stream, kind, schema in (
            (self._probes, PROBES, PROBE_SCHEMA),
            (self._actions, ACTIONS, ACTION_SCHEMA),
            (self._intervals, TRIALS, INTERVAL_SCHEMA),
        ):
            if stream is not None:
                parquet = f"{kind}/{self._id}{tables.PARQUET_SUFFIX}"
                tables.convert_to_parquet(stream.path, self._folder, parquet, schema)
                written.append(self._folder / parquet)
        write_replays(self._folder, self._id, self._document, summary)
        record = self._record(summary, labels, absent_probes)
        record["files"] = layout.digests_of(self._folder, written)
        durable.write_json(self._folder, f"{TRIALS}/{self._id}{RECORD_SUFFIX}", record)
        # After a kill here, remaining streams are not read, and `reopen` removes them.
        with contextlib.suppress(OSError):
            for kind in (TRIALS, ACTIONS, PROBES):
                durable.remove_file(self._folder, f"{kind}/{self._id}{tables.STREAM_SUFFIX}")

    def interrupt(self, summary: Summary, absent_probes: Mapping[str, str] | None = None) -> None:
        """Write the partial record of a trial, which `--resume` will run again."""
        self.close()
        record = self._record(summary, (INTERRUPTED,), absent_probes)
        durable.write_json(self._folder, f"{TRIALS}/{self._id}{PARTIAL_SUFFIX}", record)

    def discard(self) -> None:
        """Remove all files of a trial that never began."""
        self.close()
        self._remove_leftovers()

    def close(self) -> None:
        """Close the streams as they are."""
        for stream in (
            *(self._intervals, self._actions, self._probes),
            *(self._operations, self._ledger, self._history),
        ):
            if stream is not None:
                stream.close()

    def _record(
        self, summary: Summary, labels: Sequence[str], absent_probes: Mapping[str, str] | None
    ) -> RecordDocument:
        return {
            "record_format": RECORD_FORMAT,
            "trial": self._document,
            "summary": summary,
            "labels": list(labels),
            "absent_probes": dict(absent_probes or {}),
            "target_state": dict(self._target_state),
        }

    def _stream(self, kind: str, schema: Schema) -> tables.StreamWriter:
        name = f"{kind}/{self._id}{tables.STREAM_SUFFIX}"
        return tables.StreamWriter(self._folder, name, schema)

    def _remove_leftovers(self) -> None:
        suffixes = (tables.STREAM_SUFFIX, tables.PARQUET_SUFFIX)
        names = [
            f"{kind}/{self._id}{end}" for kind in (TRIALS, ACTIONS, PROBES) for end in suffixes
        ]
        partial = f"{TRIALS}/{self._id}{PARTIAL_SUFFIX}"
        for name in (*names, partial, self._operations_name):
            with durable.writing(self._folder / name):
                durable.remove_file(self._folder, name)


def is_only_begun(path: str | Path) -> bool:
    """Tell whether a folder only contains files that precede a run's manifest."""
    try:
        names = {entry.name for entry in Path(path).iterdir()}
        return bool(names) and _is_begun(Path(path), names)
    except OSError:
        return False


def _is_begun(folder: Path, names: set[str]) -> bool:
    # A kill may have come between these and the manifest.
    begun = {LOCK, TRIALS, PROBES, *filter(durable.is_draft, names)}
    return names <= begun and all(
        _is_empty_folder(folder / name) for name in names & {TRIALS, PROBES}
    )


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def _remove_begun(folder: Path) -> None:
    """Remove what `create` made, if there is no manifest; the caller holds the lock."""
    with contextlib.suppress(OSError):
        if not _is_begun(folder, {entry.name for entry in folder.iterdir()}):
            return
        for name in (TRIALS, PROBES):
            with contextlib.suppress(FileNotFoundError):
                (folder / name).rmdir()
        durable.remove_drafts(folder)
        durable.remove_file(folder, LOCK)


def _remove_folders(made: Sequence[Path]) -> None:
    """Remove the folders that `create` made, innermost first, if empty."""
    for folder in made:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _refuse_what_is_there(folder: Path) -> None:
    try:
        names = {entry.name for entry in folder.iterdir()}
    except FileNotFoundError:
        return
    except NotADirectoryError as error:
        raise ResultError(f'cannot write a run to "{folder}": it is a file') from error
    except OSError as error:
        raise ResultError(f'cannot write a run to "{folder}": {error.strerror}') from error
    if MANIFEST in names:
        raise ResultError(
            f'cannot write a run to "{folder}": there already is a run',
            "choose another folder with -o, or continue an interrupted run with --resume",
            kind="run-exists",
        )
    if not _is_begun(folder, names):
        raise ResultError(
            f'cannot write a run to "{folder}": it is not a run folder, and not empty',
            "choose a new or an empty folder with -o",
        )
