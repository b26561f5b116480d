"""MLPerf Storage: summary.json of a run, with the rates that DLIO adds up over all accelerators.

A rate covers the steps between the first and the last ones of an epoch, whose number and time are
not written, so it becomes an account instead of a run. Its "MB" are 2^20 bytes. An epoch is a
repetition.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from loadstone.analysis.accounts.account import BYTE_RATE, RATE, Account, Disclosure, Measurement
from loadstone.formats import reading
from loadstone.formats.imported import MEBIBYTE, Hints, stem_of
from loadstone.formats.json_document import JsonNode, read_document

PHASES = ("train", "eval")
GIBIBYTE = 2**30
TOLERANCE = 0.001


def read(paths: Sequence[Path], hints: Hints) -> Account:
    """Read summaries, each of one run; several are consecutive repetitions."""
    measurements: list[Measurement] = []
    for path in paths:
        document = read_document(path)
        of_run = list(_measurements(document, hints, len(measurements)))
        if not of_run:
            document.place.refuse('has no rate under "metric"', "give summary.json of a run")
        measurements += of_run
    return Account(
        name=", ".join(dict.fromkeys(stem_of(path) for path in paths)),
        title=f"MLPerf Storage {', '.join(path.name for path in paths)}",
        measurements=tuple(measurements),
        disclosure=Disclosure(loop="closed"),
    )


def _measurements(document: JsonNode, hints: Hints, before: int) -> Iterator[Measurement]:
    metric = document.at("metric")
    accelerators = document.find("num_accelerators")
    hosts = document.find("num_hosts")
    parameters = {
        name: node.whole(smallest=1)
        for name, node in (("accelerators", accelerators), ("hosts", hosts))
        if node is not None
    }
    for phase in PHASES:
        rates = metric.find(f"{phase}_throughput_samples_per_second")
        values = [node.number() for node in rates.items()] if rates is not None else []
        mean = metric.find(f"{phase}_throughput_mean_samples_per_second")
        if values and mean is not None:
            what = f"{phase}: mean of all epochs"
            expected = sum(values) / len(values)
            reading.agree(document.place, what, mean.number(), expected, TOLERANCE)
        moved = metric.find(f"{phase}_io_mean_MB_per_second")
        numbers = [(RATE, value) for value in values]
        numbers += [(BYTE_RATE, moved.number() * MEBIBYTE)] if moved is not None else []
        for repetition, (kind, value) in enumerate(numbers, start=1):
            yield Measurement(
                target=hints.target or "mlpstorage",
                workload="MLPerf Storage",
                operation=phase,
                parameters=parameters,
                metric=kind,
                value=value,
                text=repr(value),
                repetition=before + (repetition if kind == RATE else 1),
                place=str(document.place.path),
                tool="mlpstorage",
            )
    for phase in ("save", "load"):
        rate = metric.find(f"{phase}_checkpoint_io_mean_GB_per_second")
        if rate is not None:
            yield Measurement(
                target=hints.target or "mlpstorage",
                workload="MLPerf Storage",
                operation=f"{phase}_checkpoint",
                parameters=parameters,
                metric=BYTE_RATE,
                value=rate.number() * GIBIBYTE,
                text=repr(rate.value),
                repetition=before + 1,
                place=str(document.place.path),
                tool="mlpstorage",
            )
