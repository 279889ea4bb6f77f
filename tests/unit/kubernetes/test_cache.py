"""The cluster state that watches feed: what it shows, and which changes are events."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bound,
    ClusterStateError,
    Disk,
    Event,
    Node,
    NodeAdded,
    NodeName,
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
    PodUID,
    PodUpdated,
    VolumeClaim,
    presets,
)
from gangsched.cluster_objects import Namespace, StorageClass
from gangsched.errors import ManifestError
from gangsched.events import ObjectChanged, ObjectDeleted

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

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
from gangsched.kubernetes._objects import WATCHED, ObjectDecoder, Watched, objects_needed
from gangsched.kubernetes._reflector import Delta
from gangsched.manifests import OBJECT_KINDS
from support.api_objects import raw

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


DONE = evolve(ON_N, phase=PodPhase.SUCCEEDED)
RUNNING = evolve(ON_N, phase=PodPhase.RUNNING)
LATE = evolve(POD, labels={"late": "1"})
NEWER = evolve(ON_N, labels={"new": "1"})
BOUND = Bound(POD.uid, "n", 1)
Step = tuple[Any, Event | None]


@pytest.mark.parametrize(
    ("steps", "shown", "on_node"),
    [
        ([(seen(POD, scheduler="theirs"), None)], None, []),
        (
            [(seen(POD, scheduler="theirs"), None), (seen(ON_N, 2, "theirs"), PodAdded(ON_N))],
            *(ON_N, [ON_N]),
        ),
        (
            [
                (seen(ON_N, 1, "theirs"), PodAdded(ON_N)),
                (seen(DONE, 2, "theirs"), PodDeleted(POD.uid)),
                (seen(DONE, 3, "theirs"), None),
                (gone(DONE), None),
            ],
            *(None, []),
        ),
        ([(seen(ON_N), PodAdded(ON_N)), (seen(DONE, 2), PodUpdated(DONE))], DONE, []),
        ([(seen(ON_N), PodAdded(ON_N)), (seen(RUNNING, 2), None)], RUNNING, [RUNNING]),
        ([(seen(POD), PodAdded(POD)), (BOUND, None), (seen(ON_N, 2), None)], ON_N, [ON_N]),
        (
            [(seen(POD), PodAdded(POD)), (seen(ON_N, 2), PodUpdated(ON_N)), (BOUND, None)],
            *(ON_N, [ON_N]),
        ),
        (
            [
                (seen(POD, 3), PodAdded(POD)),
                (facts(ON_N, 7), PodUpdated(ON_N)),
                (seen(LATE, 5), None),
                (seen(NEWER, 8), PodUpdated(NEWER)),
            ],
            *(NEWER, [NEWER]),
        ),
    ],
    ids=[
        *("pending, of another", "bound, of another", "finished, of another", "finished"),
        *("phase", "echo of a bind", "report after the echo", "older after a look"),
    ],
)
def test_change_of_a_pod_is_shown_and_is_an_event_if_it_matters(
    steps: list[Step], shown: Pod | None, on_node: list[Pod]
) -> None:
    cache = new()
    for change, event in steps:
        match change:
            case Bound():
                cache.apply(change)
            case PodFacts():
                assert cache.look(change) == event
            case _:
                assert cache.pod(change) == event
    assert cache.cluster.pod(POD.uid) == shown
    assert list(cache.cluster.pods_on(NodeName("n"))) == on_node


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


def test_report_of_a_pod_that_is_elsewhere_or_gone_is_refused() -> None:
    cache = new()
    with pytest.raises(ClusterStateError):
        cache.apply(Bound("p-1", "n", 1))
    cache.pod(seen(ON_N))
    with pytest.raises(ClusterStateError):
        cache.apply(Bound("p-1", "other", 1))


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


# Objects that constraints refer to --------------------------------------------------------------

FAST = StorageClass(name="fast", provisioner="csi.example.com")
TEAM = Namespace(name="team", labels={"a": "b"})
CLAIMING = Pod(name="c", uid="c-1", volume_claims=[VolumeClaim("c")])
SCORED = {each.kind for each in WATCHED if each.scored}
STORAGE = {each.kind for each in WATCHED} - {"Namespace", "PodDisruptionBudget"} - SCORED
ATTACHED = STORAGE - {"CSIStorageCapacity"}


def test_every_kind_that_is_read_is_watched_or_resolved_elsewhere() -> None:
    read = {kind for _group, kind in OBJECT_KINDS}
    assert {each.kind for each in WATCHED} == read - {"PriorityClass", "RuntimeClass"}


@pytest.mark.parametrize("watched", WATCHED, ids=lambda each: each.kind)
def test_object_of_a_list_is_read_without_its_kind_and_version(watched: Watched) -> None:
    document: dict[str, Any] = {"metadata": {"name": "x", "uid": "u", "resourceVersion": "7"}}
    found = ObjectDecoder(watched)(raw(document))
    assert type(found.value).__name__ == watched.kind
    assert found.identity == Identity("x", "u", "7")
    if watched.kind == "StorageClass":
        with pytest.raises(ManifestError, match="volumeBindingMode"):
            ObjectDecoder(watched)(raw({**document, "volumeBindingMode": "Sometimes"}))


@pytest.mark.parametrize(
    ("pod", "needed"),
    [
        (Pod(name="plain"), set[str]()),
        (CLAIMING, STORAGE),
        (Pod(name="p", disks=[Disk("awsElasticBlockStore", "vol-1")]), ATTACHED),
        (Pod(name="p", disks=[Disk("iscsi", "iqn")]), set[str]()),
    ],
    ids=["plain", "claim", "disk of a cloud", "disk without a driver"],
)
def test_pod_needs_the_kinds_that_its_volumes_refer_to(pod: Pod, needed: set[str]) -> None:
    assert objects_needed(pod) == needed


@pytest.mark.parametrize("value", [FAST, TEAM], ids=["class", "namespace"])
@pytest.mark.parametrize("ends", ["deleted", "refused"])
def test_object_is_an_event_when_something_is_read_of_its_change(value: Any, ends: Any) -> None:
    """An object that becomes malformed counts as gone."""
    cache, kind = new(), type(value).__name__

    def heard(version: str) -> Delta[ObjectFacts]:
        identity = Identity(value.key, "u", version)
        return Delta("modified", identity, ObjectFacts(value=value, identity=identity))

    assert cache.object(kind, heard("1")) == ObjectChanged(value)
    assert cache.object(kind, heard("2")) is None
    assert cache.cluster.objects.get(type(value), value.key) == value
    gone: Delta[ObjectFacts] = Delta(ends, Identity(value.key, "u", "3"))
    assert cache.object(kind, gone) == ObjectDeleted(kind, value.key)
    assert cache.object(kind, gone) is None


def held_by(cache: Cache, uid: str) -> tuple[str, ...]:
    pod = cache.cluster.pod(PodUID(uid))
    assert pod is not None
    return pod.unmodelled


def test_pending_pods_are_held_while_a_kind_cannot_be_read() -> None:
    cache = new()
    anyway = evolve(CLAIMING, name="anyway", uid="anyway", unmodelled=["spec.x"])
    for pod in (CLAIMING, POD, anyway, evolve(CLAIMING, name="b", uid="b", node_name="n")):
        cache.pod(seen(pod))
    events = cache.unreadable("CSIDriver", "they cannot be read")
    assert {each.pod.uid for each in events if isinstance(each, PodUpdated)} == {"c-1", "anyway"}
    assert held_by(cache, "c-1") == ("needs CSIDriver objects: they cannot be read",)
    assert cache.unreadable("CSIDriver", "they cannot be read") == []
    cache.unreadable("CSINode", "they cannot be read")
    cache.pod(seen(evolve(CLAIMING, name="q", uid="q-1")))
    assert held_by(cache, "q-1")
    for kind in ("CSIDriver", "CSINode"):
        cache.unreadable(kind, "")
    for uid in ("c-1", "q-1", "b", POD.uid):
        assert held_by(cache, uid) == ()
    assert held_by(cache, "anyway") == ("spec.x",)
