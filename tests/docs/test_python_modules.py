"""Whether the Python modules import each other in one direction.

The layers of `pyproject.toml` hold between folders. Within one, two modules that name each other,
for types only or inside a function too, cannot be read or tested without each other.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.docs.circles import circles

SOURCE = Path(__file__).resolve().parents[2] / "python"


def _named(tree: ast.Module) -> Iterator[tuple[str, ...]]:
    """Yield what a module imports anywhere: modules, and names in modules."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                yield from ((*module.split("."), name.name) for name in names)
            case ast.Import(names=names):
                yield from (tuple(name.name.split(".")) for name in names)


def _imports(root: Path) -> dict[str, set[str]]:
    """Return which modules each module names; a package's `__init__` is no module."""
    files = {
        file.relative_to(root).with_suffix("").parts: file
        for file in root.rglob("*.py")
        if file.name != "__init__.py"
    }
    edges = {}
    for module, file in files.items():
        named = set(_named(ast.parse(file.read_text())))
        imported = {name for parts in named for name in (parts, parts[:-1]) if name in files}
        edges[".".join(module)] = {".".join(name) for name in imported - {module}}
    return edges


def test_modules_import_each_other_in_one_direction() -> None:
    """A circle is cut by moving what both need below both."""
    edges = _imports(SOURCE)
    assert len(edges) > 300
    assert circles(edges) == set()


def test_a_circle_of_types_is_found(tmp_path: Path) -> None:
    """The check finds imports for types only, and imports inside a function."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("from package import a, b\n")
    (package / "a.py").write_text("if TYPE_CHECKING:\n    from package.b import X\n")
    (package / "b.py").write_text("def run():\n    import package.a\n")
    (package / "c.py").write_text("from package import a\n")
    edges = _imports(tmp_path)
    assert edges == {
        "package.a": {"package.b"},
        "package.b": {"package.a"},
        "package.c": {"package.a"},
    }
    assert circles(edges) == {"package.a", "package.b"}
