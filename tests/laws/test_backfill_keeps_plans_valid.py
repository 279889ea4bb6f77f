"""Backfill: no pod is placed where it breaks the plan of the gang with the reservation.

Clusters are drawn with every kind of constraint between pods, and run times are exact. The nodes
are full until the instant 100, so the gang gets a reservation. Then pods come that ask for no
capacity, so that constraints alone decide about them. An oracle that shares no code with the
plugins looks for any placement of the gang.

- After each pod that is bound, the gang can be placed at its expected start, with the pods that
  will not have ended.
- A pod is held back only if it cannot be on that node together with the planned members, in any
  order of the members.
- The gang starts at the expected start.
- A restored scheduler and ``what_if`` say the same as the scheduler.
"""

from __future__ import annotations

import json

import pytest
from attrs import evolve, frozen
from hypothesis import assume, given
from hypothesis import event as note_event
from hypothesis import strategies as st

from gangsched import (
    Backfill,
    Bind,
    Node,
    NodeAdded,
    ObjectChanged,
    Pod,
    PodAdded,
    PodDeleted,
    PodUID,
)
from gangsched.cluster_objects import Namespace
from support.backfill_host import EXACT, Host, running
from support.constrained_worlds import (
    HOST,
    NAMESPACES,
    ZONE,
    World,
    constrained_pods,
    few_constraints,
    why,
)
from support.examples import one_in
from support.shown import shown

pytestmark = pytest.mark.once("capacity is reserved with the unit group only")

_FULL_UNTIL = 100.0
_ENDS = st.sampled_from([50.0, 100.0, 500.0, 500.0, None])
_NAME = "pod-group.scheduling.sigs.k8s.io/name"
_LEAST = "pod-group.scheduling.sigs.k8s.io/min-available"


@frozen
class Scene:
    """A world with full nodes, the ends of the pods that run, and pods that come later."""

    world: World
    ends: tuple[float | None, ...]
    later: tuple[tuple[Pod, float | None], ...]


@st.composite
def _pods(draw: st.DrawFn, name: str) -> Pod:
    """Draw a pod that asks for no capacity, with few constraints or with any."""
    if draw(st.integers(0, 3)) == 0:
        return evolve(draw(constrained_pods(name)), requests={})
    labels = {"app": draw(st.sampled_from(["x", "x", "y"]))}
    return Pod(name=name, namespace="one", labels=labels, **draw(few_constraints()))


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Draw a gang of which each member asks for capacity, and pods that ask for none."""
    nodes = tuple(
        Node(
            name=f"n{n}",
            allocatable={"cpu": 2, "pods": 20},
            labels={HOST: f"n{n}", ZONE: draw(st.sampled_from(["a", "b", "c"]))},
        )
        for n in range(draw(st.integers(2, 4)))
    )
    running_pods = tuple(
        (draw(_pods(f"running-{n}")), draw(st.sampled_from(nodes)))
        for n in range(draw(st.integers(0, 3)))
    )
    kinds = [draw(_pods(f"kind-{n}")) for n in range(draw(st.integers(1, 2)))]
    count = draw(st.integers(1, 3))
    group = {_NAME: "g", _LEAST: str(count)}
    pending: list[Pod] = []
    for n in range(count):
        kind = draw(st.sampled_from(kinds))
        labels = {**kind.labels, **group}
        one = evolve(kind, name=f"p{n}", uid=PodUID(f"p{n}"), namespace="one", labels=labels)
        pending.append(evolve(one, requests={"cpu": 1}))
    later = tuple((draw(_pods(f"later-{n}")), draw(_ENDS)) for n in range(draw(st.integers(1, 4))))
    ends = tuple(draw(_ENDS) for _pod in running_pods)
    return Scene(World(nodes, running_pods, tuple(pending)), ends, later)


class _Run:
    """The host, what is on which node, and when it ends."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.host = Host(Backfill(EXACT, least_members=1))
        self.ends: dict[PodUID, float | None] = {}
        for name, labels in NAMESPACES.items():
            self.host.tell(ObjectChanged(Namespace(name=name, labels=labels)))
        for node in scene.world.nodes:
            self.host.tell(NodeAdded(node))
            full = Pod(name=f"full-{node.name}", requests={"cpu": 2})
            self._add(evolve(full, node_name=node.name), _FULL_UNTIL)
        for (pod, node), end in zip(scene.world.running, scene.ends, strict=True):
            self._add(evolve(pod, node_name=node.name), end)
        self.host.decide()
        for pod in scene.world.pending:
            self._add(pod, 10_000.0)
        self.host.decide()

    def _add(self, pod: Pod, end: float | None) -> None:
        self.ends[pod.uid] = end
        seconds = None if end is None else str(end - self.host.now)
        self.host.tell(PodAdded(running(pod, seconds)))

    def place(self, pod: Pod, end: float | None) -> str | None:
        """Add a pod, and return the node that it is bound to; None if it is held."""
        self._add(pod, end)
        self.host.decide()
        return self.node_of(pod)

    def node_of(self, pod: Pod) -> str | None:
        found = self.host.cluster.pod(pod.uid)
        return None if found is None else found.node_name

    def end_all(self, at: float) -> None:
        """Let time pass until an instant, at which all pods end that end by then."""
        self.host.now = at
        for pod in list(self.host.cluster.pods()):
            if pod.node_name is not None and not self.lasts(pod, at):
                self.host.tell(PodDeleted(pod.uid))
        self.host.at(at)

    def placed(self, after: float = -1.0) -> list[tuple[Pod, Node]]:
        """Return the pods on nodes that have not ended by an instant."""
        nodes = {node.name: node for node in self.host.cluster.nodes()}
        return [
            (pod, nodes[pod.node_name])
            for pod in self.host.cluster.pods()
            if pod.node_name is not None and self.lasts(pod, after)
        ]

    def lasts(self, pod: Pod, after: float) -> bool:
        end = self.ends[pod.uid]
        return end is None or end > after

    def can_start(self, at: float) -> bool:
        """Return whether the gang has a placement at an instant, by the oracle."""
        return self.scene.world.can_place(self.scene.world.pending, self.placed(at))

    def is_plan_valid_with(self, pod: Pod, node: Node, at: float) -> bool:
        """Return whether the members fit on their planned nodes in some order, beside a pod."""
        planned = shown(self.host.scheduler).planned
        assert planned
        nodes = {each.name: each for each in self.scene.world.nodes}
        by_uid = {each.uid: each for each in self.scene.world.pending}
        plan = [(by_uid[uid], nodes[name]) for uid, name in planned]
        return self.scene.world.holds(plan, [*self.placed(at), (pod, node)])


