"""Pod, PodGroup and Node: what is refused, what is derived, what may be handed about."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from attrs.exceptions import FrozenInstanceError

from gangsched.constraints import NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration
from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.model import (
    FrozenMap,
    Node,
    NodeName,
    Pod,
    PodGroup,
    PodPhase,
    QOSClass,
    group_key,
)
from support.refusals import NAN, NO_SECONDS, check_refusal, check_rows, each, keywords, row

TERM = NodeSelectorTerm([NodeSelectorRequirement("zone", "In", ("a", "b"))])
NO_MAPPINGS: list[Any] = [5, None, "ab", ["a"]]


def pod(**given: Any) -> Pod:
    return Pod(**{"name": "p", **given})


def node(**given: Any) -> Node:
    return Node(**{"name": "n", **given})


def refused(make: Callable[..., object], **given: dict[str, object]) -> list[Any]:
    """Return rows of mappings with one bad item, by the field that the error names."""
    rows = []
    for argument, items in given.items():
        for name, value in items.items():
            fields = {"field": f"{argument}.{name}", "value": value}
            call = partial(make, **{argument: {name: value}})
            rows.append(row(f"{argument} {value!r}", call, InvalidValueError, **fields))
    return rows


BAD = [
    *keywords(
        pod,
        name=["", 5, None],
        namespace=["", 1, "a/b"],
        uid=["", 5],
        priority=[1.0, True, "high", None],
        pod_group=[7],
        node_name=["", 3],
        phase=["pending"],
        created_at=NO_SECONDS,
        deleted_at=NO_SECONDS[1:],
        scheduling_gates=["gate", 5, None],
        owners=["owner", 5, None],
        min_available=[0, -1, True, 1.5, "4"],
        role=[3, ("worker",)],
        **dict.fromkeys(
            ("labels", "annotations", "node_selector", "requests", "limits"), NO_MAPPINGS
        ),
        **{key: [5, None] for key in ("affinity", "tolerations")},
    ),
    *each(lambda x: pod(affinity=[x]), "affinity[0]", "zone", None),
    *each(lambda x: pod(tolerations=[Toleration("a"), x]), "tolerations[1]", Taint("a"), "all"),
    *each(lambda x: pod(scheduling_gates=["gate", x]), "scheduling_gates[1]", None),
    *each(lambda x: pod(owners=["owner", x]), "owners[1]", 1),
    *each(lambda x: pod(labels={1: x, "b": "c"}), "labels.1", "a"),
    *each(lambda x: pod(requests={x: 1}), "requests", 1),
    *each(lambda x: pod(requests={"cpu": x}), "cpu", True, 0.5, "", "1 Gi", "1u", 10**30, None),
    *refused(
        pod,
        requests={"cpu": "-1"},
        limits={"cpu": "-500m"},
        labels={"app": 1},
        annotations={"a": None},
        node_selector={"disk": True},
    ),
    *keywords(
        node,
        name=["", None],
        unschedulable=[1, None],
        allocatable=[5, None],
        labels=[5, None],
        taints=[5, None],
    ),
    *each(lambda x: node(allocatable={"cpu": x}), "cpu", 0.5, "four"),
    *each(lambda x: node(taints=[x]), "taints[0]", Toleration("a"), "k"),
    *refused(node, allocatable={"cpu": "-1"}, labels={"zone": 1}),
    *each(PodPhase, "phase", "running"),
]


def test_malformed_pod_or_node_is_refused_with_field_and_value() -> None:
    check_rows(BAD)


BAD_GROUPS: dict[str, Sequence[Any]] = {
    "name": ["", None],
    "namespace": ["", "a/b"],  # a/b + c and a + b/c would be one key
    "min_available": [0, -1, 1.0, NAN, "2", True, [2], None],
    "schedule_timeout": [-1, -1e-9, *NO_SECONDS[1:]],
    "min_resources": [5, None, "cpu", ["cpu"]],
    "priority": [0.5, "0", False],
    "created_at": NO_SECONDS,
}


@pytest.mark.parametrize("field", BAD_GROUPS)
def test_malformed_group_is_refused_with_name_field_and_value(field: str) -> None:
    """F51: a minimum below 1 never gets in."""
    for value in BAD_GROUPS[field]:
        given_ = {"name": "g", "namespace": "ns", "min_available": 1, field: value}
        subject = group_key(given_["namespace"], given_["name"])
        fields = {"subject": subject, "field": field, "value": value}
        check_refusal(partial(PodGroup, **given_), InvalidPodGroupError, fields)


@pytest.mark.parametrize(
    ("amounts", "field", "value"),
    [({"cpu": "-1"}, "min_resources.cpu", "-1"), ({1: 1}, "min_resources", 1)],
)
def test_malformed_resources_of_a_group_are_refused(amounts: Any, field: str, value: Any) -> None:
    with pytest.raises(InvalidPodGroupError) as caught:
        PodGroup(name="g", min_available=1, min_resources=amounts)
    assert (caught.value.field, caught.value.value) == (field, value)


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


def test_uid_and_key_default_to_namespace_and_name() -> None:
    uids = {Pod(name=name, namespace=ns).uid for name in "ab" for ns in "xy"}
    assert len(uids) == 4
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
