"""The documentation site is whole: no dead link, nothing from elsewhere, a page for each part."""

import datetime
import re
import subprocess
import sys
from pathlib import Path

import pytest

from loadstone import cli
from tests.docs.manual import manual

ROOT = Path(__file__).parents[2]
# One process makes the site, and both that look at it are there.
pytestmark = pytest.mark.xdist_group("site")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_fetches_nothing(site: Path) -> None:
    """The site works offline: everything that a page loads is part of it."""
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    loaded = re.compile(
        r"<(?:script|img|iframe)[^>]*\ssrc=[\"']?((?:https?:)?//[^\"' >]+)"
        r"|<link[^>]*rel=[\"']?(?:stylesheet|preload|icon)[^>]*href=[\"']?((?:https?:)?//[^\"' >]+)"
    )
    urls_of = {page.name: loaded.findall(page.read_text()) for page in pages}
    assert not {name: urls for name, urls in urls_of.items() if urls}


def test_the_site_has_what_is_made_from_code(site: Path) -> None:
    commands = (site / "reference" / "commands.html").read_text()
    assert all(f"Usage: loadstone {row.name}" in commands for row in cli.COMMANDS)
    keys = (site / "reference" / "campaign-keys.html").read_text()
    assert all(
        f"<code>{key}</code>" in keys for key in ("round_pause", "allow_foreign", "capacity")
    )
    assert "open_run" in (site / "reference" / "python.html").read_text()
    for example in (ROOT / "examples").glob("*.yaml"):
        assert (site / "examples" / f"{example.stem}.html").exists()


def test_the_manual_has_every_command() -> None:
    page = manual(datetime.date(2026, 1, 1))
    assert all(f".SS {row.name}\n" in page for row in cli.COMMANDS)
    assert page.count(".TP") > 80
