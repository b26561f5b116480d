"""Refuses vague names, texts that begin with "What …", and worn phrases: `make lint` runs it.

A variable is called what it holds: `cell`, `trial`, `error`, `measured`; so are parameters, fields,
functions and classes. A comment or docstring is a sentence, or names its subject by a noun.
Names of tests begin with their subject.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("python", "tests", "bench", "docs")

EMPTY_NAMES = frozenset({"one", "own", "found", "told", "said", "kept", "seen"})

RIDDLE = re.compile(r'(?:(?:^|\n) *"""|(?:^|\n) *(?!#| )[^\n]*\n *# )((?:What|Whose|Of) )')
"""The beginning of a docstring, or of a comment that does not go on from the line above."""
ASKS = re.compile(r"[^.?]*\?")

INSTEAD = {
    r"made anew": "made again, regenerated",
    r"(?:stood|stands?) still": "stalled, constant",
    r"what of": "the part of … that",
    r"held against": "compared with",
    r"in the place of": "instead of",
    r"(?:written|writes?|write) over": "overwritten",
    r"in vain": "without success",
    r"stands? beside": "is beside, has",
    r"says? (?:nothing )?of": "does not show, covers",
    r"(?:is|are|was|were) told": "is reported, is printed",
    r"(?<!here )(?:is|are|was) no (?:error|failure|limit|result)s?(?= \||[.,;:]|$)": "is not a …",
}
"""Phrases that readers stumble over, as patterns, each with words that take their place."""
WORN = re.compile(rf"\b(?:{'|'.join(INSTEAD)})(?!\w)", re.IGNORECASE)
SUBJECTLESS = re.compile(r"test_(?:what|whatever|who|whose|of)_")


def is_empty(name: str) -> bool:
    """Tell whether a name tells nothing, however it is spelt: `told`, `_told`, `Told`, `TOLD`."""
    return name.strip("_").lower() in EMPTY_NAMES


def bound(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each variable, parameter, field, function and class.

    Fields of typed dictionaries are left out: they are keys that are published.
    """
    keys = {
        id(field.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and not node.decorator_list
        for field in node.body
        if isinstance(field, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name() if id(node) in keys:
                continue
            case (
                ast.Name(id=name, ctx=ast.Store())
                | ast.Attribute(attr=name, ctx=ast.Store())
                | ast.arg(arg=name)
                | ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
                | ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                yield node.lineno, name


def empty_names(path: Path) -> list[str]:
    """Return where a module binds a name that tells nothing."""
    place = path.relative_to(ROOT).as_posix()
    names = bound(ast.parse(path.read_text(encoding="utf-8")))
    return [f"{place}:{line} {name}" for line, name in names if is_empty(name)]


def riddles(text: str) -> list[int]:
    """Return the lines of a module where a comment or docstring begins like a riddle."""
    starts = [match.start(1) for match in RIDDLE.finditer(text)]
    return [text.count("\n", 0, at) + 1 for at in starts if not ASKS.match(text, at)]


def worn_phrases(text: str) -> list[int]:
    """Return the lines of a text that contain a phrase of `INSTEAD`."""
    return [number for number, line in enumerate(text.splitlines(), 1) if WORN.search(line)]


def main() -> int:
    """Print the names that tell nothing, the texts that begin like a riddle, and worn phrases."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    refused = [f"{place}: say what it holds" for path in paths for place in empty_names(path)]
    for path in paths:
        text, place = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        # Generated modules have the words of the crates.
        for line in [] if "Made from docs/" in text[:400] else riddles(text):
            refused.append(f"{place}:{line}: begin with the subject, not with what or of")
        if place.startswith("tests/"):
            named = (pair for pair in bound(ast.parse(text)) if SUBJECTLESS.match(pair[1]))
            refused += [f"{place}:{line} {name}: begin with the subject" for line, name in named]
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    for path in {*paths, *pages} - {Path(__file__), ROOT / "tests/docs/test_tidy.py"}:
        place = path.relative_to(ROOT).as_posix()
        lines = worn_phrases(path.read_text(encoding="utf-8"))
        refused += [f"{place}:{line}: reword it (INSTEAD in tests/docs/names.py)" for line in lines]
    for place in sorted(refused):
        print(place, file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
