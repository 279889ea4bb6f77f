"""Group, minimum and role of a pod that a program makes: three attributes, and no label."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import InMemoryCluster, NodeAdded, PodAdded, PodGroupAdded, presets
from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.events import Bind
from gangsched.membership import SPELLINGS, Membership, membership
from gangsched.model import Node, NodeName, Pod, PodGroup, group_key

NAME_LABEL = "pod-group.scheduling.sigs.k8s.io/name"
MINIMUM_LABEL = "pod-group.scheduling.sigs.k8s.io/min-available"
ROLE_LABEL = "pod-group.scheduling.sigs.k8s.io/role"


def test_three_attributes_state_group_minimum_and_role() -> None:
    pod = Pod(name="w-0", namespace="ns", pod_group="g", min_available=4, role="worker")
    assert membership(pod) == Membership(group_key("ns", "g"), 4, SPELLINGS[0], "worker")


def test_attributes_and_labels_claim_the_same() -> None:
    labels = {NAME_LABEL: "g", MINIMUM_LABEL: "4", ROLE_LABEL: "worker"}
    by_labels = membership(Pod(name="w-0", labels=labels))
    by_fields = membership(Pod(name="w-0", pod_group="g", min_available=4, role="worker"))
    both = membership(Pod(name="w-0", labels=labels, pod_group="g", min_available=4, role="worker"))
    assert by_labels is not None
    assert by_fields == both == evolve(by_labels, spelling=SPELLINGS[0])


@pytest.mark.parametrize("minimum", [0, -1, True, 1.5, "4"])
def test_minimum_that_is_no_positive_int_is_refused_by_the_pod(minimum: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Pod(name="w-0", pod_group="g", min_available=minimum)
    assert (caught.value.field, caught.value.value) == ("min_available", minimum)


@pytest.mark.parametrize("role", [3, ("worker",)])
def test_role_that_is_no_name_is_refused_by_the_pod(role: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Pod(name="w-0", pod_group="g", role=role)
    assert (caught.value.field, caught.value.value) == ("role", role)


@pytest.mark.parametrize("labels", [{}, {NAME_LABEL: "g"}])
def test_minimum_without_the_attribute_that_names_the_group_is_an_error(
    labels: dict[str, str],
) -> None:
    with pytest.raises(InvalidPodGroupError) as caught:
        membership(Pod(name="w-0", min_available=4, labels=labels))
    assert caught.value.expected == "present beside Pod.min_available"


def test_role_without_a_group_is_ignored() -> None:
    assert membership(Pod(name="w-0", role="worker")) is None


@pytest.mark.parametrize(
    ("label", "field"), [(MINIMUM_LABEL, MINIMUM_LABEL), (ROLE_LABEL, ROLE_LABEL)]
)
def test_label_that_contradicts_an_attribute_is_an_error(label: str, field: str) -> None:
    labels = {NAME_LABEL: "g", label: "7"}
    with pytest.raises(InvalidPodGroupError) as caught:
        membership(Pod(name="w-0", pod_group="g", min_available=4, role="worker", labels=labels))
    assert caught.value.field == field
    assert "Pod." in caught.value.expected


@pytest.mark.parametrize("missing", [0, 1])
def test_gang_of_attributes_starts_together_or_not_at_all(missing: int) -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 3})))
    scheduler = presets.gang(cluster)
    scheduler.rebuild(now=0.0)
    for n in range(3 - missing):
        pod = Pod(name=f"w-{n}", pod_group="g", min_available=3, requests={"cpu": 1})
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    bound = [each for each in scheduler.schedule_one(now=0.0) or () if isinstance(each, Bind)]
    assert len(bound) == (0 if missing else 3)


@pytest.mark.parametrize("servers", [0, 1])
def test_role_of_an_attribute_counts_for_the_minimum_of_the_role(servers: int) -> None:
    cluster = InMemoryCluster()
    cluster.apply(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 9})))
    scheduler = presets.gang(cluster)
    scheduler.rebuild(now=0.0)
    group = PodGroup(name="g", roles={"ps": 1, "worker": 2})
    scheduler.handle(cluster.apply(PodGroupAdded(group)), now=0.0)
    for n, role in enumerate(["ps"] * servers + ["worker"] * (3 - servers)):
        pod = Pod(name=f"p-{n}", pod_group="g", role=role, requests={"cpu": 1})
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    bound = [each for each in scheduler.schedule_one(now=0.0) or () if isinstance(each, Bind)]
    assert len(bound) == 3 * servers
