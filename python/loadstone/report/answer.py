"""The answer on one screen of 80 × 24: results, cautions, the next step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table as RichTable
from rich.text import Text

from loadstone import units
from loadstone.analysis import Findings
from loadstone.analysis.answers.answer import (
    ACTION,
    NO_RESULT,
    Answer,
    Curve,
    Matrix,
    Weight,
    answer_of,
    answer_of_scripts,
    contentions,
    failed_targets,
    no_result,
    store_statements,
)
from loadstone.analysis.audits import is_never_read
from loadstone.analysis.judgements.result import Result
from loadstone.analysis.limits.observed import CEILING_PASSED, CEILING_TOUCHED
from loadstone.analysis.limits.searches import describe_answer
from loadstone.analysis.naming import (
    describe_parameter,
    describe_size,
    describe_value,
)
from loadstone.campaign.planning.lifecycle import AUDIT
from loadstone.documents.trial import LoadDocument
from loadstone.report.columns import Columns, least_width
from loadstone.report.next_step import folders_of, next_step
from loadstone.report.result_words import (
    MARKS,
    NOT_KNOWN,
    data_ends_words,
    data_words,
    ends_words,
    errors_words,
    failed_words,
    limit_words,
    marks_note,
    notes_below,
    operation_words,
    quantile_words,
    rate_words,
    spread_head,
)
from loadstone.report.tables.contention import contention_words
from loadstone.report.tables.layout import word
from loadstone.report.tables.results import parameter_field, screen_fields, varied_names
from loadstone.results.record import Run

if TYPE_CHECKING:
    from loadstone.analysis.cells.queries import QueryResults

LINES_MAX = 24
BOTTLENECKS_SHOWN = 2
CONTENTIONS_SHOWN = 2
AGENTS_SHOWN = 6
LARGE_BYTES = 64 * 1024
"""From this size of objects on, data says more than requests."""

NAME_MAX = 16
CAUTIONS: Mapping[Weight, tuple[str, str]] = {
    "void": ("must not be used", "bold red"),
    "bound": ("lower bounds", "yellow"),
    "caution": ("", "yellow"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """The printed parts from top to bottom: a title, tables and lines."""

    title: Text
    body: tuple[RichTable | Text, ...]
    foot: tuple[Text, ...]


def screen_of(run: Run, findings: Findings, *, width: int) -> Screen:
    """Return the answer of a run for a terminal of this width."""
    answer = answer_of(findings)
    foot = [
        *_failures(findings, answer, width),
        *_store(findings, width),
        *_cautions(answer, width),
        *_unwritten(answer),
        *_contentions(findings),
        *_agents(findings),
        *_read_back(run, findings, width),
    ]
    foot += _bottlenecks(findings, width)
    foot += [*_next_step(run, findings, answer), *_paths(run, findings, answer)]
    title = summary_words(run, findings, answer)
    left = LINES_MAX - 2 - len(foot) - 1 - (len(title) - 1) // width
    body = _body(answer, left - 3 * len(findings.searches), width)
    if not answer.results:
        body = () if findings.searches else (Text(no_result(findings), style="bold red"),)
    if findings.queries is not None:
        body = _queries(findings.queries, left, width)
    elif findings.actions:
        from loadstone.report.action_screen import actions_below

        scripts = answer_of_scripts(findings, answer)
        lead = [] if scripts is None else [*_body(scripts.whole, left, width)]
        body = [*lead, *actions_below(findings, lead, left, width)]
    return Screen(
        title=Text(title, style="bold"),
        body=(*_capacities(findings), *body),
        foot=tuple(foot),
    )


def summary_words(run: Run, findings: Findings, answer: Answer) -> str:
    """Return what was measured in one line; parameters that differ are in the table."""
    words = [run.name]
    for same in (
        {result.target for result in answer.results},
        {result.operation for result in answer.results},
    ):
        words += same if len(same) == 1 else ()
    cells = answer.results
    names = dict.fromkeys(name for cell in cells for name in cell.parameters)
    for name in names:
        values = {str(cell.parameters.get(name)) for cell in cells}
        if len(values) == 1:
            words.append(describe_parameter(name, cells[0].parameters.get(name)))
    if "size" not in names and findings.queries is None:
        sizes = {describe_size(round(cell.bytes / cell.good)) for cell in cells if cell.bytes}
        words += sizes if len(sizes) == 1 else ()
    loads = {_load(cell.load) for cell in cells}
    if len(loads) == 1 and not {"threads", "clients"} & names.keys():
        words += loads
    trials = [trial for trial in findings.trials if trial.is_measured and trial.state != "not run"]
    words.append(units.counted(len(trials), "trial"))
    seconds = sum(trial.duration_s or 0 for trial in trials)
    # Tenths of a second are enough, but for what took less than one.
    shown = round(seconds, 1) or seconds
    words.append(f"{units.format_duration(shown * 1e9)} under load" if shown else "")
    if run.state != "finished":
        words.append(run.state)
    # A run may be called what its one operation is called.
    return " · ".join(dict.fromkeys(word for word in words if word))


def _load(load: LoadDocument) -> str:
    if not load:
        return ""
    if load.get("kind") == "open":
        return f"{units.format_number(load.get('rate_per_s') or 0)}/s offered"
    clients = load.get("clients")
    if clients is None:
        return "clients not stated"
    return f"{clients} client{'' if clients == 1 else 's'}"


def _capacities(findings: Findings) -> Iterable[Text]:
    for search in findings.searches:
        yield Text(f"Capacity of {search.name}: {describe_answer(search)}.")


def _queries(results: "QueryResults", lines: int, width: int) -> Iterable[RichTable | Text]:
    """Return a row per arm of the queries."""
    from loadstone.report.tables.query_results import DERIVED, arms_table, streams_table

    table = arms_table(results) if results.arms else streams_table(results)
    shown = table.rows[: max(1, lines - 4)]
    left = sum(column.align == "left" for column in table.columns[:-2])
    columns = Columns([column.head for column in table.columns], left)
    columns.rows += [list(row) for row in shown]
    yield columns.draw(width)
    if len(shown) < len(table.rows):
        yield Text(f"and {len(table.rows) - len(shown)} more: --full", style="dim")
    note = "Over the mean times of all queries. Each query: --full."
    if not results.arms:
        note = "All queries of all streams, by wall time. Each query: --full."
    yield Text(note, style="dim")
    yield Text(DERIVED, style="dim")


def _body(answer: Answer, lines: int, width: int) -> Iterable[RichTable | Text]:
    """Return the results in a form that fits into these lines."""
    if answer.matrices:
        yield from _matrices(answer.matrices, lines, width)
        return
    if answer.curves and len(answer.results) > 3 * len(answer.curves):
        yield from _curves(answer.curves, lines, width)
        return
    rows = answer.results[: max(1, lines - 3)]
    yield _rows(rows, varied_names(answer.results), width)
    if len(rows) < len(answer.results):
        yield Text(f"and {len(answer.results) - len(rows)} more results: --full", style="dim")
    yield from _notes(rows)


def _notes(results: Sequence[Result]) -> Iterable[Text]:
    if note := " ".join(notes_below(results)):
        yield Text(note, style="dim")


def _is_large(results: Sequence[Result]) -> bool:
    # Users' work is counted in actions, however much data they move.
    sized = [result for result in results if result.bytes and result.operation != ACTION]
    sizes = [cell.bytes / cell.good for cell in sized if cell.good]
    return bool(sizes) and min(sizes) >= LARGE_BYTES


def _rows(
    results: Sequence[Result], names: Sequence[str], width: int, points: Sequence[str] = ()
) -> RichTable:
    is_large = _is_large(results)
    screen = screen_fields(results, names)
    has_targets = len({result.target for result in results}) > 1
    operations = {operation_words(result) for result in results}
    has_operations = operations != {ACTION} and (has_targets or len(operations) > 1)
    lead = [*[screen.target] * has_targets, *[screen.operation] * has_operations]
    head = "Actions" if operations == {ACTION} else "Rate"
    ends = [screen.spread] * any(result.rate.is_spread for result in results)
    p50, p99, _ = screen.times
    others = [p50, p99, screen.failed, word("Limited by", limit_words)]
    heads = [field.head for field in (*lead, *screen.parameters)] + ["Point"] * bool(points)
    heads += [head, *(field.head for field in (*ends, *others))]
    columns = Columns(heads, len(lead))
    for place, result in enumerate(results):
        row = [_cut(field.cell(result)) for field in lead]
        row += [field.cell(result) for field in screen.parameters]
        row += [points[place]] if points else []
        # A delete moves no data, however large the objects are.
        is_data = is_large and bool(result.bytes)
        row += [(screen.data if is_data else screen.rate).cell(result)]
        row += [data_ends_words(result) if is_data else field.cell(result) for field in ends]
        columns.rows.append([*row, *(field.cell(result) for field in others)])
        columns.dim |= {place} if result.is_void else set()
    return columns.draw(width)


def _cut(word: str) -> str:
    return word if len(word) <= NAME_MAX else f"{word[: NAME_MAX - 1]}…"


def _curves(curves: Sequence[Curve], lines: int, width: int) -> Iterable[RichTable | Text]:
    """Return the main points of each curve; names of one point are joined: "knee, peak"."""
    points: list[tuple[str, Result]] = []
    for curve in curves:
        merged: dict[int, list[str]] = {}
        for name, result in curve.points:
            merged.setdefault(id(result), []).append(name)
        results = {id(result): result for _, result in curve.points}
        points += [(", ".join(words), results[key]) for key, words in merged.items()]
    room = max(1, lines - 6)
    if len(points) > room:
        # The knees of all curves tell more than all points of some.
        points = [(name, result) for name, result in points if "knee" in name] + [
            (name, result) for name, result in points if "knee" not in name
        ]
    shown = points[:room]
    names = [name for name, _ in shown]
    yield _rows([result for _, result in shown], [curves[0].load], width, names)
    if len(shown) < len(points):
        yield Text(f"and {len(points) - len(shown)} more points: --full", style="dim")
    measured = len(curves[0].results)
    yield Text(f"{measured} loads. Knee: the lowest load with 95 % of the peak rate.", style="dim")
    yield from _notes([result for _, result in shown])


def _matrices(matrices: Sequence[Matrix], lines: int, width: int) -> Iterable[RichTable | Text]:
    """Return as many matrices as there is room for."""
    key = marks_note(
        result.standing for matrix in matrices for result in matrix.results.values() if result.good
    )
    used = 1 + bool(key)
    for number, matrix in enumerate(matrices):
        pieces = [*_matrix(matrix, width)]
        height = sum(piece.row_count + 1 if isinstance(piece, RichTable) else 1 for piece in pieces)
        left = len(matrices) - number - 1
        if number and used + height + left > lines:
            # Results that do not fit are summarised by the best of each operation.
            first = next(iter(matrix.results.values()))
            best = _best(matrix, matrix.results[matrix.best]) if matrix.best is not None else "–"
            at = "" if matrix.best is None else f" ({_place_words(matrix)})"
            yield Text(f"{first.target} {first.operation}{at}: {best.removeprefix('* ')}")
            used += 1
            continue
        used += height
        yield from pieces
    if key:
        yield Text(key, style="dim")


def _place_words(matrix: Matrix) -> str:
    """Return the place of the best result of a matrix."""
    places = zip((matrix.down, matrix.across), matrix.best or (), strict=False)
    return ", ".join(describe_parameter(name, value) for name, value in places)


def _matrix(matrix: Matrix, width: int) -> Iterable[RichTable | Text]:
    """Return a matrix, and a line on its best result."""
    results = [*matrix.results.values()]
    first, is_large = results[0], _is_large(results)
    # Rates of very different sizes can only be compared in bytes.
    is_large = is_large or (
        "size" in (matrix.down, matrix.across) and any(result.bytes for result in results)
    )
    unit = "MiB/s" if is_large else "requests/s"
    rows = []
    for row in matrix.rows:
        cells = [_row_name(matrix.down, row)]
        for column in matrix.columns:
            result = matrix.results.get((row, column))
            cells.append(_entry(result, is_large=is_large, is_best=(row, column) == matrix.best))
        rows.append(cells)
    heads = [f"{first.target} {first.operation}, {unit}"]
    heads += [_row_name(matrix.across, column) for column in matrix.columns]
    if least_width([[f"{head} " for head in heads], *rows]) > width:
        # A column that is cut off would show wrong numbers.
        yield Text(f"{heads[0]}, by {parameter_field(matrix.across).head.lower()}", style="dim")
        heads = ["", *(describe_value(matrix.across, column) for column in matrix.columns)]
    for at in _fitting_columns([heads, *rows], width):
        # The best has a mark behind its number, the others a blank.
        columns = Columns([heads[0], *(f"{heads[place]} " for place in at)], 1, ends_in_words=False)
        columns.rows += [[row[0], *(row[place] for place in at)] for row in rows]
        yield columns.draw(width)
    if matrix.best is not None:
        yield Text(_best(matrix, matrix.results[matrix.best]), style="dim")


def _fitting_columns(rows: Sequence[Sequence[str]], width: int) -> list[list[int]]:
    """Return the columns behind the first, in groups that fit the width."""
    groups: list[list[int]] = [[]]
    for place in range(1, len(rows[0])):
        tried = [0, *groups[-1], place]
        if groups[-1] and least_width([[f"{row[at]} " for at in tried] for row in rows]) > width:
            groups.append([])
        groups[-1].append(place)
    return groups


def _row_name(parameter: str, value: object) -> str:
    """Return the value of a row or column with its unit."""
    return "" if value is None else describe_parameter(parameter, value)


def _entry(result: Result | None, *, is_large: bool, is_best: bool) -> str:
    if result is None or not result.good:
        return NOT_KNOWN
    value = units.format_number(result.bytes_per_s / 2**20 if is_large else result.requests_per_s)
    return f"{MARKS[result.standing].strip()}{value}{'*' if is_best else ' '}"


def _best(matrix: Matrix, result: Result) -> str:
    """Return the best result of a matrix in a line."""
    is_data = "size" in (matrix.down, matrix.across) and bool(result.bytes)
    words = [f"* {data_words(result) if is_data else rate_words(result)}"]
    if result.rate.is_spread:
        ends = data_ends_words(result) if is_data else ends_words(result.rate)
        words[0] += f" ({spread_head([result.rate])} {ends}, {result.rate.n} trials)"
    words += [f"{name} {quantile_words(result.headline, name)}" for name in ("p50", "p99")]
    if result.failed_if_stated is not None:
        words += [f"{failed_words(result)} failed" if result.failed else "none failed"]
    words += [f"limited by {result.limit_words}"] if result.limit else []
    return ", ".join(words)


def _line(text: str, width: int, style: str = "") -> Text:
    line = Text(text, style=style)
    line.truncate(width, overflow="ellipsis")
    return line


def _failures(findings: Findings, answer: Answer, width: int) -> Iterable[Text]:
    """Return the targets that failed, and the number of failed requests with the usual error."""
    words, example = errors_words(answer.results)
    for target in failed_targets(findings, answer) if not words else ():
        if target.reason != NO_RESULT:
            yield _line(f" ! failed   {target.target}: {target.reason}", width, "bold red")
    if words:
        lines = [f" ! failed   {words}: {example}" if example else f" ! failed   {words}"]
        if len(lines[0]) > width:
            indent = " " * 12
            lines = [f" ! failed   {words}:", indent + _with_ends(example, width - len(indent))]
        for line in lines:
            yield _line(line, width, "bold red")


def _with_ends(example: str, room: int) -> str:
    """Return an error cut in its middle: it begins with the request and ends with the reason."""
    if len(example) <= room:
        return example
    end = 3 * room // 4
    return f"{example[: room - end - 1]}…{example[-end:]}"


def _store(findings: Findings, width: int) -> Iterable[Text]:
    """Return a line for each finding on the store itself."""
    for words in store_statements(findings):
        yield _line(f" ! store    {words}", width, "yellow")


def _cautions(answer: Answer, width: int) -> Iterable[Text]:
    """Return at most one line per weight of caution."""
    total = len(answer.results)
    for caution in answer.cautions:
        meaning, style = CAUTIONS[caution.weight]
        some = f" ({caution.results} of {total})" if 0 < caution.results < total else ""
        line = ""
        # Drop the count if a reason is long.
        for text in (f"{meaning}{some}: ", f"{meaning}: ") if meaning else ("",):
            line = f" ! {caution.weight:<7}  {text}"
            line += _fitting(caution.reasons, width - len(line))
            if len(line) <= width:
                break
        yield Text(line, style=style)


def _unwritten(answer: Answer) -> Iterable[Text]:
    """Return requests that count neither in a rate nor as failures."""
    count = sum(result.unwritten for result in answer.results)
    if count:
        asked = units.counted(count, "request")
        yield Text(f" ! unwritten  {asked} for objects whose put had failed", style="yellow")
    lost = sum(result.lost_races for result in answer.results)
    if lost:
        total = units.counted(sum(result.requests for result in answer.results), "request")
        yield Text(f" · races    {units.format_count(lost)} of {total} lost the race")


def _agents(findings: Findings) -> Iterable[Text]:
    """Yield a line for each agent, or a hint at the full report if there are many."""
    rows = [(result, agent) for result in findings.results for agent in result.agents]
    if len(rows) > AGENTS_SHOWN:
        yield Text(" · hosts  one row for each: loadstone report --full")
        return
    for result, agent in rows:
        rate = f"{MARKS[result.standing]}{units.format_number(agent.requests_per_s)}"
        words = [f" · {agent.agent}  {operation_words(result)} {rate} requests/s"]
        words.append(f"p99 {quantile_words(agent.headline, 'p99')}")
        words.append(f"{agent.failed:,} failed")
        yield Text(", ".join(words))


def _contentions(findings: Findings) -> Iterable[Text]:
    """Return the first contentions; a page has the table of all."""
    contended = contentions(findings.results, findings.trials)
    for contention in contended[:CONTENTIONS_SHOWN]:
        yield Text(f" · contend  {contention_words(contention)}")
    if rest := len(contended[CONTENTIONS_SHOWN:]):
        yield Text(f" · contend  {rest} more: loadstone report -f html")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """The result of an audit, or a note that nothing was read back."""

    name: str
    text: str
    is_wrong: bool = False


def read_back_lines(run: Run, findings: Findings) -> Iterable[ReadBack]:
    """Return the result of each audit, or that written data was never read."""
    for audit in findings.audits:
        yield ReadBack(name="audit", text=audit.short(), is_wrong=bool(audit.wrong))
    if not findings.audits and is_never_read(run):
        is_planned = any(document["phase"] == AUDIT for document in run.manifest["plan"])
        why = "the audit was not reached" if is_planned else "to read back: --audit"
        yield ReadBack(name="data", text=f"nothing was read back; {why}")


def _read_back(run: Run, findings: Findings, width: int) -> Iterable[Text]:
    for line in read_back_lines(run, findings):
        mark, style = (" !", "bold red") if line.is_wrong else (" ·", "")
        style = "dim" if line.name == "data" else style
        yield _line(f"{mark} {line.name:<8} {line.text}", width, style)


def _bottlenecks(findings: Findings, width: int) -> Iterable[Text]:
    """Return which ceilings of the run its results reach."""
    touched = [
        finding
        for finding in findings.findings
        if finding.rule == "bottleneck"
        and any(
            CEILING_TOUCHED <= float(share.value) <= CEILING_PASSED for share in finding.evidence
        )
    ]
    for number, finding in enumerate(touched[:BOTTLENECKS_SHOWN], start=1):
        # The sentence begins with the ceiling and what it holds for.
        line = f" · limit    {finding.statement.partition(':')[0]}"
        rest = len(touched) - number
        more = f"; {rest} more: --full" if rest and number == BOTTLENECKS_SHOWN else ""
        room = width - len(more)
        yield Text((line if len(line) <= room else f"{line[: room - 1]}…") + more)


def _fitting(reasons: Sequence[str], width: int) -> str:
    """Return as many reasons as fit, and the number of the others."""
    text = reasons[0]
    for number, reason in enumerate(reasons[1:], start=1):
        rest = len(reasons) - number - 1
        longer = f"{text}; {reason}"
        if len(longer) + (len(f"; {rest} more") if rest else 0) > width:
            return f"{text}; {rest + 1} more"
        text = longer
    return text


def _next_step(run: Run, findings: Findings, answer: Answer) -> Iterable[Text]:
    """Return the most helpful command."""
    step = next_step(run, findings, answer, is_on_page=False)
    if step is not None:
        why, command = step
        yield Text(f" → next   {why}:")
        yield Text(f"   {command}", style="bold")


def _paths(run: Run, findings: Findings, answer: Answer) -> Iterable[Text]:
    for path in run.paths:
        yield Text(f" run     {path}", style="dim")
        if (page := path / "report.html").exists():
            yield Text(f" report  {page}", style="dim")
    more = f"loadstone report {folders_of(run)} --full"
    step = next_step(run, findings, answer, is_on_page=False)
    if step is None or step[1] != more:
        yield Text(f" more    {more}", style="dim")
