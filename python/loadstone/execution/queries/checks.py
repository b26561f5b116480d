"""Checks the requirements of query trials before anything is written."""

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from loadstone.campaign.planning.kinds import CHECK, LOAD
from loadstone.campaign.planning.query_plan import ON_SERVER
from loadstone.documents.mistake import first_mistake
from loadstone.documents.python_types import QueryDocument
from loadstone.documents.trial import TrialDocument
from loadstone.engines import check_engine, entry_of
from loadstone.engines.answers import Answer, answer_file, difference, like, read_answer_file
from loadstone.engines.tables import cache_folder, folder_name, needed_bytes
from loadstone.errors import InputError, ResultError, TargetError
from loadstone.execution.queries.table_places import engine_settings
from loadstone.results.files import durable


def check_queries(documents: Iterable[TrialDocument]) -> None:
    """Raise TargetError for missing engines and answers, and for insufficient disk space."""
    counted = set()
    checked = set()
    room: dict[str, int] = {}
    for document in documents:
        queries = document["queries"]
        if queries.get("answer_files"):
            asked = [name for order in queries.get("streams") or () for name in order]
            for query in dict.fromkeys([queries["query"], *asked]):
                if query is not None:
                    _check_answer(queries, query)
        is_here = document["phase"] == CHECK
        like = json.dumps(
            [
                queries["engine"],
                queries.get("settings"),
                queries["is_directory"],
                is_here,
                document["phase"],
            ]
        )
        if queries["engine"] is not None and (like, queries["storage"]) not in checked:
            checked.add((like, queries["storage"]))
            _check_engine(document, is_here=is_here)
            if queries.get("streams") and not entry_of(queries["engine"]).has_streams:
                raise TargetError(
                    f'engine "{queries["engine"]}" cannot run streams: it runs the queries'
                    " of a process one after another",
                    "another engine, or a ClickHouse server by its url",
                )
        if document["phase"] != LOAD or (document["target"]["name"], queries["storage"]) in counted:
            continue
        counted.add((document["target"]["name"], queries["storage"]))
        cache = cache_of(queries)
        if not (
            cache / folder_name(queries["benchmark"], queries["scale"], queries["partitions"])
        ).exists():
            room[str(cache)] = needed_bytes(queries["scale"])
        if queries["is_directory"]:
            path = document["target"]["settings"].get("path") or ""
            room[path] = room.get(path, 0) + needed_bytes(queries["scale"])
    _check_room(room)


def cache_of(query: QueryDocument) -> Path:
    """Return the folder in which the tables of a trial are generated and kept."""
    return Path(query["data"]) if query["data"] else cache_folder()


def _check_engine(document: TrialDocument, *, is_here: bool) -> None:
    queries = document["queries"]
    try:
        entry = entry_of(queries["engine"] or "")
    except InputError as error:
        hint = error.hint
        if queries["engine"] == queries["answers"] and hint:
            hint += ", or answers: null, which compares nothing"
        raise TargetError(error.message, hint) from error
    if queries["storage"] not in entry.formats:
        allowed = ", ".join(entry.formats)
        raise TargetError(
            f'engine "{queries["engine"]}": found format {queries["storage"]}, allowed: {allowed}'
        )
    if queries["storage"] not in ("parquet", ON_SERVER) and not (
        is_here or queries["is_directory"]
    ):
        raise TargetError(f"{queries['storage']} is kept only in directories, not in buckets")
    if not (is_here or queries["is_directory"] or entry.reads_buckets):
        raise TargetError(
            f'engine "{queries["engine"]}" reads only directories, and the target is a bucket',
            "choose another engine for targets that are object stores",
        )

    try:
        is_bucket = not (is_here or queries["is_directory"])
        check_engine(queries["engine"] or "", engine_settings(document), reads_buckets=is_bucket)
    except InputError as error:
        name = (queries["engine"] or "").partition("_")[0]
        raise TargetError(f'engine "{name}": {error.message}', error.hint) from error


def _check_answer(queries: QueryDocument, query: str) -> None:
    try:
        read_answer_file(answer_file(Path(queries["answer_files"] or ""), query))
    except InputError as error:
        raise TargetError(f"queries.answers: {error.message}", error.hint) from error


def _check_room(room: Mapping[str, int]) -> None:
    """Compare the needs of folders, added up by file system, with the free space."""
    by_device: dict[int, tuple[str, int]] = {}
    for name, needed in room.items():
        device = _existing(Path(name)).stat().st_dev
        first, before = by_device.get(device, (name, 0))
        by_device[device] = (first, before + needed)
    for name, needed in by_device.values():
        free = shutil.disk_usage(_existing(Path(name))).free
        if needed > free:
            raise TargetError(
                f'"{name}": the tables need about {needed / 1e9:.1f} GB, {free / 1e9:.1f} GB are '
                "free",
                "a smaller scale, or a directory on another file system (queries.data)",
                kind="no-space",
            )


def _existing(path: Path) -> Path:
    """Return a path if it exists, or else the nearest existing folder above it."""
    return next(candidate for candidate in (path, *path.parents) if candidate.exists())


ANSWERS = "answers"
"""The folder of expected answers in a run folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedAnswer:
    """The rows of a query as an engine returned them."""

    query: str
    engine: str
    rows: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCheck:
    """The result of comparing an answer: the reference, and the difference; None for neither."""

    compared_with: str | None = None
    wrong: str | None = None


def check_answer(queries: QueryDocument, folder: Path, query: str, answer: Answer) -> AnswerCheck:
    """Compare an answer with the one stored in the run's folder, or given by the user."""
    if files := queries.get("answer_files"):
        file = answer_file(Path(files), query)
        wrong = difference(answer, like(read_answer_file(file), answer))
        return AnswerCheck(compared_with=file.name, wrong=wrong)
    path = _path(folder, query)
    if queries["answers"] is None or not path.exists():
        return AnswerCheck()
    expected = _read(path)
    return AnswerCheck(compared_with=expected.engine, wrong=difference(answer, expected.rows))


def keep_answer(folder: Path, answer: ExpectedAnswer) -> None:
    """Store the first answer to a query as the expected one."""
    if not _path(folder, answer.query).exists():
        durable.make_folder_in(folder, ANSWERS)
        text = json.dumps(asdict(answer)) + "\n"
        durable.write_file(folder, f"{ANSWERS}/{answer.query}.json", text.encode())


def _path(folder: Path, query: str) -> Path:
    return folder / ANSWERS / f"{query}.json"


def _read(path: Path) -> ExpectedAnswer:
    try:
        return TypeAdapter(ExpectedAnswer).validate_json(path.read_bytes())
    except ValidationError as error:
        raise ResultError(
            f'"{path}" is not a file of expected answers: {first_mistake(error)}',
            "the file was edited by hand; take the one that loadstone wrote",
        ) from error
