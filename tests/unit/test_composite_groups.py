"""Composite pod groups of Kubernetes 1.37: as recorded, as documented, and what they mean."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PreemptionPolicy,
    RestartPolicy,
    Topology,
    presets,
)
from gangsched.errors import ManifestError
from gangsched.kubernetes import Notification, read_notification
from gangsched.manifests import NoteKind
from gangsched.manifests.group_fields import COMPOSITE
from gangsched.simulation import load_manifests
from gangsched.testing import make_node
from support.api_fields import COMPOSITE_SPEC
from support.recorded_objects import TREE
from support.trees_of_peers import placed, pod_document

GANG: dict[str, Any] = {"gang": {"minGroupCount": 2}}
BUNDLE = "gang.scheduling.koordinator.sh/groups"
BUNDLED = f"metadata.annotations[{BUNDLE}]"


def added(document: dict[str, Any], **more: Any) -> Notification:
    return read_notification({"type": "ADDED", "object": document}, **more)


def read(document: dict[str, Any], **more: Any) -> PodGroup:
    found = added(document, **more).event
    assert isinstance(found, PodGroupAdded)
    return found.group


def composite(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": "serve", "namespace": "default", "annotations": annotations},
        "spec": {"schedulingPolicy": GANG, **spec},
    }


def member(**spec: Any) -> dict[str, Any]:
    """Return a group of pods below the composite pod group."""
    found = composite(parentCompositePodGroupName="serve", **spec)
    found |= {"kind": "PodGroup", "metadata": {"name": "decode-0", "namespace": "default"}}
    found["spec"]["schedulingPolicy"] = {"gang": {"minCount": 2}}
    return found


# What is read -----------------------------------------------------------------------------------

RECORDED = {
    "root": PodGroup(
        name="serve",
        min_groups=2,
        priority=1000,
        topology=Topology("topology/block"),
        preemption_policy=PreemptionPolicy.PREEMPT_LOWER_PRIORITY,
    ),
    "nested": PodGroup(
        name="decode",
        parent=GroupKey("default/serve"),
        min_groups=1,
        priority=0,
        evicted_whole=True,
        preemption_policy=PreemptionPolicy.PREEMPT_LOWER_PRIORITY,
    ),
    "leaf": PodGroup(
        name="decode-0",
        parent=GroupKey("default/serve"),
        min_available=2,
        priority=1000,
        topology=Topology("topology/rack"),
        preemption_policy=PreemptionPolicy.PREEMPT_LOWER_PRIORITY,
    ),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_group_of_a_tree_is_read_and_nothing_holds_it(name: str) -> None:
    assert evolve(read(TREE[name]), created_at=0.0) == RECORDED[name]
    basic = "spec.schedulingPolicy.basic is not a gang: its groups start one by one"
    notes = [note.text for note in added(TREE[name]).notes]
    assert notes == ([basic] if name == "nested" else [])


def test_each_field_of_a_composite_group_is_in_the_table() -> None:
    assert COMPOSITE.keys() == set(COMPOSITE_SPEC)


def test_restart_policy_of_a_composite_group_is_its_annotations() -> None:
    notes = {"gangsched.io/restart-policy": "BelowMinimum", "gangsched.io/restarts": "2"}
    group = read(composite(notes))
    assert (group.restart, group.restarts) == (RestartPolicy(), 2)


def test_deleted_composite_group_is_a_deleted_group() -> None:
    found = read_notification({"type": "DELETED", "object": composite()}).event
    assert found == PodGroupDeleted(GroupKey("default/serve"))


def test_composite_group_of_another_api_is_of_an_unknown_kind() -> None:
    for api in ("scheduling.volcano.sh/v1beta1", "scheduling.x-k8s.io/v1alpha1"):
        assert added({**composite(), "apiVersion": api}).event is None


# What holds the pods ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"somethingNew": 1}, "spec.somethingNew"),
        ({"podGroupTemplateRef": {"workload": {}}}, "spec.podGroupTemplateRef"),
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims"),
        (
            {"schedulingPolicy": {"gang": {"minGroupCount": 2, "minCount": 8}}},
            "spec.schedulingPolicy.gang.minCount",
        ),
        ({"disruptionMode": {"all": {"budget": 1}}}, "spec.disruptionMode.all.budget"),
        (
            {"schedulingConstraints": {"topology": [{"key": "rack"}, {"key": "zone"}]}},
            "spec.schedulingConstraints.topology",
        ),
    ],
)
def test_constraint_that_is_not_modelled_is_noted_unless_ignored(
    spec: dict[str, Any], path: str
) -> None:
    assert read(composite(**spec)).unmodelled == (path,)
    (note,) = added(composite(**spec)).notes
    assert (note.kind, note.field) == (NoteKind.HELD, path)
    assert note.subject == "CompositePodGroup default/serve"
    assert read(composite(**spec), ignore=[path]).unmodelled == ()


def test_groups_of_a_tree_have_no_bundle() -> None:
    notes = {BUNDLE: '["default/a"]'}
    leaf = member()
    leaf["metadata"]["annotations"] = notes
    for document in (composite(notes), leaf):
        group = read(document)
        assert (group.bundle, group.unmodelled) == ((), (BUNDLE,))
        (note,) = added(document).notes
        assert note.text == f"{BUNDLE} is not modelled, so the pods of the group are held"
    assert read(composite({BUNDLE: "[]"})).unmodelled == ()


# What is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "field", "problem"),
    [
        (
            {"schedulingPolicy": {"gang": {"minGroupCount": 0}}},
            "spec.schedulingPolicy.gang.minGroupCount",
            "expected an int >= 1, got 0",
        ),
        (
            {"schedulingPolicy": {"gang": {"minCount": 2}}},
            "spec.schedulingPolicy.gang.minGroupCount",
            "expected an int >= 1",
        ),
        (
            {"schedulingPolicy": {"gang": {"minGroupCount": 1}, "basic": {}}},
            "spec.schedulingPolicy",
            "expected exactly one of gang and basic",
        ),
        ({"schedulingPolicy": None}, "spec.schedulingPolicy", "exactly one of gang and basic"),
        (
            {"parentCompositePodGroupName": "other/root"},
            "spec.parentCompositePodGroupName",
            "expected a name",
        ),
        (
            {"parentCompositePodGroupName": "serve"},
            "spec.parentCompositePodGroupName",
            "expected the name of another group, got 'serve'",
        ),
        ({"parentCompositePodGroupName": 3}, "spec.parentCompositePodGroupName", "a string"),
        ({"priorityClassName": "none"}, "spec.priorityClassName", "a known PriorityClass"),
    ],
)
def test_malformed_composite_group_is_refused_by_field(
    spec: dict[str, Any], field: str, problem: str
) -> None:
    with pytest.raises(ManifestError) as caught:
        read(composite(**spec))
    assert caught.value.field == field
    assert problem in str(caught.value)


# From the documentation to a start --------------------------------------------------------------

DOCUMENTED = """
apiVersion: scheduling.k8s.io/v1alpha3
kind: CompositePodGroup
metadata:
  name: example-root-group
