"""The ten charts of a published long run, drawn from runs, each also in a corrected form.

The published charts show `n · 1000 / Σ duration` × threads, with all lines in one panel over client
× threads. The corrected ones show completions by wall time with intervals, a panel per action, and
no lines between clients.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loadstone.analysis import Findings
from loadstone.analysis.answers.answer import answer_of, answer_of_scripts
from loadstone.analysis.cells.actions import ActionCell
from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.naming import describe_parameter
from loadstone.documents.manifest import HostFacts
from loadstone.errors import InputError
from loadstone.published.tables.datasafe import TABLED, busy_rate, load_of
from loadstone.report.options import Options
from loadstone.report.pages.chart_data import load_axis, result_row, short
from loadstone.results.record import Run
from loadstone.results.several import CLIENT

ENCRYPTION, BUCKETS = "encryption", "buckets"
OF_MODES = ("WRITE", "SHARE")
"""The encrypting actions, shown in the chart that compares two modes."""

CAPTION = (
    "n · 1000 / Σ duration in milliseconds, × threads, on a logarithmic axis: the rate if a thread"
    " did nothing else. The next chart shows the actions completed per second of wall time."
)
STANDING = ("is_void", "is_bound")
NO_FILE_NAME = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """One action of one load, with its series in words."""

    action: ActionCell
    rate: float
    kind: str
    cores: int
    client: str
    threads: int
    size: int
    size_words: str
    buckets: int
    mode: str

    @property
    def target(self) -> str:
        return self.action.cell.target

    @property
    def result(self) -> tuple[object, ...]:
        """The key of the action's result."""
        return _key(replace(self.action.cell, operation=self.action.action))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The order and labels of positions on the axis, and the keys of lines."""

    place: Callable[[_Point], tuple[tuple[int, ...], str]]
    series: Callable[[_Point], str]
    dash: Callable[[_Point], str]
    axis: str


def datasafe_data(run: Run, findings: Findings, options: Options) -> dict[str, Any]:
    """Return the data of the charts that the run has actions for."""
    points = _points(run, findings, options)
    scripts = answer_of_scripts(findings, answer_of(findings))
    if not points or scripts is None:
        raise InputError(
            "the charts of datasafe are of users' actions, and this run has none",
            "run a campaign with a script, such as examples/datasafe.yaml",
        )
    results = {_key(result): result_row(result, None, 1) for result in scripts.each.results}
    for row in results.values():
        row["curve"] = []
    return {
        "counted": "action",
        "targets": [],
        "load": load_axis([point.action.cell.parameters for point in points]) or "threads",
        "results": [],
        "rounds": [],
        "layout": [chart.data(results, findings) for chart in _charts(points)],
    }


def _key(cell: Cell) -> tuple[object, ...]:
    return (cell.target, cell.workload, cell.operation, *sorted(cell.parameters.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chart:
    name: str
    title: str
    points: Sequence[_Point]
    look: _Look

    def data(self, results: Mapping[tuple[object, ...], Any], findings: Findings) -> dict[str, Any]:
        clients = {point.client for point in self.points}
        keys = [
            key for key in dict.fromkeys(point.result for point in self.points) if key in results
        ]
        modes = {point.mode for point in self.points}
        # Each line names its mode if there are several; a single mode is named only here.
        encrypted = f" Encrypted with {modes.pop()}." if len(modes) == 1 and "" not in modes else ""
        return {
            "name": NO_FILE_NAME.sub("-", self.name.lower()),
            "title": self.title,
            "caption": CAPTION + encrypted,
            "client": next(iter(clients)) if len(clients) == 1 else findings.client,
            "results": [results[key] for key in keys],
            **_lines(self.points, self.look, results),
        }


def _charts(points: Sequence[_Point]) -> Iterable[_Chart]:
    first, *others = dict.fromkeys(point.target for point in points)
    main = [point for point in points if point.target == first]
    mode = main[0].mode
    usual = [point for point in main if point.mode == mode]
    fewest = min(point.buckets for point in usual)
    single = [point for point in usual if point.buckets == fewest]
    kinds = list(dict.fromkeys(point.kind for point in single))
    for name in TABLED:
        if chosen := [point for point in single if point.action.action == name]:
            yield _Chart(name=name.lower(), title=name.capitalize(), points=chosen, look=OF_CLIENTS)
    for kind in kinds:
        chosen = [point for point in single if point.kind == kind]
        words = f", {kind}" if kind else ""
        name = f"single-bucket-{kind}" if kind else "single-bucket"
        yield _Chart(name=name, title=f"Single bucket{words}", points=chosen, look=OF_ALL)
    for client in dict.fromkeys(point.client for point in usual):
        chosen = [point for point in usual if point.client == client and point.buckets > fewest]
        if chosen:
            yield _Chart(
                **_named("multi-bucket", "Several buckets", client, usual),
                points=chosen,
                look=OF_BUCKETS,
            )
    for client in dict.fromkeys(point.client for point in main):
        chosen = [point for point in main if point.client == client and point.buckets == fewest]
        chosen = [point for point in chosen if point.action.action in OF_MODES]
        if len({point.mode for point in chosen}) > 1:
            modes = " against ".join(dict.fromkeys(point.mode for point in chosen))
            yield _Chart(**_named("modes", modes, client, main), points=chosen, look=OF_BOTH_MODES)
    for target in others:
        chosen = [point for point in points if point.target == target and point.mode == mode]
        for client in dict.fromkeys(point.client for point in chosen):
            yield _Chart(
                **_named(f"buckets-{target}", target, client, chosen),
                points=[point for point in chosen if point.client == client],
                look=OF_TARGET,
            )


def _named(name: str, title: str, client: str, among: Sequence[_Point]) -> dict[str, str]:
    """Return a chart's name and title, with the client if there are several."""
    if len({point.client for point in among}) == 1:
        return {"name": name, "title": title}
    return {"name": f"{name}-{client}", "title": f"{title}, {client}"}


