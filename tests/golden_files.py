"""Report files that are compared byte for byte, and renewed with --renew-golden."""

import difflib
from itertools import islice
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "golden"
CHANGES_MAX = 30
LINE_CHARACTERS = 200


def add_options(parser):
    """Add the option that writes the files anew instead of comparing them."""
    parser.addoption(
        "--renew-golden",
        action="store_true",
        help="write the golden files anew; read the difference before you commit it",
    )


@pytest.fixture
def golden(request):
    """A function that holds content against tests/golden/NAME."""

    def check(name, content):
        path = FOLDER / name
        if request.config.getoption("--renew-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            return
        assert path.exists(), f"{path} is missing; make golden writes it"
        made, wanted = content.decode(), path.read_bytes().decode()
        assert made == wanted, "\n".join(
            (f"{path} differs; if that is meant, make golden renews it:", *changes(wanted, made))
        )

    return check


def changes(wanted, made):
    """Return the first lines that one text has and the other has not."""
    lines = difflib.unified_diff(wanted.splitlines(), made.splitlines(), n=0, lineterm="")
    changed = (line[:LINE_CHARACTERS] for line in islice(lines, 2, None) if line[0] != "@")
    return islice(changed, CHANGES_MAX)
