"""What becomes of every field is on the page of fields that are read, and that is what happens."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched import Bind, InMemoryCluster, Node, NodeAdded, NodeName, PodAdded, presets
from gangsched.errors import GangschedError
from gangsched.kubernetes import read_notification
from gangsched.manifests import DIALECTS, POD_FIELDS, NoteKind, Treatment
from support.api_fields import GROUP_SPECS, NODE, POD_SPEC
from support.documents import ROOT
from support.page_tables import tables_of

PAGE = (ROOT / "docs" / "reference" / "fields.md").read_text(encoding="utf-8")
NODE_VALUES = (
    *(True, "x", ["x"], {"cpu": "1"}, [{"key": "a", "effect": "NoSchedule"}]),
    *([{"names": ["x"], "sizeBytes": 1}], [{"name": "x", "devicePath": "/x"}]),
)
"""Values of several shapes: at least one of them is one of each field."""


def rows(header: str) -> list[list[str]]:
    """Return the rows of the table whose first column has this header."""
    _before, _header, after = PAGE.partition(f"| `{header}` |")
    lines = after.split("\n\n")[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split(" |")] for line in lines]


def treatments(header: str) -> dict[str, str]:
    """Return the treatment of each field; the list below the table restricts no node."""
    said = {field: treatment for field, treatment, _how in rows(header)}
    below = PAGE.partition(f"| `{header}` |")[2].partition("\n\nRestrict no node: ")[2]
    listed = re.findall(r"`([^`]+)`", below.partition("\n\n")[0])
    assert not said.keys() & set(listed)
    return said | dict.fromkeys(listed, "restricts no node")


def test_page_has_each_field_of_a_pod_with_its_treatment() -> None:
    said = treatments("PodSpec")
    assert said.keys() == set(POD_SPEC)
    assert said == {field: POD_FIELDS[field].value for field in POD_SPEC}


def test_page_has_each_field_of_a_node() -> None:
    said = treatments("Node")
    assert said.keys() == set(NODE)
    honoured = {field for field, treatment in said.items() if treatment == "honoured"}
    assert honoured == {field for field in NODE if changes_the_node(field)}


def changes_the_node(field: str) -> bool:
    """Return whether a node with some value of a field is read as another node than without it."""
    part, name = field.split(".")
    plain = read_node({})
    for value in NODE_VALUES:
        try:
            if read_node({part: {name: value}}) != plain:
                return True
        except GangschedError:
            pass  # a field that is read refuses values of a wrong shape
    return False


def read_node(given: dict[str, Any]) -> object:
    value = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, **given}
    return read_notification({"type": "ADDED", "object": value}).event


def test_page_has_each_field_of_each_dialect() -> None:
    """How each is treated, ``test_tables_of_spellings`` compares."""
    section = PAGE.partition("\n## PodGroups\n")[2].partition("\n## ")[0]
    free = set(
        re.findall(r"`(\w+)`", section.partition("Restrict no node:")[2].partition(".\n")[0])
    )
    for row in tables_of("reference/fields.md", "## PodGroups"):
        for api, _whose, *fields in row:
            said = set(re.findall(r"`(\w+)`", " ".join(fields)))
            known = set(GROUP_SPECS.get(api.strip("`"), ()))
            assert known <= said | free, api


def test_table_of_fields_knows_no_field_that_kubernetes_lacks() -> None:
    gone = {"workloadRef"}  # of 1.35
    assert POD_FIELDS.keys() == set(POD_SPEC) | gone


# What the page says happens ---------------------------------------------------------------------


def notification(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    given = {"name": "p", "namespace": "default", "uid": "u", **metadata}
    whole = {"containers": [{"name": "c"}], **spec}
    value = {"apiVersion": "v1", "kind": "Pod", "metadata": given, "spec": whole}
    return {"type": "ADDED", "object": value}


def starts(spec: dict[str, Any], *, ignore: tuple[str, ...] = (), **metadata: Any) -> bool:
    """Return whether a pod with this specification is bound to a large empty node."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    node = Node(name=NodeName("n"), allocatable={"cpu": 99, "memory": "99Gi"})
    scheduler.handle(cluster.apply(NodeAdded(node)), now=0.0)
    found = read_notification(notification(spec, **metadata), ignore=ignore)
    assert isinstance(found.event, PodAdded)
    effects = list(scheduler.handle(cluster.apply(found.event), now=0.0))
    while (more := scheduler.schedule_one(now=0.0)) is not None:
        effects += more
    return any(isinstance(effect, Bind) for effect in effects)


VALUES = st.sampled_from([1, True, "x", ["x"], {"x": 1}, [{"x": 1}]])
HELD = [name for name, treatment in POD_FIELDS.items() if treatment is Treatment.HELD]
UNKNOWN = st.from_regex(r"[a-z]{3,8}[A-Z][a-z]{2,5}", fullmatch=True).filter(
    lambda name: name not in POD_FIELDS
)


@given(UNKNOWN | st.sampled_from(HELD), VALUES)
def test_pod_with_an_unmodelled_constraint_is_held_unless_ignored_or_bound(
    name: str, value: Any
) -> None:
    found = read_notification(notification({name: value}))
    assert isinstance(found.event, PodAdded)
    assert found.event.pod.unmodelled == (f"spec.{name}",)
    assert [(note.kind, note.field) for note in found.notes] == [(NoteKind.HELD, f"spec.{name}")]
    assert not starts({name: value})
    found = read_notification(notification({name: value}), ignore=[f"spec.{name}"])
    assert [note.kind for note in found.notes] == [NoteKind.IGNORED]
    assert starts({name: value}, ignore=(f"spec.{name}",))
    found = read_notification(notification({name: value, "nodeName": "n"}))
    assert isinstance(found.event, PodAdded)
    assert (found.event.pod.node_name, found.event.pod.unmodelled) == ("n", ())
    assert [note.kind for note in found.notes] == [NoteKind.IGNORED]


TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (
            {"affinity": {"podAffinity": {REQUIRED: [{**TERM, "newKey": 1}]}}},
            f"spec.affinity.podAffinity.{REQUIRED}[0].newKey",
        ),
        ({"affinity": {"rackAffinity": {"x": 1}}}, "spec.affinity.rackAffinity"),
        (
            {"tolerations": [{"operator": "Exists", "until": "x"}]},
            "spec.tolerations[0].until",
        ),
        ({"volumes": [{"name": "v", "quantumDisk": {"id": 1}}]}, "spec.volumes[0].quantumDisk"),
        (
            {"containers": [{"name": "c", "resources": {"claims": [{"name": "gpu"}]}}]},
            "spec.containers[0].resources.claims",
        ),
        ({"schedulingGroup": {"podGroupName": "g", "rank": 1}}, "spec.schedulingGroup.rank"),
        ({"schedulerName": "volcano"}, "spec.schedulerName (volcano)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_part_of_a_field_that_is_not_modelled_holds_the_pod(
    spec: dict[str, Any], path: str
) -> None:
    found = read_notification(notification(spec))
    assert isinstance(found.event, PodAdded)
    assert found.event.pod.unmodelled == (path,)
    assert [note.kind for note in found.notes] == [NoteKind.HELD]


@pytest.mark.parametrize(
    ("annotations", "held"),
    [
        ({"name": "g", "min-available": "2", "total-number": "3"}, False),
        ({"name": "g", "mode": "Strict", "match-policy": "once-satisfied"}, False),
        ({"name": "g", "mode": "NonStrict"}, True),
        ({"name": "g", "match-policy": "only-waiting"}, True),
        ({"name": "g", "groups": '["default/g", "default/h"]'}, True),
        ({"name": "g", "something-new": "x"}, True),
    ],
)
def test_annotation_of_koordinator_is_honoured_or_holds_the_pod(
    annotations: dict[str, str], held: bool
) -> None:
    named = {f"gang.scheduling.koordinator.sh/{key}": text for key, text in annotations.items()}
    found = read_notification(notification({}, annotations=named))
    assert isinstance(found.event, PodAdded)
    assert bool(found.event.pod.unmodelled) is held


def test_match_policy_of_koordinator_counts_by_its_other_name() -> None:
    for policy, starts_at_once in (("once-satisfied", True), ("waiting-and-running", False)):
        annotations = {"pod-group.scheduling.sigs.k8s.io/match-policy": policy}
        assert starts({}, annotations=annotations) is starts_at_once


def test_task_groups_of_yunikorn_hold_the_pod() -> None:
    annotations = {"yunikorn.apache.org/task-group-name": "workers"}
    assert not starts({}, annotations=annotations)
    assert starts({}, annotations=annotations, ignore=("yunikorn.apache.org/task-group-name",))


@pytest.mark.parametrize("field", [f for f, t in POD_FIELDS.items() if t is Treatment.FREE])
def test_field_that_restricts_no_node_holds_no_pod(field: str) -> None:
    found = read_notification(notification({field: {"x": 1}}))
    assert isinstance(found.event, PodAdded)
    assert found.event.pod.unmodelled == ()
    assert found.notes == ()


@pytest.mark.parametrize(("api", "fields"), GROUP_SPECS.items())
def test_group_with_an_unmodelled_constraint_holds_its_pods(
    api: str, fields: tuple[str, ...]
) -> None:
    minimum = (
        {"schedulingPolicy": {"gang": {"minCount": 1}}}
        if api == "scheduling.k8s.io"
        else {"minMember": 1}
    )
    metadata = {"name": "g", "namespace": "default"}
    held = [name for name in fields if DIALECTS[api][name] is Treatment.HELD]
    words = ("queue", "preemptibility", "preemptionDelay")
    for name in (*held, "somethingNew"):
        value = {"apiVersion": f"{api}/v1", "kind": "PodGroup", "metadata": metadata}
        value["spec"] = {**minimum, name: "q" if name in words else {"x": 1}}
        cluster = InMemoryCluster()
        scheduler = presets.gang(cluster)
        events = [
            NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 9})),
            read_notification({"type": "ADDED", "object": value}).event,
            read_notification(notification({"schedulingGroup": {"podGroupName": "g"}})).event,
        ]
        effects: list[Any] = []
        for event in events:
            assert event is not None
            effects += scheduler.handle(cluster.apply(event), now=0.0)
            while (more := scheduler.schedule_one(now=0.0)) is not None:
                effects += more
        assert not any(isinstance(effect, Bind) for effect in effects), name
        assert re.search(rf"not modelled: spec\.{name}", str(scheduler.why("u"))), name


def test_deleted_object_is_read_by_name_and_uid_alone() -> None:
    metadata = {"name": "p", "namespace": "team", "uid": "u"}
    for kind, version in (("Pod", "v1"), ("Node", "v1"), ("PersistentVolume", "v1")):
        value = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": "torn"}
        found = read_notification({"type": "DELETED", "object": value})
        assert type(found.event).__name__ in ("PodDeleted", "NodeDeleted", "ObjectDeleted")


def test_quantity_finer_than_a_thousandth_is_rounded_up() -> None:
    resources = {"requests": {"cpu": "100u", "memory": "1.0001"}}
    spec = {"containers": [{"name": "c", "resources": resources}]}
    found = read_notification(notification(spec)).event
    assert isinstance(found, PodAdded)
    assert found.pod.requests.to_milli() == {"cpu": 1, "memory": 1001}
