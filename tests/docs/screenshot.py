"""The picture of a report in the documents: of a demo, by a browser without a screen.

Run it (`python -m tests.docs.screenshot`) after the report's page has changed, on a host that does
nothing else: six blocks decide which API is faster only where noise is less than the difference.
Needs chromium.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "pictures" / "report.png"
WINDOW = "1400,900"


def take(page: Path, picture: Path) -> None:
    """Draw the first screen of a page."""
    subprocess.run(
        [
            "chromium", "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu",
            f"--window-size={WINDOW}", "--virtual-time-budget=10000",
            f"--screenshot={picture}", page.as_uri(),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run = Path(sys.argv[1] if sys.argv[1:] else folder).resolve() / "run"
        if not run.exists():
            words = ["demo", "--objects", "20000", "--blocks", "6", "-o", str(run)]
            command = [sys.executable, "-m", "loadstone", *words]
            subprocess.run(command, check=True, env={**os.environ, "NO_COLOR": "1"})
        take(run / "report.html", PICTURE)
