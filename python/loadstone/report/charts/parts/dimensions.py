"""Which difference between cases becomes an axis, a panel, a colour or a dash of a chart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from loadstone.analysis import Findings
from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.cells.timeline import Timeline
from loadstone.analysis.naming import describe_parameter, describe_parameters

SWEPT_FIRST = (
    "threads", "clients", "rate_per_s", "rate", "buckets", "fill_percent", "fill_bytes",
)  # fmt: skip
"""Parameters that make a line, in order of choice when several are varied."""

SWEEP_VALUES_MIN = 3

PANELS_MAX = 24
"""More panels than these are no chart to look at: then cases share one, as lines of one colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPlace:
    """Where one case stands in the charts."""

    panel: str
    series: str
    sweep_series: str
    dash: str
    bar: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimensions:
    """What differs within a run; `sweep` is the parameter that charts draw a line along.

    `crowded` are the varied parameters that share a panel and a colour, since a panel for each of
    their values would be too many.
    """

    sweep: str | None
    varied: tuple[str, ...]
    crowded: tuple[str, ...]
    targets: tuple[str, ...]
    has_workloads: bool
    has_rounds: bool

    def note(self) -> str:
        """Say what lines of one colour differ in, where several stand in one panel."""
        if not self.crowded:
            return ""
        names = ", ".join(name.replace("_", " ") for name in self.crowded)
        return f" Lines of one colour differ in {names}: too many for panels of their own."

    @classmethod
    def of(cls, findings: Findings) -> "Dimensions":
        """Return the dimensions of a run's totals."""
        cells = findings.totals
        values = varied_values(cell.parameters for cell in cells)
        sweep = swept_parameter(values, SWEEP_VALUES_MIN)
        return cls(
            sweep=sweep,
            varied=tuple(values),
            crowded=_crowded(cells, [name for name in values if name != sweep]) if sweep else (),
            targets=tuple(dict.fromkeys(cell.target for cell in cells)),
            has_workloads=len({cell.workload for cell in cells}) > 1,
            has_rounds=len({cell.round for cell in cells}) > 1,
        )

    def order(self, line: Timeline) -> tuple[float, int]:
        """Return where a line stands among those of its panel: by the sweep, then by the target.

        Targets in one order have the same colours in all charts, whichever was measured first.
        """
        value = line.parameters.get(self.sweep) if self.sweep is not None else None
        known = line.target in self.targets
        place = self.targets.index(line.target) if known else len(self.targets)
        return float(value) if isinstance(value, (int, float)) else 0.0, place

    def of_cell(self, cell: Cell) -> ChartPlace:
        """Return the place of a cell."""
        return self._place(
            cell.target, cell.workload, cell.phase, cell.operation, cell.parameters, cell.round
        )

    def of_timeline(self, line: Timeline) -> ChartPlace:
        """Return the place of one trial's line."""
        return self._place(
            line.target, line.workload, line.phase, line.operation, line.parameters, line.round
        )

    def _place(
        self,
        target: str,
        workload: str,
        phase: str,
        operation: str,
        parameters: Mapping[str, object],
        round_: int,
    ) -> ChartPlace:
        others = {
            name: parameters[name]
            for name in self.varied
            if name != self.sweep and name in parameters
        }
        sizes = {name: value for name, value in others.items() if name == "size"}
        rest = {name: value for name, value in others.items() if name != "size"}
        named = operation if operation == phase else f"{operation} ({phase})"
        subject = [workload] if self.has_workloads else []
        subject += [named, describe_parameters(sizes)]
        of_round = f"round {round_}" if self.has_rounds else ""
        if self.sweep is None:
            series = _joined([target, describe_parameters(rest)])
            panel, dash = _joined(subject), of_round
        else:
            # Lines over time are the values of the sweep, so the targets need panels of their own.
            series = _load_in_words(self.sweep, parameters)
            subject = subject[:-1] if "size" in self.crowded else subject
            of_target = [target] if len(self.targets) > 1 else []
            panel, dash = _joined([*of_target, *subject]), of_round
            alone = {name: value for name, value in rest.items() if name not in self.crowded}
            panel = _joined([panel, describe_parameters(alone)])
        return ChartPlace(
            panel=panel,
            series=series,
            sweep_series=_joined([target, describe_parameters(rest), of_round]),
            dash=dash,
            bar=_joined([target, describe_parameters(rest), of_round]),
        )


def _load_in_words(sweep: str, parameters: Mapping[str, object]) -> str:
    """Return the value of the sweep, or the load that stands in its place: a rate for threads."""
    if sweep in parameters:
        return describe_parameter(sweep, parameters[sweep])
    loads = {name: parameters[name] for name in SWEPT_FIRST if name in parameters}
    return describe_parameters(loads) or f"no {sweep.replace('_', ' ')}"


def _crowded(cells: Sequence[Cell], names: Sequence[str]) -> tuple[str, ...]:
    """Return the parameters that can have no panel of their own, the size last of all."""

    def count(kept: Sequence[str]) -> int:
        return len({key(cell, kept) for cell in cells})

    def key(cell: Cell, kept: Sequence[str]) -> tuple[str, ...]:
        values = (repr(cell.parameters.get(name)) for name in kept)
        return (cell.target, cell.workload, cell.phase, cell.operation, *values)

    kept = sorted(names, key=lambda name: name != "size")
    while kept and count(kept) > PANELS_MAX:
        kept.pop()
    return tuple(name for name in names if name not in kept)


def varied_values(cases: Iterable[Mapping[str, object]]) -> dict[str, list[object]]:
    """Return the parameters that differ between cases, each with its values in order."""
    values: dict[str, dict[str, object]] = {}
    for parameters in cases:
        for name, value in parameters.items():
            values.setdefault(name, {})[repr(value)] = value
    return {
        name: _in_order(list(found.values())) for name, found in values.items() if len(found) > 1
    }


def swept_parameter(values: Mapping[str, Sequence[object]], values_min: int) -> str | None:
    """Return the parameter that a line is drawn along, if one has so many values."""
    candidates = [
        name for name, found in values.items() if len(found) >= values_min and _is_numeric(found)
    ]
    for name in SWEPT_FIRST:
        if name in candidates:
            return name
    return candidates[0] if candidates else None


def _in_order(values: list[object]) -> list[object]:
    """Return numbers by size, and other values in the order they came."""
    return sorted(values, key=lambda value: float(str(value))) if _is_numeric(values) else values


def _is_numeric(values: Iterable[object]) -> bool:
    return all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in values)


def _joined(words: Iterable[str]) -> str:
    return ", ".join(word for word in words if word)
