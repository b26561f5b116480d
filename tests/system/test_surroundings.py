"""A run does not depend on what containers and sites lack or set: a home, a passwd, proxies."""

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loadstone.engines.tables import cache_folder
from loadstone.results.layout import NO_HOME, state_folder
from tests.conformance import store_under_test
from tests.conformance.store_under_test import ACCESS_KEY, SECRET_KEY
from tests.system.command import loadstone

KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
LOAD = ("-t", "2", "-n", "40", "-s", "4KiB", "-q")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with store_under_test.store() as url:
        yield url


def test_conveniences_have_a_folder_that_is_not_there_where_no_home_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert state_folder().is_relative_to(NO_HOME)
    assert cache_folder().is_relative_to(NO_HOME)
    assert not NO_HOME.exists()


AS_NOBODY = ("unshare", "-U", "--map-user=54321", "--map-group=54321")


def test_a_user_without_home_and_passwd_measures_as_any_other(url: str, tmp_path: Path) -> None:
    """This is the case in a container that runs with an unknown user number."""
    tool = shutil.which(AS_NOBODY[0])
    if tool is None or subprocess.run([*AS_NOBODY, "true"], check=False).returncode:
        pytest.skip("this host makes no user namespaces")
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("HOME", "USER", "LOGNAME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    }
    words = ["-m", "loadstone", "bench", "put,get", url, *LOAD, "-o", str(tmp_path / "run")]
    # Outside of it /tmp/pytest-of-USER is closed to others.
    finished = subprocess.run(
        [*AS_NOBODY, sys.executable, *words],
        env={**inherited, **KEYS}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    assert "Traceback" not in finished.stderr


def test_proxies_of_the_environment_are_not_used(url: str, tmp_path: Path) -> None:
    """A proxy would be measured instead of the target; here the proxy's address refuses
    connections.
    """
    names = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    environment = {**KEYS, **dict.fromkeys(names, "http://127.0.0.1:9")}
    finished = loadstone(
        "bench", "put,get", url, *LOAD, "-o", tmp_path / "run", environment=environment
    )
    assert finished.code == 0, finished.err


def test_no_command_calls_what_python_has_deprecated(url: str, tmp_path: Path) -> None:
    """A later Python would not have it any more."""
    environment = {**KEYS, "PYTHONWARNINGS": "error::DeprecationWarning"}
    run = tmp_path / "run"
    finished = loadstone("bench", "put,get", url, *LOAD, "-o", run, environment=environment)
    assert finished.code == 0, finished.err
    page = tmp_path / "page.html"
    finished = loadstone("report", run, "-f", "html", "-o", page, environment=environment)
    assert finished.code == 0, finished.err
