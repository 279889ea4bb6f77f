"""PodGroups of Kubernetes 1.36 and 1.37: as recorded, and what each of their fields means."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import PodGroup, PodGroupAdded
from gangsched.errors import ManifestError
from gangsched.kubernetes import read_notification
from gangsched.manifests.group_fields import WORKLOAD as WORKLOAD_FIELDS
from gangsched.manifests.pod_fields import Treatment
from gangsched.simulation import load_manifests
from support.api_fields import WORKLOAD_SPEC
from support.recorded_objects import GROUPS, WORKLOAD, evicted_whole, recorded

pytestmark = pytest.mark.once("makes no scheduler")

GANG: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": 1}}}


def read(document: dict[str, Any]) -> PodGroup:
    found = read_notification({"type": "ADDED", "object": document}).event
    assert isinstance(found, PodGroupAdded)
    return found.group


def native(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "g", "namespace": "default"}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {**GANG, **spec},
    }


@pytest.mark.parametrize("version", GROUPS)
def test_recorded_group_is_a_gang_that_nothing_holds(version: str) -> None:
    assert read_notification({"type": "ADDED", "object": recorded(version)}).notes == ()
    group = read(recorded(version))
    assert (group.key, group.min_available, group.unmodelled) == ("default/g", 3, ())
    assert not group.evicted_whole
    assert read(evicted_whole(version)).evicted_whole


@pytest.mark.parametrize("mode", ["Pod", "", None, {"single": {}}, {"single": {}, "all": None}])
def test_disruption_mode_that_evicts_single_members_is_a_word_or_a_union(mode: object) -> None:
    group = read(native(disruptionMode=mode))
    assert (group.evicted_whole, group.unmodelled) == (False, ())


@pytest.mark.parametrize("mode", ["PodGroup", {"all": {}}])
def test_disruption_mode_that_evicts_all_is_a_word_or_a_union(mode: object) -> None:
    group = read(native(disruptionMode=mode))
    assert (group.evicted_whole, group.unmodelled) == (True, ())


UNION = "exactly one of single and all"


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        *(("All", "got 'All'"), (["all"], "got a list"), (3, "got 3"), ({}, UNION)),
        *(({"single": {}, "all": {}}, UNION), ({"gradual": {}}, UNION)),
    ],
)
def test_disruption_mode_that_is_neither_is_refused_by_field_and_value(
    mode: object, problem: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        read(native(disruptionMode=mode))
    assert caught.value.field == "spec.disruptionMode"
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("mode", "path"),
    [
        ({"all": {}, "after": "1h"}, "spec.disruptionMode.after"),
        ({"all": {"budget": 1}}, "spec.disruptionMode.all.budget"),
    ],
)
def test_unknown_part_of_a_disruption_mode_holds_the_pods(mode: object, path: str) -> None:
    assert read(native(disruptionMode=mode)).unmodelled == (path,)


def test_workload_gives_no_event_and_each_of_its_fields_is_in_the_table() -> None:
    assert read_notification({"type": "ADDED", "object": WORKLOAD}).event is None
    assert dict.fromkeys(WORKLOAD_SPEC, Treatment.FREE) == WORKLOAD_FIELDS


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"])
def test_workload_in_a_file_is_skipped_with_its_reason(version: str) -> None:
    text = (
        f"{{apiVersion: scheduling.k8s.io/{version}, kind: Workload, metadata: {{name: w}},"
        " spec: {podGroupTemplates: [{name: workers}]}}"
    )
    (note,) = load_manifests(text, file="w.yaml").skipped
    why = "is of an unknown kind" if version == "v1alpha1" else "has only templates of pod groups"
    assert f"{why} and was skipped" in note


@pytest.mark.parametrize(
    "version",
    ["scheduling.x-k8s.io/v1alpha1", "scheduling.volcano.sh/v1beta1", "scheduling.sigs.k8s.io/v1"],
)
@pytest.mark.parametrize("spec", [{}, {"minMember": None}])
def test_minimum_that_is_left_out_is_one(version: str, spec: dict[str, Any]) -> None:
    """``minMember`` is ``omitempty`` in these APIs, so clients in Go leave 0 out."""
    assert read({**native(), "apiVersion": version, "spec": spec}).min_available == 1
