"""Pod, PodGroup and Node: what is refused, what is derived, what may be handed about."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st

from gangsched.constraints import NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration
from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.model import (
    FrozenMap,
    Node,
    NodeName,
    Pod,
    PodGroup,
    PodPhase,
    PodUID,
    QOSClass,
    Resources,
    group_key,
)

NAN, INF, HUGE = float("nan"), float("inf"), 10**400
TERM = NodeSelectorTerm([NodeSelectorRequirement("zone", "In", ("a", "b"))])
NOT_INSTANTS: list[object] = [NAN, INF, -INF, HUGE, True, "0"]


BAD_PODS: list[tuple[dict[str, Any], str, object]] = [
    ({"name": ""}, "name", ""),
    ({"name": 5}, "name", 5),
    ({"namespace": ""}, "namespace", ""),
    ({"uid": ""}, "uid", ""),
    ({"priority": 1.0}, "priority", 1.0),
    ({"priority": True}, "priority", True),
    ({"priority": "high"}, "priority", "high"),
    ({"requests": {"cpu": "-1"}}, "requests.cpu", "-1"),
    ({"requests": {"memory": "1 Gi"}}, "memory", "1 Gi"),
    ({"limits": {"cpu": "-500m"}}, "limits.cpu", "-500m"),
    ({"labels": {"app": 1}}, "labels.app", 1),
    ({"labels": {1: "app"}}, "labels.1", "app"),
    ({"annotations": {"a": None}}, "annotations.a", None),
    ({"node_selector": {"disk": True}}, "node_selector.disk", True),
    ({"affinity": ["zone"]}, "affinity[0]", "zone"),
    ({"tolerations": [Toleration("a"), Taint("a")]}, "tolerations[1]", Taint("a")),
    ({"pod_group": 7}, "pod_group", 7),
    ({"scheduling_gates": "gate"}, "scheduling_gates", "gate"),
    ({"scheduling_gates": ["gate", None]}, "scheduling_gates[1]", None),
    ({"owners": "owner"}, "owners", "owner"),
    ({"owners": ["owner", 1]}, "owners[1]", 1),
    ({"node_name": ""}, "node_name", ""),
    ({"phase": "pending"}, "phase", "pending"),
    *[({"created_at": bad}, "created_at", bad) for bad in NOT_INSTANTS],
    *[({"deleted_at": bad}, "deleted_at", bad) for bad in NOT_INSTANTS],
]


@pytest.mark.parametrize(("given_", "field", "value"), BAD_PODS)
def test_malformed_pod_is_refused_with_field_and_value(
    given_: dict[str, Any], field: str, value: object
) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Pod(**{"name": "p", **given_})
    assert (field, repr(value)) == (caught.value.field, repr(caught.value.value))


BAD_GROUPS: list[tuple[dict[str, Any], str, object]] = [
    ({"name": ""}, "name", ""),
    ({"namespace": ""}, "namespace", ""),
    *[({"min_available": bad}, "min_available", bad) for bad in (0, -1, 2.0, "2", True, None)],
    *[({"schedule_timeout": bad}, "schedule_timeout", bad) for bad in (-0.1, *NOT_INSTANTS)],
    ({"min_resources": {"cpu": "-1"}}, "min_resources.cpu", "-1"),
    *[({"priority": bad}, "priority", bad) for bad in (0.5, "0", False)],
    *[({"created_at": bad}, "created_at", bad) for bad in NOT_INSTANTS],
]


@pytest.mark.parametrize(("given_", "field", "value"), BAD_GROUPS)
def test_malformed_group_is_refused_with_name_field_and_value(
    given_: dict[str, Any], field: str, value: object
) -> None:
    """F51: a minimum below 1 never gets in."""
    with pytest.raises(InvalidPodGroupError) as caught:
        PodGroup(**{"name": "g", "namespace": "ns", "min_available": 1, **given_})
    assert (field, repr(value)) == (caught.value.field, repr(caught.value.value))
    assert given_.get("name", "g") in caught.value.subject
    assert given_.get("namespace", "ns") in caught.value.subject


BAD_NODES: list[tuple[dict[str, Any], str, object]] = [
    ({"name": ""}, "name", ""),
    ({"allocatable": {"cpu": "-1"}}, "allocatable.cpu", "-1"),
    ({"allocatable": {"cpu": 0.5}}, "cpu", 0.5),
    ({"labels": {"zone": 1}}, "labels.zone", 1),
    ({"taints": [Toleration("a")]}, "taints[0]", Toleration("a")),
    ({"unschedulable": 1}, "unschedulable", 1),
]


@pytest.mark.parametrize(("given_", "field", "value"), BAD_NODES)
def test_malformed_node_is_refused_with_field_and_value(
    given_: dict[str, Any], field: str, value: object
) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Node(**{"name": "n", **given_})
    assert (field, repr(value)) == (caught.value.field, repr(caught.value.value))


def test_boundary_values_are_accepted() -> None:
    group = PodGroup(name="g", min_available=1, schedule_timeout=0, priority=-5, created_at=-1)
    assert (
        group.min_available,
        group.schedule_timeout,
        group.priority,
        group.created_at,
    ) == (1, 0, -5, -1)
    assert PodGroup(name="g", min_available=1, schedule_timeout=1.7e308).schedule_timeout == 1.7e308
    assert Pod(name="p", deleted_at=0).deleted_at == 0


def test_uid_defaults_to_namespace_and_name() -> None:
    uids = {Pod(name=name, namespace=ns).uid for name in "ab" for ns in "xy"}
    assert len(uids) == 4


def test_pods_of_one_name_and_two_uids_differ() -> None:
    """F21: a recreated pod is another pod."""
    first, second = (Pod(name="p", uid=PodUID(uid)) for uid in "12")
    assert first.key == second.key
    assert first != second


def test_group_key_is_namespace_and_name() -> None:
    assert group_key("ns", "g") == PodGroup(name="g", namespace="ns", min_available=1).key
    assert PodGroup(name="g", min_available=1).key == "default/g"


NOUNS: list[Any] = [
    Pod(
        name="p",
        requests={"cpu": "500m"},
        labels={"a": "b"},
        affinity=[TERM],
        tolerations=[Toleration("k", exists=True)],
        scheduling_gates=["gate"],
        owners=["owner"],
        node_name=NodeName("n"),
        phase="Running",
    ),
    PodGroup(name="g", min_available=2, min_resources={"cpu": 4}),
    Node(name=NodeName("n"), allocatable={"cpu": 4}, labels={"zone": "a"}, taints=[Taint("k")]),
]


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: type(noun).__name__)
def test_values_are_frozen_hashable_and_picklable(noun: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        noun.name = "other"
    back = pickle.loads(pickle.dumps(noun))
    assert noun == back
    assert hash(noun) == hash(back)


def test_lists_and_dicts_are_converted_to_immutable_values() -> None:
    labels, gates = {"a": "b"}, ["gate"]
    pod = Pod(name="p", labels=labels, scheduling_gates=gates, phase="Failed")
    labels["a"] = gates[0] = "changed"
    assert FrozenMap({"a": "b"}) == pod.labels
    assert pod.scheduling_gates == ("gate",)
    assert pod.phase is PodPhase.FAILED


@pytest.mark.parametrize("phase", PodPhase)
def test_pod_is_finished_if_it_succeeded_or_failed(phase: PodPhase) -> None:
    finished = phase in (PodPhase.SUCCEEDED, PodPhase.FAILED)
    assert finished is Pod(name="p", phase=phase).is_finished


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        ({}, {}, QOSClass.BEST_EFFORT),
        ({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 1}, QOSClass.BEST_EFFORT),
        ({"cpu": 0, "memory": 0}, {}, QOSClass.BEST_EFFORT),
        ({"cpu": 1, "memory": 1}, {"cpu": 1, "memory": 1}, QOSClass.GUARANTEED),
        ({"cpu": "1000m", "memory": 1}, {"cpu": 1, "memory": 1}, QOSClass.GUARANTEED),
        ({"cpu": 1}, {"cpu": 1}, QOSClass.BURSTABLE),
        ({"cpu": 1, "memory": 1}, {"cpu": 2, "memory": 1}, QOSClass.BURSTABLE),
        ({"cpu": 1, "memory": 1}, {}, QOSClass.BURSTABLE),
        ({}, {"cpu": 1, "memory": 1}, QOSClass.BURSTABLE),
        ({"memory": 1}, {}, QOSClass.BURSTABLE),
    ],
)
def test_qos_class_follows_requests_and_limits(
    requests: dict[str, str | int], limits: dict[str, str | int], expected: QOSClass
) -> None:
    assert expected is Pod(name="p", requests=requests, limits=limits).qos_class


def test_qos_classes_are_ordered() -> None:
    assert [int(one) for one in QOSClass] == [0, 1, 2]


@given(st.integers(min_value=1), st.floats(min_value=0, allow_infinity=False))
def test_every_minimum_from_1_and_timeout_from_0_is_accepted(minimum: int, seconds: float) -> None:
    group = PodGroup(name="g", min_available=minimum, schedule_timeout=seconds)
    assert (minimum, seconds) == (group.min_available, group.schedule_timeout)


def test_resources_are_not_copied() -> None:
    requests = Resources({"cpu": 1})
    assert Pod(name="p", requests=requests).requests is requests
