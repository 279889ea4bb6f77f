"""Late members that carried terms are about, and plans that plugins are asked about again."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    Bind,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodAffinityTerm,
    Scheduler,
    SchedulingUnit,
    presets,
)
from gangsched.cycle_state import CycleState
from gangsched.framework.placement import choose_node
from gangsched.framework.state.pods import Member
from gangsched.framework.state.scheduler_state import State
from support.settled import settle

ZONE = "zone"
WEB = LabelSelector({"app": "web"})


def pod(name: str, *, keeps_away: bool = False, **more: Any) -> Pod:
    apart = [PodAffinityTerm(topology_key=ZONE, label_selector=WEB)] if keeps_away else []
    return Pod(name=name, requests={"cpu": 1}, pod_anti_affinity=apart, **more)


def scheduler_of(*pods: Pod, cpu: int = 9) -> tuple[InMemoryCluster, Scheduler]:
    """Return a scheduler with one node, and pods that were not tried."""
    cluster = InMemoryCluster()
    node = Node(name="n", allocatable={"cpu": cpu, "pods": 99}, labels={ZONE: "z"})
    cluster.apply(NodeAdded(node))
    for each in pods:
        cluster.apply(PodAdded(each))
    scheduler = presets.coscheduling(cluster, unit=SchedulingUnit.GROUP)
    scheduler.rebuild(now=0.0)
    return cluster, scheduler


def where(cluster: InMemoryCluster) -> set[str]:
    return {pod.name for pod in cluster.pods() if pod.node_name is not None}


def late(name: str, **labels: str) -> Pod:
    return pod(name, pod_group="g", min_available=1, labels=labels)


@pytest.mark.once("chooses the unit itself")
def test_late_members_that_the_term_of_another_pod_refuses_are_tried_once() -> None:
    cluster, scheduler = scheduler_of(late("first"), pod("guard", keeps_away=True))
    settle(cluster, scheduler, most=9)
    assert where(cluster) == {"first", "guard"}
    for name in ("web-0", "web-1", "web-2"):
        scheduler.handle(cluster.apply(PodAdded(late(name, app="web"))), now=0.0)
    scheduler.handle(cluster.apply(PodAdded(late("plain", app="db"))), now=0.0)
    decisions = 0
    while (effects := scheduler.schedule_one(now=0.0)) is not None:
        scheduler._check()
        decisions += 1
        binds = [effect.uid for effect in effects if isinstance(effect, Bind)]
        assert binds in ([], ["default/plain"])
    assert decisions == 2
    (member,) = {m.pod.name for m in members(scheduler._state) if m.node is not None}
    assert member == "plain"


def members(state: State) -> list[Member]:
    return list(state.pods.members.values())


def accepts(scheduler: Scheduler, *names: str) -> bool:
    """Return whether pods may go to the node one after another."""
    state = scheduler._state
    by_name = {member.pod.name: member for member in members(state)}
    placed = [(by_name[name], state.nodes.infos[NodeName("n")].index) for name in names]
    cluster, nodes = state.settings.cluster, state.nodes
    cycles = {m.seq: CycleState(None, nodes.infos, cluster, nodes.counts) for m, _n in placed}
    return choose_node.accepts_all(state.settings, nodes, placed, cycles)


@pytest.mark.once("chooses the unit itself")
def test_plan_is_accepted_in_the_order_in_which_no_member_is_in_the_way() -> None:
    """A pod that keeps away from others does not go where one of them is, nor they to it."""
    web, plain = pod("web", labels={"app": "web"}), pod("plain")
    _cluster, scheduler = scheduler_of(web, plain, pod("guard", keeps_away=True))
    assert scheduler._state.nodes.watches_pods
    assert accepts(scheduler, "web", "plain")
    assert accepts(scheduler, "plain", "guard")
    assert not accepts(scheduler, "web", "guard")
    assert not accepts(scheduler, "guard", "web")


@pytest.mark.once("chooses the unit itself")
def test_plan_of_members_that_no_pod_on_a_node_concerns_is_accepted_unasked() -> None:
    _cluster, scheduler = scheduler_of(pod("plain"), pod("guard", keeps_away=True))
    state = scheduler._state
    (plain,) = (m for m in members(state) if m.pod.name == "plain")
    assert state.nodes.watches_pods
    assert choose_node.accepts_all(state.settings, state.nodes, [(plain, 1)], {})
