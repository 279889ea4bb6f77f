"""Annotations of groups that say who is apart, whom a domain is kept from, and what is balanced."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import PodGroup, Topology
from gangsched.errors import ManifestError
from gangsched.events import PodGroupAdded
from gangsched.kubernetes import read_notification
from gangsched.manifests import DIALECTS

OWN = "gangsched.io/"
SPECS: dict[str, dict[str, Any]] = {
    "scheduling.k8s.io": {"schedulingPolicy": {"gang": {"minCount": 4}}},
}


def group(
    api: str, kind: str = "PodGroup", spec: dict[str, Any] | None = None, **annotations: str
) -> PodGroup:
    value = {
        "apiVersion": f"{api}/v1",
        "kind": kind,
        "metadata": {
            "name": "g",
            "namespace": "team",
            "annotations": {f"{OWN}{key}": text for key, text in annotations.items()},
        },
        "spec": spec or SPECS.get(api, {"minMember": 4}),
    }
    found = read_notification({"type": "ADDED", "object": value}).event
    assert isinstance(found, PodGroupAdded)
    return found.group


@pytest.mark.parametrize("api", DIALECTS)
def test_group_of_each_dialect_has_what_its_annotations_say(api: str) -> None:
    found = group(api, apart="rack", exclusive="block")
    assert found.topology == Topology(apart="rack", exclusive="block")
    assert found.unmodelled == ()
    assert group(api).topology is None
    assert group(api, balanced="false", apart="").topology is None


def test_annotations_add_to_what_the_group_states() -> None:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "schedulingConstraints": {"topology": [{"key": "block"}]},
    }
    found = group("scheduling.k8s.io", spec=spec, balanced="true", exclusive="rack")
    assert found.topology == Topology("block", balanced=True, exclusive="rack")
    kai = {"minMember": 4, "topologyConstraint": {"preferredTopologyLevel": "rack"}}
    assert group("scheduling.run.ai", spec=kai, apart="host").topology == Topology(
        "rack", required=False, apart="host"
    )


@pytest.mark.parametrize("api", DIALECTS)
def test_group_of_each_dialect_has_the_spares_of_its_annotation(api: str) -> None:
    assert group(api, spares="2").spares == 2
    assert group(api).spares == 0


def test_children_of_a_group_of_groups_are_apart() -> None:
    spec = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    found = group("scheduling.k8s.io", "CompositePodGroup", spec, apart="rack")
    assert (found.topology, found.unmodelled) == (Topology(apart="rack"), ())


def test_pods_apart_of_a_group_with_roles_hold_it() -> None:
    spec = {"minMember": 4, "minTaskMember": {"worker": 3}}
    found = group("scheduling.volcano.sh", spec=spec, apart="rack")
    (reason,) = found.unmodelled
    assert reason.startswith("metadata.annotations[gangsched.io/apart] (no apart: that is of the")
    assert found.topology is None


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [
        ({"balanced": "yes"}, "[gangsched.io/balanced]: expected one of true, false, got 'yes'"),
        ({"spares": "-1"}, "[gangsched.io/spares]: expected an int >= 0, got '-1'"),
        ({"spares": "two"}, "[gangsched.io/spares]: expected an int >= 0, got 'two'"),
        ({"balanced": "true"}, "[gangsched.io/balanced]: expected a label, as it is preferred or"),
    ],
)
def test_value_without_a_meaning_is_malformed(annotations: dict[str, str], problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        group("scheduling.x-k8s.io", "PodGroup", None, **annotations)
    assert problem in str(caught.value)
