"""Pods of one class: what is asked once for all of them, and what tells them apart."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    Bind,
    Bound,
    HostPort,
    InMemoryCluster,
    InvalidPodGroupError,
    LabelSelector,
    Node,
    NodeAdded,
    ObjectChanged,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodGroup,
    PodGroupAdded,
    PodUID,
    Preemption,
    Scheduler,
    SchedulingUnit,
    VolumeClaim,
    presets,
)
from gangsched.cluster_objects import Namespace, PersistentVolumeClaim, StorageClass
from gangsched.core.evaluation import selections
from gangsched.events import Evict
from gangsched.membership import membership
from gangsched.options import PlacementStrategy
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost
from support.shown import binds, nothing_is_assumed

# the labels and on the namespace.


@pytest.fixture(autouse=True, params=["one by one", "too many to try"])
def _selectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Selectors are tried one by one, or labels are told apart outright."""
    if request.param != "one by one":
        monkeypatch.setattr(selections, "_MOST", -1)


EACH_UNIT = pytest.mark.parametrize("unit", list(SchedulingUnit), ids=lambda unit: unit.value)
_HOST = "kubernetes.io/hostname"
_X = LabelSelector({"app": "x"})


def _term(**more: Any) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=_HOST, label_selector=_X, **more)


class _Host(ImmediateHost):
    """A host with one node for each of some numbers of pods."""

    def __init__(self, unit: SchedulingUnit, *sizes: int, **options: Any) -> None:
        super().__init__()
        if unit is SchedulingUnit.GROUP:
            self.scheduler: Scheduler = presets.gang(self.cluster, **options)
        else:
            self.scheduler = presets.coscheduling(self.cluster, **options)
        for n, size in enumerate(sizes):
            labels = {_HOST: f"n{n}", "zone": f"z{n}"}
            self.tell(NodeAdded(Node(name=f"n{n}", allocatable={"pods": size}, labels=labels)))

    def add(self, name: str, app: str = "", **more: Any) -> None:
        self.tell(PodAdded(Pod(name=name, labels={"app": app} if app else {}, **more)))

    @property
    def bound(self) -> dict[str, str]:
        return {e.uid.split("/")[1]: e.node for e in self.effects if isinstance(e, Bind)}

    def later(self) -> None:
        """Let every backoff end."""
        for _ in range(6):
            self.at(self.now + 100.0)


# Entities of one equivalence class ----------------------------------------------------------------


@EACH_UNIT
def test_gang_is_tried_although_like_gang_fails_that_no_affinity_is_about(
    unit: SchedulingUnit,
) -> None:
    host = _Host(unit, 2)
    for name in ("p", "q"):
        host.add(name, node_name="n0")
    for group, app in (("g1", "y"), ("g2", "x")):
        each: dict[str, Any] = {"pod_group": group, "min_available": 2}
        host.add(f"{group}-a", app, **each)
        host.add(f"{group}-b", "z", pod_affinity=[_term()], **each)
        host.decide()
    host.end("p", "q")
    host.decide()
    host.later()
    assert host.bound == {"g2-a": "n0", "g2-b": "n0"}


@EACH_UNIT
def test_pod_is_tried_when_carried_term_is_not_about_its_namespace_any_more(
    unit: SchedulingUnit,
) -> None:
    host = _Host(unit, 3)
    host.tell(ObjectChanged(Namespace(name="two", labels={"team": "b"})))
    apart = _term(namespace_selector=LabelSelector({"team": "b"}))
    host.add("carrier", pod_anti_affinity=[apart], node_name="n0")
    host.add("p", "x", namespace="two")
    host.decide()
    host.later()
    assert host.bound == {}
    host.tell(ObjectChanged(Namespace(name="two", labels={"team": "a"})))
    host.decide()
    host.later()
    assert host.bound == {"p": "n0"}


# Late members -------------------------------------------------------------------------------------


@EACH_UNIT
def test_late_member_preempts_although_eviction_helps_no_like_one(unit: SchedulingUnit) -> None:
    host = _Host(unit, 3, preemption=Preemption(elastic_members=True))
    host.add("carrier", pod_anti_affinity=[_term()], node_name="n0", priority=9)
    host.add("low", node_name="n0")
    each: dict[str, Any] = {"pod_group": "g", "min_available": 1, "priority": 5}
    host.add("first", "z", **each)
    host.decide()
    host.add("kept-away", "x", **each)
    host.add("late", "y", **each)
    host.decide()
    assert [e.uid for e in host.effects if isinstance(e, Evict)] == [PodUID("default/low")]
    host.end("low")
    host.decide()
    assert host.bound == {"first": "n0", "late": "n0"}


# Claims of pods that say the same are read once; errors name the pod that is asked about

_NAME = "pod-group.scheduling.sigs.k8s.io/name"
_MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"


def test_error_about_a_claim_names_the_pod_that_is_asked_about() -> None:
    labels = {_NAME: "train", _MINIMUM: "zero"}
    for name in ("first", "second", "first"):
        with pytest.raises(InvalidPodGroupError) as caught:
            membership(Pod(name=name, labels=labels))

        assert str(caught.value).startswith(f"pod default/{name}")
        assert (caught.value.field, caught.value.value) == (_MINIMUM, "zero")


