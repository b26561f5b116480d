"""Refuses names that tell nothing: `make lint` runs it.

A variable is called what it holds: `cell`, `trial`, `error`, `measured`; so are parameters, fields,
functions and classes.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("python", "tests", "bench", "docs")

EMPTY_NAMES = frozenset({"one", "own", "found", "told", "said", "kept", "seen"})


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


def main() -> int:
    """Print the names that tell nothing."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    refused = [place for path in paths for place in empty_names(path)]
    for place in refused:
        print(f"{place}: say what it holds", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
