"""Every chart as a file of its own, for slides and papers: SVG and PNG, made without a browser."""

import json
from collections.abc import Mapping, Sequence

import vl_convert

from loadstone.analysis import Findings
from loadstone.report.charts.drawing import Picture
from loadstone.report.charts.overview import evidence_pictures, pictures
from loadstone.report.options import Options
from loadstone.results.record import Run

PNG_SCALE = 2


def render_svg(run: Run, findings: Findings, options: Options) -> Mapping[str, bytes]:
    """Return one SVG for each chart."""
    return svg_files((*pictures(findings), *evidence_pictures(findings)))


def render_png(run: Run, findings: Findings, options: Options) -> Mapping[str, bytes]:
    """Return one PNG for each chart, twice as fine as a screen needs it."""
    return png_files((*pictures(findings), *evidence_pictures(findings)))


def svg_files(drawn: Sequence[Picture]) -> Mapping[str, bytes]:
    """Return charts as SVG, by their files' names."""
    return {f"{one.name}.svg": vl_convert.vegalite_to_svg(_text(one)).encode() for one in drawn}


def png_files(drawn: Sequence[Picture]) -> Mapping[str, bytes]:
    """Return charts as PNG, by their files' names."""
    return {
        f"{one.name}.png": vl_convert.vegalite_to_png(_text(one), scale=PNG_SCALE) for one in drawn
    }


def _text(picture: Picture) -> str:
    return json.dumps(picture.specification(with_title=True))
