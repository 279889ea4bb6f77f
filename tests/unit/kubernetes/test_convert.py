"""What a watch says, as facts; what is decided, as requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    Evict,
    InMemoryCluster,
    ManifestError,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUID,
    PodUnschedulable,
    PodUpdated,
    presets,
)
from gangsched.errors import InvalidValueError
from gangsched.kubernetes import binding, deletion, read_event, unschedulable_condition
from gangsched.kubernetes._instants import micro_time
from gangsched.testing import make_pod

CREATED = "2026-01-31T12:00:00Z"
SECONDS = 1_769_860_800.0


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "creationTimestamp": CREATED,
            **metadata,
        },
        "spec": {
            "priority": 7,
            "schedulingGroup": {"podGroupName": "g"},
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}],
        },
    }


def node(cpu: str = "4") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n0"},
        "status": {"allocatable": {"cpu": cpu, "pods": "110"}},
    }


def group(version: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "g", "namespace": "team"}
    return {"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec}


GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
GROUPS = [
    group("scheduling.k8s.io/v1beta1", GANG),
    group("scheduling.x-k8s.io/v1alpha1", {"minMember": 2}),
    group("scheduling.volcano.sh/v1beta1", {"minMember": 2}),
]


def change(kind: str, value: object) -> Any:
    return read_event(json.loads(json.dumps({"type": kind, "object": value})))


def test_pod_is_read_as_the_api_server_has_it() -> None:
    added = change("ADDED", pod("p"))
    assert isinstance(added, PodAdded)
    seen = added.pod
    assert (seen.key, seen.uid, seen.priority) == ("team/p", PodUID("uid-p"), 7)
    assert (seen.created_at, seen.deleted_at, seen.pod_group) == (SECONDS, None, "g")
    assert seen.requests.amount("cpu") == 1500
    updated = change("MODIFIED", pod("p", deletionTimestamp="2026-01-31T13:00:00+01:00"))
    assert isinstance(updated, PodUpdated)
    assert updated.pod.deleted_at == SECONDS


def test_each_change_of_each_kind_is_its_event() -> None:
    assert change("DELETED", pod("p")) == PodDeleted(PodUID("uid-p"))
    assert isinstance(change("ADDED", node()), NodeAdded)
    assert isinstance(change("MODIFIED", node()), NodeUpdated)
    assert change("DELETED", node()) == NodeDeleted(NodeName("n0"))
    for raw in GROUPS:
        added = change("ADDED", raw)
        assert isinstance(added, PodGroupAdded)
        assert (added.group.key, added.group.min_available) == ("team/g", 2)
        assert isinstance(change("MODIFIED", raw), PodGroupUpdated)
        assert change("DELETED", raw) == PodGroupDeleted(added.group.key)


def test_bookmarks_and_unknown_kinds_give_no_event() -> None:
    assert change("BOOKMARK", {"metadata": {"resourceVersion": "7"}}) is None
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    assert change("ADDED", secret) is None


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("ERROR", {"code": 410, "message": "too old resource version"}, "too old"),
        ("SPOILED", pod("p"), "'SPOILED'"),
        ("ADDED", pod("p", creationTimestamp="yesterday"), "metadata.creationTimestamp"),
        ("ADDED", pod("p", creationTimestamp="2026-01-31T12:00:00"), "time zone"),
        ("ADDED", node(cpu="much"), "status.allocatable.cpu"),
        ("ADDED", None, "apiVersion"),
    ],
)
def test_malformed_change_is_refused_by_name(kind: str, value: object, words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        change(kind, value)


def test_gang_from_a_watch_is_scheduled_and_its_bindings_name_the_uid() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster)
    for value in (node(), GROUPS[0], pod("a"), pod("b")):
        scheduler.handle(cluster.apply(change("ADDED", value)), now=SECONDS)
    bodies = []
    while (effects := scheduler.schedule_one(now=SECONDS)) is not None:
        for effect in effects:
            if isinstance(effect, Bind):
                bound = cluster.pod(effect.uid)
                assert bound is not None
                bodies.append(binding(effect, bound))
    assert [(b["metadata"]["uid"], b["target"]["name"]) for b in bodies] == [
        ("uid-a", "n0"),
        ("uid-b", "n0"),
    ]
    assert bodies[0]["metadata"]["namespace"] == "team"


def test_notice_and_eviction_are_bodies_of_requests() -> None:
    patch = unschedulable_condition(PodUnschedulable(PodUID("u"), "0/1 nodes are available"))
    (condition,) = patch["status"]["conditions"]
    found = {name: condition[name] for name in ("type", "status", "reason", "message")}
    assert found == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available",
    }
    body = deletion(Evict(PodUID("uid-a"), NodeName("n0"), "the bind of pod b failed"))
    assert body["kind"] == "DeleteOptions"
    assert body["preconditions"] == {"uid": "uid-a"}


def daemon_pod(**spec: Any) -> dict[str, Any]:
    """Return a pod as a DaemonSet's controller creates it: for one node, by its name."""
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    whole = pod("daemon")
    whole["spec"] = {**whole["spec"], "affinity": affinity, **spec}
    return whole


