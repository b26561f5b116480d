"""Where words find room in a chart: in pixels, beside their point and across nothing else."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

CHARACTER_WIDTH = 6.3
LINE_HEIGHT = 13
POINT_RADIUS = 4
STEP = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A part of a chart that something takes up, in pixels from its upper left corner."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: "Box") -> bool:
        """Tell whether two boxes share any area."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """How far the middle of words lies from their point, in pixels right and down."""

    right: float
    down: float


def text_box(text: str, x: float, y: float) -> Box:
    """Return what words take up around their middle."""
    half = len(text) * CHARACTER_WIDTH / 2
    return Box(left=x - half, top=y - LINE_HEIGHT / 2, right=x + half, bottom=y + LINE_HEIGHT / 2)


def point_box(x: float, y: float) -> Box:
    """Return what a point takes up."""
    return Box(
        left=x - POINT_RADIUS, top=y - POINT_RADIUS, right=x + POINT_RADIUS, bottom=y + POINT_RADIUS
    )


def line_boxes(places: Sequence[tuple[float, float]]) -> Iterable[Box]:
    """Return what a line through these places takes up, as a row of small boxes."""
    for (x, y), (to_x, to_y) in pairwise(places):
        steps = max(1, int(max(abs(to_x - x), abs(to_y - y)) / STEP))
        for step in range(steps + 1):
            part = step / steps
            yield point_box(x + (to_x - x) * part, y + (to_y - y) * part)


def find_room(
    text: str,
    place: tuple[float, float],
    choices: Iterable[Offset],
    taken: Sequence[Box],
    edge: Box,
) -> Offset | None:
    """Return the first choice at which words lie inside the edge and across nothing taken."""
    for choice in choices:
        box = text_box(text, place[0] + choice.right, place[1] + choice.down)
        is_inside = (
            box.left >= edge.left
            and box.right <= edge.right
            and box.top >= edge.top
            and box.bottom <= edge.bottom
        )
        if is_inside and not any(box.overlaps(other) for other in taken):
            return choice
    return None
