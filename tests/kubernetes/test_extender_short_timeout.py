"""kube-scheduler 1.37 that gives up a bind long before the gang has arrived."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.control_plane import ControlPlane
from support.extended import Extended

pytestmark = pytest.mark.once("the gangs are placed through kube-scheduler")


@pytest.fixture
def cluster(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Extended]:
    control_plane.admin.delete("/api/v1/nodes")
    found = Extended(control_plane, namespace, tmp_path)
    try:
        yield found
    finally:
        found.stop()


def test_gangs_start_soon_although_kube_scheduler_gives_up_their_first_binds(
    cluster: Extended,
) -> None:
    """A gang has more members than kube-scheduler tries within ``httpTimeout``."""
    cluster.start_extender()
    cluster.start_scheduler(timeout="250ms")
    for number in range(4):
        cluster.add_node(f"n{number}", cpu="32")
    for number in range(3):
        cluster.add_gang(f"g{number}", 40)
    began = time.monotonic()
    cluster.until_bound("g")
    took = time.monotonic() - began
    requests = cluster.requests()
    assert requests["bind", 499] > 0
    assert requests["bind", 499] < 3 * 120  # each member was given up some times at most
    assert took < 30.0  # it was over a minute when a member that was given up was awaited again
    counts = [cluster.nodes().count(f"n{number}") for number in range(4)]
    assert sum(counts) == 120
    assert max(counts) <= 32