def _with_reservation(scene: Scene) -> tuple[_Run, float]:
    run = _Run(scene)
    found = run.host.scheduler.reservation
    assume(found is not None)
    assert found is not None
    assume(found.starts_at is not None)
    assert found.starts_at is not None
    assert run.can_start(found.starts_at)
    return run, found.starts_at


@given(scenes())
def test_pod_is_bound_if_and_only_if_the_gang_can_start_as_expected_beside_it(
    scene: Scene,
) -> None:
    run, starts_at = _with_reservation(scene)
    for pod, end in scene.later:
        before = run.placed()
        bound_to = run.place(pod, end)
        assert run.can_start(starts_at), f"{pod.name} is bound to {bound_to}, and breaks the plan"
        note_event("is held" if bound_to is None else "is bound")
        if bound_to is not None:
            continue
        for node in scene.world.nodes:
            if why(scene.world, before, pod, node) is None:
                note_event("held back")
                assert run.lasts(pod, starts_at), f"{pod.name} ends in time, and is held back"
                assert not run.is_plan_valid_with(pod, node, starts_at), node.name
    run.end_all(starts_at)
    assert all(run.node_of(pod) is not None for pod in scene.world.pending)


@one_in(2)
@given(scenes())
def test_restored_scheduler_and_what_if_place_the_same_pods(scene: Scene) -> None:
    run, _starts_at = _with_reservation(scene)
    for pod, end in scene.later:
        other = run.host.make()
        other.restore(json.loads(json.dumps(run.host.scheduler.snapshot())))
        seconds = None if end is None else str(end)
        added = PodAdded(running(pod, seconds))
        asked = run.host.scheduler.what_if(added)
        run.host.scheduler._check()
        # the event may also let pods start that were held before
        foreseen = [(each.uid, each.node) for each in asked.effects if isinstance(each, Bind)]
        known = len(run.host.effects)
        run.place(pod, end)
        bound = [e for e in run.host.effects[known:] if isinstance(e, Bind)]
        assert foreseen == [(each.uid, each.node) for each in bound]
        other._check()
