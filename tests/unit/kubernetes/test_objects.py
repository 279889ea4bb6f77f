"""The kinds of objects that constraints refer to: read, stored, and held for if they are not."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import Disk, Pod, VolumeClaim
from gangsched.cluster_objects import StorageClass
from gangsched.errors import ManifestError
from gangsched.events import ObjectChanged, ObjectDeleted, PodUpdated
from gangsched.objects import OBJECT_KINDS
from support.api_objects import raw

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._facts import ObjectFacts, PodFacts
from gangsched.kubernetes._known import Identity
from gangsched.kubernetes._objects import WATCHED, ObjectDecoder, Watched, objects_needed
from gangsched.kubernetes._reflector import Delta

FAST = StorageClass(name="fast", provisioner="csi.example.com")
CLAIMING = Pod(name="p", uid="p-1", volume_claims=[VolumeClaim("c")])
SCORED = {each.kind for each in WATCHED if each.scored}
STORAGE = {each.kind for each in WATCHED} - {"Namespace", "PodDisruptionBudget"} - SCORED
ATTACHED = STORAGE - {"CSIStorageCapacity"}


def at(kind: str) -> Watched:
    (found,) = (each for each in WATCHED if each.kind == kind)
    return found


def changed(value: Any, key: str, version: int = 1) -> Delta[ObjectFacts]:
    identity = Identity(key, "u", str(version))
    return Delta("modified", identity, ObjectFacts(value=value, identity=identity))


def pending(cache: Cache, pod: Pod, version: int = 1) -> Any:
    identity = Identity(pod.key, pod.uid, str(version))
    value = PodFacts(pod=pod, identity=identity, scheduler_name="ours")
    return cache.pod(Delta("modified", identity, value))


def test_every_kind_that_is_read_is_watched_or_resolved_elsewhere() -> None:
    read = {kind for _group, kind in OBJECT_KINDS}
    assert {each.kind for each in WATCHED} == read - {"PriorityClass", "RuntimeClass"}


@pytest.mark.parametrize("watched", WATCHED, ids=lambda each: each.kind)
def test_object_of_a_list_is_read_without_its_kind_and_version(watched: Watched) -> None:
    document: dict[str, Any] = {"metadata": {"name": "x", "uid": "u", "resourceVersion": "7"}}
    facts = ObjectDecoder(watched)(raw(document))
    assert type(facts.value).__name__ == watched.kind
    assert facts.identity == Identity("x", "u", "7")


def test_malformed_object_is_refused_by_field() -> None:
    document = {"metadata": {"name": "x"}, "volumeBindingMode": "Sometimes"}
    with pytest.raises(ManifestError, match="volumeBindingMode"):
        ObjectDecoder(at("StorageClass"))(raw(document))


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


def test_object_is_an_event_when_something_is_read_of_its_change() -> None:
    cache = Cache(["ours"])
    assert cache.object("StorageClass", changed(FAST, "fast")) == ObjectChanged(FAST)
    assert cache.object("StorageClass", changed(FAST, "fast", 2)) is None
    gone: Delta[ObjectFacts] = Delta("deleted", Identity("fast", "u", "3"))
    assert cache.object("StorageClass", gone) == ObjectDeleted("StorageClass", "fast")
    assert cache.object("StorageClass", gone) is None


def test_object_that_becomes_malformed_counts_as_gone() -> None:
    cache = Cache(["ours"])
    cache.object("StorageClass", changed(FAST, "fast"))
    refused: Delta[ObjectFacts] = Delta("refused", Identity("fast", "u", "3"))
    assert cache.object("StorageClass", refused) == ObjectDeleted("StorageClass", "fast")


def test_pending_pods_are_held_while_a_kind_cannot_be_read() -> None:
    cache = Cache(["ours"])
    pending(cache, CLAIMING)
    pending(cache, Pod(name="plain", uid="plain"))
    (event,) = cache.unreadable("CSIDriver", "they cannot be read")
    assert isinstance(event, PodUpdated)
    assert event.pod.unmodelled == ("needs CSIDriver objects: they cannot be read",)
    assert cache.unreadable("CSIDriver", "they cannot be read") == []
    later = pending(cache, Pod(name="q", uid="q-1", volume_claims=[VolumeClaim("c")]))
    assert later.pod.unmodelled
    events = cache.unreadable("CSIDriver", "")
    assert [each.pod.unmodelled for each in events if isinstance(each, PodUpdated)] == [(), ()]


def test_pod_that_is_held_anyway_stays_held() -> None:
    cache = Cache(["ours"])
    pod = Pod(name="p", uid="p-1", volume_claims=[VolumeClaim("c")], unmodelled=["spec.x"])
    pending(cache, pod)
    cache.unreadable("CSIDriver", "they cannot be read")
    cache.unreadable("CSINode", "they cannot be read")
    cache.unreadable("CSIDriver", "")
    cache.unreadable("CSINode", "")
    found = cache.cluster.pod(pod.uid)
    assert found is not None
    assert found.unmodelled == ("spec.x",)


def test_bound_pod_is_not_held() -> None:
    cache = Cache(["ours"])
    pending(cache, Pod(name="p", uid="p-1", node_name="n", volume_claims=[VolumeClaim("c")]))
    assert cache.unreadable("CSIDriver", "they cannot be read") == []
