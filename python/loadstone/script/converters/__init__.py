"""Converters from other programs' recordings to requests of a trace, one per format."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadstone.errors import InputError
from loadstone.script.converters import datasafe, fio_iolog, ibm, nectar, request_log, s3_log, warp
from loadstone.script.table import Action
from loadstone.script.trace import Losses, Traced, TraceOptions, script_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """One format: its name, a description, and the function that reads it.

    A trace is `read` as requests; a file that is already a script with users as `actions`.
    """

    name: str
    summary: str
    read: Callable[[Path, Losses], Iterator[Traced]] | None = None
    actions: Callable[[Path, TraceOptions, Losses], Iterator[Action]] | None = None

    def script(
        self, files: Sequence[Path], options: TraceOptions, losses: Losses
    ) -> Iterator[Action]:
        """Yield the script of files; several files of a trace are merged, a script is one file."""
        if self.actions is not None:
            if len(files) > 1:
                raise InputError(f"{self.name} is one file", "convert each by itself")
            return self.actions(files[0], options, losses)
        assert self.read is not None, "a converter has one of the two"
        requests = itertools.chain.from_iterable(self.read(file, losses) for file in files)
        return script_of(requests, options, losses)


CONVERTERS: Mapping[str, Converter] = {
    converter.name: converter
    for converter in (
        Converter(
            name="s3-log",
            summary="S3 server access log: AWS's format, as versitygw and nginx write it too",
            read=s3_log.read,
        ),
        Converter(name="warp", summary="warp: .csv.zst of one benchmark", read=warp.read),
        Converter(
            name="nectar",
            summary="nectar: a -csv file, best of bench-mixed, which names the methods",
            read=nectar.read,
        ),
        Converter(
            name="ibm", summary="IBM's object store traces, as SNIA keeps them", read=ibm.read
        ),
        Converter(
            name="fio-iolog",
            summary="fio's iolog, versions 2 and 3: each extent of a file becomes an object",
            read=fio_iolog.read,
        ),
        Converter(
            name="datasafe",
            summary="the fixture JSON of Datasafe's harness: a script of users, with its results",
            actions=datasafe.actions,
        ),
        Converter(
            name="loadstone",
            summary="loadstone: a run folder with log_requests, all trials or one: RUN/TRIAL",
            read=request_log.read,
        ),
    )
}


def find_converter(name: str) -> Converter:
    """Return a converter by the name of its format."""
    if name not in CONVERTERS:
        raise InputError.of_value(name, f"a format: {', '.join(CONVERTERS)}")
    return CONVERTERS[name]
