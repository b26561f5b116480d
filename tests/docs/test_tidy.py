"""The tree is tidy: short files and functions, honest names, live links, nothing undocumented."""

import ast
import importlib.metadata
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import loadstone
from tests.docs.names import INSTEAD, bound, is_empty, riddles, worn_phrases

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "loadstone"

# Reviewers judge whether a file has one subject; this only stops files from growing unnoticed.
FILE_LINES_MAX = 600
TEST_LINES_MAX = 700
FUNCTION_LINES_MAX = 70

# A module without a better name belongs into its only caller.
NAMES_BANNED = {
    "base",
    "common",
    "core",
    "handler",
    "handlers",
    "helper",
    "helpers",
    "manager",
    "misc",
    "tools",
    "util",
    "utils",
}


def tracked(*suffixes: str) -> list[Path]:
    """Name the files under version control with one of these endings."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("this is no git work tree")
    paths = [ROOT / line for line in done.stdout.splitlines()]
    return [path for path in paths if path.suffix in suffixes and path.is_file()]


def relative(path: Path) -> str:
    """Return a path relative to the repository."""
    return path.relative_to(ROOT).as_posix()


def test_files_have_one_subject_and_are_not_long() -> None:
    """A file this long has two subjects; the tests inside a Rust file do not count."""
    long = {}
    for path in tracked(".py", ".rs"):
        lines = path.read_text().split("#[cfg(test)]\nmod ")[0].count("\n")
        limit = TEST_LINES_MAX if "tests" in path.parts else FILE_LINES_MAX
        if lines > limit:
            long[relative(path)] = lines
    assert not long, f"ask which two subjects these have: {long}"


def test_functions_fit_on_a_screen() -> None:
    """About sixty lines, its documentation and the list of its parameters not counted."""
    long = {}
    for path in tracked(".py"):
        for function in functions_of_python(ast.parse(path.read_text())):
            lines = length_of_python(function)
            if lines > FUNCTION_LINES_MAX:
                long[f"{relative(path)}:{function.lineno} {function.name}"] = lines
    for path in tracked(".rs"):
        for line, name, lines in functions_of_rust(path.read_text()):
            if lines > FUNCTION_LINES_MAX:
                long[f"{relative(path)}:{line} {name}"] = lines
    assert not long, f"loops go down into functions of their own: {long}"


def test_no_module_has_a_vague_name() -> None:
    """A module has the name of its subject."""
    drawers = [
        relative(path)
        for path in tracked(".py", ".rs")
        if {path.stem, *path.relative_to(ROOT).parts[:-1]} & NAMES_BANNED
    ]
    assert not drawers


def test_only_the_command_line_prints_or_exits() -> None:
    """All other code returns values or raises."""
    prints = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.is_relative_to(PACKAGE / "cli") or path.name == "__main__.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(func=ast.Name(id="print" | "exit" | "quit")):
                    prints.append(f"{relative(path)}:{node.lineno}")
                case ast.Call(func=ast.Attribute(value=ast.Name(id="sys"), attr="exit")):
                    prints.append(f"{relative(path)}:{node.lineno}")
    assert not prints


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("found = 1", ["found"]),
        ("[one for one in trials]", ["one"]),
        ("def f(said): ...", ["said"]),
        ("for own, cell in pairs: ...", ["own"]),
        ("f(found=cell.own)", []),
        ("cell.own = 1", ["own"]),
        ("def _told(): ...", ["_told"]),
        ("class Seen: ...", ["Seen"]),
        ("@dataclass\nclass Step:\n    seen: int", ["seen"]),
        ("class Entry(TypedDict):\n    said: str", []),
    ],
)
def test_a_vague_name_is_found_wherever_it_is_bound(text: str, names: list[str]) -> None:
    """`make lint` refuses these names."""
    assert [name for _, name in bound(ast.parse(text)) if is_empty(name)] == names


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('"""What a worker dies of."""\n', [1]),
        ('def f():\n    """Of all streams."""\n', [2]),
        ("x = 1\n    # Whose cells these are.\n", [2]),
        ("# The cost\n# Of a request is known.\n", []),
        ('"""What do metrics\ncost? Time."""\n', []),
        ("x = 1  # Of it\n", []),
    ],
)
def test_prose_that_begins_with_what_or_of_is_found(text: str, lines: list[int]) -> None:
    """Questions, and lines that continue a sentence, are accepted."""
    assert riddles(text) == lines


def test_a_worn_phrase_is_found_in_any_text() -> None:
    """Each pattern of the list is found, also at the end of a line."""
    text = "A client that stood still\nis compared with what of it\nis stable.\n"
    assert (worn_phrases(text), "what of" in INSTEAD) == ([1, 2], True)


def test_the_architecture_names_every_package_and_stays_short() -> None:
    """The architecture page lists every package and stays short."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert text.count("\n") <= 250
    packages = [path.parent.relative_to(PACKAGE) for path in PACKAGE.rglob("__init__.py")]
    missing = [
        package.as_posix()
        for package in packages
        if package.parts and f"{package.name}/`" not in text and f"/{package.name}` |" not in text
    ]
    assert not missing


