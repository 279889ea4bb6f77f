"""Room for a member of a gang is on a node that has enough of each resource free."""

from __future__ import annotations

import pytest

from gangsched import Backfill, GroupKey, NodeName
from gangsched.framework.backfill.room import Room
from support.backfill_host import EXACT, Host

pytestmark = pytest.mark.once("capacity is reserved with the unit group only")


@pytest.mark.parametrize(
    ("cpu", "memory", "takes"), [(2000, 10, True), (1999, 10, False), (2000, 9, False)]
)
def test_node_has_room_with_enough_of_each_resource(cpu: int, memory: int, takes: bool) -> None:
    host = Host(Backfill(EXACT), a=1)
    for number in range(2):
        requests: dict[str, str | int] = {"memory": "10m"}
        name = f"g-{number}"
        host.pod(name, 10, cpu=2, group="g", min_available=2, requests=requests)
    state = host.scheduler._state
    entity = state.pods.entities[GroupKey("default/g")]
    room = Room(state.settings, state.pods, state.call, entity)
    assert room.has_room({"cpu": cpu, "memory": memory}) is takes
    for number, name in enumerate(("x", "y"), start=1):
        room.put(NodeName(name), {"cpu": cpu, "memory": memory})
        assert room.is_enough is (takes and number == 2)
