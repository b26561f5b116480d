"""Whether the modules of each crate import downwards only.

Cargo knows layers of crates, not of modules: two modules that import each other compile, and then
neither can be read, tested or moved without the other.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.circles import circles

CRATES = Path(__file__).resolve().parents[2] / "crates"

SOURCE = CRATES / "loadgen" / "src"

EACH = ("fuzz", "history", "loadgen", "loadgen-py", "record", "store", "wire")

SPLIT = ("drivers", "transport")
"""Folders whose files are modules by themselves; in other folders a file is part of its folder."""

DRIVERS_MAY_NOT_KNOW = {"check", "run", "schedule"}
"""Modules that run a trial: they know drivers, so no driver may import them."""


def _unit(path: tuple[str, ...]) -> str:
    return "::".join(path[:2]) if path[0] in SPLIT else path[0]


def _files(root: Path) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield modules and their text, without tests and comments."""
    texts = {}
    for file in root.rglob("*.rs"):
        parts = file.relative_to(root).with_suffix("").parts
        texts[parts[:-1] if parts[-1] == "mod" else parts] = file.read_text()
    for_tests = {
        (*(() if path == ("lib",) else path), name)
        for path, text in texts.items()
        for name in re.findall(r"#\[cfg\(test\)\]\s*(?:pub\(crate\) )?mod (\w+);", text)
    }
    for path, text in texts.items():
        if path == ("lib",) or any(path[: len(name)] == name for name in for_tests):
            continue
        text = re.split(r"#\[cfg\(test\)\]\s*mod \w+ \{", text)[0]
        yield path, re.sub(r"//.*", "", text)


def _paths(tree: str) -> Iterator[str]:
    """Take the braces out of `a::{b, c::{d}}`."""
    head, brace, rest = tree.partition("{")
    if not brace:
        yield head.split(" as ")[0].strip()
        return
    depth, start = 0, 0
    inner = rest[: rest.rindex("}")]
    for place, character in enumerate(inner + ","):
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            if part := inner[start:place].strip():
                yield from _paths(head + part)
            start = place + 1


def _named(root: Path) -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    """Return which files each file names, by `crate::`, `self::` or `super::`."""
    files = dict(_files(root))
    named: dict[tuple[str, ...], set[tuple[str, ...]]] = {path: set() for path in files}
    for path, text in files.items():
        for start, tree in re.findall(
            r"\b(crate|self|super(?:::super)*)::((?:\w+::)*(?:\{[^;]*\}|\w+|\*))", text
        ):
            above = {"crate": 0, "self": len(path)}.get(start, len(path) - start.count("super"))
            for name in _paths(re.sub(r"\s+", " ", tree)):
                parts = (*path[:above], *name.split("::"))
                while parts and parts not in files:
                    parts = parts[:-1]
                if parts:
                    named[path].add(parts)
    return named


def _imports(root: Path) -> dict[str, set[str]]:
    """Return which modules each module names."""
    edges: dict[str, set[str]] = {}
    for path, others in _named(root).items():
        unit = _unit(path)
        edges.setdefault(unit, set()).update({_unit(other) for other in others} - {unit})
    return edges


def _folders(root: Path) -> Iterator[tuple[str, dict[str, set[str]]]]:
    """Yield each folder below the root, and which of its modules each of them names."""
    named = _named(root)
    for folder in sorted({path[:end] for path in named for end in range(1, len(path))}):
        depth = len(folder)
        edges: dict[str, set[str]] = {}
        for path, others in named.items():
            if path[:depth] == folder and len(path) > depth:
                used = {other[depth] for other in others if other[:depth] == folder != other}
                edges.setdefault(path[depth], set()).update(used - {path[depth]})
        yield "::".join(folder), edges


@pytest.mark.parametrize("crate", EACH)
def test_modules_of_a_crate_import_each_other_in_one_direction(crate: str) -> None:
    """A circle is cut by moving what both need below both."""
    edges = _imports(CRATES / crate / "src")
    assert edges
    assert circles(edges) == set()


@pytest.mark.parametrize("crate", EACH)
def test_modules_of_a_folder_import_each_other_in_one_direction(crate: str) -> None:
    """The same within each folder, whose modules name each other by `super::`."""
    each = {folder: circles(edges) for folder, edges in _folders(CRATES / crate / "src")}
    assert {folder: modules for folder, modules in each.items() if modules} == {}


def test_drivers_do_not_know_what_runs_them() -> None:
    """Drivers and their parts do not import the code that runs them, or other drivers."""
    edges = _imports(SOURCE)
    assert len([unit for unit in edges if unit.startswith("drivers::")]) >= 7
    wrong = {
        unit: known
        for unit, others in edges.items()
        if unit.startswith(SPLIT) and unit not in SPLIT
        if (
            known := others & DRIVERS_MAY_NOT_KNOW
            | {other for other in others if other.startswith("drivers")}
        )
    }
    assert wrong == {}


def test_a_circle_is_found_through_braces_and_in_a_folder(tmp_path: Path) -> None:
    """The check finds two modules that import each other, one of them a child."""
    (tmp_path / "a").mkdir()
    (tmp_path / "lib.rs").write_text("mod a;\nmod b;\nmod c;\n")
    (tmp_path / "a.rs").write_text("mod child;\n#[cfg(test)]\nmod tests { use crate::c::X; }\n")
    (tmp_path / "a" / "child.rs").write_text("use crate::{c::{Y, Z}, b::W};\n")
    (tmp_path / "b.rs").write_text("use crate::a::child;\n")
    (tmp_path / "c.rs").write_text("// use crate::a;\n")
    assert _imports(tmp_path) == {"a": {"b", "c"}, "b": {"a"}, "c": set()}
    assert circles(_imports(tmp_path)) == {"a", "b"}


def test_a_circle_within_a_folder_is_found(tmp_path: Path) -> None:
    """Two modules of one folder that name each other; that both name their folder is no circle."""
    (tmp_path / "a").mkdir()
    (tmp_path / "lib.rs").write_text("mod a;\n")
    (tmp_path / "a.rs").write_text("mod b;\nmod c;\nmod d;\nuse self::d::X;\n")
    (tmp_path / "a" / "b.rs").write_text("use super::{X, c::Y};\n")
    (tmp_path / "a" / "c.rs").write_text("use crate::a::b::Z;\nuse super::d;\n")
    (tmp_path / "a" / "d.rs").write_text("use super::X;\n")
    ((folder, edges),) = _folders(tmp_path)
    assert (folder, edges) == ("a", {"b": {"c"}, "c": {"b", "d"}, "d": set()})
    assert circles(edges) == {"b", "c"}


def _shown(crate: Path) -> set[str]:
    """Return the modules that a crate shows to others."""
    return set(re.findall(r"^pub mod (\w+);", (crate / "src" / "lib.rs").read_text(), re.M))


def test_a_module_that_no_other_crate_names_is_private() -> None:
    """Inside a private module `unreachable_pub` finds each item that need not be public."""
    for crate in (CRATES / "loadgen", CRATES / "wire"):
        name = f"loadstone_{crate.name}"
        others = [file for file in CRATES.rglob("*.rs") if not file.is_relative_to(crate / "src")]
        named = {
            part
            for file in others
            for tree in re.findall(rf"\b{name}::((?:\w+::)*(?:\{{[^;]*\}}|\w+))", file.read_text())
            for path in _paths(re.sub(r"\s+", " ", tree))
            for part in path.split("::")[:1]
        }
        assert len(_shown(crate)) > 5
        assert _shown(crate) <= named, f"{name}: {sorted(_shown(crate) - named)}"
