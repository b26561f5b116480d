"""Every chart as a file of its own, for slides and papers: SVG and PNG, made without a browser."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence

import vl_convert

from loadstone.analysis import Findings
from loadstone.report.charts.datasafe import charts_of_datasafe
from loadstone.report.charts.overview import evidence_pictures, pictures
from loadstone.report.charts.parts.drawing import Picture
from loadstone.report.charts.script_sessions import charts_of_sessions
from loadstone.report.options import Options
from loadstone.results.record import Run

PNG_SCALE = 2

LAYOUTS: Mapping[str, Callable[[Run, Findings, Options], tuple[Picture, ...]]] = {
    "datasafe": charts_of_datasafe,
}
"""The layouts of published reports that have charts of their own, by the names of their tables."""


def render_svg(run: Run, findings: Findings, options: Options) -> Mapping[str, bytes]:
    """Return one SVG for each chart."""
    return svg_files(_pictures(run, findings, options))


def render_png(run: Run, findings: Findings, options: Options) -> Mapping[str, bytes]:
    """Return one PNG for each chart, twice as fine as a screen needs it."""
    return png_files(_pictures(run, findings, options))


def _pictures(run: Run, findings: Findings, options: Options) -> tuple[Picture, ...]:
    """Return a layout's own charts where it has some, or else all charts of the run."""
    draw = LAYOUTS.get(options.table or "")
    if draw is not None:
        return draw(run, findings, options)
    sessions = charts_of_sessions(run) if findings.actions else ()
    return (*pictures(findings), *sessions, *evidence_pictures(findings))


def svg_files(drawn: Sequence[Picture]) -> Mapping[str, bytes]:
    """Return charts as SVG, by their files' names."""
    return {f"{one.name}.svg": _svg(one, with_title=True) for one in drawn}


def _svg(picture: Picture, *, with_title: bool) -> bytes:
    text = json.dumps(picture.specification(with_title=with_title))
    return vl_convert.vegalite_to_svg(text).encode()


def embedded(drawn: Sequence[Picture]) -> tuple[tuple[Picture, str], ...]:
    """Return charts, each with its SVG in Base64, as a page holds it: the page says the title."""
    return tuple((one, base64.b64encode(_svg(one, with_title=False)).decode()) for one in drawn)


def png_files(drawn: Sequence[Picture]) -> Mapping[str, bytes]:
    """Return charts as PNG, by their files' names."""
    return {
        f"{one.name}.png": vl_convert.vegalite_to_png(_text(one), scale=PNG_SCALE) for one in drawn
    }


def _text(picture: Picture) -> str:
    return json.dumps(picture.specification(with_title=True))
