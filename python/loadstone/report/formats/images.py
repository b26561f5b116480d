"""Every chart as a file of its own, for slides and papers: SVG and PNG, made without a browser."""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

import resvg_py
from py_mini_racer import JSEvalException, MiniRacer

from loadstone.analysis import Findings
from loadstone.report.formats.html import drawn_of_run
from loadstone.report.options import Options
from loadstone.report.pages.frame import HEADLESS, joined, read_part
from loadstone.results.record import Run

WIDTH = 960

# The parts of a browser that the scripts and their library use.
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
    return tuple(Picture(**picture) for picture in json.loads(drawn))


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
            text_returned = engine.eval(
                f"(() => {{ {joined(HEADLESS)}\nreturn (() => {{ {script} }})(); }})()"
            )
        except JSEvalException as error:
            # The rest of the message is a whole line of the script, possibly the entire library.
            raise RuntimeError(str(error).strip().partition("\n")[0]) from None
    assert isinstance(text_returned, str), "scripts return text"
    return text_returned


def theme() -> dict[str, str]:
    """Return the colours of a light page by their variables."""
    root = read_part("styles", "page.css").partition("}")[0]
    return dict(re.findall(r"(--[\w-]+): ([^;]+);", root))


PNG_SCALE = 2
FONT = "Inter"


def render_svg(run: Run, findings: Findings, options: Options) -> Mapping[str, bytes]:
    return svg_files(_pictures(run, findings, options))


def render_png(run: Run, findings: Findings, options: Options) -> Mapping[str, bytes]:
    """Return one PNG for each chart, twice as fine as a screen needs it."""
    return png_files(_pictures(run, findings, options))


def _pictures(run: Run, findings: Findings, options: Options) -> tuple[Picture, ...]:
    """Return a layout's own charts where it has some, or else all charts of the run."""
    of_layout = options.layout.chart_data if options.layout is not None else None
    data = of_layout(run, findings, options) if of_layout else drawn_of_run(run, findings)
    return draw(data)


def svg_files(pictures: Sequence[Picture]) -> Mapping[str, bytes]:
    """Return charts as SVG, by their files' names."""
    return {f"{picture.name}.svg": picture.svg.encode() for picture in pictures}


def png_files(pictures: Sequence[Picture]) -> Mapping[str, bytes]:
    """Return charts as PNG, by their files' names, in a font that needs none of the host's."""
    fonts = resources.files("loadstone.report.pages").joinpath("vendor", "fonts")
    with contextlib.ExitStack() as stack:
        files = [
            str(stack.enter_context(resources.as_file(fonts / f"Inter-{weight}.ttf")))
            for weight in ("Regular", "SemiBold")
        ]
        return {
            f"{picture.name}.png": resvg_py.svg_to_bytes(
                svg_string=picture.svg,
                zoom=PNG_SCALE,
                font_files=files,
                font_family=FONT,
                sans_serif_family=FONT,
                # Names in scripts that the font lacks are drawn where the host has a font for them.
                skip_system_fonts=_is_known(picture.svg),
            )
            for picture in pictures
        }


def _is_known(text: str) -> bool:
    """Tell whether the fonts that are shipped have every letter of a text."""
    return all(letter <= "\u045f" or "\u2010" <= letter <= "\u27ff" for letter in text)
