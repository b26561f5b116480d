"""Files of other tools → a run folder, or an account where a tool keeps no more than a summary.

An importer takes what a tool wrote and nothing else: what a file does not say stays absent. It
checks what the file says against itself, so that a file that was cut off or edited by hand is
refused with its line and column and never turned into a result.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadstone.analysis.accounts.account import Account
from loadstone.errors import InputError
from loadstone.formats import fio, iperf3, rados_bench
from loadstone.formats.imported import Hints, Imported
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """One format: its name, what it reads, and the function that reads it.

    A format that keeps no requests and no seconds, `is_summary`, becomes an account and no run.
    """

    name: str
    summary: str
    read: Callable[[Sequence[Path], Hints], Imported | Account]
    is_summary: bool = False


IMPORTERS: Mapping[str, Importer] = {
    importer.name: importer
    for importer in (
        Importer(
            name="nectar",
            summary="nectar: the file of -csv, and the console's output",
            read=nectar.read,
        ),
        Importer(
            name="warp", summary="warp: .csv.zst or .json.zst of one benchmark", read=warp.read
        ),
        Importer(name="fio", summary="fio: --output-format=json or json+", read=fio.read),
        Importer(
            name="rados-bench",
            summary="rados bench: its text, or --format=json",
            read=rados_bench.read,
        ),
        Importer(name="elbencho", summary="elbencho: --csvfile or --jsonfile", read=elbencho.read),
        Importer(name="iperf3", summary="iperf3: --json", read=iperf3.read),
        Importer(
            name="cosbench",
            summary="COSBench: the table of a workload in its archive, w1-NAME.csv",
            read=cosbench.read,
        ),
        Importer(name="hsbench", summary="hsbench: -o (CSV) or -j (JSON)", read=hsbench.read),
        Importer(
            name="hummingbird",
            summary="hummingbird bench: what it printed",
            read=hummingbird.read,
        ),
        Importer(
            name="sai3-bench", summary="sai3-bench: results.tsv of a folder", read=sai3_bench.read
        ),
        Importer(name="ior", summary="IOR: text, or summaryFormat CSV or JSON", read=ior.read),
        Importer(name="mdtest", summary="mdtest: its summary of rates", read=mdtest.read),
        Importer(
            name="mlpstorage",
            summary="MLPerf Storage: summary.json of a run",
            read=mlpstorage.read,
            is_summary=True,
        ),
        Importer(
            name="datasafe",
            summary="Datasafe: the log of its statistics",
            read=datasafe.read,
            is_summary=True,
        ),
        Importer(
            name="tpch",
            summary="TPC-H scripts: a log of queries, or lines of averages and details",
            read=tpch.read,
            is_summary=True,
        ),
    )
}


def find(name: str) -> Importer:
    """Return an importer by the name of its format."""
    if name not in IMPORTERS:
        raise InputError.of_value(name, f"a format: {', '.join(IMPORTERS)}")
    return IMPORTERS[name]
