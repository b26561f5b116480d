"""An object that is not there as its own put had failed is counted exactly, as no new failure."""

import csv
import io
import re
from pathlib import Path

import pytest

from tests.conformance import store_under_test
from tests.conformance.store_under_test import ACCESS_KEY, PASSWORD, PROJECT, SECRET_KEY, USER
from tests.system.command import loadstone, trials_of

KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
OBJECTS = 200
FORMATS = (("terminal", "--full"), ("html",))


def failing() -> dict[str, object]:
    """Return the faults of a store that fails some puts and some gets."""
    errors = {"put": {"rate": 0.05, "status": 500}, "get": {"rate": 0.02, "status": 500}}
    return {"faults": {"seed": 3, "errors": errors}}


# The load generator itself identifies missing objects, whatever the driver.
SWIFT = pytest.param("swift", marks=pytest.mark.long(cpu_s=16))


@pytest.mark.parametrize("interface", ["s3", SWIFT])
def test_reads_and_deletes_of_what_was_never_written_are_counted_apart(
    interface: str, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with store_under_test.store(**failing()) as url:
        swift = {"ST_USER": f"{PROJECT}:{USER}", "ST_KEY": PASSWORD}
        swift["ST_AUTH"] = f"{url}/auth/v1.0"
        environment = {"s3": KEYS, "swift": swift}[interface]
        target = {"s3": url, "swift": f"swift+{url}/auth/v1.0"}[interface]
        result = loadstone(
            *("bench", "put,get,delete", target, "-n", str(OBJECTS), "-s", "4KiB", "-t", "4"),
            *("-i", "2", "-o", run),
            environment=environment,
        )
    put, get, delete = (trial["summary"] for trial in trials_of(run)[:3])
    lost = sum(end - first for first, end in put["objects_unwritten"])
    assert lost == put["failed"] > 3, result.err
    assert put["puts_failed_more"] == 0
    # Reads also fail by themselves, and those failures alone are failures.
    assert 0 < get["unwritten"] <= 2 * lost
    assert get["unwritten"] + get["failed"] >= 2 * lost
    assert set(get["error_examples"]) == {"http_500"}
    assert delete["failed"] == 0
    assert delete["unwritten"] == (lost if interface == "swift" else 0)
    assert re.search(rf", {get['unwritten']:,} for\b", result.err)

    cells = {
        cell["operation"]: cell for cell in loadstone("report", run, "-f", "json").json()["rounds"]
    }
    rows = {
        row["operation"]: row
        for row in csv.DictReader(io.StringIO(loadstone("report", run, "-f", "csv").out))
        if not row["iteration"] or row["iteration"] == "1"
    }
    for operation, trial in (("get", get), ("delete", delete)):
        cell = cells[operation]
        assert cell["unwritten_requests"] == trial["unwritten"]
        assert cell["failed_requests"] == trial["failed"]
        assert cell["good_requests"] == trial["requests"] - trial["failed"] - trial["unwritten"]
        assert int(rows[operation]["failed_requests"]) <= trial["failed"]
    for form, *options in FORMATS:
        finished = loadstone("report", run, "-f", form, *options, "-o", tmp_path / form)
        assert finished.code == 0, finished.err
        assert f"{get['unwritten']} × unwritten" in (tmp_path / form).read_text()


def test_a_put_that_failed_over_an_object_that_stood_names_no_object(tmp_path: Path) -> None:
    """It would be an excuse for its loss."""
    campaign = tmp_path / "campaign.yaml"
    with store_under_test.store(**failing()) as url:
        campaign.write_text(
            "name: twice\n"
            f"targets: {{store: {{driver: s3, endpoints: [{url}]}}}}\n"
            f"dataset: {{objects: {OBJECTS}, size: 4KiB}}\n"
            "load: {threads: 4}\n"
            "phases: [{op: put, iterations: 3}, get]\n"
        )
        loadstone("run", campaign, "-o", tmp_path / "run", environment=KEYS)
    put, get = (trial["summary"] for trial in trials_of(tmp_path / "run")[:2])
    # Nearly all was put in one of the iterations; the failures of the later ones name no object.
    assert put["puts_failed_more"] > 3
    lost = sum(end - first for first, end in put["objects_unwritten"])
    assert lost <= 3
    assert get["unwritten"] <= lost
