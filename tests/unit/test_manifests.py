"""Manifests: every kind, every field that is read, every way to be wrong."""

from __future__ import annotations

import copy
import math
import textwrap
from importlib import resources
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import gangsched
from gangsched.errors import InvalidValueError, ManifestError
from gangsched.events import Event, NodeAdded, PodAdded, PodGroupAdded
from gangsched.membership import membership
from gangsched.model import (
    Node,
    NodeName,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodGroup,
    PodPhase,
    PodUID,
    Resources,
    Taint,
    TaintEffect,
    Toleration,
    Topology,
)
from gangsched.simulation.manifests import ParsedManifests, PriorityClasses, load_manifests
from gangsched.simulation.workload import RUN_SECONDS, OwnerDeleted, Workload, run_seconds

HEAD = "f.yaml: document 1: "


def _load(text: str, **more: Any) -> Workload:
    return load_manifests(textwrap.dedent(text), file="f.yaml", **more)


def _events(workload: Workload) -> list[Event]:
    events = (arrival.event for arrival in workload.arrivals)
    return [event for event in events if not isinstance(event, OwnerDeleted)]


def _dump(*documents: dict[str, Any]) -> str:
    return yaml.safe_dump_all(documents, sort_keys=False)


def _document(kind: str = "Pod", version: str = "v1", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, **fields}


def _pod_document(**spec: Any) -> dict[str, Any]:
    return _document(spec={"containers": [{"name": "main"}], **spec})


def _load_documents(*documents: dict[str, Any], **more: Any) -> Workload:
    return load_manifests(_dump(*documents), file="f.yaml", **more)


def _pod(document: dict[str, Any], **more: Any) -> Pod:
    (event,) = _events(_load_documents(document, **more))
    assert isinstance(event, PodAdded)
    return event.pod


def _node(**fields: Any) -> Node:
    (event,) = _events(_load_documents(_document("Node", **fields)))
    assert isinstance(event, NodeAdded)
    return event.node


def _group(version: str, **spec: Any) -> PodGroup:
    (event,) = _events(_load_documents(_document("PodGroup", version, spec=spec), at=3.0))
    assert isinstance(event, PodGroupAdded)
    return event.group


def _refused(*documents: dict[str, Any]) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        _load_documents(*documents)
    return caught.value


# Pods -------------------------------------------------------------------------------------


def test_pod_is_read_with_all_that_the_scheduler_looks_at() -> None:
    pod = _pod(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "web-0",
                "namespace": "team",
                "uid": "u-1",
                "labels": {"app": "web"},
                "annotations": {RUN_SECONDS: "90.5"},
                "creationTimestamp": "2024-01-01T00:00:00Z",
                "deletionTimestamp": "2024-01-01T01:00:00Z",
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "A", "name": "web", "uid": "u-2"},
                    {"apiVersion": "v1", "kind": "B", "name": "app", "uid": "u-3"},
                ],
            },
            "spec": {
                "priority": 7,
                "priorityClassName": "never-looked-up",
                "nodeName": "n1",
                "nodeSelector": {"disk": "ssd"},
                "schedulingGates": [{"name": "wait"}],
                "schedulingGroup": {"podGroupName": "g"},
                "containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}],
            },
            "status": {"phase": "Running"},
        },
        at=5.0,
    )

    assert pod == Pod(
        name="web-0",
        namespace="team",
        uid=PodUID("u-1"),
        priority=7,
        requests=Resources({"cpu": 2, "memory": "1Gi"}),
        limits=Resources({"cpu": 2, "memory": "1Gi"}),
        labels={"app": "web"},
        annotations={RUN_SECONDS: "90.5"},
        node_selector={"disk": "ssd"},
        pod_group="g",
        scheduling_gates=("wait",),
        owners=("web", "app"),
        node_name=NodeName("n1"),
        phase=PodPhase.RUNNING,
        deleted_at=5.0,
        created_at=5.0,
    )
    assert run_seconds(pod) == 90.5


def test_absent_fields_of_a_pod_have_the_defaults_of_the_api() -> None:
    assert Pod(name="x") == _pod(_pod_document())
    nothing = dict.fromkeys(
        ("nodeName", "nodeSelector", "affinity", "tolerations", "priority", "priorityClassName"),
        None,
    )
    assert Pod(name="x") == _pod(_pod_document(**nothing))


