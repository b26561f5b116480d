"""Settings of dask, the site's or the user's, hold where dask launches agents, and nowhere else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.system import campaigns
from tests.system.command import loadstone

CAMPAIGN = """\
name: settings
targets: {t: {driver: "null"}}
hosts: {HOSTS}
dataset: {objects: 1000, size: 4KiB}
load: {threads: 1, cores: 1}
phases: [{op: put, duration: 500ms}]
"""


@pytest.fixture
def home_of_dask(tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Return the environment of a user with dask settings."""

    def write(settings: str) -> dict[str, str]:
        file = tmp_path / "home" / ".config" / "dask" / "distributed.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(settings)
        return {"HOME": str(tmp_path / "home"), "DASK_DISTRIBUTED__WORKER__PRELOAD": '["not.here"]'}

    return write


MALFORMED = "distributed:\n\tcomm:\n  broken: [\n"
PRELOAD = """\
distributed:
  worker: {preload: [site_only_module]}
  scheduler: {preload: [site_only_module]}
  client: {preload: [site_only_module]}
"""


@pytest.mark.parametrize("settings", [MALFORMED, PRELOAD])
def test_settings_of_dask_are_of_no_concern(
    tmp_path: Path, home_of_dask: Callable[[str], dict[str, str]], settings: str
) -> None:
    environment = home_of_dask(settings)
    file = campaigns.write(tmp_path, CAMPAIGN.replace("HOSTS", "launch: local, count: 1"))
    for words in (
        ("run", file, "-o", tmp_path / "run"),
        ("hosts", "check", file),
        ("bench", "put", "null", "-n", "10", "-o", tmp_path / "bench"),
    ):
        finished = loadstone(*words, environment=environment)
        assert finished.code == 0, finished.err


@pytest.mark.parametrize(
    ("launch", "settings"),
    [
        ("launch: dask, scheduler: 'tcp://127.0.0.1:1'", MALFORMED),
        ("launch: dask, scheduler: 'tcp://127.0.0.1:1'", PRELOAD),
        ("launch: slurm, job: {cores: 1, memory: 1MiB}", MALFORMED),
    ],
)
def test_a_mistake_in_settings_of_dask_is_named_with_its_file_where_they_hold(
    tmp_path: Path, home_of_dask: Callable[[str], dict[str, str]], launch: str, settings: str
) -> None:
    pytest.importorskip("dask_jobqueue")
    environment = home_of_dask(settings)
    hosts = f"{launch}, count: 1, listen: 127.0.0.1"
    file = campaigns.write(tmp_path, CAMPAIGN.replace("HOSTS", hosts))
    finished = loadstone("hosts", "check", file, "--allow-commands", environment=environment)
    assert finished.code == 1
    error, _, hint = finished.err.strip().partition("\nhint: ")
    assert error.startswith("error: ")
    assert "\n" not in error + hint
    assert str(tmp_path / "home" / ".config" / "dask" / "distributed.yaml") in error + hint
