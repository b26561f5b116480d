"""Converters: what other programs recorded → the requests of a trace. One file, one format each."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from loadstone.errors import InputError
from loadstone.script.converters import ibm, nectar, request_log, s3_log, warp
from loadstone.script.trace import Losses, Traced


@dataclass(frozen=True, slots=True, kw_only=True)
class Converter:
    """One format: its name, what it reads, and the function that reads it."""

    name: str
    summary: str
    read: Callable[[Path, Losses], Iterator[Traced]]


CONVERTERS: Mapping[str, Converter] = {
    one.name: one
    for one in (
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