@pytest.mark.parametrize(
    ("cpu", "thousandths"),
    [
        ("1", 1000),
        ("0.5", 500),
        ("'0.5'", 500),
        ("1e3", 10**6),
        ("1.0e+3", 10**6),
        ("'1e3'", 10**6),
        ("100m", 100),
        ("010", 8000),
        ("1_000", 10**6),
        ("0.1", 100),
        ("0.001", 1),
        ("9007199254740.993", 9007199254740993),
    ],
)
def test_quantity_is_exact_in_any_yaml_form(cpu: str, thousandths: int) -> None:
    (event,) = _events(
        _load(f"""
            {{apiVersion: v1, kind: Pod, metadata: {{name: x}}, spec: {{containers: [
              {{resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}
        """)
    )

    assert isinstance(event, PodAdded)
    assert event.pod.requests == Resources.from_milli({"cpu": thousandths})


@pytest.mark.parametrize("cpu", ["1:30", "1K", "1e99", ".inf", ".nan", "on", "2024-01-01"])
def test_malformed_quantity_is_refused_in_any_yaml_form(cpu: str) -> None:
    with pytest.raises(ManifestError) as caught:
        _load(f"""
            {{apiVersion: v1, kind: Pod, metadata: {{name: x}}, spec: {{containers: [
              {{resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}
        """)

    assert caught.value.field == "spec.containers[0].resources.requests.cpu"


def test_tolerations_are_read() -> None:
    pod = _pod(
        _pod_document(
            tolerations=[
                {"operator": "Exists"},
                {"key": "a", "operator": "Exists", "effect": "NoExecute"},
                {"key": "b", "value": "c", "effect": "NoSchedule", "tolerationSeconds": 3},
                {"key": "d", "operator": "Equal"},
            ]
        )
    )

    assert pod.tolerations == (
        Toleration(exists=True),
        Toleration("a", exists=True, effect=TaintEffect.NO_EXECUTE),
        Toleration("b", "c", effect=TaintEffect.NO_SCHEDULE),
        Toleration("d"),
    )


def _affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def test_required_node_affinity_is_read_and_preferred_is_ignored() -> None:
    affinity = _affinity(
        {
            "matchExpressions": [
                {"key": "zone", "operator": "In", "values": ["a", "b"]},
                {"key": "gpu", "operator": "Exists"},
            ]
        },
        {"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["8"]}]},
        {},
    )
    affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = [{"weight": 1}]
    workload = _load_documents(_pod_document(affinity=affinity))

    (event,) = _events(workload)
    assert isinstance(event, PodAdded)
    assert event.pod.affinity == (
        NodeSelectorTerm(
            (
                NodeSelectorRequirement("zone", "In", ("a", "b")),
                NodeSelectorRequirement("gpu", "Exists"),
            )
        ),
        NodeSelectorTerm((NodeSelectorRequirement("cores", "Gt", ("8",)),)),
        NodeSelectorTerm(()),
    )
    assert workload.skipped == ()


_TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
_REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}
_SPREAD = {"maxSkew": 1, "topologyKey": "zone"}


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"resourceClaims": [{"name": "c"}]}, "spec.resourceClaims"),
        ({"workloadRef": {"name": "w"}}, "spec.workloadRef"),
        ({"newField": 1}, "spec.newField"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_restriction_that_is_not_modelled_holds_the_pod(spec: dict[str, Any], path: str) -> None:
    workload = _load_documents(_pod_document(**spec))

    (event,) = _events(workload)
    assert isinstance(event, PodAdded)
    assert event.pod.unmodelled == (path,)
    sentence = f"{path} is not modelled, so the pod is held"
    assert workload.skipped == (f"{HEAD}Pod default/x: {sentence}",)


def test_preference_between_nodes_holds_no_pod() -> None:
    soft = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": _TERM}]
    }
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    workload = _load_documents(
        _pod_document(
            affinity={"podAffinity": soft, "podAntiAffinity": soft},
            topologySpreadConstraints=[spread],
        )
    )

    (event,) = _events(workload)
    assert isinstance(event, PodAdded)
    assert event.pod.unmodelled == ()
    assert len(event.pod.preferred_pod_affinity) == 1
    assert workload.skipped == ()


def test_template_gives_one_note_for_all_its_pods() -> None:
    template = {"spec": {"containers": [{}], "resourceClaims": [{"name": "c"}]}}
    workload = _load_documents(
        _document(
            "TFJob",
            "kubeflow.org/v1",
            spec={"tfReplicaSpecs": {"PS": {"replicas": 3, "template": template}}},
        )
    )

    assert len(workload.arrivals) == 3
    assert workload.skipped == (
        f"{HEAD}TFJob default/x: spec.tfReplicaSpecs.PS.template.spec.resourceClaims "
        "is not modelled, so the pod is held",
    )


