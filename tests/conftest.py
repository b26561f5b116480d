"""Fixtures that more than one kind of test uses: the real servers, each started once."""

import signal

from tests.golden_files import golden, pytest_addoption
from tests.system.servers.fixtures import (
    ceph_server,
    ceph_to_break,
    cephfs,
    rbd_images,
    swift_server,
    versitygw_server,
)

# A shell that runs the tests in the background has turned Ctrl-C off for them and for all that they
# start, and `nohup` the hang-up; what is tested here is what an ordinary user starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

__all__ = [
    "ceph_server",
    "ceph_to_break",
    "cephfs",
    "golden",
    "pytest_addoption",
    "rbd_images",
    "swift_server",
    "versitygw_server",
]
