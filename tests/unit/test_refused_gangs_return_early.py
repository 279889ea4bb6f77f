"""Gangs that a plugin refused return early from backoff, and one refusal holds for their class."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from gangsched import (
    NodeAdded,
    NodeName,
    Outcome,
    Pod,
    PodAdded,
    PodDeleted,
    PodUID,
    SchedulingUnit,
    Success,
    Unschedulable,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost


class Licence:
    """Lets one pod run at once, and refuses any other at ``permit``."""

    name = "Licence"

    def __init__(self) -> None:
        self.held: set[PodUID] = set()
        self.asked: list[str] = []

    def pod_signature(self, pod: Pod) -> Hashable:
        return None

    def permit(self, state: object, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        self.asked.append(pod.name)
        return Unschedulable("no licence is free") if self.held - {pod.uid} else Success()

    def reserve(self, state: object, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        if not self.held:
            self.held.add(pod.uid)
        return Success()

    def unreserve(self, state: object, pod: Pod, node: NodeName, *, cause: str, now: float) -> None:
        self.held.discard(pod.uid)

    def pod_ended(self, pod: Pod, node: NodeName, *, now: float) -> bool:
        self.held.discard(pod.uid)
        return True


@pytest.mark.parametrize("unit", list(SchedulingUnit))
def test_end_of_a_pod_costs_one_failed_try_for_each_class_of_gangs(unit: SchedulingUnit) -> None:
    plugin, host = Licence(), ImmediateHost()
    host.scheduler = presets.coscheduling(host.cluster, unit=unit, plugins=(plugin,))
    host.tell(NodeAdded(make_node("n", cpu=8)))
    host.tell(PodAdded(make_pod("first", cpu=1)))
    assert host.decide() == ["first"]
    for number in range(5):
        host.tell(PodAdded(make_pod(f"g{number}-0", group=f"g{number}", min_available=1, cpu=1)))
        host.decide()
    host.now = 0.5  # before a backoff ends
    plugin.asked.clear()
    host.tell(PodDeleted(PodUID("default/first")))
    assert host.decide() == ["g0-0"]
    assert plugin.asked == ["g0-0", "g1-0"]