def _by_clients(point: _Point) -> tuple[tuple[int, ...], str]:
    cores = f"{point.cores}-core" if point.cores else point.client
    return (point.threads, point.cores), f"{cores}, {point.threads} thr"


def _by_number_of_buckets(point: _Point) -> tuple[tuple[int, ...], str]:
    words = describe_parameter(BUCKETS, point.buckets)
    return (point.threads, point.buckets), f"{words}, {point.threads} thr"


OF_CLIENTS = _Look(
    place=_by_clients,
    series=lambda point: point.size_words,
    dash=lambda point: point.kind,
    axis="cores, threads",
)
OF_ALL = _Look(
    place=_by_clients,
    series=lambda point: point.action.action,
    dash=lambda point: point.size_words,
    axis="cores, threads",
)
OF_BUCKETS = _Look(
    place=lambda point: (
        (point.threads, point.buckets),
        f"{point.threads} threads, {point.buckets} buckets",
    ),
    series=lambda point: point.action.action,
    dash=lambda point: point.size_words,
    axis="threads, buckets",
)
OF_BOTH_MODES = _Look(
    place=lambda point: ((point.threads,), str(point.threads)),
    series=lambda point: f"{point.size_words}, {point.action.action}",
    dash=lambda point: point.mode,
    axis="threads",
)
OF_TARGET = _Look(
    place=_by_number_of_buckets,
    series=lambda point: point.action.action,
    dash=lambda point: point.size_words,
    axis="buckets, threads",
)


def _points(run: Run, findings: Findings, options: Options) -> list[_Point]:
    cores = _cores_of_clients(run, options)
    shown = [action for action in findings.actions if action.action in TABLED and action.busy_per_s]
    points = []
    for point in shown:
        parameters = point.cell.parameters
        threads, size = load_of(point)
        client = str(parameters.get(CLIENT, run.client))
        points.append(
            _Point(
                action=point,
                rate=short(busy_rate(point, threads)),
                kind=_kind(client, options),
                cores=cores.get(client, 0),
                client=client or findings.client,
                threads=threads,
                size=size,
                size_words=describe_parameter("size", size),
                buckets=_count(parameters.get(BUCKETS)),
                mode=str(parameters.get(ENCRYPTION, "")),
            )
        )
    return points


def _kind(client: str, options: Options) -> str:
    """Return the kind of a client host: "m5" of "m5.large", or its label."""
    family, dot, _ = client.partition(".")
    return options.labels.get(family, family) if dot else client


def _cores_of_clients(run: Run, options: Options) -> dict[str, int]:
    """Return the cores of clients, if unique among hosts of their kind."""
    cores_by_client = {}
    for member in run.members or (run,):
        host = member.manifest.get("host") or HostFacts()
        cores_by_client[member.client] = (host.get("cpu") or {}).get("cores") or 0
    places = Counter((_kind(client, options), cores) for client, cores in cores_by_client.items())
    return {
        client: cores if places[_kind(client, options), cores] == 1 else 0
        for client, cores in cores_by_client.items()
    }


def _count(value: object) -> int:
    return value if isinstance(value, int) else 1


def _lines(
    points: Sequence[_Point], look: _Look, results: Mapping[tuple[object, ...], Any]
) -> dict[str, Any]:
    ordered = sorted(
        points,
        key=lambda point: (TABLED.index(point.action.action), point.size, look.place(point)[0]),
    )
    order = {look.place(point)[1]: look.place(point)[0] for point in ordered}
    return {
        "label": look.axis,
        "categories": sorted(order, key=lambda name: order[name]),
        "rows": [
            {
                "series": look.series(point),
                "variant": look.dash(point),
                "x": look.place(point)[1],
                "value": point.rate,
                **{name: results.get(point.result, {}).get(name, False) for name in STANDING},
            }
            for point in ordered
        ],
    }
