"""The opening of a readable report: the answer, its confidence, and the set-up."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.answers.answer import Answer, answer_of, answer_of_scripts
from loadstone.analysis.answers.headline import Headline, headline_of
from loadstone.analysis.naming import describe_load, describe_size, describe_value, varied_values
from loadstone.documents.manifest import ObjectListDocument
from loadstone.documents.mix import operations_of
from loadstone.documents.trial import Size
from loadstone.results.record import Run

STANDINGS: Mapping[str, str] = {
    "void": "must not be used",
    "bound": "lower bounds",
    "first look": "first look: one trial of a result, or a short one",
    "good": "usable",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The opening: a title, the headline, sentences on the set-up, and cautions."""

    title: str
    headline: Headline
    sentences: tuple[str, ...]
    cautions: tuple[str, ...]


def opening(run: Run, findings: Findings) -> Opening:
    answer = answer_of(findings)
    scripts = answer_of_scripts(findings, answer) if findings.actions else None
    return Opening(
        title=run.name,
        headline=headline_of(findings, answer if scripts is None else scripts.whole),
        sentences=sentences_of(run, findings),
        cautions=tuple(_cautions(answer)),
    )


def sentences_of(run: Run, findings: Findings) -> tuple[str, ...]:
    """Return sentences on what was measured, when, and from where."""
    description = (run.manifest.get("campaign") or {}).get("description")
    sentences = (str(description or ""), _what(run, findings), _when(run, findings), _where(run))
    return tuple(sentence for sentence in sentences if sentence)


def _cautions(answer: Answer) -> Iterable[str]:
    total = len(answer.results)
    for caution in answer.cautions:
        some = f" ({caution.results} of {total})" if 0 < caution.results < total else ""
        yield f"{caution.weight.capitalize()}{some}: {'; '.join(caution.reasons)}."


def _what(run: Run, findings: Findings) -> str:
    measured = [trial for trial in run.plan if trial["measured"]]
    operations = _unique(
        operation for trial in measured for operation in operations_of(trial)
    ) or _unique(result.operation for result in findings.results)
    sizes = _unique(
        _size(dataset["size"]) for trial in measured if (dataset := trial.get("dataset"))
    )
    targets = _unique(
        f"{trial['case']['target']} ({trial['target']['driver']})" for trial in measured
    )
    text = f"{_listed(operations)} of {_listed(sizes)} objects on {_listed(targets)}"
    text = f"{_listed(operations)} on {_listed(targets)}" if not sizes else text
    loads = _unique(describe_load(trial["load"]) for trial in measured if trial.get("load"))
    # The loads that a search tried are in its own table.
    given = [trial for trial in measured if "search" not in trial]
    varied = varied_values(trial["case"]["parameters"] for trial in given)
    words = [loads[0]] if len(loads) == 1 else []
    words += [f"a search for the capacity: {search.objective}" for search in findings.searches[:1]]
    words += [
        f"{name.replace('_', ' ')}: {', '.join(describe_value(name, value) for value in values)}"
        for name, values in varied.items()
    ]
    words += [_of_list(listed) for listed in run.manifest.get("lists", ())]
    rounds = len({trial["round"] for trial in measured})
    blocks = len({trial["block"] for trial in measured})
    words += [f"{rounds} rounds"] if rounds > 1 else []
    # Another tool's files number repetitions, but do not tell the order of cases.
    blocks_are = "repetitions" if run.manifest.get("imported") else "interleaved blocks"
    words += [f"{blocks} {blocks_are}"] if blocks > 1 else []
    text = "; ".join([text, *words])
    return f"{text[:1].upper()}{text[1:]}." if measured else "Nothing was measured."


def _when(run: Run, findings: Findings) -> str:
    done = [trial for trial in findings.trials if trial.is_measured and trial.state != "not run"]
    planned = [trial for trial in findings.trials if trial.is_measured]
    seconds = sum(trial.duration_s or 0 for trial in done)
    count = f"{len(done)} of {len(planned)}" if len(done) != len(planned) else f"{len(done)}"
    length = f", {units.format_duration(seconds * 1e9)} under load" if seconds else ""
    started = _moment(run.manifest.get("started"))
    since = f", started {started}" if started else ""
    plural = "" if count == "1" else "s"
    return f"{count} measured trial{plural}{length}{since}; the run {_state(run)}."


def _moment(text: object) -> str:
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
    return f"The load came from {name}, {by}." if name else f"Measured {by}."


def _state(run: Run) -> str:
    states = {
        "finished": "finished",
        "running": "is still going on",
        "interrupted": "was interrupted",
        "failed": "failed",
    }
    return states.get(run.state, run.state)


def _size(size: Size) -> str:
    match size.get("kind"):
        case "fixed":
            return describe_size(size["bytes"])
        case "uniform":
            return f"{describe_size(size['min'])} to {describe_size(size['max'])}"
        case "lognormal":
            return f"log-normal (median {describe_size(int(size['median']))})"
        case "listed":
            return "existing"
        case kind:
            return f"{kind}"


def _of_list(objects: ObjectListDocument) -> str:
    """Return the number and the sizes of existing objects."""
    count = units.counted(objects["objects"], "object")
    known = objects["objects"] - objects["without_size"]
    if not known:
        return f"{count} of unknown sizes"
    sizes = (objects["size_bytes_min"], objects["size_bytes_max"])
    if len(set(sizes)) == 1:
        return f"{count} of {describe_size(sizes[0])}"
    least, most = map(units.format_bytes, sizes)
    mean = units.format_bytes(objects["bytes"] / known)
    return f"{count} of {least} to {most}, {mean} on average"


def _unique(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


def _listed(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
