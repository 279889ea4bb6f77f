"""A container without a request counts in scores, and takes no capacity.

Source: ``schedutil.DefaultMilliCPURequest``, ``DefaultMemoryRequest`` and ``NonZeroRequested`` of
kube-scheduler 1.36; ``NodeResourcesBalancedAllocation`` reads what is requested only.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterable
from typing import Any, Final

import pytest

from gangsched import (
    Bind,
    InMemoryCluster,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodDeleted,
    PodUID,
    Profile,
    Resources,
    Scheduler,
    presets,
)
from gangsched.kubernetes import read_notification
from gangsched.membership import ungrouped
from gangsched.outcomes import SUCCESS, Outcome
from gangsched.plugins import (
    DefaultBinder,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    PrioritySort,
    ScoringStrategy,
)
from gangsched.protocols import CycleView, NodeView
from gangsched.resources import FrozenMap
from gangsched.testing import cycle, node_view
from gangsched.values.forms import RESOURCES
from support.faulty_plugin import FaultyPlugin

_CPU: Final = 100
_MEMORY: Final = 200 * 1024 * 1024 * 1000
_LIMITS: Final = {"cpu": "1", "memory": "1Gi"}


def _container(**requests: str) -> dict[str, Any]:
    return {"name": "c", "image": "i", "resources": {"requests": requests}}


def _pod(name: str, *containers: dict[str, Any], **spec: Any) -> Pod:
    metadata = {"name": name, "namespace": "default", "uid": name}
    whole = {"containers": [*containers], **spec}
    given = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": whole}
    event = read_notification({"type": "ADDED", "object": given}, scheduler_names=None).event
    assert isinstance(event, PodAdded)
    return event.pod


@pytest.mark.parametrize(
    ("containers", "spec", "requested", "defaulted"),
    [
        (
            [_container(), _container(cpu="1")],
            {},
            {"cpu": 1},
            {"cpu": _CPU, "memory": 2 * _MEMORY},
        ),
        ([_container(cpu="0", memory="0")], {}, {}, {}),  # a request of zero is a request
        ([{"name": "c", "resources": {"limits": _LIMITS}}], {}, _LIMITS, {}),
        # cpu: max(50m + sidecar 100m, sidecar 100m + 100m) is 200m, of which 50m are requested
        (
            [_container(cpu="50m", memory="1Gi")],
            {"initContainers": [{**_container(), "restartPolicy": "Always"}, _container()]},
            {"cpu": "50m", "memory": "1Gi"},
            {"cpu": 150, "memory": _MEMORY},
        ),
        # a request of the pod as a whole takes the place of the default
        (
            [_container()],
            {"resources": {"requests": {"cpu": "2"}}},
            {"cpu": 2},
            {"memory": _MEMORY},
        ),
        (
            [_container()],
            {"overhead": {"cpu": "50m"}},
            {"cpu": "50m"},
            {"cpu": _CPU, "memory": _MEMORY},
        ),
    ],
)
def test_what_a_container_does_not_request_is_counted_apart(
    containers: list[dict[str, Any]],
    spec: dict[str, Any],
    requested: dict[str, Any],
    defaulted: dict[str, int],
) -> None:
    found = _pod("p", *containers, **spec).requests
    assert (found, found.defaulted) == (Resources(requested), FrozenMap(defaulted))


def test_defaulted_amounts_survive_copies_arithmetic_and_json() -> None:
    one = Resources({"cpu": 1}).with_defaulted({"cpu": 100})
    assert one == Resources({"cpu": 1})
    assert (one + one).defaulted == FrozenMap({"cpu": 200})
    copies = (
        pickle.loads(pickle.dumps(one)),
        copy.deepcopy(one),
        one + one - one,
        RESOURCES.read(RESOURCES.write(one), "requests"),
        eval(repr(one)),
    )
    for each in copies:
        assert (each, each.defaulted) == (one, one.defaulted)


def test_amount_of_a_resource_named_defaulted_is_an_amount() -> None:
    one = Resources.from_milli({"defaulted": 5})
    found = RESOURCES.read(RESOURCES.write(one), "requests")
    assert (found, found.defaulted) == (one, FrozenMap())


def test_snapshot_keeps_what_is_defaulted() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.kube_default(cluster)
    node = Node(name="a", allocatable={"cpu": 1, "memory": "1Gi", "pods": 10})
    pods = [_pod(f"p{number}", _container()) for number in range(2)]
    scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    for pod in pods:
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    scheduler.schedule_one(now=0.0)
    other = presets.kube_default(cluster)
    other.restore(scheduler.snapshot())
    other._check()
    assert other.snapshot() == scheduler.snapshot()


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (ScoringStrategy.LEAST_ALLOCATED, 80),
        (ScoringStrategy.MOST_ALLOCATED, 20),
        (ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO, 20),
    ],
)
def test_defaults_of_node_and_pod_count_in_each_strategy(
    strategy: ScoringStrategy, expected: int
) -> None:
    shape = ((0, 0), (100, 10))
    by_shape = strategy is ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO
    plugin = NodeResourcesFit(
        scoring_strategy=strategy, resources={"cpu": 1}, shape=shape if by_shape else ()
    )
    view = node_view(Node(name="n", allocatable={"cpu": 1}))
    view.defaulted = FrozenMap({"cpu": 100})
    pod = Pod(name="p", requests=Resources().with_defaulted({"cpu": 100}))
    assert plugin.score(cycle(), pod, view) == expected


def test_balanced_allocation_reads_requests_only() -> None:
    plugin = NodeResourcesBalancedAllocation()
    view = node_view(Node(name="n", allocatable={"cpu": 1, "memory": "1Gi"}))
    pod = Pod(name="p", requests=Resources().with_defaulted({"cpu": 100}))
    assert plugin.score(cycle(), pod, view) == 0


def _scheduler(*nodes: Node, plugins: Iterable[Any] = ()) -> tuple[InMemoryCluster, Scheduler]:
    cluster = InMemoryCluster()
    profile = Profile(PrioritySort(), NodeResourcesFit(), *plugins, DefaultBinder())
    scheduler = Scheduler(cluster, profile, membership=ungrouped)
    for node in nodes:
        scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    return cluster, scheduler


def _node_of(cluster: InMemoryCluster, scheduler: Scheduler, pod: Pod) -> str:
    scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    scheduler._check()
    (node,) = [each.node for each in effects if isinstance(each, Bind)]
    return node


def test_pods_without_requests_are_spread_over_nodes() -> None:
    nodes = [Node(name=name, allocatable={"cpu": 1, "memory": "1Gi"}) for name in "ab"]
    cluster, scheduler = _scheduler(*nodes)
    pods = [_pod(f"p{number}", _container()) for number in range(4)]
    assert [_node_of(cluster, scheduler, pod) for pod in pods] == ["a", "b", "a", "b"]


def test_pods_with_equal_requests_and_unlike_containers_are_scored_apart() -> None:
    cluster, scheduler = _scheduler(
        Node(name="a", allocatable={"cpu": 1}), Node(name="b", allocatable={"cpu": 2})
    )
    there = _pod("there", _container(cpu="300m", memory="0"), nodeName="b")
    scheduler.handle(cluster.apply(PodAdded(there)), now=0.0)
    first = _pod("p1", _container())
    assert _node_of(cluster, scheduler, first) == "a"
    scheduler.handle(cluster.apply(PodDeleted(first.uid)), now=0.0)
    assert _node_of(cluster, scheduler, _pod("p5", *[_container()] * 5)) == "b"


def test_pods_with_equal_requests_and_unlike_containers_leave_as_they_came() -> None:
    nodes = [Node(name=name, allocatable={"cpu": 2}) for name in "ab"]
    cluster, scheduler = _scheduler(*nodes)
    # both nodes go through the same classes, with pods of equal requests in another order
    for name, count, node in (("p", 1, "a"), ("q", 3, "b"), ("r", 3, "a"), ("s", 1, "b")):
        pod = _pod(name, *[_container()] * count, nodeName=node)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
        scheduler._check()
    for name in "pqrs":
        scheduler.handle(cluster.apply(PodDeleted(PodUID(name))), now=1.0)
        scheduler._check()


def test_plugin_sees_as_free_neither_what_is_used_up_nor_what_is_defaulted() -> None:
    seen: list[dict[str, int]] = []

    def look(_state: CycleView, _pod: Pod, node: NodeView) -> Outcome:
        seen.append(dict(node.free))
        return SUCCESS

    plugin = FaultyPlugin("filter")
    plugin.answers["filter"] = look
    node = Node(name="a", allocatable={"cpu": 1, "gpu": 2})
    cluster, scheduler = _scheduler(node, plugins=[plugin])
    there = _pod("there", _container(cpu="1"), nodeName="a")
    scheduler.handle(cluster.apply(PodAdded(there)), now=0.0)
    assert there.requests.defaulted
    assert _node_of(cluster, scheduler, _pod("p", _container())) == "a"
    assert seen == [{"gpu": 2000}]
