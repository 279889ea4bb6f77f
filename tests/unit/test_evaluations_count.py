"""A search counts the evaluations of nodes of which no answer of plugins is kept."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, evolve

from gangsched import (
    Coscheduling,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    Preemption,
    Profile,
    Scheduler,
    SchedulingUnit,
    Success,
    VictimSearchExhausted,
    group_key,
    presets,
)
from gangsched._packing.budget import READ, STEP, Work
from gangsched.framework.placement import gang_layout
from gangsched.outcomes import SUCCESS
from gangsched.testing import make_pod

NODES = 120


@define
class Asked:
    """A filter that accepts each node, and counts how often it is asked."""

    name: str = "Asked"
    count: int = 0

    def filter(self, _state: object, _pod: Pod, _node: object) -> Success:
        self.count += 1
        return SUCCESS


def decided(budget: int) -> tuple[int, bool]:
    """Let a gang look for victims on full nodes; return how often a filter was asked."""
    cluster, asked = InMemoryCluster(), Asked()
    for n in range(NODES):
        # no two nodes are alike
        node = Node(name=NodeName(f"n{n}"), allocatable={"cpu": f"{4000 + n}m", "pods": 110})
        cluster.apply(NodeAdded(node))
        for m in range(4):
            pod = make_pod(f"low-{n}-{m}", cpu=1, priority=n % 7)
            cluster.apply(PodAdded(evolve(pod, node_name=node.name)))
    for m in range(40):
        cluster.apply(PodAdded(make_pod(f"g-{m}", group="g", min_available=40, cpu=4, priority=9)))
    profile = presets.coscheduling_profile(Coscheduling())
    scheduler = Scheduler(
        cluster,
        Profile(*profile.plugins, asked),
        unit=SchedulingUnit.GROUP,
        preemption=Preemption(),
        search_budget=budget,
    )
    scheduler.rebuild(now=0.0)
    effects = scheduler.schedule_one(now=1.0) or ()
    return asked.count, any(isinstance(each, VictimSearchExhausted) for each in effects)


def test_search_for_victims_ends_by_the_nodes_that_it_evaluates() -> None:
    asked, is_cut_short = decided(20_000)
    assert is_cut_short
    # an evaluation of 120 nodes is 132 steps, so there are at most 151, and few nodes are free
    assert asked < 151 * 40


@define
class Normalizes(Asked):
    """A plugin whose scores are of one cycle; pods of equal signatures are alike there."""

    name: str = "Normalizes"

    def score(self, _state: object, _pod: Pod, _node: object) -> int:
        return 0

    def normalize_score(
        self, _state: object, _pod: Pod, scores: Mapping[NodeName, int]
    ) -> Mapping[NodeName, int]:
        return scores

    def pod_signature(self, _pod: Pod) -> None:
        return None

    def node_signature(self, _node: object) -> None:
        return None


def steps_of_a_plan(members: int) -> int:
    """Return the steps of a placement of a gang of one kind on one node, all of them counted."""
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 500, "pods": 500})))
    for m in range(members):
        cluster.apply(PodAdded(make_pod(f"g-{m}", group="g", min_available=members, cpu=1)))
    profile = Profile(*presets.coscheduling_profile(Coscheduling()).plugins, Normalizes())
    scheduler = Scheduler(cluster, profile, unit=SchedulingUnit.GROUP)
    scheduler.rebuild(now=0.0)
    entity, work = scheduler._state.pods.entities[group_key("default", "g")], Work(0)
    gang_layout.plan_gang(scheduler._state, entity, now=1.0, budget=10_000, work=work)
    return work.steps


def test_placement_counts_each_member_that_is_read_in_one_cycle() -> None:
    more = steps_of_a_plan(300) - steps_of_a_plan(100)
    assert more == 200 * READ // STEP
