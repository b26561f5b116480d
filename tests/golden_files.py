"""Reports kept as files that one can open: compared byte for byte, renewed with --renew-golden."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "golden"


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
        found, wanted = content.decode(), path.read_bytes().decode()
        assert found == wanted, f"{path} differs; if that is meant, make golden renews it"

    return check
