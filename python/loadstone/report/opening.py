"""How a readable report begins: what was measured, on what, from where, and what it is worth."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.cells.cell import Cell
from loadstone.analysis.judgements.labels import REMARKS, VOIDING
from loadstone.analysis.limits.searches import CapacitySearch, describe_answer
from loadstone.analysis.naming import describe_load, describe_parameter, describe_size
from loadstone.analysis.rules import limit_in_words
from loadstone.analysis.statistics.ratios import Interval
from loadstone.campaign.planning.lifecycle import operations_of
from loadstone.campaign.planning.query_plan import QUERY
from loadstone.documents.trial import Size, TrialDocument
from loadstone.report.instrument_words import bound_sign
from loadstone.results.record import Run

ANSWERS_MAX = 6

Standing = Literal["good", "caution", "void"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The first lines: a title, sentences, results in words, and how far they may be trusted."""

    title: str
    sentences: tuple[str, ...]
    standing: Standing
    verdict: str
    answers: tuple[str, ...] = ()


def opening(run: Run, findings: Findings) -> Opening:
    """Return the opening of a report on one run."""
    standing, verdict = _verdict(run, findings)
    sentences = [_what(run, findings), _when(run, findings), _where(run)]
    description = (run.manifest.get("campaign") or {}).get("description")
    if description:
        sentences.insert(0, str(description))
    return Opening(
        title=run.name,
        sentences=tuple(sentence for sentence in sentences if sentence),
        standing=standing,
        verdict=verdict,
        answers=tuple(_answers(findings)),
    )


def _answers(findings: Findings) -> Iterable[str]:
    """Return what was found, in words: capacities, else the best result of each operation."""
    if findings.searches:
        for one in findings.searches:
            yield f"{one.name}: {describe_answer(one)}{_doubt(findings, one)}."
        return
    groups: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in findings.totals:
        groups.setdefault((cell.target, cell.workload, cell.operation), []).append(cell)
    if len(groups) > ANSWERS_MAX:
        return
    for (target, _, operation), cells in groups.items():
        usable = [cell for cell in cells if cell.good and not _is_void(findings, cell)]
        if usable:
            best = max(usable, key=lambda cell: cell.requests_per_s)
            yield _answer(findings, best, is_best=len(usable) > 1, void=len(cells) - len(usable))
        elif any(cell.good for cell in cells):
            yield f"{target}, {operation}: no result that may be used; its labels say why."


def _doubt(findings: Findings, search: CapacitySearch) -> str:
    """Return the labels of the confirming trials that forbid to use what they confirm."""
    own = [cell for cell in findings.totals if set(cell.trials) & set(search.confirming)]
    labels = dict.fromkeys(label for cell in own for label in cell.labels if label in VOIDING)
    return (
        f"; but the trials that confirm it must not be used ({', '.join(labels)})" if labels else ""
    )


def units_of(found: Interval) -> str:
    """Return what an interval counts: trials, or the days that they are of."""
    return f"{found.days} days of {found.n} trials" if found.days > 1 else f"{found.n} trials"


def _is_void(findings: Findings, cell: Cell) -> bool:
    """Tell whether a result must not be used, by its labels or by its verdict."""
    verdict = findings.verdict_of(cell)
    is_invalid = verdict is not None and verdict.limit.startswith("INVALID")
    return is_invalid or bool(VOIDING & set(cell.labels))


def _answer(findings: Findings, cell: Cell, *, is_best: bool, void: int) -> str:
    text = f"{cell.name}: {bound_sign(cell)}{units.format_rate(cell.requests_per_s)}"
    found = cell.interval
    if found is not None and found.low is not None and found.high is not None:
        low, high = units.format_number(found.low), units.format_number(found.high)
        text += f" (95 % CI {low} to {high}, n = {units_of(found)})"
    else:
        text += " (one trial: no interval)"
    text += ", the most of its loads and rounds" if is_best else ""
    text += f", {void} that must not be used left out" if void else ""
    verdict = findings.verdict_of(cell)
    if verdict is not None:
        graded = f", grade {verdict.grade}" if verdict.grade else ""
        text += f"; limit: {limit_in_words(verdict.limit)}{graded}"
    return f"{text}."


