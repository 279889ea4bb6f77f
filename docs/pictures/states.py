"""The two machines as boxes and arrows.

Rules:
  R1  an arrow is a move of the table: a move that is not in the table cannot be drawn;
  R2  the places of boxes and the bends of arrows are set here, by hand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import frozen

from pictures.moves import MEMBERS, QUEUE
from pictures.svg import INK, Picture, number

__all__ = ["member_states", "queue_places"]

LINE = "#52606d"
HEIGHT = 34.0


@frozen
class Box:
    """A state.

    Attributes:
        x: The centre.
        y: The centre.
        width: In pixels.
        fill: The colour: no node is held, a node is held, or the pod has ended.
        below: The text below its name.
    """

    x: float
    y: float
    width: float
    fill: str
    below: str = ""

    @property
    def height(self) -> float:
        """In pixels."""
        return HEIGHT + (13 if self.below else 0)


@frozen
class Arrow:
    """A move.

    Attributes:
        start: The state before.
        end: The state after.
        bend: How far its middle is off the straight line, to the left in its direction.
        label: Its text; a slash separates lines.
        dx: How far the label is off the middle.
        dy: Likewise.
    """

    start: str
    end: str
    bend: float = 0.0
    label: str = ""
    dx: float = 0.0
    dy: float = -6.0


FREE, HELD, OVER = "#e4ecf5", "#cfe8d5", "#eceff2"


def member_states() -> str:
    """Return the states of a member, and the moves of its life."""
    picture = Picture(800, 316, "The states of a member of a group")
    boxes = {
        "unknown": Box(60, 110, 84, "#ffffff"),
        "gated": Box(215, 50, 90, FREE),
        "unscheduled": Box(215, 170, 116, FREE),
        "refused": Box(215, 268, 90, FREE),
        "waiting": Box(395, 170, 90, HELD),
        "binding": Box(550, 170, 90, HELD),
        "assigned": Box(710, 170, 100, HELD),
        "ended": Box(410, 50, 80, OVER),
        "succeeded": Box(560, 50, 100, OVER),
        "failed": Box(710, 50, 90, OVER),
        "terminating": Box(640, 268, 112, OVER),
    }
    arrows = (
        Arrow("unknown", "gated", 0, "with gates", -4, -6),
        Arrow("unknown", "unscheduled", 0, "is added", -2, 14),
        Arrow("unknown", "refused", -30, "contradicts/its group", -22, 16),
        Arrow("gated", "ended", 0, "finishes", 0, -6),
        Arrow("gated", "unscheduled", 0, "last gate/is removed", 40, -4),
        Arrow("unscheduled", "refused", 14, "", 0, 0),
        Arrow("refused", "unscheduled", 14, "", 0, 0),
        Arrow("unscheduled", "waiting", 12, "is given/a node", 0, -16),
        Arrow("waiting", "unscheduled", 22, "attempt rejected", 6, 14),
        Arrow("waiting", "binding", 0, "quorum:/is released", 0, -19),
        Arrow("binding", "assigned", 0, "Bound", 0, -6),
        Arrow("binding", "unscheduled", 72, "BindFailed", 20, 14),
        Arrow("assigned", "succeeded", 0, "", 0, 0),
        Arrow("assigned", "failed", 0, "finishes", 24, 0),
        Arrow("assigned", "terminating", 0, "is being/deleted", 40, 0),
    )
    _draw(picture, boxes, arrows, MEMBERS)
    _key(
        picture,
        300,
        ((FREE, "holds no node"), (HELD, "holds a node"), (OVER, "ends, or has ended")),
    )
    return str(picture)


def queue_places() -> str:
    """Return the places of the queue, and the moves between them."""
    picture = Picture(800, 340, "The places of the queue")
    boxes = {
        "nowhere": Box(74, 170, 104, "#ffffff", "no pending pod"),
        "not admitted": Box(300, 50, 128, FREE, "unschedulable"),
        "active": Box(400, 190, 100, HELD, "is tried next"),
        "parked": Box(710, 50, 120, FREE, "unschedulable"),
        "nominated": Box(710, 212, 120, FREE, "unschedulable"),
        "backoff": Box(560, 302, 100, OVER, "waits"),
    }
    arrows = (
        Arrow("nowhere", "not admitted", 12, "is added,/incomplete", -40, -10),
        Arrow("nowhere", "active", 10, "is added, complete", 6, -8),
        Arrow("active", "nowhere", 16, "is placed, or deleted", 0, 18),
        Arrow("not admitted", "active", 10, "complete", 36, -4),
        Arrow("active", "not admitted", 10, "incomplete", -36, 6),
        Arrow("active", "parked", 14, "does not fit", -30, -8),
        Arrow("parked", "active", 12, "a node may take more,/and it is first", 84, 2),
        Arrow("active", "nominated", 8, "pods are evicted for it", 28, -6),
        Arrow("nominated", "active", 8, "its victims are gone", 40, 18),
        Arrow("active", "backoff", 12, "a bind or/a plugin fails", 54, 22),
        Arrow("backoff", "active", 12, "backoff is over", -48, 12),
    )
    _draw(picture, boxes, arrows, QUEUE)
    return str(picture)


def _draw(
    picture: Picture,
    boxes: Mapping[str, Box],
    arrows: tuple[Arrow, ...],
    moves: Mapping[tuple[str, str], str],
) -> None:
    named = {name for move in moves for name in move}
    if named != boxes.keys():
        raise ValueError(f"the boxes are {sorted(boxes)}, the states are {sorted(named)}")
    picture.raw(
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{LINE}"/></marker></defs>'
    )
    for arrow in arrows:
        if (arrow.start, arrow.end) not in moves:
            raise ValueError(f"there is no move from {arrow.start} to {arrow.end}")
        _arrow(picture, arrow, boxes[arrow.start], boxes[arrow.end])
    for name, box in boxes.items():
        _box(picture, name, box)


def _box(picture: Picture, name: str, box: Box) -> None:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    dashes = {"stroke_dasharray": "4 3"} if box.fill == "#ffffff" else {}
    picture.rect(left, top, box.width, box.height, fill=box.fill, stroke=LINE, rx=6, **dashes)
    middle = box.y + (-2 if box.below else 4)
    picture.text(box.x, middle, name, text_anchor="middle", font_weight="bold")
    if box.below:
        picture.text(box.x, box.y + 14, box.below, text_anchor="middle", font_size=10.5)


def _arrow(picture: Picture, arrow: Arrow, start: Box, end: Box) -> None:
    length = math.hypot(end.x - start.x, end.y - start.y)
    left = ((end.y - start.y) / length, -(end.x - start.x) / length)
    middle_x = (start.x + end.x) / 2 + left[0] * arrow.bend * 2
    middle_y = (start.y + end.y) / 2 + left[1] * arrow.bend * 2
    x1, y1 = _edge(start, middle_x, middle_y)
    x2, y2 = _edge(end, middle_x, middle_y)
    path = f"M{number(x1)},{number(y1)} Q{number(middle_x)},{number(middle_y)} "
    picture.shape(
        "path",
        d=f"{path}{number(x2)},{number(y2)}",
        fill="none",
        stroke=LINE,
        stroke_width=1.3,
        marker_end="url(#tip)",
    )
    x = (x1 + 2 * middle_x + x2) / 4 + arrow.dx
    y = (y1 + 2 * middle_y + y2) / 4 + arrow.dy
    for row, words in enumerate(arrow.label.split("/") if arrow.label else ()):
        picture.text(
            x,
            y + 12 * row,
            words,
            text_anchor="middle",
            font_size=10.5,
            fill=INK,
            stroke="#ffffff",
            stroke_width=3,
            paint_order="stroke",
        )


def _edge(box: Box, towards_x: float, towards_y: float) -> tuple[float, float]:
    """Return where the line from the middle of a box to a point leaves it."""
    dx, dy = towards_x - box.x, towards_y - box.y
    across = box.width / 2 / abs(dx) if dx else math.inf
    along = box.height / 2 / abs(dy) if dy else math.inf
    part = min(across, along)
    return box.x + dx * part, box.y + dy * part


def _key(picture: Picture, y: float, kinds: tuple[tuple[str, str], ...]) -> None:
    x = 300.0
    for fill, words in kinds:
        picture.rect(x, y - 10, 16, 12, fill=fill, stroke=LINE, rx=2)
        picture.text(x + 22, y, words, font_size=10.5)
        x += 42 + 6 * len(words)
