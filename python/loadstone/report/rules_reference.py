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
        "A label marks a number; one that is *invalid* makes its result void, one that is *bound* a"
        " lower bound. Screens show it in words, files by its id.",
    ),
    (
        "limit",
        "Limits",
        "The resource that limited a result: the first one that applies, in the order of"
        " [the verdict](../verdict.md). Screens show it in words, files by its id.",
    ),
    (
        "finding",
        "Findings",
        "A finding is stated once for a run or for its numbers, with its evidence.",
    ),
    (
        "mistake",
        "Common mistakes",
        "Each is *pass*, *fail*, *not stated* or *not applicable*; a fact that is not stated never"
        " passes.",
    ),
    (
        "standard",
        "The standard",
        "Rules for good reports. Each is *met*, *not met*, *not applicable* or *unknown*, and every"
        " loadstone report says which.",
    ),
)


WORDS = (
    "Screens and pages say the words, files the id. Each leads to what it means and what to do.",
    "words",
)
"""The introduction of the table of words, and its anchor, the target of links in rules."""


def render_reference(rules: Sequence[Rule]) -> str:
    """Return the reference of these rules as Markdown."""
    effects = "".join(f"- **{name}**: {words}.\n" for name, words in EFFECTS.items())
    words = "\n".join(_words(rules))
    parts = [HEAD + effects, f"## Words\n\n{WORDS[0]}\n\n{words}\n"]
    linked: set[str] = set()
    for kind, title, sentence in VIEWS:
        rows = _rows([rule for rule in rules if _is_of(rule, kind)], kind, linked)
        parts.append(f"## {title}\n\n{sentence}\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _is_of(rule: Rule, kind: View) -> bool:
    """Tell whether a view has a rule; the standard also asks for the opposite of mistakes."""
    return kind in rule.views or (kind == "standard" and bool(rule.asks))


def _words(rules: Sequence[Rule]) -> Iterator[str]:
    """Yield the rules by the words that people read, which lead to the rows of the ids."""
    yield _row(["In words", "Id"])
    yield _row(["---"] * 2)
    for rule in sorted((rule for rule in rules if rule.short), key=lambda rule: rule.short.lower()):
        yield _row([rule.short, f"[`{rule.id}`](#{anchor_of(rule.id)})"])


def anchor_of(rule: str) -> str:
    """Return where a rule stands in the reference."""
    return rule.lower().replace(" ", "-")


def _rows(rules: Iterable[Rule], kind: View, linked: set[str]) -> Iterator[str]:
    is_judged = kind in ("label", "finding", "limit")
    kinds = ["Severity", "Effect"] if is_judged else []
    words = ["In words"] if kind in ("label", "limit") else []
    yield _row(["Id", *words, *kinds, "Looks at", "Says", "Means", "Do"])
    yield _row(["---"] * (5 + len(kinds) + len(words)))
    for rule in rules:
        # A rule may have several views: the first is where its words lead.
        anchor = "" if rule.id in linked else f'<a id="{anchor_of(rule.id)}"></a>'
        linked.add(rule.id)
        short = f"[{rule.short}](#{WORDS[1]})" if rule.short else ""
        cells = [f"{anchor}`{rule.id}`", *([short] if words else [])]
        cells += [rule.severity, rule.effect] if is_judged else []
        says = rule.asks or rule.says if kind == "standard" else rule.says
        yield _row([*cells, SCOPES[rule.looks_at], says, rule.means, rule.do])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