def test_malformed_group_label_is_left_to_the_scheduler() -> None:
    labels = {"pod-group.scheduling.sigs.k8s.io/name": "g"}
    labels["pod-group.scheduling.sigs.k8s.io/min-available"] = "many"
    pod = _pod(_pod_document() | {"metadata": {"name": "x", "labels": labels}})

    with pytest.raises(gangsched.errors.InvalidPodGroupError):
        membership(pod)


# Priority classes -------------------------------------------------------------------------


def _class(name: str, value: Any, **more: Any) -> dict[str, Any]:
    return _document("PriorityClass", "scheduling.k8s.io/v1", value=value, **more) | {
        "metadata": {"name": name}
    }


@pytest.mark.parametrize("class_first", [True, False])
def test_pod_has_the_priority_of_its_class(class_first: bool) -> None:
    documents = [_class("high", 100), _pod_document(priorityClassName="high")]
    workload = _load_documents(*(documents if class_first else documents[::-1]))

    (event,) = _events(workload)
    assert isinstance(event, PodAdded)
    assert event.pod.priority == 100
    assert workload.skipped == ()


@pytest.mark.parametrize(
    ("name", "priority"),
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)],
)
def test_kubernetes_own_classes_are_known(name: str, priority: int) -> None:
    assert priority == _pod(_pod_document(priorityClassName=name)).priority


def test_unknown_priority_class_is_an_error_that_names_it() -> None:
    error = _refused(_pod_document(priorityClassName="mine"))

    assert error.field == "spec.priorityClassName"
    assert "'mine'" in error.problem


def test_smallest_global_default_goes_to_pods_that_name_no_class() -> None:
    classes = [
        _class("a", 9, globalDefault=True),
        _class("b", 5, globalDefault=True),
        _class("c", 1, globalDefault=False),
    ]
    one, two = _events(
        _load_documents(
            *classes,
            _pod_document(),
            _pod_document(priority=0) | {"metadata": {"name": "z"}},
        )
    )

    assert isinstance(one, PodAdded)
    assert isinstance(two, PodAdded)
    assert (one.pod.priority, two.pod.priority) == (5, 0)


def test_priority_classes_of_one_file_are_known_in_another() -> None:
    one = ParsedManifests(_dump(_class("a", -5)), file="one.yaml")
    two = ParsedManifests(_dump(_class("b", 7), _pod_document()), file="two.yaml")
    known = two.priority_classes(one.priority_classes())

    assert _pod(_pod_document(priorityClassName="a"), classes=known).priority == -5
    assert _pod(_pod_document(priorityClassName="b"), classes=known).priority == 7
    assert _pod(_pod_document(), classes=PriorityClasses(default=3)).priority == 3


# Nodes ------------------------------------------------------------------------------------


def test_node_is_read_with_all_that_the_scheduler_looks_at() -> None:
    node = _node(
        metadata={"name": "x", "labels": {"zone": "a"}},
        spec={
            "unschedulable": True,
            "taints": [
                {"key": "k", "effect": "NoExecute"},
                {"key": "l", "value": "v", "effect": "NoSchedule"},
            ],
        },
        status={
            "allocatable": {"cpu": "7900m", "memory": "30Gi", "pods": 110},
            "capacity": {"cpu": 8},
        },
    )

    assert node == Node(
        name=NodeName("x"),
        allocatable=Resources({"cpu": "7900m", "memory": "30Gi", "pods": 110}),
        labels={"zone": "a"},
        taints=(Taint("k", "", TaintEffect.NO_EXECUTE), Taint("l", "v", TaintEffect.NO_SCHEDULE)),
        unschedulable=True,
    )


def test_node_without_allocatable_has_its_capacity() -> None:
    assert _node(status={"capacity": {"cpu": 8}}).allocatable == Resources({"cpu": 8})
    assert _node(status={"allocatable": {}, "capacity": {"cpu": 8}}).allocatable == Resources()


def test_node_without_resources_gives_a_note() -> None:
    workload = _load_documents(_document("Node"))

    assert len(workload.arrivals) == 1
    assert workload.skipped == (
        f"{HEAD}Node x: it has no resources: status.allocatable and status.capacity are absent",
    )