def _what(run: Run, findings: Findings) -> str:
    measured = [trial for trial in run.plan if trial["measured"]]
    operations = _unique(
        operation for trial in measured for operation in operations_of(trial)
    ) or _unique(cell.operation for cell in findings.totals)
    sizes = _unique(_size(one["size"]) for trial in measured if (one := trial.get("dataset")))
    targets = _unique(
        f"{trial['case']['target']} ({trial['target']['driver']})" for trial in measured
    )
    text = f"{_listed(operations)} of {_listed(sizes)} objects on {_listed(targets)}"
    text = f"{_listed(operations)} on {_listed(targets)}" if not sizes else text
    loads = _unique(describe_load(trial["load"]) for trial in measured if trial.get("load"))
    # The loads that a search tried are its own business: what it found stands in its table.
    given = [trial for trial in measured if "search" not in trial]
    varied = _varied(given)
    words = [loads[0]] if len(loads) == 1 else []
    words += [f"a search for the capacity: {one.objective}" for one in findings.searches[:1]]
    words += [f"{name}: {values}" for name, values in varied.items()]
    rounds = len({trial["round"] for trial in measured})
    blocks = len({trial["block"] for trial in measured})
    words += [f"{rounds} rounds"] if rounds > 1 else []
    # Files of another tool count up; in which order its cases ran they do not say.
    blocks_are = "repetitions" if run.manifest.get("imported") else "interleaved blocks"
    words += [f"{blocks} {blocks_are}"] if blocks > 1 else []
    text = "; ".join([text, *words])
    return f"{text[:1].upper()}{text[1:]}." if measured else "Nothing was measured."


def _when(run: Run, findings: Findings) -> str:
    done = [trial for trial in findings.trials if trial.is_measured and trial.state != "not run"]
    planned = [trial for trial in findings.trials if trial.is_measured]
    seconds = sum(trial.duration_s or 0 for trial in done)
    count = f"{len(done)} of {len(planned)}" if len(done) != len(planned) else f"{len(done)}"
    length = units.format_duration(seconds * 1e9)
    started = _moment(run.manifest.get("started"))
    since = f", started {started}" if started else ""
    plural = "" if count == "1" else "s"
    return f"{count} measured trial{plural}, {length} under load{since}; the run {_state(run)}."


def _moment(text: object) -> str:
    """Return a moment to the second, as people write it."""
    if not text:
        return ""
    try:
        moment = datetime.datetime.fromisoformat(str(text))
    except ValueError:
        return str(text)
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}{' UTC' if moment.tzinfo is not None else ''}"


def _where(run: Run) -> str:
    imported = run.manifest.get("imported")
    if imported:
        return f"Measured by {imported['from']}; read by {imported['by']}."
    host = run.manifest.get("host") or {}
    name = host.get("hostname") or host.get("name")
    version = run.manifest.get("loadstone")
    by = f"by loadstone {version}" if version else "by loadstone"
    return f"Load came from {name}, {by}." if name else f"Measured {by}."


def _state(run: Run) -> str:
    states = {
        "finished": "finished",
        "running": "is still going on",
        "interrupted": "was interrupted",
        "failed": "failed",
    }
    return states.get(run.state, run.state)


def _verdict(run: Run, findings: Findings) -> tuple[Standing, str]:
    void = [cell for cell in findings.totals if VOIDING & set(cell.labels)]
    problems = [finding for finding in findings.findings if finding.severity == "problem"]
    cautions = [finding for finding in findings.findings if finding.severity == "caution"]
    if not findings.totals:
        return "void", "There is no result: no measured trial left a record."
    if void:
        return "void", (
            f"{len(void)} of {len(findings.totals)} results must not be used; their labels say why."
        )
    if problems or cautions:
        first = (problems + cautions)[0]
        return "caution", f"Use with care: {first.statement}."
    thin = [cell for cell in findings.totals if REMARKS & set(cell.labels)]
    if len(thin) == len(findings.totals):
        return "caution", "A first look: every result is from one trial, or from a short one."
    return "good", "No result carries a label that speaks against it."


def _size(size: Size) -> str:
    match size.get("kind"):
        case "fixed":
            return describe_size(size["bytes"])
        case "uniform":
            return f"{describe_size(size['min'])} to {describe_size(size['max'])}"
        case "lognormal":
            return f"log-normal (median {describe_size(int(size['median']))})"
        case kind:
            return f"{kind}"


def _varied(measured: Sequence[TrialDocument]) -> dict[str, str]:
    values: dict[str, dict[object, str]] = {}
    for trial in measured:
        for name, value in trial["case"]["parameters"].items():
            values.setdefault(name, {})[_hashable(value)] = describe_parameter(name, value)
    return {
        name.replace("_", " "): ", ".join(
            shown if name == "size" else str(value) for value, shown in _in_order(name, found)
        )
        for name, found in values.items()
        if len(found) > 1
    }


def _in_order(name: str, found: Mapping[object, str]) -> list[tuple[object, str]]:
    """Return numbers and queries in order, which a plan shuffles, and others as they are."""
    items = list(found.items())
    if all(isinstance(value, (int, float)) for value, _ in items):
        items.sort(key=lambda item: float(str(item[0])))
    elif name == QUERY:
        items.sort(key=lambda item: str(item[0]))
    return items


def _hashable(value: object) -> object:
    return value if isinstance(value, (int, float, str)) else str(value)


def _unique(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _listed(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