# Like members are asked about as the first of them, which may have taken volumes in the plan.

_FAST = StorageClass(name="fast", provisioner="csi.example.com", waits=True)
_SHARED = PersistentVolumeClaim(name="shared", storage_class="fast", requests={"storage": "1Gi"})


def _host(placement: PlacementStrategy, *sizes: int) -> ImmediateHost:
    host = ImmediateHost()
    host.scheduler = presets.gang(host.cluster, placement=placement, preemption=Preemption())
    for n, size in enumerate(sizes):
        labels = {_HOST: f"n{n}"}
        host.tell(NodeAdded(Node(name=f"n{n}", allocatable={"pods": size}, labels=labels)))
    host.tell(ObjectChanged(_FAST))
    host.tell(ObjectChanged(_SHARED))
    return host


def _bound(host: ImmediateHost) -> list[str]:
    return [effect.node for effect in host.effects if isinstance(effect, Bind)]


@pytest.mark.parametrize("placement", list(PlacementStrategy))
@pytest.mark.parametrize("sizes", [(3, 3), (2, 3), (1, 2, 3)])
def test_members_with_one_claim_start_on_the_node_that_its_volume_is_provisioned_for(
    sizes: tuple[int, ...], placement: PlacementStrategy
) -> None:
    host = _host(placement, *sizes)
    for n in range(3):
        claims = [VolumeClaim("shared")]
        pod = Pod(name=f"g-{n}", pod_group="g", min_available=3, volume_claims=claims)
        host.tell(PodAdded(pod))
    host.decide()
    assert len(_bound(host)) == 3
    assert len(set(_bound(host))) == 1


def test_members_with_one_claim_that_must_be_apart_are_refused_with_a_proof() -> None:
    host = _host(PlacementStrategy.SCORE, 3, 3)
    apart = PodAffinityTerm(topology_key=_HOST, label_selector=LabelSelector({"app": "x"}))
    for n in range(2):
        pod = Pod(
            name=f"g-{n}",
            labels={"app": "x"},
            pod_group="g",
            min_available=2,
            pod_anti_affinity=[apart],
            volume_claims=[VolumeClaim("shared")],
        )
        host.tell(PodAdded(pod))
    host.decide()
    assert _bound(host) == []
    assert "at most 1 of 2 members fit" in str(host.scheduler.why("default/g"))


# A term that a member carries is honoured for siblings of a kind that was asked about before

_APART = PodAffinityTerm(topology_key=_HOST, label_selector=LabelSelector({"app": "x"}))


def members() -> list[Pod]:
    """Return two members with one port, and one that keeps away from both."""
    each: dict[str, Any] = {"labels": {"app": "x"}, "pod_group": "g", "min_available": 3}
    return [
        Pod(name="port-0", host_ports=[HostPort(80)], **each),
        Pod(name="apart", pod_anti_affinity=[_APART], **each),
        Pod(name="port-1", host_ports=[HostPort(80)], **each),
    ]


# A whole gang of which ``pre_filter`` refuses a needed member takes no node, whatever it asks


@pytest.mark.parametrize("least", [2, 3])
@pytest.mark.parametrize("more", [{}, {"host_ports": [HostPort(80)]}], ids=["plain", "a port"])
def test_gang_holds_no_node_while_needed_member_lacks_its_claim(
    more: dict[str, Any], least: int
) -> None:
    host = ImmediateHost()
    host.scheduler = presets.gang(host.cluster)
    for n in range(2):
        host.tell(NodeAdded(Node(name=f"n{n}", allocatable={"pods": 3})))
    host.tell(PodGroupAdded(PodGroup(name="g", min_available=least)))
    for n in range(2):
        host.tell(PodAdded(Pod(name=f"g-{n}", pod_group="g", **more)))
    claims = [VolumeClaim("missing")]
    host.tell(PodAdded(Pod(name="g-2", pod_group="g", volume_claims=claims)))
    host.decide()
    bound = [effect for effect in host.effects if isinstance(effect, Bind)]
    if least == 2:
        assert len(bound) == 2
    else:
        assert not bound
        assert nothing_is_assumed(host.scheduler)
        assert 'persistentvolumeclaim "missing" not found' in str(host.scheduler.why("default/g"))


# A node with assumed siblings of one gang is read again when one of them is bound


@pytest.mark.parametrize("count", [2, 3])
def test_assumed_sibling_keeps_its_node_when_another_is_bound(count: int) -> None:
    """Like members share one object of requests, which is not that of each pod."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    scheduler.handle(cluster.apply(NodeAdded(make_node("n", cpu=4))), now=0.0)
    for number in range(count):
        pod = make_pod(f"g-{number}", group="g", min_available=count, cpu=1)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    effects = scheduler.schedule_one(now=0.0) or ()
    for bind in [each for each in effects if isinstance(each, Bind)]:
        bound = cluster.apply(Bound(bind.uid, bind.node, bind.attempt))
        scheduler.handle(bound, now=0.0)
        scheduler._check()
    assert binds(scheduler, make_pod("last", cpu=4 - count))
    assert not binds(scheduler, make_pod("last", cpu=5 - count))