# Pod groups -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "version",
    [
        "scheduling.x-k8s.io/v1alpha1",
        "scheduling.sigs.k8s.io/v1alpha1",
        "scheduling.volcano.sh/v1beta1",
    ],
)
def test_min_member_is_the_quorum(version: str) -> None:
    group = _group(
        version, minMember=3, scheduleTimeoutSeconds=20, minResources={"cpu": 3}, queue="default"
    )

    assert group == PodGroup(
        name="x",
        min_available=3,
        schedule_timeout=20,
        min_resources=Resources({"cpu": 3}),
        created_at=3.0,
    )
    assert _group(version, minMember=1).schedule_timeout is None
    assert _group(version, minMember=1, scheduleTimeoutSeconds=0).schedule_timeout is None
    assert _group(version, minMember=1, priorityClassName="system-node-critical").priority == (
        2_000_001_000
    )


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1"])
def test_min_count_is_the_quorum(version: str) -> None:
    group = _group(
        f"scheduling.k8s.io/{version}", schedulingPolicy={"gang": {"minCount": 4}}, priority=9
    )

    assert group == PodGroup(name="x", min_available=4, priority=9, created_at=3.0)


def test_group_with_the_basic_policy_has_a_quorum_of_one_and_a_note() -> None:
    workload = _load_documents(
        _document("PodGroup", "scheduling.k8s.io/v1beta1", spec={"schedulingPolicy": {"basic": {}}})
    )

    (event,) = _events(workload)
    assert event == PodGroupAdded(PodGroup(name="x", min_available=1))
    assert workload.skipped == (
        f"{HEAD}PodGroup default/x: spec.schedulingPolicy.basic is not a gang: its pods start "
        "one by one",
    )


def test_topology_key_of_a_group_is_read() -> None:
    group = _group(
        "scheduling.k8s.io/v1beta1",
        schedulingPolicy={"gang": {"minCount": 1}},
        schedulingConstraints={"topology": [{"key": "rack"}]},
    )
    assert group.topology == Topology("rack", required=True)


_GROUPS = "gang.scheduling.koordinator.sh/groups"


@pytest.mark.parametrize(
    ("version", "spec"),
    [
        ("scheduling.x-k8s.io/v1alpha1", {"minMember": 2}),
        ("scheduling.volcano.sh/v1beta1", {"minMember": 2, "minTaskMember": {"ps": 1}}),
        ("scheduling.k8s.io/v1beta1", {"schedulingPolicy": {"gang": {"minCount": 2}}}),
    ],
)
def test_koordinators_groups_are_the_bundle(version: str, spec: dict[str, Any]) -> None:
    def read(text: str) -> tuple[str, ...]:
        metadata = {"name": "x", "annotations": {_GROUPS: text}}
        (event,) = _events(
            _load_documents({**_document("PodGroup", version, spec=spec), "metadata": metadata})
        )
        assert isinstance(event, PodGroupAdded)
        return event.group.bundle

    assert read('["two/b", "default/x"]') == ("default/x", "two/b")
    assert read("[]") == read("") == ()


@pytest.mark.parametrize(
    "text",
    ["two/b", "{}", "3", '"two/b"', '["b"]', '["/b"]', '["a/b/c"]', "[3]", "[null]", "[" * 9999],
    ids=lambda text: str(text)[:8],
)
def test_malformed_list_of_groups_is_refused_by_path(text: str) -> None:
    document = _document("PodGroup", "scheduling.x-k8s.io/v1alpha1", spec={"minMember": 2})
    document["metadata"] = {"name": "x", "annotations": {_GROUPS: text}}
    with pytest.raises(ManifestError) as caught:
        _load_documents(document)
    error = caught.value
    assert (error.document, error.field) == (1, f"metadata.annotations[{_GROUPS}]")
    assert "a JSON list such as" in str(error)
    assert error.file in str(error)


def test_group_with_two_topology_keys_holds_its_pods() -> None:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 1}},
        "schedulingConstraints": {"topology": [{"key": "rack"}, {"key": "zone"}]},
    }
    workload = _load_documents(_document("PodGroup", "scheduling.k8s.io/v1beta1", spec=spec))

    (event,) = _events(workload)
    assert isinstance(event, PodGroupAdded)
    assert event.group.unmodelled == ("spec.schedulingConstraints.topology",)
    assert event.group.topology is None


# Files ------------------------------------------------------------------------------------


