"""Where a label stands beside its point: at a corner where it covers no other point or label."""

from __future__ import annotations

from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.text import Annotation

from reports.svg import MUTED

_SIZE = 7.5
_WIDE, _HIGH = 0.62 * _SIZE, _SIZE  # of a letter, in points
_REACH = 4.0  # of the mark of a point
# Left above comes first: no rising line passes there. Then closer to the line of the point.
_CORNERS = ((-3, 5), (-8, 1), (3, -5), (8, -1), (3, 5), (-3, -5))

# Left, bottom, right and top of what is taken.
Box = tuple[float, float, float, float]


@dataclass(slots=True)
class Labels:
    """The labels of `axes`, whose limits are as they stay; `marks` are all points on them."""

    axes: Axes
    marks: tuple[tuple[float, float], ...]
    _taken: list[Box] = field(default_factory=list, init=False)

    def place(self, text: str, at: tuple[float, float]) -> Annotation:
        """Write `text` beside the point `at`: where it covers least, and inside the axes."""
        x, y = self._shown(at)
        boxes = {corner: _box(x, y, corner, len(text)) for corner in _CORNERS}
        right, up = min(boxes, key=lambda corner: self._covered(boxes[corner]))
        self._taken.append(boxes[right, up])
        return self.axes.annotate(
            text,
            at,
            xytext=(right, up),
            textcoords="offset points",
            ha="left" if right > 0 else "right",
            va="bottom" if up > 0 else "top",
            fontsize=_SIZE,
            color=MUTED,
        )

    def _covered(self, box: Box) -> int:
        """How much the box would cover; to leave the axes is worst."""
        left, bottom, right, top = box
        marks = [self._shown(mark) for mark in self.marks]
        points = sum(
            left - _REACH < x < right + _REACH and bottom - _REACH < y < top + _REACH
            for x, y in marks
        )
        labels = sum(
            left < other[2] and right > other[0] and bottom < other[3] and top > other[1]
            for other in self._taken
        )
        is_outside = bool(left < self.axes.bbox.x0 or bottom < self.axes.bbox.y0)
        return points + labels + 9 * is_outside

    def _shown(self, at: tuple[float, float]) -> tuple[float, float]:
        """Where a point of the data is, in points of the drawing."""
        x, y = self.axes.transData.transform(at)
        return float(x), float(y)


def _box(x: float, y: float, corner: tuple[int, int], letters: int) -> Box:
    right, up = corner
    left = x + right - (0 if right > 0 else _WIDE * letters)
    bottom = y + up - (0 if up > 0 else _HIGH)
    return left, bottom, left + _WIDE * letters, bottom + _HIGH
