"""The queue before and after sorting: pods of two groups that arrived in alternation.

Rules:
  R1  both rows are sorted by the library, not by hand: the upper one without groups, the lower one
      with them;
  R2  the picture is at most 400 pixels wide, so that its text can be read on a phone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gangsched import Pod, PodGroupRegistry, QueuedPod, membership, sort_key
from pictures.svg import FAINT, INK, Picture

__all__ = ["ARRIVALS", "LATE", "queue_order", "sorted_queue"]

ARRIVALS: Final = ("a-1", "b-1", "a-2", "x", "b-2", "a-3", "b-3")
"""Members of the groups a and b, and a pod without a group, in the order in which they arrive."""
LATE: Final = "a-4"
"""The member that arrives when the others are queued."""

FILLS: Final = {"a": "#cfe0f3", "b": "#fbdcb8", "x": "#eceff2"}
BOX, STEP, HEIGHT, LEFT = 38.0, 46.0, 30.0, 16.0
WIDTH: Final = 400.0


def sorted_queue(names: Sequence[str], *, grouped: bool) -> tuple[str, ...]:
    """Return pods in queue order.

    Args:
        names: The pods, in the order in which they arrive. ``a-1`` is a member of the group ``a``.
        grouped: Whether the pods belong to their groups; else each is a pod of its own.
    """
    registry = PodGroupRegistry()
    queued: list[QueuedPod] = []
    for number, name in enumerate(names):
        group, dash, _index = name.partition("-")
        at = float(number)
        pod = Pod(name=name, created_at=at, pod_group=group if dash and grouped else None)
        claim = membership(pod)
        info = None if claim is None else registry.join(pod, claim)
        queued.append(QueuedPod(pod=pod, seq=number, queued_at=at, group=info))
    return tuple(each.pod.name for each in sorted(queued, key=sort_key))


def queue_order() -> str:
    """Return the picture."""
    picture = Picture(WIDTH, 300, "The queue before and after sorting by pod group")
    names = (*ARRIVALS, LATE)
    before = sorted_queue(names, grouped=False)
    after = sorted_queue(names, grouped=True)
    picture.text(LEFT, 28, "Before: pods in the order of their creation", font_weight="bold")
    picture.text(LEFT, 46, "Groups a and b are interleaved; x has no group.")
    picture.text(LEFT, 224, "After: sorted by pod group", font_weight="bold")
    picture.text(LEFT, 242, "All of a, all of b, then x: each group by its")
    picture.text(LEFT, 258, f"creation. {LATE} arrived last, and goes to its group.")
    for index, name in enumerate(before):
        x1, x2 = _centre(index), _centre(after.index(name))
        picture.line(x1, 58 + HEIGHT, x2, 172, stroke=FAINT, stroke_width=1.5)
    for top, row in ((58.0, before), (172.0, after)):
        for index, name in enumerate(row):
            _pod(picture, name, _centre(index), top)
    picture.text(LEFT, 284, "The head of the queue is on the left.", font_size=11)
    return str(picture)


def _centre(index: int) -> float:
    return LEFT + BOX / 2 + STEP * index


def _pod(picture: Picture, name: str, x: float, top: float) -> None:
    late = {"stroke": INK, "stroke_width": 2} if name == LATE else {"stroke": FAINT}
    fill = FILLS[name[0]]
    picture.rect(x - BOX / 2, top, BOX, HEIGHT, fill=fill, rx=5, **late)
    picture.text(x, top + 19, name, text_anchor="middle", font_size=13)
