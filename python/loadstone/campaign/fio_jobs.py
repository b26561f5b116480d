"""What a job of fio would write to, so that it can be refused before it does."""

import configparser
from collections.abc import Mapping
from pathlib import Path

from loadstone.errors import InputError

READS = frozenset({"read", "randread"})
"""All other values of fio's `rw` write, and so does one that a later fio may know."""


def writes_of_options(options: Mapping[str, object]) -> list[str]:
    """Return the files and devices that a job with these options writes to."""
    kind = str(options.get("rw", options.get("readwrite", "read")))
    # A number behind the kind says how many I/Os come between two jumps: rw=read:8.
    if kind.partition(":")[0] in READS:
        return []
    names = str(options.get("filename", options.get("directory", ""))).split(":")
    return [name for name in names if name]


def writes_of_job_file(path: Path) -> list[str]:
    """Return the files and devices that the jobs of a file write to.

    A file that takes in another is refused: what that one says could not be seen here.
    """
    reader = configparser.ConfigParser(
        allow_no_value=True, strict=False, delimiters=("=",), interpolation=None,
        comment_prefixes=("#", ";"), default_section="global",
    )  # fmt: skip
    try:
        text = path.read_text(encoding="utf-8")
        reader.read_string(text, source=str(path))
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise InputError(f'cannot read the job file "{path}": {reason}') from error
    if any(line.split()[:1] == ["include"] for line in text.splitlines()):
        raise InputError(
            f'job file "{path}" includes another file',
            "put all jobs into one file, so that it can be seen what they write to",
        )
    found = [name for job in reader.sections() for name in writes_of_options(reader[job])]
    return list(dict.fromkeys(found))
