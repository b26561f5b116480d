"""A name means one thing in the code."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "loadstone"


def nouns() -> set[str]:
    """Read the table of nouns, as classes spell them."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    table = text.split("## The nouns")[1].split("\n## ")[0]
    names = re.findall(r"^\| \*\*([^*]+)\*\* \|", table, re.M)
    return {"".join(word.capitalize() for word in name.split()) for name in names}


def test_a_name_is_that_of_one_class() -> None:
    where = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where[node.name].append(path.relative_to(PACKAGE).as_posix())
    assert {"Trial", "Setting", "Verdict", "Place", "LoadPoint"} <= nouns()
    assert {"Plan", "Record", "Finding", "Rule", "Ceiling", "Load"} <= nouns() & where.keys()
    several = {name: paths for name, paths in where.items() if len(paths) > 1}
    assert several == {}
