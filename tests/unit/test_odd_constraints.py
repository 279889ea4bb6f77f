"""Constraints that the API server accepts, but that are rare, mean what they mean there."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    Bind,
    InMemoryCluster,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    ObjectChanged,
    PodAdded,
    PodGroupAdded,
    PodPhase,
    TopologySpreadConstraint,
    presets,
)
from gangsched.cluster_objects import PersistentVolume
from gangsched.errors import ManifestError
from gangsched.kubernetes import read_notification
from gangsched.manifests import NoteKind
from gangsched.resources import FrozenMap, Resources

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
KOORDINATOR = "gang.scheduling.koordinator.sh/"


def added(kind: str, version: str = "v1", **body: Any) -> Any:
    metadata = {"name": "p", "namespace": "default", "uid": "u", **body.pop("metadata", {})}
    value = {"apiVersion": version, "kind": kind, "metadata": metadata, **body}
    return read_notification({"type": "ADDED", "object": value})


def pod(spec: dict[str, Any], **body: Any) -> Any:
    found = added("Pod", spec={"containers": [{"name": "c"}], **spec}, **body)
    assert isinstance(found.event, PodAdded)
    return found


def nodes_taken(event: PodAdded, *nodes: Node) -> list[str]:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    effects: list[Any] = []
    changes: list[NodeAdded | PodAdded] = [*map(NodeAdded, nodes), event]
    for change in changes:
        effects += scheduler.handle(cluster.apply(change), now=0.0)
    while (more := scheduler.schedule_one(now=0.0)) is not None:
        effects += more
    return [effect.node for effect in effects if isinstance(effect, Bind)]


def compares(value: str, operator: str = "Gt") -> dict[str, Any]:
    return {"matchExpressions": [{"key": "x", "operator": operator, "values": [value]}]}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


LABELLED = Node(name=NodeName("n"), labels={"x": "abd", "y": "1"}, allocatable={"cpu": 1})


# The API server accepts any text, and kube-scheduler passes over a term that it cannot parse.
@pytest.mark.parametrize("operator", ["Gt", "Lt"])
@pytest.mark.parametrize("value", ["abc", "", "1.5", "2a", str(2**63), "9" * 5000])
def test_term_that_compares_with_text_matches_no_node(operator: str, value: str) -> None:
    found = pod(required(compares(value, operator)))
    assert nodes_taken(found.event, LABELLED) == []
    (note,) = found.notes
    assert note.kind is NoteKind.REMARK
    assert note.field == f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0]"


@pytest.mark.parametrize("value", ["0", "-5", str(-(2**63)), str(2**63 - 1)])
def test_term_that_compares_with_an_integer_is_compared(value: str) -> None:
    node = Node(name=NodeName("n"), labels={"x": str(-(2**63))}, allocatable={"cpu": 1})
    found = pod(required(compares(value, "Lt")))
    assert found.notes == ()
    assert nodes_taken(found.event, node) == (["n"] if int(value) > -(2**63) else [])


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
def test_term_beside_one_that_compares_with_text_still_matches(operator: str) -> None:
    other = {"matchExpressions": [{"key": "y", "operator": "Exists"}]}
    found = pod(required(compares("abc", operator), other))
    assert nodes_taken(found.event, LABELLED) == ["n"]


def test_conditions_beside_one_that_compares_with_text_do_not_match_by_themselves() -> None:
    term = compares("abc")
    term["matchExpressions"].append({"key": "y", "operator": "Exists"})
    assert nodes_taken(pod(required(term)).event, LABELLED) == []


@pytest.mark.parametrize("values", [["1", "2"], ["a", "b"], []])
def test_comparison_with_other_than_one_value_is_refused(values: list[str]) -> None:
    term = {"matchExpressions": [{"key": "x", "operator": "Gt", "values": values}]}
    with pytest.raises(ManifestError, match="one integer"):
        pod(required(term))


# kube-scheduler compares the terms of a volume with the labels of a node, without its name.
@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_name_of_a_node_in_the_affinity_of_a_volume_is_not_compared(operator: str) -> None:
    by_name = {"matchFields": [{"key": "metadata.name", "operator": operator, "values": ["n"]}]}
    labels = {"matchExpressions": [{"key": "y", "operator": "Exists"}]}
    spec = {"nodeAffinity": {"required": {"nodeSelectorTerms": [{**by_name, **labels}]}}}
    event = added("PersistentVolume", spec=spec).event
    assert isinstance(event, ObjectChanged)
    assert isinstance(event.value, PersistentVolume)
    assert event.value.is_reached_from(FrozenMap({"y": "1"}))
    assert not event.value.is_reached_from(FrozenMap({"z": "1"}))


# A bound pod counts -----------------------------------------------------------------------------


REQUESTS = {"resources": {"requests": {"cpu": "2"}}}


@pytest.mark.parametrize(
    "body",
    [
        {"spec": {"schedulingGates": "x"}},
        {"spec": {"schedulingGates": [{"name": 3}]}},
        {"spec": {"schedulingGroup": {"podGroupName": 3}}},
        {"spec": {"schedulingGroup": "x"}},
        {"metadata": {"ownerReferences": [{"name": ""}]}},
        {"metadata": {"labels": {"a": 1}}},
        {"metadata": {"annotations": {"a": 1}}},
        {"status": {"phase": "Hibernated"}},
        {"spec": {"containers": [{"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": 1}}}]}},
        {"spec": {"containers": [{"resources": {"requests": {"cpu": "2"}, "limits": "x"}}]}},
        {"spec": {"initContainers": [{"name": "i", "restartPolicy": "Tomorrow"}]}},
        {"spec": {"resources": {"limits": "x"}}},
        {"status": {"containerStatuses": "x"}},
    ],
    ids=str,
)
def test_bound_pod_counts_whatever_else_is_malformed(body: dict[str, Any]) -> None:
    spec = {"containers": [{"name": "c", **REQUESTS}], **body.get("spec", {})}
    with pytest.raises(ManifestError):
        added("Pod", "v1", **{**body, "spec": spec})
    found = added("Pod", "v1", **{**body, "spec": {**spec, "nodeName": "n"}})
    assert found.event.pod.node_name == "n"
    assert found.event.pod.requests == Resources({"cpu": 2})
    assert found.event.pod.phase in (PodPhase.PENDING, PodPhase.UNKNOWN)
    assert {note.kind for note in found.notes} == {NoteKind.IGNORED}


# PodGroups --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (
            {"schedulingPolicy": {"gang": {"minCount": 1, "maxCount": 2}}},
            "schedulingPolicy.gang.maxCount",
        ),
        (
            {"schedulingPolicy": {"gang": {"minCount": 1}, "elastic": {"x": 1}}},
            "schedulingPolicy.elastic",
        ),
        ({"schedulingPolicy": {"basic": {"order": "x"}}}, "schedulingPolicy.basic.order"),
        (
            {
                "schedulingPolicy": {"gang": {"minCount": 1}},
                "schedulingConstraints": {"topology": [{"key": "zone", "mode": "x"}]},
            },
            "schedulingConstraints.topology[0].mode",
        ),
    ],
)
def test_unknown_part_of_a_known_field_of_a_group_holds_its_pods(
    spec: dict[str, Any], path: str
) -> None:
    found = added("PodGroup", "scheduling.k8s.io/v1alpha2", spec=spec)
    assert isinstance(found.event, PodGroupAdded)
    assert found.event.group.unmodelled == (f"spec.{path}",)
    assert NoteKind.HELD in [note.kind for note in found.notes]


@pytest.mark.parametrize(
    ("key", "value", "is_held"),
    [
        ("mode", "NonStrict", True),
        ("mode", "Strict", False),
        ("match-policy", "only-waiting", True),
        ("match-policy", "once-satisfied", False),
        ("total-number", "4", False),
        ("waiting-time", "30s", False),
        ("groups", '["default/p"]', False),
    ],
)
@pytest.mark.parametrize(
    "version", ["scheduling.sigs.k8s.io/v1alpha1", "scheduling.k8s.io/v1alpha2"]
)
def test_annotation_of_koordinator_on_a_group_is_honoured_or_holds_its_pods(
    key: str, value: str, is_held: bool, version: str
) -> None:
    is_core = version.startswith("scheduling.k8s.io")
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}} if is_core else {"minMember": 1}
    annotations = {f"{KOORDINATOR}{key}": value}
    found = added("PodGroup", version, metadata={"annotations": annotations}, spec=spec)
    assert found.event.group.unmodelled == ((f"{KOORDINATOR}{key}",) if is_held else ())
    assert [note.kind for note in found.notes] == [NoteKind.HELD] * is_held


# Options of mounts --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_options_of_a_bind_mount_are_a_feature_of_the_node(kind: str) -> None:
    mount = {"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}
    spec: dict[str, Any] = {"containers": [{"name": "c"}]}
    spec[kind] = [{"name": "c", "volumeMounts": [mount]}]
    assert added("Pod", "v1", spec=spec).event.pod.required_features == ("VolumeBindMountOptions",)
    mount["bindMountOptions"] = []
    assert added("Pod", "v1", spec=spec).event.pod.required_features == ()


# Spread constraints: defaults of the API, and stated values ---------------------------------------


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({}, {}),
        ({"whenUnsatisfiable": "ScheduleAnyway"}, {"when_unsatisfiable": "ScheduleAnyway"}),
        (
            {
                "minDomains": 3,
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
                "labelSelector": {"matchLabels": {"app": "x"}},
                "matchLabelKeys": ["job"],
            },
            {
                "min_domains": 3,
                "node_affinity_policy": "Ignore",
                "node_taints_policy": "Honor",
                "label_selector": LabelSelector({"app": "x"}),
                "match_label_keys": ["job"],
            },
        ),
    ],
)
def test_spread_constraint_is_read_with_the_defaults_of_the_api(
    stated: dict[str, Any], expected: dict[str, Any]
) -> None:
    constraint = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    found = pod({"topologySpreadConstraints": [{**constraint, **stated}]}).event.pod
    defaults = {
        "when_unsatisfiable": "DoNotSchedule",
        "node_affinity_policy": "Honor",
        "node_taints_policy": "Ignore",
    }
    fields = {**defaults, **expected}
    assert found.topology_spread_constraints == (
        TopologySpreadConstraint(max_skew=2, topology_key="zone", **fields),
    )
