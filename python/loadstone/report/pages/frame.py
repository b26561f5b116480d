"""The frame of every page: templates, styles, scripts and the charts' library in one file."""

import base64
import functools
import hashlib
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

STYLES = ("page.css", "tables.css", "charts.css", "print.css")
SHARED = ("words.js", "selection.js", "charts.js", "tables.js", "frame.js")
SCRIPTS: Mapping[str, tuple[str, ...]] = {
    "run.html.jinja": (
        *SHARED, "overview.js", "sweep.js", "times.js", "distributions.js", "run.js",
    ),
    "comparison.html.jinja": (*SHARED, "comparison.js"),
    "history.html.jinja": (*SHARED, "history.js"),
    "queries.html.jinja": (*SHARED, "queries.js"),
    "account.html.jinja": (),
    "runs.html.jinja": (*SHARED, "runs.js"),
    "live.html.jinja": (*SHARED, "live.js"),
    "message.html.jinja": (),
}  # fmt: skip
"""The modules of each page, in the order in which they need each other: joined, they are one."""

_IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE | re.DOTALL)
_EXPORT = re.compile(r"^export (?=function|const|let|class)", re.MULTILINE)


def render_page(template: str, *, data: Mapping[str, Any] | None, **words: Any) -> bytes:
    """Return a whole page; `data` is what its scripts draw from, without which it has none."""
    page = _environment().get_template(template)
    text = page.render(
        style="\n".join(_read("styles", name) for name in STYLES),
        library=_read("vendor", "plot.min.js") if data is not None else "",
        script=joined_scripts(template),
        data=_embedded(data) if data is not None else "",
        **words,
    )
    return text.encode()


@functools.cache
def joined_scripts(template: str) -> str:
    """Return the modules of a page as one."""
    names = SCRIPTS[template]
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", _read("scripts", name))) for name in names)


@functools.cache
def script_hashes(template: str) -> tuple[str, ...]:
    """Return what a Content-Security-Policy names the scripts of a page by, and no others."""
    if not SCRIPTS[template]:
        return ()
    # As they stand in frame.html.jinja.
    scripts = (_read("vendor", "plot.min.js"), f"\n{joined_scripts(template)}\n")
    digests = (hashlib.sha256(one.encode()).digest() for one in scripts)
    return tuple(f"sha256-{base64.b64encode(one).decode()}" for one in digests)


def _embedded(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    # Inside a script element "</" and "<!--" could change where it ends.
    return text.replace("<", "\\u003c")


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("loadstone.report.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@functools.cache
def _read(folder: str, name: str) -> str:
    place = resources.files("loadstone.report.pages").joinpath(folder, name)
    return place.read_text(encoding="utf-8")
