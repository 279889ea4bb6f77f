"""A scheduler with preemption, its cluster, and the effects."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest
from attrs import evolve

from gangsched import (
    Coscheduling,
    CycleState,
    Evict,
    NodeAdded,
    NodeName,
    NominationLapsed,
    Outcome,
    Pod,
    PodAdded,
    Preemption,
    Profile,
    Scheduler,
    SchedulingUnit,
    StateKey,
    Success,
)
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import NodeView
from gangsched.testing import make_node, make_pod
from support.faulty_plugin import FaultyPlugin
from support.immediate_host import ImmediateHost

__all__ = ["EACH_UNIT", "Host", "blocked", "pass_to_members", "reason_of", "runs"]

T = TypeVar("T")

EACH_UNIT = pytest.mark.parametrize("unit", list(SchedulingUnit))

_LEFT: StateKey[tuple[str, float]] = StateKey("left")


class Host(ImmediateHost):
    """A scheduler with preemption, and its cluster; victims leave later."""

    def __init__(
        self,
        *nodes: int,
        unit: SchedulingUnit = SchedulingUnit.POD,
        faulty: FaultyPlugin | None = None,
        preemption: Preemption | None = None,
    ) -> None:
        super().__init__()
        plugins = () if faulty is None else (faulty,)
        profile = Profile(Coscheduling(), NodeResources(), *plugins, DefaultBinder())
        self.scheduler = Scheduler(
            self.cluster, profile, unit=unit, preemption=preemption or Preemption()
        )
        for number, cpu in enumerate(nodes):
            self.tell(NodeAdded(make_node(f"n{number}", cpu=cpu, labels={"rack": f"r{number}"})))

    def pods(self, *pods: Pod) -> None:
        for pod in pods:
            self.tell(PodAdded(pod))
        self.decide()

    def gang(self, name: str, count: int, priority: int, **more: Any) -> None:
        each: dict[str, Any] = {"group": name, "cpu": 1, "min_available": count, **more}
        self.pods(*[make_pod(f"{name}-{n}", priority=priority, **each) for n in range(count)])

    def end(self, *names: str) -> None:
        super().end(*names)
        self.decide()

    def told(self, kind: type[T]) -> list[T]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def evicted(self) -> list[str]:
        return [effect.uid.partition("/")[2] for effect in self.told(Evict)]

    @property
    def where(self) -> dict[str, str]:
        return {pod.name: pod.node_name for pod in self.cluster.pods() if pod.node_name}

    @property
    def kept(self) -> list[str]:
        """The pods that nodes withhold capacity for, by name."""
        rows = self.scheduler.snapshot().get("nominations", ())
        found = [each["uid"] for row in rows for each in row["pods"]]
        return sorted(uid.partition("/")[2] for uid in found)


def blocked(
    *, unit: SchedulingUnit = SchedulingUnit.POD, faulty: FaultyPlugin | None = None
) -> Host:
    """Return a host with capacity nominated for a gang of 2 on a node that two others hold."""
    host = Host(2, unit=unit, faulty=faulty)
    host.gang("low", 2, 0)
    host.gang("high", 2, 5)
    assert host.evicted == ["low-0", "low-1"]
    assert host.kept == ["high-0", "high-1"]
    return host


def reason_of(host: Host) -> str:
    """Return why the nomination ended, which was reported once."""
    (lapsed,) = host.told(NominationLapsed)
    assert lapsed.group == "default/high"
    return lapsed.reason


def runs(host: Host, name: str, *nodes: int, priority: int = 0, **more: Any) -> None:
    """Let a gang run, with a member on each of some nodes; it needs all, unless it says less."""
    each: dict[str, Any] = {"group": name, "cpu": 1, "min_available": len(nodes), **more}
    for number, node in enumerate(nodes):
        pod = make_pod(f"{name}-{number}", priority=priority, **each)
        host.tell(PodAdded(evolve(pod, node_name=NodeName(f"n{node}"))))


def pass_to_members(host: Host, faulty: FaultyPlugin) -> None:
    """Let the first check of a member of ``high`` leave a mark that the next check of it finds."""

    def leave(state: CycleState, pod: Pod, *, now: float) -> Outcome:
        assert state.group is not None
        assert (state.group.key, set(state.nodes), now) == ("default/high", {"n0"}, host.now)
        state.write(_LEFT, (pod.uid, now))
        return Success()

    def find(state: CycleState, pod: Pod, _node: NodeView) -> Outcome:
        assert state.read(_LEFT) == (pod.uid, host.now)
        return Success()

    def find_in_time(state: CycleState, pod: Pod, _nodes: object, *, now: float) -> Outcome:
        assert state.read(_LEFT) == (pod.uid, now)
        return Success()

    faulty.answers |= {"pre_filter": leave, "filter": find, "pre_score": find_in_time}
