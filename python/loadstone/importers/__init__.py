"""Imports files of other tools as a run folder, or as an account if they only contain a summary.

An importer adds nothing to a tool's output: what a file does not state stays absent. It checks each
file for consistency, so that a file that was truncated or edited is refused with its line and
column and never becomes a result.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadstone.analysis.accounts.account import Account
from loadstone.analysis.numbers import with_standings
from loadstone.errors import InputError
from loadstone.formats import fio, iperf3, rados_bench
from loadstone.formats.imported import Hints, Imported, ImportedFile, import_files
from loadstone.importers import (
    cosbench,
    datasafe,
    elbencho,
    hsbench,
    hummingbird,
    ior,
    mdtest,
    mlpstorage,
    nectar,
    sai3_bench,
    tpch,
    warp,
)


@dataclass(frozen=True, slots=True)
class Importer:
    """One format: its name, a description, and the function that reads it.

    A format without requests and seconds, `is_summary`, becomes an account instead of a run.
    """

    name: str
    summary: str
    read: Callable[[Sequence[Path], Hints], Imported | Account]
    is_summary: bool = False


def _of_files(
    name: str, summary: str, read_file: Callable[[Path, str, Hints], ImportedFile]
) -> Importer:
    """Return the importer of a tool whose files are read one by one."""
    return Importer(name, summary, functools.partial(import_files, name, read_file=read_file))


def _of_summary(
    name: str, summary: str, read: Callable[[Sequence[Path], Hints], Account]
) -> Importer:
    """Return the importer of a format without requests and seconds."""
    return Importer(
        name, summary, lambda files, hints: with_standings(read(files, hints)), is_summary=True
    )


IMPORTERS: Mapping[str, Importer] = {
    importer.name: importer
    for importer in (
        Importer("nectar", "nectar: the file of -csv, and the console's output", nectar.read),
        _of_files("warp", "warp: .csv.zst or .json.zst of one benchmark", warp.read_file),
        Importer("fio", "fio: --output-format=json or json+", fio.read),
        Importer("rados-bench", "rados bench: its text, or --format=json", rados_bench.read),
        _of_files("elbencho", "elbencho: --csvfile or --jsonfile", elbencho.read_file),
        Importer("iperf3", "iperf3: --json", iperf3.read),
        _of_files(
            "cosbench",
            "COSBench: the table of a workload in its archive, w1-NAME.csv",
            cosbench.read_file,
        ),
        _of_files("hsbench", "hsbench: -o (CSV) or -j (JSON)", hsbench.read_file),
        _of_files("hummingbird", "hummingbird bench: what it printed", hummingbird.read_file),
        _of_files("sai3-bench", "sai3-bench: results.tsv of a folder", sai3_bench.read_file),
        _of_files("ior", "IOR: text, or summaryFormat CSV or JSON", ior.read_file),
        _of_files("mdtest", "mdtest: its summary of rates", mdtest.read_file),
        _of_summary("mlpstorage", "MLPerf Storage: summary.json of a run", mlpstorage.read),
        _of_summary("datasafe", "Datasafe: the log of its statistics", datasafe.read),
        _of_summary(
            "tpch",
            "TPC-H scripts: a log of queries, or lines of averages and details",
            tpch.read,
        ),
    )
}


def find(name: str) -> Importer:
    """Return an importer by the name of its format."""
    if name not in IMPORTERS:
        raise InputError.of_value(name, f"a format: {', '.join(IMPORTERS)}")
    return IMPORTERS[name]
