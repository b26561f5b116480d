"""The frame of every page: templates, styles, scripts and the charts' library in one file."""

import base64
import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

STYLES = ("page.css", "tables.css", "charts.css", "print.css")
DRAWING = ("words.js", "lettering.js", "selection.js", "charts.js")
CHARTS = (
    *DRAWING, "overview.js", "operations.js", "load.js", "times.js", "distributions.js",
    "searches.js", "sessions.js", "proofs.js", "queries.js", "comparison.js", "history.js",
    "sections.js",
)  # fmt: skip
PAGE = (*CHARTS, "tables.js", "frame.js", "page.js")
HEADLESS = (*CHARTS, "headless.js")
"""Scripts that draw the charts of a page without a browser."""

SCRIPTS: Mapping[str, tuple[str, ...]] = {
    "run.html.jinja": PAGE,
    "comparison.html.jinja": PAGE,
    "history.html.jinja": PAGE,
    "queries.html.jinja": PAGE,
    "account.html.jinja": PAGE,
    "card.html.jinja": PAGE,
    "runs.html.jinja": (*DRAWING, "tables.js", "frame.js", "runs.js"),
    "live.html.jinja": (*DRAWING, "frame.js", "live.js"),
    "message.html.jinja": (),
}
"""The modules of each page, in the order in which they need each other: joined, they are one."""

_IMPORT = re.compile(r"^import .*?;\n", re.MULTILINE | re.DOTALL)
_EXPORT = re.compile(r"^export (?=function|const|let|class)", re.MULTILINE)


def render_page(template: str, *, data: Mapping[str, Any] | None, **words: Any) -> bytes:
    """Return a whole page; `data` is what its scripts draw from, without which it has none."""
    page = _environment().get_template(template)
    text = page.render(
        style="\n".join(read_part("styles", name) for name in STYLES),
        library=read_part("vendor", "plot.min.js") if data is not None else "",
        script=joined_scripts(template),
        data=_embedded(data) if data is not None else "",
        **words,
    )
    return text.encode()


@functools.cache
def joined_scripts(template: str) -> str:
    """Return the modules of a page as one."""
    return joined(SCRIPTS[template])


def joined(names: Sequence[str]) -> str:
    """Return modules of scripts as one."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", read_part("scripts", name))) for name in names)


@functools.cache
def script_hashes(template: str) -> tuple[str, ...]:
    """Return what a Content-Security-Policy names the scripts of a page by, and no others."""
    if not SCRIPTS[template]:
        return ()
    # As they stand in frame.html.jinja.
    scripts = (read_part("vendor", "plot.min.js"), f"\n{joined_scripts(template)}\n")
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    return tuple(f"sha256-{base64.b64encode(digest).decode()}" for digest in digests)


def _embedded(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    # Inside a script element "</" and "<!--" could change where it ends.
    return text.replace("<", "\\u003c")


@functools.cache
def _environment() -> "Environment":
    # Terminals and programs get the same without it.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("loadstone.report.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@functools.cache
def read_part(folder: str, name: str) -> str:
    """Return one file of what pages are made of."""
    place = resources.files("loadstone.report.pages").joinpath(folder, name)
    return place.read_text(encoding="utf-8")