spec:
  workloadRef:
    workloadName: example-workload
    templateName: workload-root
  schedulingPolicy:
    gang:
      minGroupCount: 2
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata:
  name: example-workload-workers
spec:
  parentCompositePodGroupName: example-root-group
  workloadRef:
    workloadName: example-workload
    templateName: workers
  schedulingPolicy:
    gang:
      minCount: 4
---
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata:
  name: example-workload-driver
spec:
  parentCompositePodGroupName: example-root-group
  workloadRef:
    workloadName: example-workload
    templateName: driver
  schedulingPolicy:
    gang:
      minCount: 1
"""
"""The example of the page "Workload API" of Kubernetes 1.37."""


def pods_of(group: str, count: int) -> str:
    spec = f"schedulingGroup: {{podGroupName: {group}}}"
    container = "{name: c, resources: {requests: {cpu: 1}}}"
    return "".join(
        f"\n---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {group}-{number}}},"
        f" spec: {{{spec}, containers: [{container}]}}}}"
        for number in range(count)
    )


def started(text: str, cpus: int) -> tuple[list[str], str]:
    """Return the pods that start on a node of so many CPUs, and why the first one does not."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    node = NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": cpus}))
    workload = load_manifests(text, file="tree.yaml")
    assert {note for note in workload.skipped if "was skipped" in note} == set()
    effects: list[Any] = []
    for event in (node, *[arrival.event for arrival in workload.arrivals]):
        assert isinstance(event, NodeAdded | PodAdded | PodGroupAdded)
        effects += scheduler.handle(cluster.apply(event), now=0.0)
    while (more := scheduler.schedule_one(now=0.0)) is not None:
        effects += more
    first = next(pod for pod in cluster.pods())
    bound = sorted(str(effect.uid) for effect in effects if isinstance(effect, Bind))
    return bound, str(scheduler.why(first.uid))


