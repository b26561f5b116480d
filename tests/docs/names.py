"""Refuses variables whose names tell nothing: `make check` runs it.

A variable is called what it holds: `cell`, `trial`, `error`, `measured`. Packages that are not
clean yet are listed, and leave the list as they are cleaned.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "loadstone"

EMPTY_NAMES = frozenset({"one", "own", "found", "told", "said", "kept", "seen"})

NOT_CLEAN_YET = frozenset(
    {
        "analysis",
        "analysis/judgements",
        "analysis/limits",
        "report/formats",
    }
)


def bound(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each variable and parameter that is bound.

    Fields of classes are left out: those of documents are keys that are published.
    """
    fields = {
        id(field.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for field in node.body
        if isinstance(field, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Name() if id(node) in fields:
                continue
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name


def package_of(path: Path) -> str:
    """Return the folder of a module below the package, or the module's own name at the top."""
    return path.relative_to(PACKAGE).parent.as_posix()


def empty_names(path: Path) -> list[str]:
    """Return where a module binds a name that tells nothing."""
    place = path.relative_to(ROOT).as_posix()
    names = bound(ast.parse(path.read_text(encoding="utf-8")))
    return [f"{place}:{line} {name}" for line, name in names if name in EMPTY_NAMES]


def main() -> int:
    """Print what is refused, and packages that are listed though they are clean."""
    by_package: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        by_package.setdefault(package_of(path), []).extend(empty_names(path))
    refused = [
        f"{place}: say what it holds"
        for package, places in by_package.items()
        if package not in NOT_CLEAN_YET
        for place in places
    ]
    refused += [
        f"{package} is clean: take it out of NOT_CLEAN_YET in tests/docs/names.py"
        for package in sorted(NOT_CLEAN_YET)
        if not by_package.get(package)
    ]
    for line in refused:
        print(line, file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