def test_pod_of_a_daemon_set_is_read_with_its_node_and_counts_there_when_bound() -> None:
    pending = change("ADDED", daemon_pod())
    assert isinstance(pending, PodAdded)
    (term,) = pending.pod.affinity
    assert term.matches({}, "n0")
    assert not term.matches({}, "n1")
    added = change("ADDED", daemon_pod(nodeName="n0"))
    assert isinstance(added, PodAdded)
    assert (added.pod.node_name, added.pod.requests.amount("cpu")) == ("n0", 1500)
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    for event in (change("ADDED", node(cpu="2")), added, change("ADDED", pod("p"))):
        scheduler.handle(cluster.apply(event), now=SECONDS)
    effects = scheduler.schedule_one(now=SECONDS) or ()
    assert not any(isinstance(effect, Bind) for effect in effects)


@pytest.mark.parametrize(
    "spec",
    [
        {"tolerations": [{"key": "k", "operator": "Gt", "value": "five"}]},
        {"tolerations": [{"key": "k", "effect": "Sometimes"}]},
        {"nodeSelector": "ssd"},
        {"affinity": {"nodeAffinity": []}},
        {"priority": None, "priorityClassName": "unheard-of"},
        {"preemptionPolicy": "Sometimes"},
        {"topologySpreadConstraints": "zone"},
    ],
    ids=["operator", "effect", "selector", "affinity", "class", "policy", "spread"],
)
def test_unknown_restriction_of_a_bound_pod_is_ignored(spec: dict[str, Any]) -> None:
    with pytest.raises(ManifestError):
        change("ADDED", daemon_pod(affinity=None) | {"spec": {**pod("p")["spec"], **spec}})
    bound = {**pod("p"), "spec": {**pod("p")["spec"], **spec, "nodeName": "n0"}}
    added = change("ADDED", bound)
    assert isinstance(added, PodAdded)
    assert added.pod.requests.amount("cpu") == 1500
    bound["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]
    with pytest.raises(ManifestError, match="cpu"):
        change("ADDED", bound)


ANY: Any = None


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: binding(ANY, make_pod("p")), "effect"),
        (lambda: binding(Bind(PodUID("p"), NodeName("n"), 1), ANY), "pod"),
        (lambda: deletion(ANY), "effect"),
        (lambda: deletion(cast("Any", Bind(PodUID("p"), NodeName("n"), 1))), "effect"),
        (lambda: unschedulable_condition(ANY), "notice"),
    ],
    ids=["binding-effect", "binding-pod", "deletion-none", "deletion-bind", "condition"],
)
def test_request_of_the_wrong_type_is_refused(call: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        call()
    assert caught.value.field == field


# Instants are written as the API server reads them

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.floats(0.0, 4_000_000_000.0))
@example(1_799_999_999.999_999_9)
@example(1_800_000_000.0)
def test_micro_time_is_the_instant_to_the_microsecond(at: float) -> None:
    written = datetime.strptime(micro_time(at), "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert abs(written - (_EPOCH + timedelta(seconds=at))) <= timedelta(microseconds=1)
