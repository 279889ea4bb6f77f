"""Each reason for lack of capacity names the nodes that are reserved; no other reason does."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import frozen

from gangsched.explain import Diagnosis, Shortage
from gangsched.kubernetes._reserved import with_reservation
from gangsched.model import GroupKey, NodeName

LARGE = GroupKey("default/large")


@frozen
class Reservation:
    """What a scheduler shows of its reservation."""

    group: GroupKey = LARGE
    nodes: tuple[NodeName, ...] = (NodeName("a"),)


class Scheduler:
    """A scheduler with a reservation and no known groups."""

    def __init__(self) -> None:
        self.reservation = Reservation()
        self.registry: dict[GroupKey, Any] = {}


def says(reason: str) -> bool:
    scheduler: Any = Scheduler()
    said = with_reservation(reason, scheduler, GroupKey("default/small"))
    return said == f"{reason.rstrip('.')}; 1 node(s) are reserved for pod group default/large"


@pytest.mark.parametrize(
    "shortage",
    [
        Shortage(8, 5, exact=True),
        Shortage(8, 7, exact=False),
        Shortage(8, 5, exact=True, within="rack=r1"),
        Shortage(8, 5, exact=True, role="worker", within="rack=a b", group=LARGE),
        Shortage(8, 5, exact=True, role="worker", within="rack=a b", beside_others=True),
        Shortage(8, 5, exact=True, resource="cpu", within="rack=r1"),
        Shortage(8, 5, exact=True, resource="cpu", in_pieces=True),
    ],
    ids=str,
)
def test_gang_that_lacks_capacity_is_told_of_reserved_nodes(shortage: Shortage) -> None:
    assert says(str(shortage))


def test_pod_that_lacks_capacity_is_told_of_reserved_nodes() -> None:
    assert says(str(Diagnosis(1, (("Insufficient cpu", 1),))))


@pytest.mark.parametrize(
    "reason",
    [
        "0/1 nodes are available: 1 node(s) had untolerated taint(s).",
        "2 of 3 members are present",
        "tried at once",
    ],
)
def test_other_reason_stays_as_it_is(reason: str) -> None:
    assert not says(reason)
