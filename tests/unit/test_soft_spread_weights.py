"""The weight of a soft spread constraint comes from the domains of the nodes that passed.

Source: ``initPreScoreState`` of ``PodTopologySpread`` in kube-scheduler 1.36: the weight of a pod
is the logarithm of the number of domains, plus 2, among the nodes that passed the filters.
"""

from __future__ import annotations

from attrs import evolve

from gangsched import (
    Bind,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    Profile,
    Scheduler,
    TopologySpreadConstraint,
)
from gangsched.membership import ungrouped
from gangsched.plugins import (
    DefaultBinder,
    NodeUnschedulable,
    PrioritySort,
    ScoringPodTopologySpread,
)

_HOST = "kubernetes.io/hostname"


def _node(name: str, zone: str, rack: str, *, is_cordoned: bool = False) -> Node:
    labels = {"zone": zone, "rack": rack, _HOST: name}
    return Node(name=name, labels=labels, unschedulable=is_cordoned)


def _web(name: str, *keys: str) -> Pod:
    selector = LabelSelector({"app": "web"})
    constraints = [
        TopologySpreadConstraint(
            max_skew=1,
            topology_key=key,
            when_unsatisfiable="ScheduleAnyway",
            label_selector=selector,
        )
        for key in keys
    ]
    return Pod(name=name, uid=name, labels={"app": "web"}, topology_spread_constraints=constraints)


def _chosen(nodes: list[Node], running: dict[str, int], pod: Pod) -> str:
    cluster = InMemoryCluster()
    for node in nodes:
        cluster.apply(NodeAdded(node))
    for name, count in running.items():
        for number in range(count):
            each = evolve(_web(f"{name}-{number}"), node_name=NodeName(name))
            cluster.apply(PodAdded(each))
    profile = Profile(
        PrioritySort(), NodeUnschedulable(), ScoringPodTopologySpread(), DefaultBinder()
    )
    scheduler = Scheduler(cluster, profile, membership=ungrouped)
    scheduler.rebuild(now=0.0)
    scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    return next(effect.node for effect in effects if isinstance(effect, Bind))


def test_domains_without_a_node_that_passed_do_not_count_for_the_weight() -> None:
    # by zone 1 against 3 pods, by rack 6 against 3. Two zones and two racks have nodes that passed,
    # so both count alike, and the sums are 7 and 6. By all 22 zones, the zone would count twice
    nodes = [_node("x", "a", "1"), _node("y", "b", "2")]
    nodes += [_node(f"c{n}", f"z{n}", "1", is_cordoned=True) for n in range(20)]
    running = {"x": 1, "y": 3, "c0": 5}
    assert _chosen(nodes, running, _web("p", "zone", "rack")) == "y"


def test_hosts_that_did_not_pass_do_not_count_for_the_weight() -> None:
    nodes = [_node("x", "a", "1"), _node("y", "b", "2")]
    nodes += [_node(f"c{n}", "a", "1", is_cordoned=True) for n in range(20)]
    running = {"x": 1, "y": 3, "c0": 5}
    assert _chosen(nodes, running, _web("p", _HOST, "rack")) == "y"


def test_node_without_a_label_is_the_last_choice() -> None:
    nodes = [Node(name="bare", labels={_HOST: "bare"}), _node("x", "a", "1")]
    assert _chosen(nodes, {"x": 4}, _web("p", "zone")) == "x"


def test_pods_on_nodes_that_did_not_pass_count_for_their_domain() -> None:
    nodes = [_node("x", "a", "1"), _node("y", "b", "1"), _node("c", "a", "1", is_cordoned=True)]
    assert _chosen(nodes, {"c": 2, "y": 1}, _web("p", "zone")) == "y"
