"""The pictures of the queue, the extension points and Permit show what the library does."""

from __future__ import annotations

import re

import pytest

from gangsched import Coscheduling
from gangsched.profile import POINTS
from pictures import extension_points, permit_barrier, queue_order
from pictures.queue_order import ARRIVALS, LATE, sorted_queue

NARROW = (
    extension_points.extension_points,
    permit_barrier.permit_barrier,
    queue_order.queue_order,
)


def _texts(picture: str) -> list[str]:
    return re.findall(r"<text [^>]*>([^<]+)</text>", picture)


def test_pods_without_groups_are_queued_as_they_were_created() -> None:
    assert sorted_queue(ARRIVALS, grouped=False) == ARRIVALS


def test_sorted_groups_are_contiguous_and_keep_their_order() -> None:
    before, after = queue_order.queue_order().split("After")

    assert sorted_queue((*ARRIVALS, LATE), grouped=True) == (
        *("a-1", "a-2", "a-3", "a-4"),
        *("b-1", "b-2", "b-3"),
        "x",
    )
    assert "All of a, all of b, then x" in after
    assert "interleaved" in before


def test_three_members_wait_at_permit_and_then_four_are_bound() -> None:
    first, second = permit_barrier.instants()
    members = {f"{permit_barrier.JOB}-{number}" for number in range(permit_barrier.MEMBERS)}

    assert len(first.waiting) == 3
    assert set(first.waiting) | set(first.pending) == members
    assert set(first.bound) == {permit_barrier.OTHER}
    assert (second.waiting, second.pending) == ({}, ())
    assert set(second.bound) == members


def test_no_node_is_drawn_with_more_pods_than_it_takes() -> None:
    for instant in permit_barrier.instants():
        taken = [*instant.waiting.values(), *instant.bound.values()]
        for node in permit_barrier.NODES:
            assert taken.count(node) <= permit_barrier.SLOTS


def test_every_extension_point_is_drawn_in_its_order() -> None:
    drawn = [text for text in _texts(extension_points.extension_points()) if text in POINTS]

    assert drawn == list(POINTS)


def test_point_that_the_plugin_gains_must_be_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Coscheduling, "pre_bind", lambda *_: None, raising=False)

    with pytest.raises(ValueError, match="pre_bind"):
        extension_points.extension_points()


@pytest.mark.parametrize("draw", NARROW)
def test_picture_can_be_read_on_a_phone(draw: object) -> None:
    assert callable(draw)
    picture = str(draw())
    (width,) = re.findall(r'<svg [^>]*?width="(\d+)"', picture)
    sizes = [float(size) for size in re.findall(r'font-size="([\d.]+)"', picture)]

    assert int(width) <= 400
    assert min(sizes) >= 11
