"""The charts of a page without a browser: drawn by the page's own scripts, each as an SVG."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from py_mini_racer import JSEvalException, MiniRacer

from loadstone.report.pages.frame import HEADLESS, joined, read_part

WIDTH = 960

# What a browser has, as far as the scripts and their library ask for it.
_BROWSER = """
var window = globalThis, self = globalThis;
var performance = { now: () => Date.now() };
var XMLSerializer = class { serializeToString(node) { return node.toString(); } };
"""
_DOCUMENT = """
var document = new Dom.HTMLDocument();
document.append(document.createElement("html"));
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One chart by itself; `name` is its file's name, and its anchor on a page."""

    name: str
    title: str
    caption: str
    svg: str


def draw(data: Mapping[str, Any], *, width: int = WIDTH) -> tuple[Picture, ...]:
    """Return every chart that there are data for, in the order in which a page has them."""
    drawn = run_script(data, f"return pictures({width}, {json.dumps(theme())})")
    return tuple(Picture(**one) for one in json.loads(drawn))


def run_script(data: Mapping[str, Any], script: str) -> str:
    """Return what a script returns, which knows the page's data and the functions of its charts."""
    with MiniRacer() as engine:
        engine.eval(_BROWSER)
        engine.eval(read_part("vendor", "dom.min.js"))
        engine.eval(_DOCUMENT)
        engine.eval(read_part("vendor", "plot.min.js"))
        text = json.dumps(json.dumps(data))
        engine.eval(
            "{ const place = document.createElement('script'); place.id = 'data';"
            f" place.textContent = {text}; document.documentElement.append(place); }}"
        )
        try:
            found = engine.eval(
                f"(() => {{ {joined(HEADLESS)}\nreturn (() => {{ {script} }})(); }})()"
            )
        except JSEvalException as error:
            # What follows is the whole line of the script, which may be all of the library.
            raise RuntimeError(str(error).strip().partition("\n")[0]) from None
    assert isinstance(found, str), "scripts return text"
    return found


def theme() -> dict[str, str]:
    """Return the colours of a light page by their variables."""
    root = read_part("styles", "page.css").partition("}")[0]
    return dict(re.findall(r"(--[\w-]+): ([^;]+);", root))
