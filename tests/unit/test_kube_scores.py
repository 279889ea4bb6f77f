"""Scores of kube-scheduler's plugins: figures computed by hand from its documentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    ContainerImage,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Profile,
    Scheduler,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
    presets,
)
from gangsched.errors import InvalidValueError
from gangsched.membership import ungrouped
from gangsched.plugins import (
    CountingTaintToleration,
    DefaultBinder,
    ImageLocality,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    NodeUnschedulable,
    PreferredInterPodAffinity,
    PreferredNodeAffinity,
    PrioritySort,
    ScoringPodTopologySpread,
    ScoringStrategy,
)
from gangsched.testing import cycle, node_view

# Scores of kube-scheduler's plugins: figures computed by hand from its documentation

ZONE = "zone"
WEB = LabelSelector({"app": "web"})


def chosen(plugin: object, nodes: list[Node], running: list[tuple[Pod, str]], pod: Pod) -> str:
    """Return the node that a profile with one score plugin chooses."""
    cluster = InMemoryCluster()
    for node in nodes:
        cluster.apply(NodeAdded(node))
    for each, where in running:
        cluster.apply(PodAdded(evolve(each, node_name=where)))
    scheduler = Scheduler(
        cluster,
        Profile(PrioritySort(), NodeUnschedulable(), plugin, DefaultBinder()),
        membership=ungrouped,
    )
    scheduler.rebuild(now=0.0)
    scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    return next(effect.node for effect in effects if isinstance(effect, Bind))


def zoned(name: str, zone: str, **more: Any) -> Node:
    return Node(name=name, labels={ZONE: zone, "kubernetes.io/hostname": name}, **more)


def test_fewest_untolerated_soft_taints_win() -> None:
    soft = [Taint(key, effect="PreferNoSchedule") for key in ("a", "b")]
    nodes = [Node(name="both", taints=soft), Node(name="one", taints=soft[:1])]
    plugin = CountingTaintToleration()
    assert chosen(plugin, nodes, [], Pod(name="p")) == "one"
    tolerant = Pod(name="p", tolerations=[Toleration(exists=True)])
    assert chosen(plugin, nodes, [], tolerant) == "both", "the first by name"
    scores = {NodeName("both"): 2, NodeName("one"): 1, NodeName("none"): 0}
    found = plugin.normalize_score(cycle(), Pod(name="p"), scores)
    assert found == {"both": 0, "one": 50, "none": 100}


def test_preferred_terms_add_their_weights() -> None:
    terms = [
        PreferredSchedulingTerm(
            weight=weight,
            preference=NodeSelectorTerm([NodeSelectorRequirement(ZONE, "In", [zone])]),
        )
        for weight, zone in ((10, "a"), (30, "b"))
    ]
    pod = Pod(name="p", preferred_node_affinity=terms)
    nodes = [zoned("x", "a"), zoned("y", "b"), zoned("z", "c")]
    assert chosen(PreferredNodeAffinity(), nodes, [], pod) == "y"
    named = NodeSelectorTerm([], [NodeSelectorRequirement("metadata.name", "In", ["z"])])
    pod = Pod(
        name="p",
        preferred_node_affinity=[PreferredSchedulingTerm(weight=1, preference=named)],
    )
    assert chosen(PreferredNodeAffinity(), nodes, [], pod) == "z"


def test_preferred_pod_affinity_counts_both_ways() -> None:
    nodes = [zoned("x", "a"), zoned("y", "b"), zoned("z", "c")]
    near = WeightedPodAffinityTerm(
        weight=5, pod_affinity_term=PodAffinityTerm(topology_key=ZONE, label_selector=WEB)
    )
    web = Pod(name="web", labels={"app": "web"})
    plugin = PreferredInterPodAffinity()
    assert chosen(plugin, nodes, [(web, "y")], Pod(name="p", preferred_pod_affinity=[near])) == "y"
    away = Pod(name="p", preferred_pod_anti_affinity=[near])
    assert chosen(plugin, nodes, [(web, "x"), (evolve(web, uid="w2"), "y")], away) == "z"
    # a pod on a node attracts and repels pods without terms
    fan = Pod(name="fan", preferred_pod_affinity=[near])
    assert chosen(plugin, nodes, [(fan, "z")], web) == "z"
    foe = Pod(name="foe", preferred_pod_anti_affinity=[near])
    assert chosen(plugin, nodes, [(foe, "x")], web) == "y"
    bound = Pod(name="bound", pod_affinity=[near.pod_affinity_term])
    assert chosen(plugin, nodes, [(bound, "z")], web) == "z"


def test_soft_spread_prefers_the_domain_with_fewest_pods() -> None:
    spread = TopologySpreadConstraint(
        max_skew=1, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway", label_selector=WEB
    )
    pod = Pod(name="p", labels={"app": "web"}, topology_spread_constraints=[spread])
    running = [(evolve(pod, name=f"r{n}", uid=f"r{n}"), where) for n, where in enumerate("xxy")]
    nodes = [zoned("x", "a"), zoned("y", "b"), Node(name="unlabelled")]
    assert chosen(ScoringPodTopologySpread(), nodes, running, pod) == "y"


def test_default_constraints_spread_pods_that_belong_together() -> None:
    plugin = ScoringPodTopologySpread(
        default_constraints=(
            TopologySpreadConstraint(
                max_skew=5, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway"
            ),
        ),
        default_selector=lambda pod: WEB if pod.labels.get("app") == "web" else None,
    )
    web = Pod(name="p", labels={"app": "web"})
    nodes = [zoned("x", "a"), zoned("y", "b")]
    assert chosen(plugin, nodes, [(evolve(web, uid="r"), "x")], web) == "y"
    assert chosen(plugin, nodes, [(evolve(web, uid="r"), "x")], Pod(name="p")) == "x"


def test_large_images_draw_pods() -> None:
    nodes = [
        Node(name="bare"),
        Node(name="has", images=[ContainerImage(["app:1"], 500 * 2**20)]),
        Node(name="other", images=[ContainerImage(["app:2"], 900 * 2**20)]),
    ]
    pod = Pod(name="p", images=["app:1"])
    views = [node_view(node) for node in nodes]
    state = cycle(None, *views)
    # a third of 500 MiB counts, as one of three nodes has it
    expected = 100 * (500 * 2**20 // 3 - 23 * 2**20) // (977 * 2**20)
    assert [ImageLocality().score(state, pod, view) for view in views] == [0, expected, 0]


@pytest.mark.parametrize(
    ("strategy", "shape", "used", "expected"),
    [
        ("LeastAllocated", (), {"cpu": 1}, (50 + 75) // 2),
        ("MostAllocated", (), {"cpu": 1}, (50 + 25) // 2),
        ("MostAllocated", (), {}, (25 + 25) // 2),
        ("RequestedToCapacityRatio", ((0, 0), (100, 10)), {"cpu": 1}, 38),
        ("RequestedToCapacityRatio", ((0, 10), (50, 0), (100, 10)), {"cpu": 1}, 50),
    ],
)
def test_fit_scores_as_its_strategy_says(
    strategy: str,
    shape: tuple[tuple[int, int], ...],
    used: Mapping[str, str | int],
    expected: int,
) -> None:
    node = Node(name="n", allocatable={"cpu": 4, "memory": "4Gi", "nvidia.com/gpu": 8})
    pod = Pod(name="p", requests={"cpu": 1, "memory": "1Gi"})
    plugin = NodeResourcesFit(scoring_strategy=ScoringStrategy(strategy), shape=shape)
    assert plugin.score(cycle(), pod, node_view(node, used=used)) == expected


def test_shape_is_required_exactly_for_its_strategy() -> None:
    ratio = ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO
    shapes: tuple[Any, ...] = ((), ((0, 11),), ((50, 1), (50, 2)), ((-1, 2),), ((0,),))
    for bad in shapes:
        with pytest.raises(InvalidValueError):
            NodeResourcesFit(scoring_strategy=ratio, shape=bad)
    with pytest.raises(InvalidValueError):
        NodeResourcesFit(shape=((0, 1),))


@pytest.mark.parametrize(
    ("used", "requests", "expected"),
    [
        ({}, {"cpu": 1, "memory": "1Gi"}, 75),
        ({"cpu": 2}, {"memory": "2Gi"}, 50 + (50 + 100 - 75) // 2),
        ({}, {"cpu": 2}, 50 + (50 + 75 - 100) // 2),
        ({}, {}, 0),
    ],
)
def test_balanced_allocation_scores_what_the_pod_changes(
    used: Mapping[str, str | int], requests: Mapping[str, str | int], expected: int
) -> None:
    node = Node(name="n", allocatable={"cpu": 4, "memory": "4Gi"})
    pod = Pod(name="p", requests=requests)
    plugin = NodeResourcesBalancedAllocation()
    assert plugin.score(cycle(), pod, node_view(node, used=used)) == expected


def test_kube_default_profile_has_the_weights_of_kube_scheduler() -> None:
    profile = presets.kube_default_profile()
    weights = {plugin.name: profile.weights.get(plugin.name, 1) for plugin in profile.score}
    assert weights == dict(presets.KUBE_WEIGHTS)
    assert presets.kube_default_profile(weights={"ImageLocality": 7}).weights["ImageLocality"] == 7


def test_kube_default_places_pods_and_honours_constraints() -> None:
    cluster = InMemoryCluster()
    for name, zone in (("x", "a"), ("y", "b")):
        cluster.apply(NodeAdded(zoned(name, zone, allocatable={"cpu": 4, "pods": 10})))
    scheduler = presets.kube_default(cluster)
    scheduler.rebuild(now=0.0)
    apart = PodAffinityTerm(topology_key=ZONE, label_selector=WEB)
    nodes: list[str] = []
    for n in range(3):
        pod = Pod(
            name=f"p{n}",
            labels={"app": "web"},
            requests={"cpu": 1},
            pod_anti_affinity=[apart],
        )
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
        effects = scheduler.schedule_one(now=0.0) or ()
        nodes += [effect.node for effect in effects if isinstance(effect, Bind)]
    assert sorted(nodes) == ["x", "y"]


# The weight of a soft spread constraint comes from the domains of the nodes that passed.
#
# Source: ``initPreScoreState`` of ``PodTopologySpread`` in kube-scheduler 1.36: the weight of a
# pod is the logarithm of the number of domains, plus 2, among the nodes that passed the filters.

HOST = "kubernetes.io/hostname"


def racked(name: str, zone: str, rack: str, *, is_cordoned: bool = False) -> Node:
    labels = {"zone": zone, "rack": rack, HOST: name}
    return Node(name=name, labels=labels, unschedulable=is_cordoned)


@pytest.mark.parametrize(
    ("nodes", "keys", "running", "expected"),
    [
        pytest.param(
            # by zone 1 against 3 pods, by rack 6 against 3. Two zones and two racks have nodes
            # that passed, so both count alike, and the sums are 7 and 6. By all 22 zones, the zone
            # would count twice
            [racked(f"c{n}", f"z{n}", "1", is_cordoned=True) for n in range(20)],
            ("zone", "rack"),
            {"x": 1, "y": 3, "c0": 5},
            "y",
            id="domains without a node that passed do not count",
        ),
        pytest.param(
            [racked(f"c{n}", "a", "1", is_cordoned=True) for n in range(20)],
            (HOST, "rack"),
            {"x": 1, "y": 3, "c0": 5},
            "y",
            id="hosts that did not pass do not count",
        ),
        pytest.param(
            # by zone 9 against 4 pods, by host 0 against 4. Of 2 zones and 11 hosts, the weights
            # are log(4) and log(13): the sums are 12 and 16. If both counted alike, 9 and 8
            [racked(f"a{n}", "a", "1") for n in range(9)],
            ("zone", HOST),
            {"y": 4, **{f"a{n}": 1 for n in range(9)}},
            "x",
            id="pods count more by a key of more domains",
        ),
        pytest.param(
            [Node(name="bare", labels={HOST: "bare"})],
            ("zone",),
            {"x": 4, "y": 4},
            "x",
            id="a node without the label is the last choice",
        ),
        pytest.param(
            [racked("c", "a", "1", is_cordoned=True)],
            ("zone",),
            {"c": 2, "y": 1},
            "y",
            id="pods on nodes that did not pass count for their domain",
        ),
    ],
)
def test_soft_spread_weighs_the_domains_of_the_nodes_that_passed(
    nodes: list[Node], keys: tuple[str, ...], running: dict[str, int], expected: str
) -> None:
    constraints = [
        TopologySpreadConstraint(
            max_skew=1,
            topology_key=key,
            when_unsatisfiable="ScheduleAnyway",
            label_selector=WEB,
        )
        for key in keys
    ]
    web = Pod(name="p", labels={"app": "web"}, topology_spread_constraints=constraints)
    others = [
        (Pod(name=f"{name}-{n}", labels={"app": "web"}), name)
        for name, count in running.items()
        for n in range(count)
    ]
    nodes = [racked("x", "a", "1"), racked("y", "b", "2"), *nodes]
    assert chosen(ScoringPodTopologySpread(), nodes, others, web) == expected


def test_hard_default_constraint_is_refused_and_not_ignored() -> None:
    hard = TopologySpreadConstraint(max_skew=1, topology_key="zone")
    with pytest.raises(InvalidValueError, match="default_constraints"):
        ScoringPodTopologySpread(default_constraints=(hard,))
