"""Modules that commands import: few for small commands, and none that a load host lacks."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from loadstone.cli import extras
from tests.unit.test_cli_report import write_run

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
MAIN = "import sys; from loadstone.cli import main; code = main(sys.argv[1:]); "


def python(
    code: str, *arguments: str, cwd: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a piece of Python in a process of its own."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


def imported(*arguments: str) -> set[str]:
    """Return the modules that a command has imported when it ends well."""
    show = "print(*sys.modules, sep='\\n', file=sys.stderr); sys.exit(code)"
    done = python(MAIN + show, *arguments)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


ABSENT = {name for names in extras.EXTRAS.values() for name in names}
WITHOUT_EXTRAS = f"""
import importlib.abc, sys
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
import importlib.util
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in {ABSENT!r} else find_spec(name)
"""


def without_extras(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run a command as if no extra were installed."""
    return python(f"{WITHOUT_EXTRAS}{MAIN}sys.exit(code)", *arguments, cwd=cwd)


def test_help_imports_no_library_of_numbers() -> None:
    assert not imported("--help") & {
        "typer",
        "numpy",
        "pyarrow",
        "pydantic",
        "rich",
        "loadstone._loadgen",
    }


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_report_for_programs_imports_no_charts(form: str, tmp_path: Path) -> None:
    modules = imported("report", str(write_run(tmp_path / "run")), "-f", form)
    assert "numpy" in modules
    assert not modules & {
        "py_mini_racer",
        "resvg_py",
        "pyarrow",
        "scipy.stats",
        "loadstone.importers",
    }


def test_a_run_imports_no_distributions_and_no_charts(tmp_path: Path) -> None:
    modules = imported("bench", "put", "null", "-n", "10", "-o", str(tmp_path / "run"))
    assert not modules & {"py_mini_racer", "resvg_py", "scipy.stats", "scipy.optimize"}


UNASKED = {
    "loadstone.engines",
    "loadstone.execution.queries.trials",
    "loadstone.formats",
    "loadstone.report.formats.disclosure",
    "loadstone.report.opening",
    "loadstone.published.tables",
    "loadstone.report.tables.query_results",
    "loadstone.report.tables.script_actions",
}
"""Modules of queries, ceilings, layouts of published tables and the whole report."""


def test_a_small_run_imports_only_what_it_asks_for(tmp_path: Path) -> None:
    assert not imported("bench", "put", "null", "-n", "10", "-o", str(tmp_path / "run")) & UNASKED
    # A test for a module that was renamed would always pass.
    assert all(importlib.util.find_spec(name) for name in UNASKED)


def test_analysis_modules_are_not_imported_under_load(tmp_path: Path) -> None:
    """Asked when the trial is over, as the load generator returns."""
    code = f"""
import sys
from loadstone.execution import operations
load = operations.Operations.run
def run(*arguments, **options):
    ended = load(*arguments, **options)
    print(*sys.modules, sep='\\n', file=sys.stderr)
    print('end of the load', file=sys.stderr)
    return ended
operations.Operations.run = run
{MAIN}sys.exit(code)"""
    done = python(code, "bench", "put", "null", "-n", "10", "-o", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    modules_named, mark, _ = done.stderr.partition("end of the load")
    assert mark
    modules = set(modules_named.split())
    assert "loadstone.execution.runner" in modules
    assert not modules & {"loadstone.analysis", "numpy", "pyarrow", "rich", "scipy"}


MODULES = {"mini-racer": "py_mini_racer", "resvg-py": "resvg_py"}


def test_the_extras_are_what_the_project_says() -> None:
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    for extra in ("report", "arrow"):
        packages = [
            requirement.partition(">")[0] for requirement in project["optional-dependencies"][extra]
        ]
        assert {MODULES.get(name, name) for name in packages} == set(extras.EXTRAS[extra])


REPORTS = [
    *(
        ["report", "run", "-f", form]
        for form in ("terminal", "json", "csv", "md", "hlog", "openmetrics", "disclosure")
    ),
    ["compare", "run", "run"],
    ["report", "published:theflash", "-f", "md"],
]
MARK = "=== end of a command: "


def test_without_extras_a_run_and_its_reports_are_whole(tmp_path: Path) -> None:
    done = without_extras("bench", "put", "null", "-n", "10", "-o", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Limited by" in done.stdout
    # In one process: what is not installed can be imported by none of them.
    each = f"""{WITHOUT_EXTRAS}
from loadstone.cli import main
for words in {REPORTS!r}:
    print("{MARK}", main(words), flush=True)
"""
    done = python(each, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    *printed, rest = re.split(rf"{MARK} (\d+)\n", done.stdout)
    assert rest == ""
    for words, text, code in zip(REPORTS, printed[::2], printed[1::2], strict=True):
        assert code == "0" or words[0] == "compare", (words, done.stderr)
        assert len(text) > 50 or words[0] == "compare", words
    assert "Traceback" not in done.stderr
    assert "not installed" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("report", "run", "-f", "html"), "report"),
        (("report", "run", "-f", "svg", "-o", "charts"), "report"),
        (("report", "run", "-f", "parquet", "-o", "x.parquet"), "arrow"),
        (("bench", "put", "null", "-n", "10", "-o", "more", "-f", "html"), "report"),
        (("view", "."), "report"),
        (("report", "published:cern", "-f", "png", "-o", "charts"), "report"),
        (("script", "make", "users", "-o", "users.parquet"), "arrow"),
    ],
)
def test_a_missing_extra_is_named_with_its_pip_command(
    arguments: tuple[str, ...], extra: str, tmp_path: Path
) -> None:
    write_run(tmp_path / "run")
    done = without_extras(*arguments, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert extras.install(extra) in done.stderr
    assert all(name in done.stderr for name in extras.EXTRAS[extra])
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "more").exists()


def test_a_load_host_previews_a_plan(tmp_path: Path) -> None:
    done = without_extras("bench", "put", "null", "-n", "10", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
