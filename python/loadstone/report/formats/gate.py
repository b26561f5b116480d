"""The answer of a gate: on one screen, as Markdown for a pull request, JUnit, or JSON."""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from loadstone import units
from loadstone.analysis.accounts.account import RATE
from loadstone.analysis.accounts.gate import POWER, GateAnswer, JudgedMetric, Rules
from loadstone.analysis.judgements.standing import reason_words
from loadstone.analysis.naming import metric_value, metric_words
from loadstone.report.formats import junit

HEAD = ("", "base", "new", "change", "95 % CI", "")
NUMBERS = (1, 2, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateFacts:
    """Facts printed with an answer: the arms' commands, failed requests, and the duration."""

    folder: str
    commands: Mapping[str, Sequence[str]]
    failed: Mapping[str, int]
    passed_ns: int
    blocks: int

    @property
    def block_ns(self) -> int:
        """How long a block took, its servers' starts included."""
        return self.passed_ns // self.blocks if self.blocks else 0


def answer(gate: GateAnswer, block_ns: int) -> str:
    """Return the answer as one line: "no worse than 3 %: yes"."""
    question = f"no worse than {_percent(gate.rules.margin)}"
    match gate.outcome:
        case "no worse":
            return f"{question}: yes"
        case "worse":
            worse = [row for row in gate.rows if row.outcome == "worse"]
            each = (f"{metric_words(row.metric)} {_change(row.change)}" for row in worse)
            return f"{question}: no ({', '.join(each)})"
        case "void" | "no ratio" as outcome:
            state = "void" if outcome == "void" else "lower bounds"
            return f"{question}: unknown, because results are {state}"
    if not gate.rows:
        return f"{question}: not known yet, because no block has ended"
    more = gate.blocks_more
    if more is None:
        return f"{question}: not decided, and not within {gate.rules.looks[-1]} blocks"
    minutes = units.format_duration(more * block_ns)
    return f"{question}: not yet ({more} more {'block' if more == 1 else 'blocks'}, {minutes})"


def line_after_block(gate: GateAnswer, look: GateAnswer | None, block_ns: int) -> str:
    """Return how a gate that goes on stands: base → new so far, their ratio, and the time left.

    Of several metrics and cases the first is shown. The time is what the last `look` asked for, or
    that of all blocks.
    """
    words = list(_words_so_far(gate.rows[0], gate)) if gate.rows else []
    if look is gate:
        words.append(answer(gate, block_ns))
    elif look is None or look.blocks_more is None:
        left = gate.rules.looks[-1] - gate.blocks
        words.append(f"at most {units.format_duration(left * block_ns)} left")
    else:
        left = look.blocks + look.blocks_more - gate.blocks
        words.append(f"{units.format_duration(left * block_ns)} left")
    return f"block {gate.blocks}/{gate.rules.looks[-1]}: {', '.join(words)}"


def _words_so_far(row: JudgedMetric, gate: GateAnswer) -> Iterator[str]:
    cases = [set(other.case.split(", ")) for other in gate.rows]
    name = [word for word in row.case.split(", ") if word not in set.intersection(*cases)]
    name += [metric_words(row.metric)] if row.metric != RATE else []
    values = " → ".join(metric_value(value, row.metric) for value in (row.base, row.new))
    yield " ".join([*name, values])
    interval = _interval(row)
    yield _change(row.change) + (f" ({interval})" if interval else "")


def to_terminal(gate: GateAnswer, facts: GateFacts) -> str:
    """Return it as one screen, of which the last line stays in sight: the answer."""
    rows = _cells(gate)
    widths = [max(len(row[at]) for row in (HEAD, *rows)) for at in range(len(HEAD))]
    lines = []
    for row in (HEAD, *rows):
        cells = [
            cell.rjust(width) if at in NUMBERS else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    lines += ["", *_notes(gate, facts), "", answer(gate, facts.block_ns)]
    return "\n".join(lines) + "\n"


def to_markdown(gate: GateAnswer, facts: GateFacts) -> str:
    """Return it as a comment on a pull request."""
    rows = [f"| {' | '.join(map(_escaped, row))} |" for row in (HEAD, *_cells(gate))]
    rule = f"|{'|'.join('---:' if at in NUMBERS else '---' for at in range(len(HEAD)))}|"
    notes = "\n".join(f"- {_escaped(note)}" for note in _notes(gate, facts))
    return (
        f"**{_escaped(answer(gate, facts.block_ns))}**\n\n{rows[0]}\n{rule}\n"
        + "\n".join(rows[1:])
        + (f"\n\n{notes}\n")
    )


def to_junit(gate: GateAnswer, facts: GateFacts) -> str:
    """Return it as a suite of tests, one for each metric of each case."""
    name = f"{gate.new} against {gate.base}"
    tests = [
        junit.Test(group=row.case, name=metric_words(row.metric), problem=_problem(row))
        for row in gate.rows
    ]
    suite = junit.Suite(name=name, tests=tests, time_s=facts.passed_ns / 1e9)
    return junit.to_xml(name, [suite]).decode()


def _problem(row: JudgedMetric) -> junit.Problem | None:
    if row.outcome == "no worse":
        return None
    return junit.Problem(
        tag="failure" if row.outcome == "worse" else "error",
        kind=row.outcome,
        message="; ".join(filter(None, _row_cells(row)[1:])),
    )


def to_json(gate: GateAnswer, facts: GateFacts) -> str:
    """Return it as a document."""
    document = {
        "format": 1,
        "outcome": gate.outcome,
        "answer": answer(gate, facts.block_ns),
        "base": gate.base,
        "new": gate.new,
        "margin": gate.rules.margin,
        "alpha": gate.rules.alpha,
        "power": POWER,
        "spread_decided": gate.rules.spread,
        "looks": list(gate.rules.looks),
        "blocks": gate.blocks,
        "blocks_more": gate.blocks_more if gate.outcome == "not decided" else 0,
        "block_ns": facts.block_ns,
        "run_folder": facts.folder,
        "failed": dict(facts.failed),
        "commands": {arm: list(words) for arm, words in facts.commands.items()},
        "rows": [
            {name: value for name, value in asdict(row).items() if name != "pairs"}
            for row in gate.rows
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def error_rates(rules: Rules) -> str:
    """Return in words how often a gate is wrong, however often it looked."""
    alpha, margin = _percent(rules.alpha), _percent(rules.margin)
    return f"at most {alpha} of builds that are {margin} worse pass, and {alpha} of others fail"


def _cells(gate: GateAnswer) -> list[tuple[str, ...]]:
    """Return the rows of the table: each case has a row that names it where there are several."""
    cases = dict.fromkeys(row.case for row in gate.rows)
    rows: list[tuple[str, ...]] = []
    for case in cases:
        if len(cases) > 1:
            rows.append((case, *[""] * (len(HEAD) - 1)))
        rows += [_row_cells(row) for row in gate.rows if row.case == case]
    return rows


def _row_cells(row: JudgedMetric) -> tuple[str, ...]:
    return (
        metric_words(row.metric),
        metric_value(row.base, row.metric),
        metric_value(row.new, row.metric),
        _change(row.change),
        _interval(row),
        row.outcome,
    )


def _interval(row: JudgedMetric) -> str:
    if row.low is None or row.high is None:
        return ""
    return f"{_change(row.low)} to {_change(row.high)}"


def _change(share: float) -> str:
    # The first blocks allow for almost any ratio.
    return f"{share:+.1%}" if abs(share) < 1 else f"{share:+,.0%}"


def _notes(gate: GateAnswer, facts: GateFacts) -> list[str]:
    cases = dict.fromkeys(row.case for row in gate.rows)
    measured = f"{next(iter(cases))}: " if len(cases) == 1 else ""
    passed = units.format_duration(facts.passed_ns)
    notes = []
    for outcome in ("void", "no ratio"):
        reasons = dict.fromkeys(
            reason_words(reason)
            for row in gate.rows
            if row.outcome == outcome
            for reason in row.reasons
        )
        if reasons:
            notes.append(f"{outcome}: {'; '.join(reasons)}")
    notes += [
        f"{measured}{gate.blocks} of up to {gate.rules.looks[-1]} blocks, {passed}",
        error_rates(gate.rules),
    ]
    return notes + [f"{arm}: {shlex.join(words)}" for arm, words in facts.commands.items()]


def _percent(share: float) -> str:
    return f"{share:.1%}".replace(".0%", "%").replace("%", " %")


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
