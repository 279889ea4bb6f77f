"""The cluster state that watches feed: what it shows, and which changes are events."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bound,
    ClusterStateError,
    Node,
    NodeAdded,
    NodeUpdated,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodNotAdmitted,
    PodPhase,
    PodUpdated,
    presets,
)
from gangsched.cluster_objects import Namespace
from gangsched.events import ObjectChanged, ObjectDeleted
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._echoes import WithoutEchoes
from gangsched.kubernetes._facts import (
    Condition,
    Dialect,
    GroupFacts,
    NodeFacts,
    ObjectFacts,
    PodFacts,
    PriorityClassFacts,
)
from gangsched.kubernetes._known import Identity
from gangsched.kubernetes._reflector import Delta

NATIVE = Dialect("scheduling.k8s.io", "v1beta1", "/apis/scheduling.k8s.io/v1beta1/podgroups")
OTHER = Dialect("scheduling.x-k8s.io", "v1alpha1", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups")


def new() -> Cache:
    return Cache(["ours"], [NATIVE.group, OTHER.group])


def facts(pod: Pod, version: int = 1, scheduler: str = "ours", **named: Any) -> PodFacts:
    identity = Identity(pod.key, pod.uid, str(version))
    return PodFacts(pod=pod, identity=identity, scheduler_name=scheduler, **named)


def seen(pod: Pod, version: int = 1, scheduler: str = "ours", **named: Any) -> Delta[PodFacts]:
    known = facts(pod, version, scheduler, **named)
    return Delta("modified", known.identity, known)


def gone(pod: Pod) -> Delta[PodFacts]:
    return Delta("deleted", Identity(pod.key, pod.uid, "9"))


def group(least: int, dialect: Dialect = NATIVE, **named: Any) -> Delta[GroupFacts]:
    value = GroupFacts(
        group=PodGroup(name="g", min_available=least),
        identity=Identity("default/g", "g-uid", "1"),
        dialect=dialect,
        **named,
    )
    return Delta("added", value.identity, value)


POD = Pod(name="p", uid="p-1")
ON_N = evolve(POD, node_name="n")


def test_pending_pod_of_another_scheduler_is_hidden_until_it_is_bound() -> None:
    cache = new()
    assert cache.pod(seen(POD, scheduler="theirs")) is None
    assert cache.cluster.pod("p-1") is None
    assert cache.pod(seen(ON_N, 2, "theirs")) == PodAdded(ON_N)
    assert list(cache.cluster.pods_on("n")) == [ON_N]


def test_finished_pod_of_another_scheduler_is_dropped() -> None:
    cache = new()
    cache.pod(seen(ON_N, 1, "theirs"))
    done = evolve(ON_N, phase=PodPhase.SUCCEEDED)
    assert cache.pod(seen(done, 2, "theirs")) == PodDeleted("p-1")
    assert cache.pod(seen(done, 3, "theirs")) is None
    assert cache.pod(gone(done)) is None


def test_finished_pod_of_ours_stays_and_uses_nothing() -> None:
    cache = new()
    cache.pod(seen(ON_N))
    done = evolve(ON_N, phase=PodPhase.SUCCEEDED)
    assert cache.pod(seen(done, 2)) == PodUpdated(done)
    assert list(cache.cluster.pods_on("n")) == []
    assert cache.cluster.pod("p-1") == done


def test_pod_of_another_scheduler_is_no_member_of_a_group() -> None:
    cache = new()
    member = evolve(ON_N, pod_group="g")
    cache.pod(seen(member, 1, "theirs"))
    assert cache.membership(member) is None
    ours = Pod(name="q", uid="q-1", pod_group="g")
    cache.pod(seen(ours))
    claim = cache.membership(ours)
    assert claim is not None
    assert claim.group == "default/g"


def test_pod_does_not_lose_its_node_when_the_watch_is_behind() -> None:
    cache = new()
    cache.pod(seen(POD))
    cache.apply(Bound("p-1", "n", 1))
    assert cache.pod(seen(evolve(POD, labels={"a": "b"}), 2)) is not None
    shown = cache.cluster.pod("p-1")
    assert shown is not None
    assert shown.node_name == "n"
    assert dict(shown.labels) == {"a": "b"}


def test_echo_of_an_own_bind_is_no_event() -> None:
    cache = new()
    cache.pod(seen(POD))
    cache.apply(Bound("p-1", "n", 1))
    assert cache.pod(seen(ON_N, 2)) is None


def test_report_after_the_echo_changes_nothing() -> None:
    cache = new()
    cache.pod(seen(POD))
    assert cache.pod(seen(ON_N, 2)) == PodUpdated(ON_N)
    before = cache.cluster.pod("p-1")
    cache.apply(Bound("p-1", "n", 1))
    assert cache.cluster.pod("p-1") is before


def test_report_of_a_pod_that_is_elsewhere_or_gone_is_refused() -> None:
    cache = new()
    with pytest.raises(ClusterStateError):
        cache.apply(Bound("p-1", "n", 1))
    cache.pod(seen(ON_N))
    with pytest.raises(ClusterStateError):
        cache.apply(Bound("p-1", "other", 1))


def test_phase_of_a_running_pod_is_stored_and_is_no_event() -> None:
    cache = new()
    cache.pod(seen(ON_N))
    running = evolve(ON_N, phase=PodPhase.RUNNING)
    assert cache.pod(seen(running, 2)) is None
    assert cache.cluster.pod("p-1") == running


def test_older_versions_are_ignored_after_a_look() -> None:
    cache = new()
    cache.pod(seen(POD, 3))
    assert cache.look(facts(ON_N, 7)) == PodUpdated(ON_N)
    assert cache.pod(seen(evolve(POD, labels={"late": "1"}), 5)) is None
    assert cache.cluster.pod("p-1") == ON_N
    newer = evolve(ON_N, labels={"new": "1"})
    assert cache.pod(seen(newer, 8)) == PodUpdated(newer)


def test_pod_with_a_constraint_that_is_not_modelled_is_gated() -> None:
    """The scheduler gates it; the cache shows it as it is, and adds no gate of its own."""
    cache = new()
    held = evolve(POD, unmodelled=("spec.volumes",))
    assert cache.pod(seen(held)) == PodAdded(held)
    shown = cache.cluster.pod("p-1")
    assert shown is not None
    assert shown.is_gated
    assert (shown.unmodelled, shown.scheduling_gates) == (("spec.volumes",), ())
    reason = "has constraints that are not modelled: spec.volumes"
    told = presets.gang(cache.cluster).handle(PodAdded(held), now=0.0)
    assert told == (PodNotAdmitted(held.uid, reason),)
    on_n = evolve(ON_N, unmodelled=("spec.volumes",))
    assert cache.pod(seen(on_n, 2)) == PodUpdated(on_n)
    assert cache.cluster.pod("p-1") == on_n


def test_condition_and_nomination_are_remembered_while_a_pod_is_pending() -> None:
    cache = new()
    said = Condition("PodScheduled", "False", "Unschedulable", "no node")
    cache.pod(seen(POD, conditions=(said,), nominated_node="n"))
    assert (cache.conditions, cache.nominated) == ({"p-1": "no node"}, {"p-1": "n"})
    cache.pod(seen(ON_N, 2, conditions=(said,)))
    assert (cache.conditions, cache.nominated) == ({}, {})


def test_heartbeat_of_a_node_is_no_event() -> None:
    cache = new()
    node = Node(name="n", allocatable={"cpu": 1})

    def heard(shown: Node, version: int) -> Delta[NodeFacts]:
        value = NodeFacts(node=shown, identity=Identity("n", "u", str(version)))
        return Delta("modified", value.identity, value)

    assert cache.node(heard(node, 1)) == NodeAdded(node)
    assert cache.node(heard(evolve(node), 2)) is None
    larger = evolve(node, allocatable={"cpu": 2})
    assert cache.node(heard(larger, 3)) == NodeUpdated(larger)


def test_group_of_the_first_dialect_counts() -> None:
    cache = new()
    two, three = PodGroup(name="g", min_available=2), PodGroup(name="g", min_available=3)
    assert cache.group(group(2, OTHER), OTHER.group) == [PodGroupAdded(two)]
    assert cache.group(group(3), NATIVE.group) == [PodGroupUpdated(three)]
    absent: Delta[GroupFacts] = Delta("deleted", Identity("default/g", "g-uid", "2"))
    assert cache.group(absent, NATIVE.group) == [PodGroupUpdated(two)]
    assert cache.group(absent, OTHER.group) == [PodGroupDeleted(two.key)]


def test_group_gets_the_priority_of_a_class_that_comes_later() -> None:
    cache = new()
    cache.group(group(2, priority_class="high"), NATIVE.group)
    named = PriorityClassFacts(name="high", value=7, identity=Identity("high", "u", "1"))
    (event,) = cache.priority_class(Delta("added", named.identity, named))
    assert event == PodGroupUpdated(PodGroup(name="g", min_available=2, priority=7))
    assert cache.priority_class(Delta("modified", named.identity, named)) == []
    (event,) = cache.priority_class(Delta("deleted", named.identity))
    assert event == PodGroupUpdated(PodGroup(name="g", min_available=2))


@pytest.mark.once("chooses the unit itself")
def test_second_report_of_a_bind_is_not_handled_and_a_change_is() -> None:
    cache = new()
    scheduler = presets.gang(cache.cluster)
    calls = WithoutEchoes(scheduler, cache.cluster)
    node = NodeFacts(node=Node(name="n"), identity=Identity("n", "u", "1"))
    for event in (cache.node(Delta("added", node.identity, node)), cache.pod(seen(POD))):
        assert event is not None
        calls.handle(event, now=0.0)
    assert calls.schedule_one(now=0.0) is not None
    echo = cache.pod(seen(ON_N, 2))
    assert echo is not None
    assert calls.handle(echo, now=0.0) != ()
    bound = Bound("p-1", "n", 1)
    cache.apply(bound)
    assert calls.handle(bound, now=0.0) == ()
    assert calls.left_out == 1
    ending = cache.pod(seen(evolve(ON_N, deleted_at=1.0), 3))
    assert ending is not None
    calls.handle(ending, now=1.0)
    assert calls.left_out == 1


def test_namespace_is_an_event_when_its_labels_change() -> None:
    cache = new()

    def heard(labels: dict[str, str], version: int) -> Delta[ObjectFacts]:
        identity = Identity("team", "u", str(version))
        value = ObjectFacts(value=Namespace(name="team", labels=labels), identity=identity)
        return Delta("modified", identity, value)

    first = Namespace(name="team", labels={"a": "b"})
    assert cache.object("Namespace", heard({"a": "b"}, 1)) == ObjectChanged(first)
    assert cache.object("Namespace", heard({"a": "b"}, 2)) is None
    assert cache.cluster.objects.get(Namespace, "team") == first
    gone: Delta[ObjectFacts] = Delta("deleted", Identity("team", "u", "3"))
    assert cache.object("Namespace", gone) == ObjectDeleted("Namespace", "team")
    assert cache.object("Namespace", gone) is None
