"""The order of packing within a value of a label follows the nodes of the value."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Bound,
    Event,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    NodeUpdated,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Topology,
    presets,
)
from gangsched.framework.placement.plan import Domain
from gangsched.options import PlacementStrategy
from gangsched.testing import make_node, make_pod


class Racks:
    """A scheduler that packs gangs within a rack; each bind is reported at once."""

    def __init__(self, **cpus: int) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler = presets.gang(self.cluster, placement=PlacementStrategy.PACK)
        for name, cpu in cpus.items():
            self.tell(NodeAdded(make_node(name, cpu=cpu, labels={"rack": name[0]})))

    def tell(self, event: Event) -> None:
        self.scheduler.handle(self.cluster.apply(event), now=0.0)

    def gang(self, name: str, count: int, **more: Any) -> dict[str, int]:
        """Start a gang; return how many members each node got."""
        spec = PodGroup(name=name, min_available=count, topology=Topology("rack"))
        self.tell(PodGroupAdded(spec))
        for n in range(count):
            self.tell(PodAdded(make_pod(f"{name}-{n}", group=name, cpu=1, **more)))
        found: dict[str, int] = {}
        while (effects := self.scheduler.schedule_one(now=0.0)) is not None:
            for effect in effects:
                if isinstance(effect, Bind):
                    found[effect.node] = found.get(effect.node, 0) + 1
                    self.tell(Bound(effect.uid, effect.node, effect.attempt))
        self.scheduler._check()
        return found


def packed() -> list[dict[str, int]]:
    """Return on which nodes three gangs of a rack are, of which a node grows meanwhile."""
    racks = Racks(a0=2, a1=4, a2=3, b0=1)
    found = [racks.gang("first", 3)]
    grown = evolve(make_node("a0", cpu=9, labels={"rack": "a"}))
    racks.tell(NodeUpdated(grown))
    found += [racks.gang("second", 6), racks.gang("third", 3)]
    return found


def test_gang_is_packed_on_the_largest_node_of_its_value_after_nodes_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = packed()
    assert found[1] == {NodeName("a0"): 6}
    monkeypatch.setattr(Domain, "within", None)  # then all nodes are looked at
    assert packed() == found
