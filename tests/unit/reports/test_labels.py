"""Labels stand where they cover nothing, as far as there is such a place."""

from __future__ import annotations

from matplotlib.axes import Axes

from reports.labels import Labels
from reports.svg import Frame, Picture, Spots


def corners(*points: tuple[float, float]) -> list[tuple[float, float]]:
    """Where the label of each point stands from it: right and up, in points."""
    found = []

    def paint(rows: list[Axes]) -> list[Spots]:
        rows[0].set(xlim=(0, 100), ylim=(0, 100))
        labels = Labels(rows[0], points)
        found.extend(labels.place("8/s", point).xyann for point in points)
        return []

    assert Picture(Frame("labels", "", "", 5, 5), paint).svg
    return found


def test_a_label_stands_left_above_its_point() -> None:
    assert corners((50, 50), (80, 80)) == [(-3, 5), (-3, 5)]


def test_a_point_above_sends_the_label_elsewhere() -> None:
    lower, upper = corners((50, 50), (49, 53))
    assert lower != (-3, 5)
    assert upper == (-3, 5)


def test_two_points_in_one_place_have_their_labels_apart() -> None:
    one, other = corners((50, 50), (50, 50))
    assert one != other


def test_no_label_leaves_the_axes_to_the_left_or_below() -> None:
    ((right, _),) = corners((0.5, 50))
    ((_, up),) = corners((50, 0.5))
    assert right > 0
    assert up > 0