def test_objects_arrive_at_one_instant_in_the_order_of_the_documents() -> None:
    workload = _load(
        """
        {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{}]}}
        ---
        # nothing
        ---
        apiVersion: v1
        kind: List
        items:
          - {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {capacity: {}}}
          - apiVersion: batch/v1
            kind: Job
            metadata: {name: j}
            spec: {parallelism: 2, template: {spec: {containers: [{}]}}}
        ---
        apiVersion: scheduling.x-k8s.io/v1alpha1
        kind: PodGroup
        metadata: {name: g}
        spec: {minMember: 2}
        """,
        at=2.5,
    )

    assert {arrival.at for arrival in workload.arrivals} == {2.5}
    names = [
        event.pod.name
        if isinstance(event, PodAdded)
        else event.node.name
        if isinstance(event, NodeAdded)
        else event.group.name
        for event in _events(workload)
        if isinstance(event, PodAdded | NodeAdded | PodGroupAdded)
    ]
    assert names == ["p", "n1", "j-0", "j-1", "g"]


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("apps/v1", "Deployment"),
        ("batch/v1beta1", "Job"),
        ("kubeflow.org/v1alpha1", "MPIJob"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("scheduling.k8s.io/v1alpha1", "Workload"),
        ("v2", "Pod"),
        ("example.com/v1", "PodGroup"),
    ],
)
def test_unknown_kind_is_skipped_with_a_note(version: str, kind: str) -> None:
    unknown = _document(kind, version, spec=5, items=[_pod_document()])
    workload = _load_documents(unknown, _pod_document())

    assert len(workload.arrivals) == 1
    assert workload.skipped == (
        f"{HEAD}{kind} x ({version}) is of an unknown kind and was skipped",
    )


def test_file_without_documents_is_an_empty_workload() -> None:
    assert _load("") == _load("# nothing\n---\n---\n") == Workload()


@pytest.mark.parametrize("name", ["cluster.yaml", "tf-smoke-gpu.yaml", "scale-up.yaml"])
def test_examples_load_without_a_note(name: str) -> None:
    text = (resources.files("gangsched.simulation") / "examples" / name).read_text("utf-8")
    workload = load_manifests(text, file=name)

    assert text.startswith("# ")
    assert workload.skipped == ()
    if name == "tf-smoke-gpu.yaml":
        pods = [event.pod for event in _events(workload) if isinstance(event, PodAdded)]
        assert [pod.name for pod in pods] == [
            "tf-smoke-gpu-ps-0",
            *(f"tf-smoke-gpu-worker-{index}" for index in range(4)),
        ]
        assert pods[0].requests == Resources({"cpu": 1})
        assert {pod.requests for pod in pods[1:]} == {Resources({"nvidia.com/gpu": 2})}
        claims = [membership(pod) for pod in pods]
        assert {(c.group, c.min_available) for c in claims if c} == {("default/tf-smoke-gpu", 5)}
        assert None not in claims
    else:
        nodes = [event.node for event in _events(workload) if isinstance(event, NodeAdded)]
        first = 0 if name == "cluster.yaml" else 2
        assert [node.name for node in nodes] == [f"gpu-node-{first}", f"gpu-node-{first + 1}"]
        assert {node.allocatable for node in nodes} == {
            Resources({"cpu": 8, "memory": "32Gi", "nvidia.com/gpu": 2, "pods": 110})
        }


# Refusals ---------------------------------------------------------------------------------


