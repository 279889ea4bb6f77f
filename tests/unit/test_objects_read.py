"""A plugin that reads objects of the cluster: its answers follow them, and nothing polls."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import pytest

from gangsched import (
    Bind,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    ObjectChanged,
    Outcome,
    PluginError,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodUnschedulable,
    Profile,
    ProfileError,
    Scheduler,
    SchedulingUnit,
    Skip,
    Success,
    Unschedulable,
)
from gangsched.cluster_objects import CSINode, Namespace
from gangsched.coscheduling import Coscheduling
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import CycleView, NodeView
from gangsched.testing import cycle


class Open:
    """Takes pods of namespaces that are labelled so; ``point`` is where it refuses others."""

    name = "Open"

    def __init__(self, point: str = "filter", *, reads: Iterable[Any] = (Namespace,)) -> None:
        self.point, self.reads = point, reads
        self.asked = 0

    def fork(self) -> Open:
        return Open(self.point, reads=self.reads)

    def pod_signature(self, pod: Pod) -> Hashable:
        return pod.namespace

    def node_signature(self, node: NodeView) -> Hashable:
        return None

    def objects_read(self, pod: Pod) -> Iterable[Any]:
        return self.reads if pod.namespace != "free" else ()

    def _answer(self, state: CycleView, pod: Pod) -> Outcome:
        self.asked += 1
        found = state.objects.get(Namespace, pod.namespace)
        if pod.namespace == "free" or (found is not None and "open" in found.labels):
            return Success()
        return Unschedulable("namespace is closed", resolvable=False)

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        return self._answer(state, pod) if self.point == "pre_filter" else Skip()

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return self._answer(state, pod) if self.point == "filter" else Skip()


class Bare:
    """A cluster state of before objects were read: it has none."""

    def __init__(self, cluster: InMemoryCluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        if name == "objects":
            raise AttributeError(name)
        return getattr(self._cluster, name)


class Host:
    """Two nodes, a plugin that reads namespaces, and one cluster."""

    def __init__(self, plugin: Open, unit: str = "pod") -> None:
        self.cluster, self.now = InMemoryCluster(), 0.0
        profile = Profile(Coscheduling(), plugin, NodeResources(), DefaultBinder())
        self.scheduler = Scheduler(self.cluster, profile, unit=SchedulingUnit(unit))
        for name in ("m", "n"):
            self.tell(NodeAdded(Node(name=NodeName(name), allocatable={"cpu": 8})))

    def tell(self, event: Any) -> list[Any]:
        effects = list(self.scheduler.handle(self.cluster.apply(event), now=self.now))
        while (more := self.scheduler.schedule_one(now=self.now)) is not None:
            effects += more
        self.scheduler._check()
        return effects

    def wait(self, seconds: float) -> list[Any]:
        self.now += seconds
        effects = list(self.scheduler.advance(now=self.now))
        while (more := self.scheduler.schedule_one(now=self.now)) is not None:
            effects += more
        return effects


def a_pod(name: str, **fields: Any) -> Pod:
    return Pod(name=name, namespace="a", **fields)


def binds(effects: list[Any]) -> list[str]:
    return [effect.uid for effect in effects if isinstance(effect, Bind)]


GROUP = {"pod-group.scheduling.sigs.k8s.io/name": "g"}
OPEN = ObjectChanged(Namespace(name="a", labels={"open": "yes"}))
CLOSED = ObjectChanged(Namespace(name="a"))


@pytest.mark.parametrize("point", ["pre_filter", "filter"])
def test_pod_is_requeued_when_an_object_changes(point: str) -> None:
    host = Host(Open(point))
    assert binds(host.tell(PodAdded(a_pod("p")))) == []
    assert binds(host.tell(CLOSED)) == []
    host.wait(60.0)
    assert binds(host.tell(OPEN) + host.wait(60.0)) == ["a/p"]


@pytest.mark.parametrize("point", ["pre_filter", "filter"])
def test_refused_pod_is_not_retried_before_an_event(point: str) -> None:
    host = Host(plugin := Open(point))
    host.tell(PodAdded(a_pod("p")))
    host.wait(60.0)
    assert host.scheduler.next_deadline() is None
    asked = plugin.asked
    assert host.wait(3600.0) == []
    assert plugin.asked == asked


def test_pods_that_read_no_object_keep_their_answers() -> None:
    host = Host(plugin := Open())
    host.tell(PodAdded(Pod(name="p", namespace="free", requests={"cpu": 9})))
    asked = plugin.asked
    assert host.tell(OPEN) == []
    host.tell(ObjectChanged(CSINode(name="n")))
    assert plugin.asked == asked


def test_objects_of_other_kinds_requeue_no_pod() -> None:
    host = Host(plugin := Open("pre_filter"))
    host.tell(PodAdded(a_pod("p")))
    host.wait(60.0)
    asked = plugin.asked
    assert host.tell(ObjectChanged(CSINode(name="n"))) == []
    assert plugin.asked == asked


@pytest.mark.parametrize("unit", ["pod", "group"])
@pytest.mark.parametrize("point", ["pre_filter", "filter"])
def test_gang_is_requeued_when_an_object_changes(point: str, unit: str) -> None:
    host = Host(Open(point), unit)
    host.tell(PodGroupAdded(PodGroup(name="g", namespace="a", min_available=2)))
    for name in ("p", "q"):
        host.tell(PodAdded(a_pod(name, labels=GROUP)))
    host.wait(60.0)
    assert host.scheduler.next_deadline() is None
    effects = host.tell(OPEN) + host.wait(60.0)
    assert sorted(binds(effects)) == ["a/p", "a/q"]


def test_listing_reads_the_objects_again() -> None:
    host = Host(Open("pre_filter"))
    host.tell(PodAdded(a_pod("p")))
    host.wait(60.0)
    host.cluster.apply(OPEN)
    effects = list(host.scheduler.rebuild(now=host.now))
    assert binds(effects + host.wait(60.0)) == ["a/p"]


def test_question_sees_the_objects_of_its_events_alone() -> None:
    host = Host(Open())
    host.tell(PodAdded(a_pod("p")))
    host.wait(60.0)
    answer = host.scheduler.what_if(OPEN, until=host.now + 60.0)
    assert binds([effect for _at, effect in answer.timed]) == ["a/p"]
    assert host.cluster.objects.get(Namespace, "a") is None
    assert host.wait(60.0) == []


def test_cluster_state_without_objects_shows_none() -> None:
    cluster = InMemoryCluster()
    bare: Any = Bare(cluster)
    profile = Profile(Coscheduling(), Open(), NodeResources(), DefaultBinder())
    scheduler = Scheduler(bare, profile)
    for event in (NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 8})), OPEN):
        scheduler.handle(cluster.apply(event), now=0.0)
    pod = a_pod("p")
    scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    assert any(isinstance(effect, PodUnschedulable) for effect in effects)
    assert cycle().objects.get(Namespace, "a") is None


@pytest.mark.parametrize("reads", [(Pod,), "Namespace", None, 3])
def test_plugin_that_reads_an_unknown_kind_is_named(reads: Any) -> None:
    host = Host(Open(reads=reads))
    with pytest.raises(PluginError, match="Open"):
        host.tell(PodAdded(a_pod("p")))


def test_plugin_that_reads_objects_must_give_a_pod_signature() -> None:
    class Unsigned:
        name = "Unsigned"

        def objects_read(self, pod: Pod) -> Iterable[Any]:
            return ()

        def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
            return Success()

    with pytest.raises(ProfileError, match="pod_signature"):
        Profile(Coscheduling(), Unsigned(), DefaultBinder())
