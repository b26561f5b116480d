"""A worker of pytest-xdist that dies ends the run: as failed, soon, and with its test named.

xdist itself replaces the worker, which `--max-worker-restart=0` in pyproject.toml turns off, and
hands all that it was ever given to the others, one test or group after each test of theirs. In
most of these nothing is left to run, so that nothing ends, and with `--dist loadgroup` everybody
soon waits for ever. The others also run all that they were given: each test of a server, maybe.
"""

import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Tell the other workers that one has died."""
    if error is not None:
        mark = _mark(node.workerinput)
        mark.touch()
        node.config.add_cleanup(partial(mark.unlink, missing_ok=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Start no test after another worker has died."""
    result = yield
    workerinput = getattr(item.config, "workerinput", None)
    if workerinput is not None and _mark(workerinput).exists():
        item.session.shouldfail = "another worker has died"
    return result


def _mark(workerinput: Mapping[str, Any]) -> Path:
    return Path(tempfile.gettempdir(), f"loadstone-lost-worker-{workerinput['testrunuid']}")
