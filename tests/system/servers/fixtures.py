"""The real servers as fixtures: started at their first use, stopped at the end of the run."""

from collections.abc import Iterator

import pytest

from tests.system.servers import ceph, swift, versitygw
from tests.system.servers.install import BIN, python_of


@pytest.fixture(scope="session")
def swift_server() -> Iterator[swift.Endpoints]:
    """Run Swift with TempAuth and Keystone, replicated and erasure-coded, with its S3 API."""
    if not (python_of("swift").exists() and python_of("keystone").exists()):
        pytest.skip("Swift is not installed here: make servers")
    with swift.running("both") as endpoints:
        yield endpoints


@pytest.fixture(scope="session")
def versitygw_server() -> Iterator[dict[str, str]]:
    """Run the S3 gateway over a folder."""
    if not (BIN / "versitygw").exists():
        pytest.skip("versitygw is not installed here: make servers")
    with versitygw.running() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def ceph_server() -> Iterator[ceph.Endpoints]:
    """Run Ceph with two pools, the object gateway and a file system."""
    if not ceph.is_installed():
        pytest.skip("Ceph is not installed here: make servers")
    with ceph.running() as endpoints:
        yield endpoints