WORKERS = pods_of("example-workload-workers", 4)
DRIVER = pods_of("example-workload-driver", 1)


def test_documented_groups_start_together_or_not_at_all() -> None:
    assert started(DOCUMENTED + WORKERS + DRIVER, cpus=4)[0] == []
    assert len(started(DOCUMENTED + WORKERS + DRIVER, cpus=5)[0]) == 5
    assert started(DOCUMENTED + WORKERS, cpus=5)[0] == []


def test_member_of_a_missing_composite_group_waits_for_it() -> None:
    text = DOCUMENTED.partition("---")[2] + WORKERS + DRIVER
    bound, why = started(text, cpus=5)
    assert bound == []
    assert "waiting for pod group default/example-root-group, a parent: it does not exist" in why


def test_composite_group_that_asks_for_what_is_not_known_holds_the_pods_below_it() -> None:
    line = "minGroupCount: 2\n"
    text = DOCUMENTED.replace(line, f"{line}  somethingNew: 1\n", 1)
    bound, reason = started(text + WORKERS + DRIVER, cpus=5)
    assert bound == []
    assert "spec.somethingNew" in reason


def test_file_with_a_composite_group_and_a_group_of_one_name_is_refused() -> None:
    text = DOCUMENTED.replace("example-workload-driver", "example-root-group", 1)
    text = text.replace("parentCompositePodGroupName: example-root-group\n", "\n")
    with pytest.raises(ManifestError, match="given twice"):
        load_manifests(text, file="tree.yaml")


# Topology keys of groups and of their parent ----------------------------------------------------


def in_racks_of_a_block(*places: str, levels: tuple[str, ...]) -> dict[str, set[str]]:
    """Return the nodes of two groups, each of one rack, and both of one block.

    Args:
        places: The block and the rack of each node of 2 CPUs, as ``b0/r1``.
        levels: The levels that the scheduler knows.
    """
    block, rack = ({"topology": [{"key": key}]} for key in ("block", "rack"))
    documents, groups = [composite(schedulingConstraints=block)], ("decode-0", "decode-1")
    for name in groups:
        group = member(schedulingConstraints=rack)
        group["metadata"]["name"] = name
        pods = [pod_document(f"{name}-{number}") for number in range(2)]
        for pod in pods:
            pod["spec"]["schedulingGroup"] = {"podGroupName": name}
        documents += [group, *pods]
    nodes: list[Node] = []
    for number, place in enumerate(places):
        labels = {"block": place.split("/")[0], "rack": place.split("/")[1]}
        nodes.append(make_node(f"n{number}", cpu=2, labels=labels))
    found = placed(documents, *nodes, levels=levels).nodes
    return {name: {found[pod] for pod in found if pod.startswith(name)} for name in groups}


@pytest.mark.parametrize("levels", [(), ("block", "rack")])
def test_groups_have_each_a_rack_and_together_a_block(levels: tuple[str, ...]) -> None:
    found = in_racks_of_a_block("b0/r1", "b1/r1", "b1/r2", "b2/r2", levels=levels)
    assert sorted(map(sorted, found.values())) == [["n1"], ["n2"]]
    for places in (("b0/r0", "b1/r1"), ("b0/r0", "b1/r0")):
        found = in_racks_of_a_block(*places, levels=levels)
        assert found == {"decode-0": set(), "decode-1": set()}
