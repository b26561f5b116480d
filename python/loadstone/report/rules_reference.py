"""The reference of findings (docs/reference/findings.md): the table of rules, view by view."""

from collections.abc import Iterable, Iterator, Sequence

from loadstone.analysis.rules import Rule, View
from loadstone.analysis.rules.rule import EFFECTS, SCOPES

HEAD = """\
# Findings

Every rule by which loadstone judges, made from its table of rules. JSON carries the id; people read
the words. A rule has a severity (problem, caution, note) and an effect on the number:

"""

VIEWS: tuple[tuple[View, str, str], ...] = (
    (
        "label",
        "Labels",
        "A label stands beside a number; one that is *invalid* makes its result void, one that is"
        " *bound* a lower bound. Screens show it in words, files by its id.",
    ),
    (
        "limit",
        "Limits",
        "What kept a result from being higher: the first answer that holds, in the order of"
        " [the verdict](../verdict.md). Screens show it in words, files by its id.",
    ),
    (
        "finding",
        "Findings",
        "A finding is said once of a run or its numbers, with its evidence.",
    ),
    (
        "mistake",
        "Common mistakes",
        "Each is *pass*, *fail*, *not stated* or *not applicable*; nothing unstated passes.",
    ),
    (
        "standard",
        "The standard",
        "What a loadstone report declares: each rule is *met*, *not met*, *not applicable* or"
        " *unknown*.",
    ),
)


def render_reference(rules: Sequence[Rule]) -> str:
    """Return the reference of these rules as Markdown."""
    effects = "".join(f"- **{name}**: {words}.\n" for name, words in EFFECTS.items())
    parts = [HEAD + effects]
    for kind, title, sentence in VIEWS:
        rows = _rows(
            (rule for rule in rules if kind in rule.views or (kind == "standard" and rule.asks)),
            kind,
        )
        parts.append(f"## {title}\n\n{sentence}\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _is_of(rule: Rule, kind: View) -> bool:
    """Tell whether a view has a rule; the standard also asks for the opposite of mistakes."""
    return kind in rule.views or (kind == "standard" and bool(rule.asks))


def _rows(rules: Iterable[Rule], kind: View) -> Iterator[str]:
    is_judged = kind in ("label", "finding", "limit")
    kinds = ["Severity", "Effect"] if is_judged else []
    words = ["In words"] if kind in ("label", "limit") else []
    yield _row(["Id", *words, *kinds, "Looks at", "Says", "Means", "Do"])
    yield _row(["---"] * (5 + len(kinds) + len(words)))
    for rule in rules:
        cells = [f"`{rule.id}`", *([rule.short] if words else [])]
        cells += [rule.severity, rule.effect] if is_judged else []
        says = rule.asks or rule.says if kind == "standard" else rule.says
        yield _row([*cells, SCOPES[rule.looks_at], says, rule.means, rule.do])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
