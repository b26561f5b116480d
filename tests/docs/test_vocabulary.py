"""A noun of ARCHITECTURE.md means one thing in the code."""

import ast
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "loadstone"

# The same thing at two stages: as a campaign asks for it, and as an analysis knows it.
AT_TWO_STAGES = {"Ceiling", "Load"}


def nouns() -> set[str]:
    """Read the table of nouns, as classes spell them."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    table = text.split("## The nouns")[1].split("\n## ")[0]
    names = re.findall(r"^\| \*\*([^*]+)\*\* \|", table, re.M)
    return {"".join(word.capitalize() for word in name.split()) for name in names}


def test_a_noun_names_at_most_one_class() -> None:
    where = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                where[node.name].append(path.relative_to(PACKAGE).as_posix())
    assert {"Trial", "Setting", "Verdict", "Place", "LoadPoint"} <= nouns()
    several = {noun: where[noun] for noun in nouns() if len(where[noun]) > 1}
    assert several.keys() == AT_TWO_STAGES, several
