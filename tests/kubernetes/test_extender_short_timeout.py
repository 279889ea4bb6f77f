"""kube-scheduler 1.37 that gives up a bind long before the gang has arrived."""

from __future__ import annotations

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


def test_gang_starts_although_kube_scheduler_gives_up_its_first_binds(cluster: Extended) -> None:
    """It has many more members than kube-scheduler tries within ``httpTimeout``.

    So it never starts if a member has to arrive again whose bind was given up.
    """
    cluster.start_extender()
    cluster.start_scheduler(timeout="250ms")
    for number in range(4):
        cluster.add_node(f"n{number}", cpu="32")
    cluster.add_gang("g", 120)
    cluster.until_bound("g")
    requests = cluster.requests()
    assert requests["bind", 499] > 0
    assert requests["bind", 499] < 6 * 120  # each member was given up some times at most
    counts = [cluster.nodes().count(f"n{number}") for number in range(4)]
    assert sum(counts) == 120
    assert max(counts) <= 32