_BAD_EXPRESSIONS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "operator", "got nothing"),
    ({"operator": "Is"}, "operator", "got 'Is'"),
    ({"operator": "In"}, "values", "non-empty if the operator is In"),
    ({"operator": "Exists", "values": ["v"]}, "values", "empty if the operator is Exists"),
    ({"operator": "Gt", "values": ["1", "2"]}, "values", "one integer if the operator is Gt"),
    ({"operator": "Lt", "values": []}, "values", "one integer if the operator is Lt"),
    ({"operator": "In", "values": [1]}, "values[0]", "in quotes, got 1"),
    ({"key": "", "operator": "Exists"}, "key", "got ''"),
]
_BAD_POLICIES: list[tuple[dict[str, Any] | None, str, str]] = [
    (None, "", "expected exactly one of gang and basic"),
    ({"gang": {"minCount": 1}, "basic": {}}, "", "exactly one of gang and basic"),
    ({"gang": {}}, ".gang.minCount", "got nothing"),
]
_MALFORMED: list[tuple[dict[str, Any], str, str]] = [
    ({"kind": "Pod"}, "apiVersion", "got nothing"),
    ({"apiVersion": "v1"}, "kind", "got nothing"),
    ({"apiVersion": 1, "kind": "Pod"}, "apiVersion", "a string, in quotes, got 1"),
    (_document() | {"metadata": None}, "metadata.name", "got nothing"),
    (_document() | {"metadata": []}, "metadata", "expected a mapping, got a list"),
    (_document() | {"metadata": {"name": "A_b"}}, "metadata.name", "got 'A_b'"),
    (_document() | {"metadata": {"name": "a/b"}}, "metadata.name", "got 'a/b'"),
    (_document() | {"metadata": {"name": "x" * 254}}, "metadata.name", "at most 253"),
    (
        _document() | {"metadata": {"name": "x", "namespace": "a b"}},
        "metadata.namespace",
        "got 'a b'",
    ),
    (_document(), "spec.containers", "expected at least one container, got nothing"),
    (_document(spec="x"), "spec", "expected a mapping, got 'x'"),
    (_document(spec={"containers": {}}), "spec.containers", "expected a list, got a mapping"),
    (_document(spec={"containers": ["x"]}), "spec.containers[0]", "expected a mapping"),
    (
        _pod_document() | {"metadata": {"name": "x", "labels": {"a.b/c": 1}}},
        "metadata.labels[a.b/c]",
        "expected a string, in quotes, got 1",
    ),
    (
        _pod_document() | {"metadata": {"name": "x", "annotations": {RUN_SECONDS: "1h"}}},
        f"metadata.annotations[{RUN_SECONDS}]",
        "expected a number of seconds > 0 in digits, such as 90 or 0.5, got '1h'",
    ),
    (
        _pod_document() | {"metadata": {"name": "x", "ownerReferences": {"name": "o"}}},
        "metadata.ownerReferences",
        "expected a list, got a mapping",
    ),
    (
        _pod_document() | {"metadata": {"name": "x", "ownerReferences": [{"name": 1}]}},
        "metadata.ownerReferences[0].name",
        "expected a string, in quotes, got 1",
    ),
    (
        _pod_document() | {"metadata": {"name": "x", "ownerReferences": [{}]}},
        "metadata.ownerReferences[0].name",
        "expected a non-empty string, got nothing",
    ),
    (_pod_document(priority="1"), "spec.priority", "expected an int"),
    (_pod_document(priority=2**31), "spec.priority", "got 2147483648"),
    (_pod_document(nodeSelector={"a": True}), "spec.nodeSelector.a", "got True"),
    (_pod_document(schedulingGates=[{}]), "spec.schedulingGates[0].name", "got nothing"),
    (_pod_document() | {"status": {"phase": "Lost"}}, "status.phase", "got 'Lost'"),
    (
        _pod_document(tolerations=[{"operator": "Like"}]),
        "spec.tolerations[0].operator",
        "expected one of Exists, Equal, Gt, Lt, got 'Like'",
    ),
    (_pod_document(tolerations=[{"value": "v"}]), "spec.tolerations[0].key", "got ''"),
    (
        _pod_document(tolerations=[{"operator": "Exists", "value": "v"}]),
        "spec.tolerations[0].value",
        "expected no value, as the operator is Exists, got 'v'",
    ),
    (
        _pod_document(tolerations=[{"key": "k", "effect": "Never"}]),
        "spec.tolerations[0].effect",
        "got 'Never'",
    ),
    (
        _pod_document(affinity=_affinity()),
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        ".nodeSelectorTerms",
        "expected at least one term",
    ),
    (
        _pod_document(
            affinity=_affinity(
                {"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["n0"]}]}
            )
        ),
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        ".nodeSelectorTerms[0].matchFields",
        "the field metadata.name",
    ),
    *(
        (
            _pod_document(affinity=_affinity({"matchExpressions": [{"key": "k", **bad}]})),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
            f".nodeSelectorTerms[0].matchExpressions[0].{field}",
            problem,
        )
        for bad, field, problem in _BAD_EXPRESSIONS
    ),
    (_document("Node", spec={"unschedulable": "no"}), "spec.unschedulable", "got 'no'"),
    (
        _document("Node", spec={"taints": [{"key": "k", "effect": ""}]}),
        "spec.taints[0].effect",
        "got ''",
    ),
    (
        _document("Node", spec={"taints": [{"key": "k"}]}),
        "spec.taints[0].effect",
        "got nothing",
    ),
    (
        _document("Node", spec={"taints": [{"effect": "NoSchedule"}]}),
        "spec.taints[0].key",
        "got nothing",
    ),
    (
        _document("Node", status={"allocatable": {"pods": "0.5"}}),
        "status.allocatable.pods",
        "a whole quantity",
    ),
    (_class("c", None), "value", "got nothing"),
    (_class("c", 1, globalDefault=1), "globalDefault", "a bool, got 1"),
    *(
        (_document("PodGroup", "scheduling.x-k8s.io/v1alpha1", spec=spec), path, problem)
        for spec, path, problem in [
            ({"minMember": 0}, "spec.minMember", "got 0"),
            ({"minMember": 1.5}, "spec.minMember", "got 1.5"),
            ({"minMember": 2**31}, "spec.minMember", "got 2147483648"),
            (
                {"minMember": 1, "scheduleTimeoutSeconds": -1},
                "spec.scheduleTimeoutSeconds",
                "got -1",
            ),
            (
                {"minMember": 1, "minResources": {"cpu": "-1"}},
                "spec.minResources.cpu",
                "a quantity >= 0",
            ),
            (
                {"minMember": 1, "priorityClassName": "mine"},
                "spec.priorityClassName",
                "got 'mine'",
            ),
        ]
    ),
    *(
        (
            _document("PodGroup", "scheduling.k8s.io/v1", spec={"schedulingPolicy": policy}),
            f"spec.schedulingPolicy{path}",
            problem,
        )
        for policy, path, problem in _BAD_POLICIES
    ),
    (
        {"apiVersion": "v1", "kind": "List", "items": [_pod_document(), _document()]},
        "items[1].spec.containers",
        "got nothing",
    ),
    ({"apiVersion": "v1", "kind": "List", "items": [None]}, "items[0]", "got nothing"),
    (
        {
            "apiVersion": "v1",
            "kind": "List",
            "items": [{"apiVersion": "v1", "kind": "List", "items": []}],
        },
        "items[0].kind",
        "a List in a List is not supported",
    ),
]


@pytest.mark.parametrize(("document", "path", "problem"), _MALFORMED, ids=range(len(_MALFORMED)))
def test_malformed_field_is_refused_by_its_path(
    document: dict[str, Any], path: str, problem: str
) -> None:
    error = _refused({"apiVersion": "v1", "kind": "Secret"}, document)

    assert (error.file, error.document, error.field) == ("f.yaml", 2, path)
    assert problem in error.problem
    assert len(str(error)) < 400


@pytest.mark.parametrize("text", ["5", "text", "[1]", "'on'"])
def test_document_that_is_not_a_mapping_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="document 1: expected a mapping, got "):
        _load(text)


