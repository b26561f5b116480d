"""The local page in a real browser: it lists, opens, compares by two ticks, and follows a run."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from loadstone.cli import exit_code
from tests.system.browser import MISSING, PROGRAM, open_browser
from tests.system.command import NO_STATE
from tests.unit.test_view import HOSTILE, write_run

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(PROGRAM is None, reason=MISSING),
]

DRAWN = "document.documentElement.dataset.drawn"
DRAWN_CHARTS = (
    "[...document.querySelectorAll('figure:not([hidden])')]"
    ".filter((one) => one.querySelector('svg[role=img]')).map((one) => one.id)"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "first")
    write_run(folder / "second", rate=200)
    write_run(folder / HOSTILE.replace("/", ""), name=HOSTILE)
    (folder / "half").mkdir()
    (folder / "half" / "manifest.json").write_text('{"format": 1')
    return folder


@pytest.fixture(scope="module")
def address(runs):
    command = [sys.executable, "-m", "loadstone", "view", str(runs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as viewer:
        assert viewer.stdout is not None
        yield viewer.stdout.readline().strip()
        viewer.send_signal(signal.SIGINT)
        assert viewer.wait(60) == 0


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with open_browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


def test_reports_open_and_two_ticks_compare(browser, address):
    browser.open(address)
    browser.wait_for(DRAWN)
    assert browser.evaluate("document.querySelectorAll('#choose input[type=checkbox]').length") == 3
    assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert browser.evaluate("document.getElementById('compare').disabled")
    for name in ("first", "second"):
        browser.evaluate(f"document.querySelector('[aria-label=\"Compare {name}\"]').click()")
    assert (
        browser.evaluate(
            "[...document.querySelectorAll('#choose input')].filter((one) => one.disabled).length"
        )
        == 1
    )
    browser.evaluate("document.getElementById('compare').click()")
    browser.wait_for(f"location.pathname.endsWith('compare') && {DRAWN}")
    assert browser.evaluate(DRAWN_CHARTS) == ["ratios"]
    assert re.search(r"\bsecond\b.*\bfirst\b", browser.evaluate("document.body.innerText"))
    browser.open(address)
    browser.evaluate("[...document.links].find((one) => one.textContent === 'first').click()")
    browser.wait_for(f"location.pathname.includes('/run/') && {DRAWN}")
    assert "throughput" in browser.evaluate(DRAWN_CHARTS)
    assert not browser.messages
    assert all(request.startswith((address, "data:", "blob:")) for request in browser.requests)


def test_a_hostile_name_runs_nothing(browser, address):
    browser.open(address)
    names = browser.evaluate("[...document.links].map((one) => one.href)")
    for name in names:
        browser.open(name)
        browser.wait_for(DRAWN)
        assert browser.evaluate("document.querySelectorAll('img').length") == 0
    assert not browser.messages


def test_a_policy_keeps_other_scripts_from_running(browser, address):
    browser.open(address)
    browser.evaluate(
        "document.body.append(Object.assign(document.createElement('script'),"
        " {textContent: 'window.ran = true'}))"
    )
    assert browser.evaluate("window.ran === undefined")


@pytest.mark.parametrize("width", [1400, 390])
def test_a_run_is_followed_while_it_goes_on_and_to_its_end(browser, address, runs, width):
    folder = runs / f"live-{width}"
    command = [
        sys.executable, "-m", "loadstone", "bench", "put,get", "null", "-t", "2", "-d", "6s",
        "-o", str(folder),
    ]  # fmt: skip
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "XDG_STATE_HOME": NO_STATE},
    ) as load:
        find = f"[...document.links].find((one) => one.textContent === '{folder.name}')"
        while not (folder / "manifest.json").exists():
            assert load.poll() is None
            time.sleep(0.05)
        browser.open(address, width=width)
        browser.wait_for(DRAWN)
        link = browser.evaluate(f"{find}.href")
        assert "/live/" in link
        browser.open(link, width=width)
        browser.wait_for("document.querySelectorAll('#live-rate circle').length >= 3")
        tile = "document.querySelector('#tile-{} strong').textContent"
        assert browser.evaluate(tile.format("rate")).endswith("/s")
        assert browser.evaluate(tile.format("p99")) != "–"
        assert browser.evaluate(tile.format("failed")) == "0"
        assert browser.evaluate(tile.format("cpu")).endswith("%")
        assert {"live-rate", "live-latency", "live-cpu"} <= set(browser.evaluate(DRAWN_CHARTS))
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        browser.wait_for("document.querySelectorAll('#finished tr').length === 1")
        # A busy host makes results void.
        assert load.wait(120) in (0, exit_code.VOID)
    browser.wait_for("document.getElementById('state').textContent === 'finished'")
    assert browser.evaluate("document.querySelectorAll('#finished tr').length") == 2
    assert "report" in browser.evaluate("document.getElementById('what').textContent")
    assert not browser.messages
