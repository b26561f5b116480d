"""Which difference between cases becomes an axis, a panel, a colour or a dash of a chart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from loadstone.analysis import Findings
from loadstone.analysis.naming import describe_parameter, describe_parameters
from loadstone.analysis.summary import Cell
from loadstone.analysis.timeline import Timeline

SWEPT_FIRST = ("threads", "clients", "rate_per_s", "rate", "buckets")
"""Parameters that make a line, in order of choice when several are varied."""

SWEEP_VALUES_MIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one case stands in the charts."""

    panel: str
    series: str
    sweep_series: str
    dash: str
    bar: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimensions:
    """What differs within a run; `sweep` is the parameter that charts draw a line along."""

    sweep: str | None
    varied: tuple[str, ...]
    has_targets: bool
    has_workloads: bool
    has_rounds: bool

    @classmethod
    def of(cls, findings: Findings) -> "Dimensions":
        """Return the dimensions of a run's totals."""
        cells = findings.totals
        values: dict[str, dict[str, object]] = {}
        for cell in cells:
            for name, value in cell.parameters.items():
                values.setdefault(name, {})[repr(value)] = value
        varied = tuple(name for name, found in values.items() if len(found) > 1)
        return cls(
            sweep=_sweep(varied, values),
            varied=varied,
            has_targets=len({cell.target for cell in cells}) > 1,
            has_workloads=len({cell.workload for cell in cells}) > 1,
            has_rounds=len({cell.round for cell in cells}) > 1,
        )

    def order(self, line: Timeline) -> float:
        """Return where a line stands among those of its panel: by the value of the sweep."""
        value = line.parameters.get(self.sweep) if self.sweep is not None else None
        return float(value) if isinstance(value, (int, float)) else 0.0

    def of_cell(self, cell: Cell) -> Place:
        """Return the place of a cell."""
        return self._place(
            cell.target, cell.workload, cell.phase, cell.operation, cell.parameters, cell.round
        )

    def of_timeline(self, line: Timeline) -> Place:
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
    ) -> Place:
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
            series = describe_parameter(self.sweep, parameters.get(self.sweep))
            panel, dash = _joined([*([target] if self.has_targets else []), *subject]), of_round
            panel = _joined([panel, describe_parameters(rest)])
        return Place(
            panel=panel,
            series=series,
            sweep_series=_joined([target, describe_parameters(rest), of_round]),
            dash=dash,
            bar=_joined([target, describe_parameters(rest), of_round]),
        )


def _sweep(varied: Sequence[str], values: Mapping[str, Mapping[str, object]]) -> str | None:
    candidates = [
        name
        for name in varied
        if len(values[name]) >= SWEEP_VALUES_MIN
        and all(
            isinstance(value, (int, float)) and not isinstance(value, bool)
            for value in values[name].values()
        )
    ]
    for name in SWEPT_FIRST:
        if name in candidates:
            return name
    return candidates[0] if candidates else None


def _joined(words: Iterable[str]) -> str:
    return ", ".join(word for word in words if word)