def test_refusal_keeps_its_cause() -> None:
    cpu = {"resources": {"requests": {"cpu": "1K"}}}
    error = _refused(_document(spec={"containers": [cpu]}))

    assert isinstance(error.__cause__, InvalidValueError)


@pytest.mark.parametrize(
    ("documents", "named"),
    [
        ([_pod_document(), _pod_document()], "Pod default/x"),
        ([_document("Node"), _document("Node")], "Node x"),
        (
            [
                _pod_document() | {"metadata": {"name": "x", "uid": "u"}},
                _pod_document() | {"metadata": {"name": "z", "uid": "u"}},
            ],
            "the pod with UID u",
        ),
        (
            [
                _document("PodGroup", "scheduling.x-k8s.io/v1alpha1", spec={"minMember": 1}),
                _document("PodGroup", "scheduling.volcano.sh/v1beta1", spec={"minMember": 1}),
            ],
            "PodGroup default/x",
        ),
        (
            [
                _pod_document() | {"metadata": {"name": "x-0"}},
                _document("Job", "batch/v1", spec={"template": {"spec": {"containers": [{}]}}}),
            ],
            "Pod default/x-0",
        ),
    ],
    ids=["Pod", "Node", "UID", "PodGroup", "pod of a Job"],
)
def test_object_given_twice_is_refused_with_both_documents(
    documents: list[dict[str, Any]], named: str
) -> None:
    error = _refused(*documents)

    assert (error.document, error.field) == (2, "metadata.name")
    assert f"{named} is given twice, first by document 1" == error.problem


def test_same_name_in_two_namespaces_is_two_objects() -> None:
    other = _pod_document() | {"metadata": {"name": "x", "namespace": "other"}}

    assert len(_load_documents(_pod_document(), other).arrivals) == 2


