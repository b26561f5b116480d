"""Refuses vague names, and comments and docstrings that begin with "What …": `make lint` runs it.

A variable is called what it holds: `cell`, `trial`, `error`, `measured`; so are parameters, fields,
functions and classes. A comment or docstring is a sentence, or names its subject by a noun.
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


def main() -> int:
    """Print the names that tell nothing, and the texts that begin like a riddle."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    refused = [place for path in paths for place in empty_names(path)]
    for place in refused:
        print(f"{place}: say what it holds", file=sys.stderr)
    vague = False
    for path in paths:
        text = path.read_text(encoding="utf-8")
        # Generated modules have the words of the crates.
        for line in [] if "Made from docs/" in text[:400] else riddles(text):
            vague = True
            place = path.relative_to(ROOT).as_posix()
            print(f"{place}:{line}: begin with the subject, not with what or of", file=sys.stderr)
    return 1 if refused or vague else 0


if __name__ == "__main__":
    sys.exit(main())