def test_links_between_documents_lead_somewhere() -> None:
    """A relative link names a file of the tree, and a heading where it names one."""
    dead = []
    for path in tracked(".md"):
        for target in links_of(path.read_text()):
            name, _, anchor = target.partition("#")
            goal = (path.parent / name).resolve() if name else path
            has_anchor = not anchor or goal.suffix != ".md" or not goal.exists()
            if not goal.exists() or not (has_anchor or anchor in anchors_of(goal.read_text())):
                dead.append(f"{relative(path)} -> {target}")
    assert not dead


def test_the_changelog_has_this_version() -> None:
    """The version is the same everywhere, and the changelog has its changes."""
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text())
    version = cargo["workspace"]["package"]["version"]
    assert loadstone.__version__ == importlib.metadata.version("loadstone") == version
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {version}\n" in citation
    changelog = (ROOT / "CHANGELOG.md").read_text()
    section = re.search(rf"^## \[?{re.escape(version)}\]?.*?(?=^## |\Z)", changelog, re.M | re.S)
    assert section, f"CHANGELOG.md has no section for {version}"
    assert "\n- " in section[0], f"the section for {version} says nothing"


def test_every_name_that_a_campaign_may_use_is_in_the_reference() -> None:
    """The reference contains each driver, operation, probe and report as `name`."""
    reference = "\n".join(
        path.read_text() for path in sorted((ROOT / "docs" / "reference").glob("*.md"))
    )
    missing = [
        f"{table}: {name}"
        for table, names in names_of_tables().items()
        for name in names
        if f"`{name}`" not in reference
    ]
    assert not missing, f"describe these in docs/reference: {missing}"


def test_every_setting_of_a_driver_is_in_the_reference() -> None:
    """The keys of a target are part of the interface."""
    from loadstone import _loadgen

    reference = "\n".join(
        path.read_text() for path in sorted((ROOT / "docs" / "reference").glob("*.md"))
    )
    missing = [
        f"{driver['name']}.{setting['name']}"
        for driver in _loadgen.drivers()
        for setting in driver["settings"]
        if f"`{setting['name']}`" not in reference
    ]
    assert not missing, f"describe these in docs/reference: {missing}"


def test_every_command_and_target_of_the_makefile_is_documented() -> None:
    """`make` without a target lists each target for users, with a description."""
    makefile = (ROOT / "Makefile").read_text()
    phony = set(re.findall(r"^\.PHONY: (\S+)", makefile, re.M))
    documented = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.M))
    # `tools` only checks what the others need.
    assert phony - documented == {"tools"}


def names_of_tables() -> dict[str, list[str]]:
    """Collect the names of all tables."""
    from loadstone import _loadgen
    from loadstone.probes import PROBES
    from loadstone.report import REPORTS

    return {
        "driver": [row["name"] for row in _loadgen.drivers()],
        "operation": [row["name"] for row in _loadgen.operations()],
        "probe": list(PROBES),
        "report": list(REPORTS),
    }


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions_of_python(tree: ast.Module) -> Iterator[Function]:
    """Find every function, including methods and inner functions."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def length_of_python(function: Function) -> int:
    """Count the lines of a function's body."""
    statements = function.body[1 if ast.get_docstring(function) is not None else 0 :]
    if not statements:
        return 0
    return (function.end_lineno or function.lineno) - statements[0].lineno + 1


def functions_of_rust(text: str) -> Iterator[tuple[int, str, int]]:
    """Find every function by its indentation, which the formatter keeps: line, name, lines."""
    lines = text.split("\n")
    words = r"(?:pub(?:\([a-z ]+\))? )?(?:const |async |unsafe |extern \S+ )*"
    start = re.compile(rf"^( *){words}fn (\w+)")
    for number, line in enumerate(lines):
        match = start.match(line)
        if match is None:
            continue
        # The signature ends with the first line that opens the body or declares it away.
        body = next(at for at in range(number, len(lines)) if lines[at].endswith(("{", ";", "}")))
        if lines[body].endswith("{"):
            end = lines.index(f"{match[1]}}}", body)
            yield number + 1, match[2], end - body - 1


def links_of(text: str) -> list[str]:
    """Find the relative links of a document, outside of code blocks."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    prose = re.sub(r"`[^`\n]*`", "", prose)
    targets = re.findall(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)", prose)
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors_of(text: str) -> set[str]:
    """Return the anchors of a document's headings, as common renderers make them."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    headings = re.findall(r"^#+ +(.+?)\s*$", prose, re.M)
    explicit = set(re.findall(r'(?:id|name)="([^"]+)"', prose))
    cleaned = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in cleaned} | explicit
