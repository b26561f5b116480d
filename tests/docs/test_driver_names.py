"""Facts about a driver are stated in its own source; Python contains no driver's name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone import _loadgen
from loadstone.campaign.drivers import calibrated_drivers, read_drivers
from tests.docs import driver_reference

PACKAGE = Path(__file__).resolve().parents[2] / "python" / "loadstone"
NAMES = {row["name"] for row in _loadgen.drivers(with_tests=True)}

# These say what formats of others call their drivers.
FOLDERS_EXEMPT = ("importers", "published", "formats")

# Words that mean something else there.
OTHER_MEANINGS = {
    "block": "one repetition of the plan's matrix, a range of an object, or a flag of bench",
    "file": "a reference to a secret or to a script, or how users' files are called",
    "null": "the name of a type in JSON and YAML, of a version in S3, or an I/O engine of fio",
    "rados": "Ceph's program of that name",
    "swift": "how packages of that project are called",
}
MEANT_OTHERWISE = {
    "analysis/accounts/comparison.py": {"block"},
    "analysis/accounts/run_account.py": {"block"},
    "analysis/measured/trial_case.py": {"block"},
    "units.py": {"block"},
    "analysis/node_probes.py": {"swift"},
    "campaign/schema/fio_jobs.py": {"null"},
    "card/questions/versions.py": {"null"},
    "campaign/planning/ceiling_plan.py": {"rados"},
    "campaign/planning/query_plan.py": {"block"},
    "campaign/planning/trial.py": {"block"},
    "campaign/reading/source.py": {"null"},
    "campaign/schema/json_schema.py": {"file"},
    "campaign/schema/target.py": {"file"},
    "cli/running/preview.py": {"block"},
    "execution/programs/arms.py": {"block"},
    "execution/secrets.py": {"file"},
    "hosts/contact.py": {"block"},
    "hosts/secrets.py": {"file"},
    "probes/scraper.py": {"file"},
    "report/formats/document.py": {"null"},
    "report/formats/gate.py": {"block"},
    "report/pages/chart_data.py": {"block"},
    "report/tables/nodes.py": {"swift"},
    "report/tables/query_results.py": {"file"},
    "results/documents.py": {"block"},
    "results/replays.py": {"file"},
    "script/users.py": {"file"},
}


def literals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Find driver names that stand as a whole text; a key that is only read names no driver."""
    read = set()
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(slice=ast.Constant() as key):
                read.add(key)
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant() as key, *_]):
                read.add(key)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in NAMES and node not in read:
            yield node.lineno, node.value


def test_no_driver_is_named_in_python() -> None:
    named = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if name.split("/")[0] in FOLDERS_EXEMPT:
            continue
        meant = MEANT_OTHERWISE.get(name, set())
        for line, word in literals(ast.parse(path.read_text())):
            if word not in meant:
                named.append(f"{name}:{line} {word}")
    assert not named, f"say it in the driver's facts (crates/loadgen/src/drivers): {named}"


def test_every_exception_is_still_needed() -> None:
    for name, words in MEANT_OTHERWISE.items():
        used = {word for _, word in literals(ast.parse((PACKAGE / name).read_text()))}
        assert words <= used & OTHER_MEANINGS.keys(), name


@pytest.mark.parametrize("text", ['x == "s3"', '{"file": 1}', 'd in ("null", "block")'])
def test_a_name_is_found_wherever_it_stands(text: str) -> None:
    assert list(literals(ast.parse(text)))


def test_the_reference_says_what_is_true_of_each_driver() -> None:
    written = driver_reference.written()
    for name, driver in read_drivers().items():
        made = driver_reference.part_of(driver).strip()
        assert written[name] == made, "run: python -m tests.docs.driver_reference"


def test_the_reference_of_calibrations_names_what_can_be_calibrated() -> None:
    page = (driver_reference.PAGE.parent / "calibration.md").read_text()
    documented = {}
    for drivers, operations in re.findall(r"^\| (`.*?`) \| [^|]* \| ([a-z_, ]+) \|$", page, re.M):
        for name in re.findall(r"`(\w+)`", drivers):
            documented[name] = tuple(operations.split(", "))
    usual = {
        name: calibration.facts.calibration for name, calibration in calibrated_drivers().items()
    }
    assert documented == {
        name: calibration.usual for name, calibration in usual.items() if calibration is not None
    }
