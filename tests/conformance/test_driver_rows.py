"""Every driver is tried by the tests of safety, liveness and secrets, or says why it is not."""

import re
from pathlib import Path

import pytest

from tests.conformance.exemptions import CAPABILITIES, DRIVERS, LACKS, has
from tests.conformance.targets import TARGETS
from tests.system import test_canaries, test_liveness

FOR_USERS = [name for name, row in DRIVERS.items() if not row["is_for_tests"]]

# Drivers without a hostile server in test_liveness.py, with the reason.
NOT_BEFORE_A_HOSTILE_SERVER = {
    "null": "there is no server",
    "file": "a file system that hangs holds the thread: test_real_ceph_faults.py",
    "block": "a device that hangs holds the thread: test_real_ceph_faults.py",
    "rados": "librados speaks a protocol of its own: test_real_ceph_faults.py",
}


@pytest.mark.parametrize("driver", FOR_USERS)
def test_a_driver_is_tried_on_a_target(driver: str) -> None:
    tried = [target.name for target in TARGETS if target.driver == driver]
    assert tried, f"add a row for {driver} to TARGETS in tests/conformance/targets.py"


@pytest.mark.parametrize("driver", FOR_USERS)
def test_a_driver_meets_hostile_servers(driver: str) -> None:
    met = {address.partition("+")[0] for address in test_liveness.ADDRESSES.values()}
    reason = NOT_BEFORE_A_HOSTILE_SERVER.get(driver)
    assert (driver in met) != (reason is not None), (
        f"add {driver} to ADDRESSES in tests/system/test_liveness.py, or its reason here"
    )
    assert reason is None or not DRIVERS[driver]["facts"]["connects"]


@pytest.mark.parametrize("driver", [name for name in FOR_USERS if has(name, "secrets")])
def test_a_driver_with_secrets_has_a_canary(driver: str) -> None:
    met = {place[0] for place in test_canaries.PARROTS.values()}
    assert driver in met, f"add {driver} to PARROTS in tests/system/test_canaries.py"


def test_each_reason_is_of_a_driver_and_a_capability_that_a_test_needs() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    needed = re.findall(r"needs\(([^)]*)\)", tests)
    words = {word for arguments in needed for word in re.findall(r'"(\w+)"', arguments)}
    assert words >= set(CAPABILITIES), f"no test needs {set(CAPABILITIES) - words}"
    assert set(LACKS) <= set(DRIVERS)
    for reasons in LACKS.values():
        assert set(reasons) <= set(CAPABILITIES)
        assert all(len(reason.split()) >= 4 for reason in reasons.values())


def test_no_test_of_safety_leaves_a_driver_out_by_itself() -> None:
    text = (Path(__file__).parent / "test_driver_safety.py").read_text()
    assert "pytest.skip" not in text, "name what the test needs: @needs(...) in exemptions.py"
