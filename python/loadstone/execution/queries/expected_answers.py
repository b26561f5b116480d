"""What a query should answer: as a file has it, or as the trusted engine answered in this run."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from loadstone.documents.mistake import first_mistake
from loadstone.documents.trial import QueryDocument
from loadstone.engines.answers import Answer, answer_file, difference, like, read_answer_file
from loadstone.errors import ResultError
from loadstone.results.files import durable

ANSWERS = "answers"
"""The folder of a run in which the expected answers are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedAnswer:
    """The rows of a query as an engine answered it."""

    query: str
    engine: str
    rows: Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerCheck:
    """What an answer was compared with, if with anything, and what is wrong with it."""

    compared_with: str | None = None
    wrong: str | None = None


def check_answer(own: QueryDocument, folder: Path, query: str, found: Answer) -> AnswerCheck:
    """Compare an answer with what is expected in a run's folder, or by the user."""
    if files := own.get("answer_files"):
        file = answer_file(Path(files), query)
        wrong = difference(found, like(read_answer_file(file), found))
        return AnswerCheck(compared_with=file.name, wrong=wrong)
    path = _path(folder, query)
    if own["answers"] is None or not path.exists():
        return AnswerCheck()
    expected = _read(path)
    return AnswerCheck(compared_with=expected.engine, wrong=difference(found, expected.rows))


def keep_answer(folder: Path, answer: ExpectedAnswer) -> None:
    """Keep the first answer to a query as the one that is expected."""
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
            f'"{path}" is no expected answer: {first_mistake(error)}',
            "the file was edited by hand; take the one that loadstone wrote",
        ) from error
