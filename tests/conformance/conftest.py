"""Every driver meets every target that the table names for it."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loadstone import _loadgen
from tests.conformance import store_under_test
from tests.conformance.exemptions import DRIVERS, has
from tests.conformance.targets import TARGETS, Place, Target
from tests.conformance.trials import Dataset

OPERATIONS = {row["name"]: row for row in _loadgen.operations()}

# Operations on buckets have a test of their own, for they work without objects.
ON_BUCKETS = {"create_bucket", "delete_bucket"}
# So have appends, of which several make an object, what needs versions or locks, and steps of
# uploads.
ON_VERSIONS = {"versioned_put", "get_version", "list_versions", "delete_version"}
ON_UPLOADS = {"list_uploads"} | {
    name for name, row in OPERATIONS.items() if "create_upload" in row["takes_from"]
}
ON_LOCKS = {name for name, row in OPERATIONS.items() if row["locks"]}
BESIDE_TABLE = ON_BUCKETS | {"append"} | ON_VERSIONS | ON_LOCKS | ON_UPLOADS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test the targets that it can be tried on, and the operations that they can do."""
    if "place" not in metafunc.fixturenames:
        return
    needed = [
        capability for mark in metafunc.definition.iter_markers("needs") for capability in mark.args
    ]
    targets = [
        target
        for target in TARGETS
        if target.driver in DRIVERS
        and all(has(target.driver, name) and name not in target.lacks for name in needed)
    ]
    if "operation" in metafunc.fixturenames:
        cells = [
            pytest.param(target, operation, marks=marks_of(target), id=f"{target.name}-{operation}")
            for target in targets
            for operation in DRIVERS[target.driver]["operations"]
            if operation not in target.lacks | BESIDE_TABLE
        ]
        metafunc.parametrize(("place", "operation"), cells, indirect=["place"], scope="session")
    else:
        cells = [
            pytest.param(
                target, marks=[*marks_of(target), *_turn(target, metafunc)], id=target.name
            )
            for target in targets
            if not target.is_variant
        ]
        metafunc.parametrize("place", cells, indirect=True, scope="session")


@pytest.fixture(scope="session")
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Start the target of this cell; tests of one target follow each other."""
    target: Target = request.param
    with pytest.MonkeyPatch.context() as patch, target.start(request) as resources:
        for name, value in resources.environment.items():
            patch.setenv(name, value)
        yield resources


@pytest.fixture
def dataset(place: Place) -> Iterator[Dataset]:
    """Give objects and buckets of this test's own, of which nothing is left after it."""
    made = Dataset()
    yield made
    if place.view is not None:
        for bucket in place.view.buckets():
            if bucket.startswith(made.prefix.rstrip("-")):
                place.view.drop_bucket(bucket)
    elif place.driver == "block":
        # The next test is a run of its own, and this file or device has the mark of this one's.
        path = Path(place.settings["path"])
        if path.is_block_device():
            with path.open("r+b") as device:
                device.write(bytes(1 << 20))
        else:
            path.unlink(missing_ok=True)


@pytest.fixture(scope="module", params=["memory", "directory"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the embedded store by itself, in memory and in a directory."""
    data = None if request.param == "memory" else str(tmp_path_factory.mktemp("store") / "data")
    with store_under_test.store(data=data) as store:
        yield store


@pytest.fixture(scope="module")
def client(url: str) -> Any:
    """Connect boto3 to the embedded store."""
    return store_under_test.s3(url)


@pytest.fixture
def bucket(client: Any) -> str:
    """Make a bucket of this test's own in the embedded store."""
    name = f"bucket-{uuid.uuid4().hex}"
    client.create_bucket(Bucket=name)
    return name


def pytest_configure(config: pytest.Config) -> None:
    """Make our own mark known."""
    config.addinivalue_line("markers", "needs(*capabilities): tried on drivers that have them")


def _turn(target: Target, metafunc: pytest.Metafunc) -> list[pytest.MarkDecorator]:
    """Tell whether a test has to wait for its turn on this target."""
    is_always = metafunc.module.__name__.endswith("test_driver_safety")
    if target.rest_cpu_s is None or is_always:
        return []
    return [pytest.mark.long(cpu_s=target.rest_cpu_s)]


def marks_of(target: Target) -> list[pytest.MarkDecorator]:
    """Return the marks of a test that needs this target's server."""
    if target.server is None:
        return []
    return [pytest.mark.real, pytest.mark.xdist_group(target.server)]
