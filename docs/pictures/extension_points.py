"""A plugin at its extension points: the way of a pod, and where the gang policy acts.

Rules:
  R1  the points and their order are those of the framework; a point is marked if the plugin has
      its method;
  R2  what the plugin does there is set here, by hand: one text for each of its points, no more;
  R3  the picture is at most 400 pixels wide, so that its text can be read on a phone.
"""

from __future__ import annotations

from typing import Final

from gangsched import Coscheduling
from gangsched.profile import POINTS
from pictures.svg import FAINT, INK, Picture

__all__ = ["TEXTS", "extension_points"]

TEXTS: Final = {
    "pre_enqueue": ("an incomplete group is", "not admitted to the queue"),
    "queue_sort": ("members are contiguous", "in the queue"),
    "pre_filter": ("too few members exist:", "no node is looked at"),
    "post_filter": ("how long waiting members", "keep their nodes"),
    "reserve": ("takes nothing: it is there", "for unreserve"),
    "unreserve": ("a member lost its node:", "the attempt is rejected"),
    "permit": ("wait for the quorum; the", "last member releases all"),
}
"""What the gang policy does at each of its points, in two lines."""

FALLBACKS: Final = {"post_filter": "if no node fits", "unreserve": "if a later step fails"}
"""The points that are not on the way of a pod that is placed, and when they are called."""

OWN, OTHER = "#cfe8d5", "#f1f4f7"
WIDTH, LEFT, BOX, ROW, TOP = 400.0, 16.0, 140.0, 42.0, 44.0


def extension_points() -> str:
    """Return the picture.

    Raises:
        ValueError: The texts are not those of the points that the plugin has.
    """
    own = {point for point in POINTS if hasattr(Coscheduling, point)}
    if own != TEXTS.keys():
        raise ValueError(f"there are texts for {sorted(TEXTS)}, the plugin has {sorted(own)}")
    title = "The gang policy at its extension points"
    picture = Picture(WIDTH, TOP + ROW * len(POINTS) + 30, title)
    picture.text(LEFT, 26, title, font_weight="bold", font_size=14)
    way = [number for number, point in enumerate(POINTS) if point not in FALLBACKS]
    middle = LEFT + BOX / 2
    picture.line(middle, TOP, middle, TOP + ROW * way[-1], stroke=INK, stroke_width=1.5)
    for row, point in enumerate(POINTS):
        _point(picture, point, TOP + ROW * row)
    y = TOP + ROW * len(POINTS) + 14
    picture.rect(LEFT, y - 10, 16, 12, fill=OWN, stroke=INK, rx=2)
    picture.text(LEFT + 22, y, "the gang policy acts here")
    picture.rect(LEFT + 190, y - 10, 16, 12, fill=OTHER, stroke=FAINT, rx=2)
    picture.text(LEFT + 212, y, "other plugins only")
    return str(picture)


def _point(picture: Picture, point: str, top: float) -> None:
    own = point in TEXTS
    aside = 22.0 if point in FALLBACKS else 0.0
    box: dict[str, object] = {"fill": OWN if own else OTHER, "stroke": INK if own else FAINT}
    if aside:
        box["stroke_dasharray"] = "4 3"
    picture.rect(LEFT + aside, top, BOX - aside, 34, rx=5, **box)
    weight = {"font_weight": "bold"} if own else {}
    x = LEFT + aside + (BOX - aside) / 2
    when = FALLBACKS.get(point)
    y = top + (15 if when else 21)
    picture.text(x, y, point, text_anchor="middle", font_size=13, **weight)
    if when:
        picture.text(x, top + 28, when, text_anchor="middle", font_size=11)
    for number, line in enumerate(TEXTS.get(point, ())):
        picture.text(LEFT + BOX + 14, top + 14 + 15 * number, line, font_size=13)
