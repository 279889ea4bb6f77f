"""The cluster state of the extender: pods of groups only, and nodes that are paused."""

from __future__ import annotations

from typing import Any

from gangsched.events import Event, NodeDeleted, NodeUpdated, PodAdded, PodUpdated
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._facts import NodeFacts, PodFacts
from gangsched.kubernetes._known import Identity
from gangsched.kubernetes._reflector import Delta
from gangsched.model import Node, NodeName, Pod

N = NodeName("n")


def new() -> Cache:
    return Cache(["ours"], gangs_only=True)


def tell(cache: Cache, name: str, **named: Any) -> Event | None:
    pod = Pod(name=name, **named)
    identity = Identity(pod.key, pod.uid, "1")
    facts = PodFacts(pod=pod, identity=identity, scheduler_name="ours")
    return cache.pod(Delta("modified", identity, facts))


def show(cache: Cache, cpu: int) -> Event | None:
    node = Node(name=N, allocatable={"cpu": cpu})
    identity = Identity("n", "uid-n", "1")
    return cache.node(Delta("modified", identity, NodeFacts(node=node, identity=identity)))


def shown(cache: Cache) -> tuple[str, bool]:
    node = cache.cluster.node(N)
    assert node is not None
    return node.allocatable.quantity("cpu"), node.unschedulable


def test_pod_without_a_group_is_hidden_until_it_is_bound() -> None:
    cache = new()
    assert tell(cache, "p") is None
    assert cache.cluster.pod("default/p") is None
    assert isinstance(tell(cache, "p", node_name="n"), PodAdded)
    bound = cache.cluster.pod("default/p")
    assert bound is not None
    assert cache.membership(bound) is None


def test_pod_that_joins_a_group_is_shown() -> None:
    cache = new()
    tell(cache, "p")
    assert isinstance(tell(cache, "p", pod_group="g"), PodAdded)
    pod = cache.cluster.pod("default/p")
    assert pod is not None
    assert cache.membership(pod) is not None


def test_pod_with_a_malformed_group_is_shown_so_that_the_scheduler_says_why() -> None:
    labels = {"pod-group/name": "g", "pod-group/min-available": "x"}
    assert isinstance(tell(new(), "p", labels=labels), PodAdded)


def test_paused_node_takes_no_pod_and_follows_the_watch() -> None:
    cache = new()
    show(cache, 1)
    assert isinstance(cache.pause_node(N), NodeUpdated)
    assert shown(cache) == ("1", True)
    assert cache.pause_node(N) is None
    assert isinstance(show(cache, 2), NodeUpdated)
    assert shown(cache) == ("2", True)
    assert isinstance(cache.resume_node(N), NodeUpdated)
    assert shown(cache) == ("2", False)
    assert cache.resume_node(N) is None


def test_pause_of_a_node_ends_with_its_deletion() -> None:
    cache = new()
    show(cache, 1)
    cache.pause_node(N)
    assert isinstance(cache.node(Delta("deleted", Identity("n", "uid-n", "2"))), NodeDeleted)
    assert cache.resume_node(N) is None
    show(cache, 1)
    assert shown(cache) == ("1", False)
    assert cache.pause_node(NodeName("absent")) is None


def test_member_that_changes_is_an_update() -> None:
    cache = new()
    tell(cache, "p", pod_group="g")
    assert isinstance(tell(cache, "p", pod_group="g", labels={"a": "b"}), PodUpdated)