def test_file_has_at_most_a_million_objects() -> None:
    template: dict[str, Any] = {"spec": {"containers": [{}]}}
    types = ("PS", "Worker", "Chief", "Master", "Evaluator")
    spec = {kind: {"replicas": 1, "template": template} for kind in types}
    jobs = [
        _document("TFJob", "kubeflow.org/v1", spec={"tfReplicaSpecs": spec})
        | {"metadata": {"name": f"j{n}"}}
        for n in range(3)
    ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gangsched.simulation.manifests.MOST_OBJECTS", 10)
        assert len(_load_documents(*jobs[:2]).arrivals) == 10
        error = _refused(*jobs)

    assert error.document == 3
    assert "more than 10 objects" in error.problem


@pytest.mark.parametrize("at", [math.nan, math.inf])
def test_instant_of_arrival_must_be_finite(at: float) -> None:
    with pytest.raises(InvalidValueError):
        _load_documents(_pod_document(), at=at)


# Mutilation -------------------------------------------------------------------------------

_WHOLE_FILE: list[dict[str, Any]] = [
    _class("high", 10),
    _document(
        "Node",
        spec={
            "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}],
            "unschedulable": False,
        },
        status={"allocatable": {"cpu": "8", "nvidia.com/gpu": 2}, "capacity": {"cpu": 8}},
    ),
    _document(
        "PodGroup",
        "scheduling.x-k8s.io/v1alpha1",
        spec={"minMember": 2, "minResources": {"cpu": 1}},
    )
    | {"metadata": {"name": "a"}},
    _document(
        "PodGroup",
        "scheduling.k8s.io/v1beta1",
        spec={"schedulingPolicy": {"gang": {"minCount": 2}}},
    )
    | {"metadata": {"name": "b"}},
    {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            _pod_document(
                priorityClassName="high",
                initContainers=[{"restartPolicy": "Always", "resources": {"limits": {"cpu": 1}}}],
                overhead={"cpu": "250m"},
                resources={"limits": {"memory": "1Gi"}},
                tolerations=[{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
                affinity={
                    **_affinity(
                        {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}
                    ),
                    "podAntiAffinity": _REQUIRED,
                },
                topologySpreadConstraints=[{"whenUnsatisfiable": "DoNotSchedule", **_SPREAD}],
                schedulingGates=[{"name": "g"}],
                schedulingGroup={"podGroupName": "a"},
                volumes=[{"persistentVolumeClaim": {"claimName": "c"}}],
            )
            | {
                "metadata": {
                    "name": "x",
                    "namespace": "ns",
                    "uid": "u",
                    "labels": {"l": "v"},
                    "annotations": {RUN_SECONDS: "60"},
                    "deletionTimestamp": "2024-01-01T00:00:00Z",
                },
                "status": {"phase": "Pending"},
            }
        ],
    },
    _document(
        "Job",
        "batch/v1",
        spec={
            "parallelism": 2,
            "completions": 3,
            "completionMode": "Indexed",
            "suspend": False,
            "template": {"spec": {"containers": [{"ports": [{"hostPort": 1}]}]}},
        },
    ),
    _document(
        "TFJob",
        "kubeflow.org/v1",
        spec={
            "runPolicy": {"suspend": False, "schedulingPolicy": {"minAvailable": 2}},
            "tfReplicaSpecs": {
                "Worker": {"replicas": 2, "template": {"spec": {"containers": [{}]}}}
            },
        },
    )
    | {"metadata": {"name": "t"}},
    _document(
        "MPIJob",
        "kubeflow.org/v2beta1",
        spec={
            "mpiReplicaSpecs": {
                "Launcher": {"template": {"spec": {"containers": [{}]}}},
                "Worker": {"replicas": 2, "template": {"spec": {"containers": [{}]}}},
            }
        },
    )
    | {"metadata": {"name": "m"}},
]

_JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2**31, 2**63, 10**30, 0.5, 1e300, math.inf, math.nan]),
    st.sampled_from(
        ["", "x", "1", "-1", "1K", "NaN", "Exists", "In", "a/b", "9" * 5000, "\u00e9\n"]
    ),
    st.just([]),
    st.just({}),
    st.just([None]),
    st.just({"name": 5}),
    st.lists(st.integers() | st.text(max_size=3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2),
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    places = []
    keys = value.keys() if isinstance(value, dict) else range(len(value))
    for key in keys:
        places.append((value, key))
        if isinstance(value[key], dict | list):
            places += _places(value[key])
    return places


def test_file_that_is_mutilated_below_is_well_formed() -> None:
    assert len(_load_documents(*_WHOLE_FILE).arrivals) == 12


@given(st.data())
def test_no_mutilation_raises_anything_but_our_own_error(data: st.DataObject) -> None:
    documents = copy.deepcopy(_WHOLE_FILE)
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(_places(documents)))
        if data.draw(st.booleans()):
            container[key] = copy.deepcopy(data.draw(_JUNK))
        else:
            del container[key]
    text = yaml.safe_dump_all(documents, allow_unicode=True)
    try:
        workload = load_manifests(text, file="f.yaml")
    except ManifestError as caught:
        error: ManifestError | None = caught
    else:
        error = None
        assert workload == load_manifests(text, file="f.yaml")

    if error is not None:
        assert error.file == "f.yaml"
        assert 1 <= error.document <= len(documents)
        assert str(error)


@given(st.text() | st.text("ab:-[]{}&*!<>|'\"#%.?\n ,~01", max_size=60))
def test_no_text_raises_anything_but_our_own_error(text: str) -> None:
    try:
        load_manifests(text, file="f.yaml")
    except ManifestError:
        return
