"""What would start a gang: the smallest change, why none helps, and the order of changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable

import pytest

from gangsched import (
    InMemoryCluster,
    Insufficient,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Scheduler,
    gang,
    presets,
)
from gangsched.cli import _kubectl
from gangsched.cli._cheapest import cheapest_first
from gangsched.errors import UnknownPodError
from gangsched.events import Event
from gangsched.explain import NoNodeFits, NotEnoughMembers, Queued
from gangsched.model import GroupKey
from gangsched.outcomes import Outcome, Success, Unschedulable
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import make_node, make_pod
from gangsched.what_if import SmallestChange, Sufficient
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import MemoryApi

# Why no tried number of nodes would start a group: what takes the nodes, and what is older

GPUS = Node(name=NodeName("m"), allocatable={"gpu": 8})
LAST = "default/g5"


def full(make: Callable[[InMemoryCluster], Scheduler] = presets.gang) -> Scheduler:
    """Return a scheduler whose two nodes are taken by the first of six gangs."""
    cluster = InMemoryCluster()
    scheduler = make(cluster)
    events: list[Event] = [
        NodeAdded(Node(name=NodeName(f"n{n}"), allocatable={"gpu": 8})) for n in range(2)
    ]
    for number in range(6):
        events += gang(f"g{number}", workers=2, requests={"gpu": 8}).events()
    for at, event in enumerate(events):
        scheduler.handle(cluster.apply(event), now=float(at))
        while scheduler.schedule_one(now=float(at)) is not None:
            pass
    scheduler.advance(now=100.0)
    while scheduler.schedule_one(now=100.0) is not None:
        pass
    return scheduler


@pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])
def test_groups_that_take_the_added_nodes_are_counted(
    make: Callable[[InMemoryCluster], Scheduler],
) -> None:
    found = full(make).smallest_change(LAST, GPUS, most=4, now=200.0)
    assert isinstance(found, Insufficient)
    assert found.others_started == 2
    assert ": with 4 of them, 2 other pod groups or pods start; " in str(found)


def test_group_that_is_not_tried_again_has_the_reason_of_its_older_attempt() -> None:
    found = full().smallest_change(LAST, GPUS, most=2, now=200.0)
    assert isinstance(found, Insufficient)
    assert found.is_older
    assert str(found) == (
        "no number of nodes up to 2 of gpu=8 would start pod group default/g5 by t=3m20s: with 2 of"
        " them, 1 other pod group or pod starts; without them, as of 19: pod default/g5-0 does"
        " not fit: 0/2 nodes are available: 2 Insufficient gpu."
    )


# ``smallest_change`` beside a plugin that bounds how many pods the cluster takes

SHAPE = Node(name="x", allocatable={"cpu": 4})


class OnePod:
    """Lets one pod run anywhere, and says so as a bound."""

    name = "OnePod"

    def reads_pods(self, pod: Pod) -> bool:
        return True

    def pod_signature(self, pod: Pod) -> Hashable:
        return None

    def used(self, state: CycleView) -> int:
        return sum(len(node.pods) for node in state.nodes.values())

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return Unschedulable("one pod at most") if self.used(state) else Success()

    def cluster_headroom(self, state: CycleView, pod: Pod) -> int:
        return 1 - self.used(state)


def test_group_without_members_lacks_them_with_any_number_of_nodes() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, plugins=(OnePod(),))
    group = PodGroup(name="g", min_available=2)
    for event in (NodeAdded(make_node("n", cpu=4)), PodGroupAdded(group)):
        scheduler.handle(cluster.apply(event), now=0.0)
    found = scheduler.smallest_change("default/g", SHAPE)
    assert isinstance(found, Insufficient)
    assert isinstance(found.why, NotEnoughMembers)


def test_scheduler_that_was_not_called_yet_knows_what_a_group_lacks() -> None:
    cluster = InMemoryCluster()
    cluster.apply(PodAdded(make_pod("g-0", group="g", min_available=2, cpu=1)))
    found = presets.gang(cluster).smallest_change("default/g", SHAPE, now=0.0)
    assert isinstance(found, Insufficient)
    assert isinstance(found.why, NotEnoughMembers)
    assert found.most == 0


def test_group_beyond_the_bound_of_a_plugin_has_the_reason_of_its_older_attempt() -> None:
    """It is not tried while the plugin says that too few of its pods fit, on any nodes."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, plugins=(OnePod(),))
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=4))), now=0.0)
    for name, cpu in (("g", 1), ("h", 2)):
        for number in range(2):
            pod = make_pod(f"{name}-{number}", group=name, min_available=2, cpu=cpu)
            scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    found = scheduler.smallest_change("default/g", SHAPE, most=1)
    assert isinstance(found, Insufficient)
    assert "0/1 nodes are available: 1 one pod at most" in str(found.why)
    assert found.is_older
    assert "without them, pod default/g-1 does not fit" in str(found)


