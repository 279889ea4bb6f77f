"""A gang that could start by now is not left asleep: it starts what a fresh scheduler would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    ClusterState,
    Event,
    InMemoryCluster,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    PodUpdated,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched.constraints import LabelSelector
from gangsched.testing import make_node, make_pod
from support.story import Story, Way, each_way

ZONE = "topology.kubernetes.io/zone"


def node(name: str, cpu: int, pods: int = 9) -> NodeAdded:
    return NodeAdded(make_node(name, cpu=cpu, allocatable={"pods": pods}, labels={ZONE: "z"}))


def pod(name: str, *, cpu: int = 0, on: str | None = None, **named: Any) -> PodAdded:
    made = make_pod(name, cpu=cpu) if cpu else make_pod(name)
    return PodAdded(evolve(made, node_name=None if on is None else NodeName(on), **named))


def about(app: str) -> tuple[PodAffinityTerm, ...]:
    selector = LabelSelector(match_labels={"app": app})
    return (PodAffinityTerm(label_selector=selector, topology_key=ZONE),)


def app(name: str) -> dict[str, str]:
    return {"app": name}


CARRIER: Pod = pod("c", on="n1", pod_anti_affinity=about("p")).pod
NEEDY = pod("p", cpu=2, labels=app("p"))


def waiting(number: int, cpu: int) -> PodAdded:
    """Return a member of a gang that comes after the others and can never start."""
    made = make_pod(f"g-{number}", cpu=cpu, group="g", min_available=2)
    return PodAdded(evolve(made, created_at=1.0))


CASES: dict[str, tuple[list[Any], list[Event]]] = {
    "a pod that kept it away leaves another node": (
        [
            *(node("n1", 1), node("n2", 4), pod("x", on="n2", labels=app("x"))),
            PodAdded(CARRIER),
            evolve(NEEDY, pod=evolve(NEEDY.pod, pod_affinity=about("x"))),
        ],
        [PodDeleted(CARRIER.uid)],
    ),
    "the node of a pod that kept it away is gone": (
        [node("n1", 1), node("n2", 4), PodAdded(CARRIER), NEEDY],
        [NodeDeleted(NodeName("n1"))],
    ),
    "a pod that kept it away states its terms no more": (
        [node("n1", 1), node("n2", 4), PodAdded(CARRIER), NEEDY],
        [PodUpdated(evolve(CARRIER, pod_anti_affinity=()))],
    ),
    "its companion came while another held its node": (
        [
            *(node("n1", 1), node("n2", 0), pod("p", cpu=1, pod_affinity=about("x"))),
            *(waiting(0, 1), waiting(1, 9)),
        ],
        [pod("x", on="n2", labels=app("x"))],
    ),
    "a node that has less than nothing free of what it does not ask for": (
        [
            *(node("n", 1, pods=2), pod("big", cpu=3, on="n"), pod("small", on="n")),
            *(pod("other", cpu=2), pod("p")),
        ],
        [PodDeleted(PodUID("default/small"))],
    ),
    "pods that kept it away came before their node, and are gone": (
        [],
        [
            *(pod(name, cpu=1, on="n1", pod_anti_affinity=about("p")) for name in ("c", "d")),
            *(node("n1", 4), pod("other", cpu=1, on="n1")),
            *(PodDeleted(PodUID("default/c")), PodDeleted(PodUID("default/d")), NEEDY),
        ],
    ),
    "a node has room for one more pod, and nothing else is asked for": (
        [node("n", 1, pods=1), pod("x", on="n"), pod("p")],
        [PodDeleted(PodUID("default/x"))],
    ),
}


def coscheduling(cluster: ClusterState) -> Scheduler:
    return presets.coscheduling(cluster, unit=SchedulingUnit.POD)


def drained(scheduler: Scheduler, now: float) -> list[str]:
    """Decide until nothing is left to; return the pods that are to be bound."""
    bound: list[str] = []
    while (effects := scheduler.schedule_one(now=now)) is not None:
        bound += [effect.uid for effect in effects if isinstance(effect, Bind)]
    return bound


@pytest.mark.parametrize("make", [presets.gang, coscheduling], ids=["gang", "coscheduling"])
@pytest.mark.parametrize(("before", "events"), CASES.values(), ids=CASES)
def test_pod_that_fits_by_now_is_started(
    make: Callable[[ClusterState], Scheduler], before: Sequence[Event], events: Sequence[Event]
) -> None:
    cluster = InMemoryCluster()
    for event in before:
        cluster.apply(event)
    live, now = make(cluster), 1.0
    live.advance(now=0.0)
    assert drained(live, 0.0) == []
    for event in events:
        live.handle(cluster.apply(event), now=now)
    bound = drained(live, now)
    while (deadline := live.next_deadline()) is not None and deadline < 100.0:
        now = deadline
        live.advance(now=now)
        bound += drained(live, now)
    fresh = make(cluster)
    fresh.rebuild(now=now)
    assert bound == drained(fresh, now) == ["default/p"]


@each_way
def test_gang_of_one_role_that_needs_more_members_than_the_role_starts_on_a_new_node(
    way: Way,
) -> None:
    story = Story(presets.gang, way)
    story.tell(NodeAdded(make_node("n", cpu=3)))
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=4, roles={"worker": 2})))
    story.add(*(make_pod(f"g-{n}", group="g", role="worker", cpu=1) for n in range(4)))
    story.run(until=100.0)
    story.interrupt()
    assert story.bound == {}
    story.tell(NodeAdded(make_node("m", cpu=1)))
    story.run(until=200.0)
    assert sorted(story.bound.values()) == ["m", "n", "n", "n"]
