"""The parts of what a program of ours printed on another machine, each with its exit code.

A machine may print anything: before the parts, between them, and in them.
"""

import re

from loadstone import _loadgen

TEXT_MAX = 200
MISSING = 127

Parts = dict[str, tuple[str, int]]


def read_parts(text: str, mark: str) -> Parts:
    """Return what each part said, and the exit code of its program; the first of each name."""
    found: Parts = {}
    pattern = rf"^{re.escape(mark)} begin (\w+)\n(.*?)\n{re.escape(mark)} end \1 (\d+)$"
    for match in re.finditer(pattern, text, re.MULTILINE | re.DOTALL):
        found.setdefault(match[1], (match[2], int(match[3])))
    return found


def why(said: str, code: int) -> str:
    """Return why a program failed: the last line that it said, or its exit code."""
    last = next((line for line in reversed(said.splitlines()) if line.strip()), "")
    return clean(last) or ("not installed" if code == MISSING else f"exit code {code}")


def clean(text: str) -> str:
    """Return what a machine said as one short line that steers no terminal."""
    return _loadgen.plain(" ".join(text.split()))[:TEXT_MAX]