# ``smallest_change`` is about groups: for the key of a pod it says that this is a pod

NODE = Node(name="n", allocatable={"cpu": 4})


def test_key_of_a_pod_is_refused_as_the_key_of_a_pod() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    events = (PodAdded(Pod(name="solo")), *gang("train", workers=2, cpu=1).events())
    for event in events:
        scheduler.handle(cluster.apply(event), now=0.0)
    with pytest.raises(InvalidValueError, match="this is a pod, which has no group: ask what_if"):
        scheduler.smallest_change("default/solo", NODE)
    with pytest.raises(InvalidValueError, match="this is a pod, of pod group default/train"):
        scheduler.smallest_change("default/train-0", NODE)
    with pytest.raises(UnknownPodError):
        scheduler.smallest_change("default/other", NODE)


# ``WhatIf.starts``: whether a group would start


def test_answer_says_which_groups_would_start() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    for name, workers in (("small", 2), ("large", 9)):
        for event in gang(name, workers=workers, cpu=1).events():
            scheduler.handle(cluster.apply(event), now=0.0)
    answer = scheduler.what_if(NodeAdded(Node(name="n", allocatable={"cpu": 4})), now=0.0)
    assert answer.starts("default/small")
    assert not answer.starts("default/large")
    assert not answer.starts("default/unknown")
    assert not scheduler.what_if(now=0.0).starts("default/small")


def test_answer_that_is_cut_short_says_how_many_groups_are_ahead() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    names = ("a", "b", "c")
    for name in names:
        for event in gang(name, workers=2, cpu=1).events():
            scheduler.handle(cluster.apply(event), now=0.0)
    answer = scheduler.what_if(now=0.0, budget=1)
    assert answer.exhausted
    assert [answer.why[f"default/{name}"] for name in names] == [Queued(n) for n in range(3)]


# What would start a gang is printed in one order: the least added capacity first


G = GroupKey("default/g")
GPU = "nvidia.com/gpu"


def enough(nodes: int, name: str = "n", **allocatable: int | str) -> Sufficient:
    amounts = {GPU if each == "gpu" else each: amount for each, amount in allocatable.items()}
    return Sufficient(G, Node(name=name, allocatable=amounts), nodes, 0.0, 0.0)


def lacking(*, exhausted: bool) -> Insufficient:
    shape = Node(name="n", allocatable={"cpu": 1})
    return Insufficient(G, shape, 4, 0.0, NoNodeFits(1, "no"), exhausted=exhausted)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (enough(0, cpu=64, gpu=8), enough(1, cpu=1)),
        (enough(9, cpu=64, memory="9Gi"), enough(1, cpu=1, gpu=1)),
        (enough(2, cpu=64, gpu=1), enough(1, cpu=1, gpu=8)),
        (enough(2, cpu=4, gpu=1), enough(2, cpu=8, gpu=1)),
        (enough(1, cpu=4, memory="1Gi"), enough(1, cpu=4, memory="2Gi")),
        (enough(1, cpu=4), enough(2, cpu=2)),
        (enough(16, cpu=64, gpu=8), lacking(exhausted=True)),
        (lacking(exhausted=True), lacking(exhausted=False)),
    ],
)
def test_change_that_adds_less_comes_first(first: SmallestChange, second: SmallestChange) -> None:
    assert cheapest_first([second, first]) == (first, second)
    assert cheapest_first([first, second]) == (first, second)


def test_equal_changes_keep_their_order() -> None:
    """The most frequent kind of node is asked about first."""
    changes = [enough(1, "b", cpu=1), enough(1, "a", cpu=1)]
    assert cheapest_first(changes) == tuple(changes)


def test_kubectl_gang_why_prints_the_smaller_node_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = MemoryApi()
    api.be_connected_to(monkeypatch)
    for name, gpus in (("large-0", 8), ("large-1", 8), ("small", 1)):
        api.put(NODES, node_json(name, gpu=gpus))
    api.put(GROUPS, group_json("train", 1))
    api.put(PODS, pod_json("train-0", group="train"))
    for n, (node, gpus) in enumerate((("large-0", 8), ("large-1", 8), ("small", 1))):
        pod = pod_json(f"full-{n}", scheduler="default-scheduler", gpu=gpus)
        pod["spec"]["nodeName"] = node
        api.put(PODS, pod)
    assert _kubectl.main(["why", "train", "--ask-scheduler", "never"]) == 0
    lines = [
        line for line in capsys.readouterr().out.splitlines() if line.startswith("what would help")
    ]
    assert len(lines) == 2
    assert f"{GPU}=1" in lines[0]
    assert f"{GPU}=8" in lines[1]
    assert _kubectl.main(["why", "train", "--ask-scheduler", "never", "-o", "json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert [each["shape"][GPU] for each in item["smallest_changes"]] == ["1", "8"]
