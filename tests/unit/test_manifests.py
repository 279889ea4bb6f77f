"""Manifests: every kind, every field that is read, every way to be wrong."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable
from importlib import resources
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gangsched.errors import InvalidPodGroupError, InvalidValueError, ManifestError
from gangsched.events import NodeAdded, PodAdded, PodGroupAdded
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
from gangsched.simulation.workload import RUN_SECONDS, Workload, run_seconds

HEAD = "f.yaml: document 1: "
SCHEDULER_PLUGINS = "scheduling.x-k8s.io/v1alpha1"
VOLCANO = "scheduling.volcano.sh/v1beta1"
NATIVE = "scheduling.k8s.io/v1beta1"


def load(text: str, **more: Any) -> Workload:
    return load_manifests(text, file="f.yaml", **more)


def document(kind: str, version: str, fields: str = "", metadata: str = "name: x") -> str:
    """Return a document in YAML; *fields* and *metadata* are what is between braces."""
    return f"{{apiVersion: {version}, kind: {kind}, metadata: {{{metadata}}}, {fields}}}\n"


def pod(spec: str = "", metadata: str = "name: x", more: str = "") -> str:
    return document("Pod", "v1", f"spec: {{containers: [{{name: m}}], {spec}}}, {more}", metadata)


def node(fields: str = "") -> str:
    return document("Node", "v1", fields)


def group(version: str, spec: str, metadata: str = "name: x") -> str:
    return document("PodGroup", version, f"spec: {{{spec}}}", metadata)


def priority(name: str, value: object, more: str = "") -> str:
    version = "scheduling.k8s.io/v1"
    return document("PriorityClass", version, f"value: {value}, {more}", f"name: {name}")


def together(*documents: str) -> str:
    return "---\n".join(documents)


def read(text: str, **more: Any) -> Any:
    """Return the pod, the node or the group of a text with one."""
    (arrival,) = load(text, **more).arrivals
    match arrival.event:
        case PodAdded(value) | NodeAdded(value) | PodGroupAdded(value):
            return value
    raise AssertionError(arrival)


def names_of(workload: Workload) -> list[str]:
    names: list[str] = []
    for arrival in workload.arrivals:
        match arrival.event:
            case PodAdded(value) | NodeAdded(value) | PodGroupAdded(value):
                names.append(value.name)
            case other:
                raise AssertionError(other)
    return names


def refused(text: str) -> ManifestError:
    with pytest.raises(ManifestError) as caught:
        load(text)
    return caught.value


# Pods -------------------------------------------------------------------------------------


def test_pod_is_read_with_all_that_the_scheduler_looks_at() -> None:
    text = f"""
        apiVersion: v1
        kind: Pod
        metadata:
          name: web-0
          namespace: team
          uid: u-1
          labels: {{app: web}}
          annotations: {{{RUN_SECONDS}: "90.5"}}
          creationTimestamp: "2024-01-01T00:00:00Z"
          deletionTimestamp: "2024-01-01T01:00:00Z"
          ownerReferences:
          - {{apiVersion: v1, kind: A, name: web, uid: u-2}}
          - {{apiVersion: v1, kind: B, name: app, uid: u-3}}
        spec:
          priority: 7
          priorityClassName: never-looked-up
          nodeName: n1
          nodeSelector: {{disk: ssd}}
          schedulingGates: [{{name: wait}}]
          schedulingGroup: {{podGroupName: g}}
          containers: [{{resources: {{limits: {{cpu: "2", memory: 1Gi}}}}}}]
          tolerations:
          - {{operator: Exists}}
          - {{key: a, operator: Exists, effect: NoExecute}}
          - {{key: b, value: c, effect: NoSchedule, tolerationSeconds: 3}}
          - {{key: d, operator: Equal}}
        status: {{phase: Running}}
    """
    found = read(text, at=5.0)
    assert found == Pod(
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
        tolerations=(
            Toleration(exists=True),
            Toleration("a", exists=True, effect=TaintEffect.NO_EXECUTE),
            Toleration("b", "c", effect=TaintEffect.NO_SCHEDULE),
            Toleration("d"),
        ),
    )
    assert run_seconds(found) == 90.5


def test_absent_fields_of_a_pod_have_the_defaults_of_the_api() -> None:
    fields = ("nodeName", "nodeSelector", "affinity", "tolerations", "priorityClassName")
    nothing = ", ".join(f"{field}: null" for field in fields)
    assert read(pod()) == read(pod(nothing)) == Pod(name="x")


def cpu_of(cpu: str) -> str:
    return document("Pod", "v1", f"spec: {{containers: [resources: {{requests: {{cpu: {cpu}}}}}]}}")


@pytest.mark.parametrize(
    ("cpu", "thousandths"),
    [
        ("1", 1000),
        ("0.5", 500),
        ("'0.5'", 500),
        ("1e3", 10**6),
        ("1.0e+3", 10**6),
        ("100m", 100),
        ("010", 8000),
        ("1_000", 10**6),
        ("0.1", 100),
        ("9007199254740.993", 9007199254740993),
    ],
)
def test_quantity_is_exact_in_any_yaml_form(cpu: str, thousandths: int) -> None:
    assert read(cpu_of(cpu)).requests == Resources.from_milli({"cpu": thousandths})


@pytest.mark.parametrize("cpu", ["1:30", "1K", "1e99", ".inf", ".nan", "on", "2024-01-01"])
def test_malformed_quantity_is_refused_in_any_yaml_form(cpu: str) -> None:
    error = refused(cpu_of(cpu))
    assert error.field == "spec.containers[0].resources.requests.cpu"
    assert isinstance(error.__cause__, InvalidValueError)


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity(*terms: str) -> str:
    terms_of = f"{{nodeSelectorTerms: [{', '.join(f'{{{term}}}' for term in terms)}]}}"
    return f"affinity: {{nodeAffinity: {{{REQUIRED}: {terms_of}, {PREFERRED}: [weight: 1]}}}}"


def test_node_affinity_is_read() -> None:
    zone = "{key: zone, operator: In, values: [a, b]}"
    cores = "{key: cores, operator: Gt, values: ['8']}"
    terms = (
        f"matchExpressions: [{zone}, {{key: gpu, operator: Exists}}]",
        f"matchExpressions: [{cores}]",
    )
    text = pod(affinity(*terms, ""))
    assert read(text).affinity == (
        NodeSelectorTerm(
            (
                NodeSelectorRequirement("zone", "In", ("a", "b")),
                NodeSelectorRequirement("gpu", "Exists"),
            )
        ),
        NodeSelectorTerm((NodeSelectorRequirement("cores", "Gt", ("8",)),)),
        NodeSelectorTerm(()),
    )
    assert load(text).skipped == ()


def test_restriction_that_is_not_modelled_holds_the_pod() -> None:
    text = pod("newField: 1")
    assert read(text).unmodelled == ("spec.newField",)
    sentence = "spec.newField is not modelled, so the pod is held"
    assert load(text).skipped == (f"{HEAD}Pod default/x: {sentence}",)


def test_preference_between_nodes_holds_no_pod() -> None:
    term = "{topologyKey: zone, labelSelector: {matchLabels: {app: x}}}"
    soft = f"{{{PREFERRED}: [{{weight: 1, podAffinityTerm: {term}}}]}}"
    spread = "{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}"
    text = pod(
        f"affinity: {{podAffinity: {soft}, podAntiAffinity: {soft}}},"
        f" topologySpreadConstraints: [{spread}]"
    )
    found = read(text)
    assert found.unmodelled == load(text).skipped == ()
    assert len(found.preferred_pod_affinity) == 1


def test_template_gives_one_note_for_all_its_pods() -> None:
    template = "{spec: {containers: [{}], resourceClaims: [name: c]}}"
    spec = f"spec: {{tfReplicaSpecs: {{PS: {{replicas: 3, template: {template}}}}}}}"
    workload = load(document("TFJob", "kubeflow.org/v1", spec))
    assert len(workload.arrivals) == 3
    assert workload.skipped == (
        f"{HEAD}TFJob default/x: spec.tfReplicaSpecs.PS.template.spec.resourceClaims "
        "is not modelled, so the pod is held",
    )


def test_malformed_group_label_is_left_to_the_scheduler() -> None:
    prefix = "pod-group.scheduling.sigs.k8s.io"
    labels = f"{{{prefix}/name: g, {prefix}/min-available: many}}"
    with pytest.raises(InvalidPodGroupError):
        membership(read(pod(metadata=f"name: x, labels: {labels}")))


# Priority classes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "name", "after", "expected"),
    [
        ([priority("high", 100)], "high", [], 100),
        ([], "high", [priority("high", 100)], 100),
        ([], "system-cluster-critical", [], 2_000_000_000),
        ([], "system-node-critical", [], 2_000_001_000),
        (
            [
                priority("a", 9, "globalDefault: true"),
                priority("b", 5, "globalDefault: true"),
                priority("c", 1, "globalDefault: false"),
            ],
            "null",
            [],
            5,
        ),
    ],
    ids=["class first", "pod first", "cluster", "node", "smallest global default"],
)
def test_pod_has_the_priority_of_its_class(
    before: list[str], name: str, after: list[str], expected: int
) -> None:
    workload = load(together(*before, pod(f"priorityClassName: {name}"), *after))
    (found,) = (a.event.pod for a in workload.arrivals if isinstance(a.event, PodAdded))
    assert found.priority == expected
    assert workload.skipped == ()


def test_priority_classes_of_one_file_are_known_in_another() -> None:
    one = ParsedManifests(priority("a", -5), file="one.yaml")
    two = ParsedManifests(together(priority("b", 7), pod()), file="two.yaml")
    known = two.priority_classes(one.priority_classes())
    for name, value in (("a", -5), ("b", 7)):
        assert read(pod(f"priorityClassName: {name}"), classes=known).priority == value
    assert read(pod(), classes=PriorityClasses(default=3)).priority == 3


# Nodes ------------------------------------------------------------------------------------


def test_node_is_read_with_all_that_the_scheduler_looks_at() -> None:
    taints = "[{key: k, effect: NoExecute}, {key: l, value: v, effect: NoSchedule}]"
    allocatable = "{cpu: 7900m, memory: 30Gi, pods: 110}"
    fields = (
        f"spec: {{unschedulable: true, taints: {taints}}},"
        f" status: {{allocatable: {allocatable}, capacity: {{cpu: 8}}}}"
    )
    assert read(document("Node", "v1", fields, "name: x, labels: {zone: a}")) == Node(
        name=NodeName("x"),
        allocatable=Resources({"cpu": "7900m", "memory": "30Gi", "pods": 110}),
        labels={"zone": "a"},
        taints=(Taint("k", "", TaintEffect.NO_EXECUTE), Taint("l", "v", TaintEffect.NO_SCHEDULE)),
        unschedulable=True,
    )


def test_node_without_allocatable_has_its_capacity() -> None:
    assert read(node("status: {capacity: {cpu: 8}}")).allocatable == Resources({"cpu": 8})
    assert read(node("status: {allocatable: {}, capacity: {cpu: 8}}")).allocatable == Resources()
    assert load(node()).skipped == (
        f"{HEAD}Node x: it has no resources: status.allocatable and status.capacity are absent",
    )


# Pod groups -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [SCHEDULER_PLUGINS, "scheduling.sigs.k8s.io/v1alpha1", VOLCANO])
def test_min_member_is_the_quorum(version: str) -> None:
    more = "scheduleTimeoutSeconds: 20, minResources: {cpu: 3}, queue: default"
    assert read(group(version, f"minMember: 3, {more}"), at=3.0) == PodGroup(
        name="x",
        min_available=3,
        schedule_timeout=20,
        min_resources=Resources({"cpu": 3}),
        created_at=3.0,
    )
    for more in ("", "scheduleTimeoutSeconds: 0"):
        assert read(group(version, f"minMember: 1, {more}")).schedule_timeout is None
    critical = group(version, "minMember: 1, priorityClassName: system-node-critical")
    assert read(critical).priority == 2_000_001_000


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2", "v1beta1"])
def test_min_count_is_the_quorum(version: str) -> None:
    text = group(f"scheduling.k8s.io/{version}", "schedulingPolicy: {gang: {minCount: 4}}")
    assert read(text) == PodGroup(name="x", min_available=4)


def test_group_with_the_basic_policy_has_a_quorum_of_one_and_a_note() -> None:
    text = group(NATIVE, "schedulingPolicy: {basic: {}}")
    assert read(text) == PodGroup(name="x", min_available=1)
    says = "spec.schedulingPolicy.basic is not a gang: its pods start one by one"
    assert load(text).skipped == (f"{HEAD}PodGroup default/x: {says}",)


@pytest.mark.parametrize(
    ("keys", "topology", "unmodelled"),
    [
        ("key: rack", Topology("rack", required=True), ()),
        ("{key: rack}, {key: zone}", None, ("spec.schedulingConstraints.topology",)),
    ],
)
def test_topology_key_of_a_group_is_read_and_two_hold_its_pods(
    keys: str, topology: Topology | None, unmodelled: tuple[str, ...]
) -> None:
    policy = "schedulingPolicy: {gang: {minCount: 1}}"
    found = read(group(NATIVE, f"{policy}, schedulingConstraints: {{topology: [{keys}]}}"))
    assert (found.topology, found.unmodelled) == (topology, unmodelled)


BUNDLE = "gang.scheduling.koordinator.sh/groups"
BUNDLED = f"metadata.annotations[{BUNDLE}]"


def bundled(version: str, spec: str, text: str) -> str:
    return group(version, spec, f"name: x, annotations: {{{BUNDLE}: '{text}'}}")


@pytest.mark.parametrize(
    ("version", "spec"),
    [
        (SCHEDULER_PLUGINS, "minMember: 2"),
        (VOLCANO, "minMember: 2, minTaskMember: {ps: 1}"),
        (NATIVE, "schedulingPolicy: {gang: {minCount: 2}}"),
    ],
)
def test_koordinators_groups_are_the_bundle(version: str, spec: str) -> None:
    found = read(bundled(version, spec, '["two/b", "default/x"]'))
    assert found.bundle == ("default/x", "two/b")
    for none in ("[]", ""):
        assert read(bundled(version, spec, none)).bundle == ()


@pytest.mark.parametrize("task", ["''", "a/b"])
def test_name_of_a_task_that_cannot_name_a_role_is_refused(task: str) -> None:
    with pytest.raises(ManifestError, match="non-empty names of tasks without a slash"):
        read(group(VOLCANO, f"minMember: 2, minTaskMember: {{{task}: 1}}"))


# Files ------------------------------------------------------------------------------------


def test_objects_arrive_at_one_instant_in_the_order_of_the_documents() -> None:
    template = "parallelism: 2, template: {spec: {containers: [{}]}}"
    job = document("Job", "batch/v1", f"spec: {{{template}}}", "name: j")
    items = f"[{node('status: {capacity: {}}')}, {job}]"
    texts = (
        pod(metadata="name: p"),
        "# nothing\n",
        f"{{apiVersion: v1, kind: List, items: {items}}}\n",
        group(SCHEDULER_PLUGINS, "minMember: 2", "name: g"),
    )
    workload = load(together(*texts), at=2.5)
    assert {arrival.at for arrival in workload.arrivals} == {2.5}
    assert names_of(workload) == ["p", "x", "j-0", "j-1", "g"]


def test_list_of_any_kind_is_read_and_its_items_have_its_kind() -> None:
    """The items of a list that the API server returns have no kind of their own."""
    bare = "{metadata: {name: %s}, spec: {containers: [{}]}, status: {phase: Pending}}"
    nodes = "{metadata: {name: m}, status: {allocatable: {cpu: 1}}}"
    groups = "{metadata: {name: g}, spec: {minMember: 2}}"
    inner = f"{{apiVersion: v1, kind: List, items: [{pod(metadata='name: c').strip()}]}}"
    text = together(
        f"{{apiVersion: v1, kind: PodList, items: [{bare % 'a'}, {bare % 'b'}]}}\n",
        f"{{apiVersion: v1, kind: NodeList, items: [{nodes}]}}\n",
        f"{{apiVersion: v1, kind: List, items: [{inner}]}}\n",
        "{apiVersion: v1, kind: PodList, items: []}\n",
        "{apiVersion: v1, kind: PodList, items: null}\n",
        "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: PodList, items: null}]}\n",
    )
    assert names_of(load(text)) == ["a", "b", "m", "c"]
    assert load(text).skipped == ()
    of_groups = f"{{apiVersion: {SCHEDULER_PLUGINS}, kind: PodGroupList, items: [{groups}]}}"
    assert read(of_groups).min_available == 2


@pytest.mark.parametrize("key", ["kueue.x-k8s.io/queue-name", "volcano.sh/queue-name"])
@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_queue_that_a_pod_or_a_group_names_is_noted(key: str, where: str) -> None:
    metadata = f"name: x, {where}: {{{key}: q}}"
    policy = "spec: {schedulingPolicy: {gang: {minCount: 2}}}"
    for subject, text in {
        "pod": pod(metadata=metadata),
        "group": document("PodGroup", SCHEDULER_PLUGINS, "spec: {minMember: 2}", metadata)
        + "---\n"
        + document("PodGroup", NATIVE, policy, metadata.replace("x,", "z,")),
    }.items():
        for note in (notes := load(text).skipped):
            assert (
                f"metadata.{where}[{key}] is not simulated: no queue admits the {subject}" in note
            )
        assert len(notes) == (1 if subject == "pod" else 2)
    assert load(pod("nodeName: m", metadata)).skipped == ()


def test_list_of_an_unknown_kind_is_skipped_item_by_item() -> None:
    text = "{apiVersion: v1, kind: SecretList, items: [{metadata: {name: s}}]}\n"
    assert load(text).skipped == (f"{HEAD}Secret s (v1) is of an unknown kind and was skipped",)
    allow = "{apiVersion: example.com/v1, kind: AllowList, spec: {items: 3}}\n"
    assert "AllowList (example.com/v1) is of an unknown kind" in load(allow).skipped[0]


def test_generated_name_is_the_same_each_time_and_differs_from_any_other() -> None:
    equal = pod(metadata="generateName: train-")
    other = pod("priority: 3", metadata="generateName: train-")
    (one, two, three) = names = names_of(load(together(equal, equal, other)))
    assert names == names_of(load(together(equal, equal, other)))
    assert len({*names}) == 3
    assert all(re.fullmatch(r"train-[bcdfghjklmnpqrstvwxz2456789]{5}", each) for each in names)
    assert names_of(load(together(other, equal))) == [three, one]
    assert names_of(load(equal, at=60.0)) not in ([one], [two])
    job = document(
        "Job",
        "batch/v1",
        "spec: {parallelism: 2, template: {spec: {containers: [{}]}}}",
        "generateName: j-",
    )
    members = names_of(load(job))
    assert [each[-2:] for each in members] == ["-0", "-1"]
    assert len({each[:-2] for each in members}) == 1


def test_name_goes_before_generate_name() -> None:
    assert read(pod(metadata="name: x, generateName: train-")).name == "x"
    long = read(pod(metadata=f"generateName: {'a' * 100}")).name
    assert len(long) == 63


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("apps/v1", "Deployment"),
        ("kubeflow.org/v1alpha1", "MPIJob"),
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("v2", "Pod"),
        ("example.com/v1", "PodGroup"),
    ],
)
def test_unknown_kind_is_skipped_with_a_note(version: str, kind: str) -> None:
    workload = load(together(document(kind, version, f"spec: 5, items: [{pod()}]"), pod()))
    assert len(workload.arrivals) == 1
    says = f"{kind} x ({version}) is of an unknown kind and was skipped"
    assert workload.skipped == (f"{HEAD}{says}",)


def test_file_without_documents_is_an_empty_workload() -> None:
    assert load("") == load("# nothing\n---\n---\n") == Workload()


@pytest.mark.parametrize("name", ["cluster.yaml", "tf-smoke-gpu.yaml", "scale-up.yaml"])
def test_examples_load_without_a_note(name: str) -> None:
    text = (resources.files("gangsched.simulation") / "examples" / name).read_text("utf-8")
    assert text.startswith("# ")
    workload = load(text)
    assert workload.skipped == ()
    if name == "tf-smoke-gpu.yaml":
        pods = [each.event.pod for each in workload.arrivals if isinstance(each.event, PodAdded)]
        names = ["ps-0", *(f"worker-{index}" for index in range(4))]
        assert [found.name for found in pods] == [f"tf-smoke-gpu-{each}" for each in names]
        claims = [membership(found) for found in pods]
        assert {c and (c.group, c.min_available) for c in claims} == {("default/tf-smoke-gpu", 5)}


# Refusals ---------------------------------------------------------------------------------

TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
EXPRESSION = f"{TERMS}[0].matchExpressions[0]"
MAKERS: dict[str, Callable[[str], str]] = {
    "pod": pod,
    "named": lambda metadata: pod(metadata=metadata),
    "status": lambda status: pod(more=f"status: {{{status}}}"),
    "document": lambda fields: document("Pod", "v1", fields),
    "expression": lambda text: pod(affinity(f"matchExpressions: [{{{text}}}]")),
    "term": lambda text: pod(affinity(text)),
    "node": node,
    "class": lambda more: document("PriorityClass", "scheduling.k8s.io/v1", more),
    "group": lambda spec: group(SCHEDULER_PLUGINS, spec),
    "bundle": lambda text: bundled(SCHEDULER_PLUGINS, "minMember: 2", text),
    "native": lambda spec: group(NATIVE, spec),
    "list": lambda items: f"{{apiVersion: v1, kind: List, items: [{items}]}}",
    "": str,
}
# what a document is made of | the field that is refused | what is said of it
MALFORMED = f"""
{{kind: Pod}} | apiVersion | got nothing
{{apiVersion: v1}} | kind | got nothing
{{apiVersion: 1, kind: Pod}} | apiVersion | a string, in quotes, got 1
{{apiVersion: v1, kind: Pod, metadata: null}} | metadata.name | got nothing
{{apiVersion: v1, kind: Pod, metadata: []}} | metadata | expected a mapping, got a list
named name: A_b | metadata.name | got 'A_b'
named name: a/b | metadata.name | got 'a/b'
named name: {"x" * 254} | metadata.name | at most 253
named name: x, namespace: a b | metadata.namespace | got 'a b'
named name: x, labels: {{a.b/c: 1}} | metadata.labels[a.b/c] | in quotes, got 1
named name: x, annotations: {{{RUN_SECONDS}: 1h}} | metadata.annotations[{RUN_SECONDS}]
  | expected a number of seconds > 0 in digits, such as 90 or 0.5, got '1h'
named name: x, ownerReferences: {{name: o}} | metadata.ownerReferences | a list, got a mapping
named name: x, ownerReferences: [name: 1] | metadata.ownerReferences[0].name | in quotes, got 1
named name: x, ownerReferences: [{{}}] | metadata.ownerReferences[0].name | got nothing
document spec: null | spec.containers | expected at least one container, got nothing
document spec: x | spec | expected a mapping, got 'x'
document spec: {{containers: {{}}}} | spec.containers | expected a list, got a mapping
document spec: {{containers: [x]}} | spec.containers[0] | expected a mapping
pod priority: '1' | spec.priority | expected an int
pod priority: 2147483648 | spec.priority | got 2147483648
pod nodeSelector: {{a: true}} | spec.nodeSelector.a | got True
pod schedulingGates: [{{}}] | spec.schedulingGates[0].name | got nothing
status phase: Lost | status.phase | got 'Lost'
pod tolerations: [operator: Like] | spec.tolerations[0].operator
  | expected one of Exists, Equal, Gt, Lt, got 'Like'
pod tolerations: [value: v] | spec.tolerations[0].key | got ''
pod tolerations: [{{operator: Exists, value: v}}] | spec.tolerations[0].value
  | expected no value, as the operator is Exists, got 'v'
pod tolerations: [{{key: k, effect: Never}}] | spec.tolerations[0].effect | got 'Never'
pod {affinity()} | {TERMS} | expected at least one term
term matchFields: [{{key: metadata.uid, operator: In, values: [n0]}}] | {TERMS}[0].matchFields
  | the field metadata.name
expression key: k | {EXPRESSION}.operator | got nothing
expression key: k, operator: Is | {EXPRESSION}.operator | got 'Is'
expression key: k, operator: In | {EXPRESSION}.values | non-empty if the operator is In
expression key: k, operator: Exists, values: [v] | {EXPRESSION}.values
  | empty if the operator is Exists
expression key: k, operator: Gt, values: ['1', '2'] | {EXPRESSION}.values
  | one integer if the operator is Gt
expression key: k, operator: Lt, values: [] | {EXPRESSION}.values
  | one integer if the operator is Lt
expression key: k, operator: In, values: [1] | {EXPRESSION}.values[0] | in quotes, got 1
expression key: '', operator: Exists | {EXPRESSION}.key | got ''
node spec: {{unschedulable: 'no'}} | spec.unschedulable | got 'no'
node spec: {{taints: [{{key: k, effect: ''}}]}} | spec.taints[0].effect | got ''
node spec: {{taints: [key: k]}} | spec.taints[0].effect | got nothing
node spec: {{taints: [effect: NoSchedule]}} | spec.taints[0].key | got nothing
node status: {{allocatable: {{pods: '0.5'}}}} | status.allocatable.pods | a whole quantity
class value: null | value | got nothing
class value: 1, globalDefault: 1 | globalDefault | a bool, got 1
group minMember: 0 | spec.minMember | got 0
group minMember: 1.5 | spec.minMember | got 1.5
group minMember: 2147483648 | spec.minMember | got 2147483648
group minMember: 1, scheduleTimeoutSeconds: -1 | spec.scheduleTimeoutSeconds | got -1
group minMember: 1, minResources: {{cpu: '-1'}} | spec.minResources.cpu | a quantity >= 0
group minMember: 1, priorityClassName: mine | spec.priorityClassName | got 'mine'
native schedulingPolicy: null | spec.schedulingPolicy | expected exactly one of gang and basic
native schedulingPolicy: {{gang: {{minCount: 1}}, basic: {{}}}} | spec.schedulingPolicy
  | exactly one of gang and basic
native schedulingPolicy: {{gang: {{}}}} | spec.schedulingPolicy.gang.minCount | got nothing
list {pod().strip()}, {document("Pod", "v1").strip()} | items[1].spec.containers | got nothing
list null | items[0] | got nothing
pod priorityClassName: mine | spec.priorityClassName | 'mine'
bundle two/b | {BUNDLED} | a JSON list such as
bundle ["b"] | {BUNDLED} | a JSON list such as
bundle ["a/b/c"] | {BUNDLED} | a JSON list such as
bundle [3] | {BUNDLED} | a JSON list such as
bundle {"[" * 9999} | {BUNDLED} | a JSON list such as
list {{apiVersion: v1, kind: List, items: [null]}} | items[0].items[0] | got nothing
list {{metadata: {{name: x}}}} | items[0].apiVersion | got nothing
{{apiVersion: v1, kind: PodList, items: [5]}} | items[0] | expected a mapping, got 5
{{apiVersion: v1, kind: Pod, metadata: {{generateName: 5}}}} | metadata.generateName | got 5
named generateName: A_ | metadata.name | got 'A_
""".replace("\n  |", " |")
ROWS = [line.split(" | ") for line in MALFORMED.strip().splitlines()]


@pytest.mark.parametrize(("made_of", "path", "problem"), ROWS, ids=range(len(ROWS)))
def test_malformed_field_is_refused_by_its_path(made_of: str, path: str, problem: str) -> None:
    maker, _, text = ("", "", made_of) if made_of[0] == "{" else made_of.partition(" ")
    error = refused(together("{apiVersion: v1, kind: Secret}\n", MAKERS[maker](text)))
    assert (error.file, error.document, error.field) == ("f.yaml", 2, path)
    assert problem in error.problem
    assert len(str(error)) < 400


@pytest.mark.parametrize("text", ["5", "text", "[1]", "'on'"])
def test_document_that_is_not_a_mapping_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="document 1: expected a mapping, got "):
        load(text)


@pytest.mark.parametrize(
    ("one", "other", "named"),
    [
        (pod(), pod(), "Pod default/x"),
        (node(), node(), "Node x"),
        (pod(metadata="name: x, uid: u"), pod(metadata="name: z, uid: u"), "the pod with UID u"),
        (
            group(SCHEDULER_PLUGINS, "minMember: 1"),
            group(VOLCANO, "minMember: 1"),
            "PodGroup default/x",
        ),
        (
            pod(metadata="name: x-0"),
            document("Job", "batch/v1", "spec: {template: {spec: {containers: [{}]}}}"),
            "Pod default/x-0",
        ),
    ],
    ids=["Pod", "Node", "UID", "PodGroup", "pod of a Job"],
)
def test_object_given_twice_is_refused_with_both_documents(
    one: str, other: str, named: str
) -> None:
    error = refused(together(one, other))
    assert (error.document, error.field) == (2, "metadata.name")
    assert f"{named} is given twice, first by document 1" == error.problem


def test_same_name_in_two_namespaces_is_two_objects() -> None:
    assert len(load(together(pod(), pod(metadata="name: x, namespace: other"))).arrivals) == 2


def test_file_has_at_most_a_million_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    def jobs(count: int) -> str:
        replicas = "{replicas: 5, template: {spec: {containers: [{}]}}}"
        spec = f"spec: {{tfReplicaSpecs: {{Worker: {replicas}}}}}"
        texts = (document("TFJob", "kubeflow.org/v1", spec, f"name: j{n}") for n in range(count))
        return together(*texts)

    monkeypatch.setattr("gangsched.simulation.manifests.MOST_OBJECTS", 10)
    assert len(load(jobs(2)).arrivals) == 10
    error = refused(jobs(3))
    assert error.document == 3
    assert "more than 10 objects" in error.problem


@pytest.mark.parametrize("at", [math.nan, math.inf])
def test_instant_of_arrival_must_be_finite(at: float) -> None:
    with pytest.raises(InvalidValueError):
        load(pod(), at=at)


# Mutilation -------------------------------------------------------------------------------

WHOLE_POD = pod(
    f"""priorityClassName: high, overhead: {{cpu: 250m}}, resources: {{limits: {{memory: 1Gi}}}},
    initContainers: [{{restartPolicy: Always, resources: {{limits: {{cpu: 1}}}}}}],
    tolerations: [{{key: k, operator: Exists, effect: NoSchedule}}],
    {affinity("matchExpressions: [{key: k, operator: In, values: [v]}]")[:-1]}, podAntiAffinity:
    {{{REQUIRED}: [{{topologyKey: zone, labelSelector: {{matchLabels: {{app: x}}}}}}]}}}},
    topologySpreadConstraints: [{{whenUnsatisfiable: DoNotSchedule, maxSkew: 1,
    topologyKey: zone}}],
    schedulingGates: [name: g], schedulingGroup: {{podGroupName: a}},
    volumes: [persistentVolumeClaim: {{claimName: c}}]""",
    f"name: x, namespace: ns, uid: u, labels: {{l: v}}, annotations: {{{RUN_SECONDS}: '60'}},"
    " deletionTimestamp: '2024-01-01T00:00:00Z'",
    "status: {phase: Pending}",
).strip()
TEMPLATE = "template: {spec: {containers: [{ports: [hostPort: 1]}]}}"
WORKERS = f"Worker: {{replicas: 2, {TEMPLATE}}}"
WHOLE_FILE = together(
    priority("high", 10),
    node(
        "spec: {taints: [{key: k, value: v, effect: NoSchedule}], unschedulable: false},"
        " status: {allocatable: {cpu: '8', nvidia.com/gpu: 2}, capacity: {cpu: 8}}"
    ),
    group(SCHEDULER_PLUGINS, "minMember: 2, minResources: {cpu: 1}", "name: a"),
    group(NATIVE, "schedulingPolicy: {gang: {minCount: 2}}", "name: b"),
    f"{{apiVersion: v1, kind: List, items: [{WHOLE_POD}]}}\n",
    document(
        "Job",
        "batch/v1",
        "spec: {parallelism: 2, completions: 3, completionMode: Indexed, suspend: false,"
        f" {TEMPLATE}}}",
    ),
    document(
        "TFJob",
        "kubeflow.org/v1",
        "spec: {runPolicy: {suspend: false, schedulingPolicy: {minAvailable: 2}},"
        f" tfReplicaSpecs: {{{WORKERS}}}}}",
        "name: t",
    ),
    document(
        "MPIJob",
        "kubeflow.org/v2beta1",
        f"spec: {{mpiReplicaSpecs: {{Launcher: {{{TEMPLATE}}}, {WORKERS}}}}}",
        "name: m",
    ),
)
DOCUMENTS = list(yaml.safe_load_all(WHOLE_FILE))
CLASSES = ParsedManifests(WHOLE_FILE, file="f.yaml").priority_classes()

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([0, 1, -1, 2**31, 2**63, 10**30, 0.5, 1e300, math.inf, math.nan]),
    st.sampled_from(
        ["", "x", "1", "-1", "1K", "NaN", "Exists", "In", "a/b", "9" * 5000, "\u00e9\n"]
    ),
    st.sampled_from([[], {}, [None], {"name": 5}]),
    st.lists(st.integers() | st.text(max_size=3), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2),
)


def places(value: Any) -> list[tuple[Any, Any]]:
    found = []
    for key in value.keys() if isinstance(value, dict) else range(len(value)):
        found.append((value, key))
        if isinstance(value[key], dict | list):
            found += places(value[key])
    return found


def test_file_that_is_mutilated_below_is_well_formed() -> None:
    assert len(load(WHOLE_FILE).arrivals) == 12


@given(st.data())
def test_no_mutilation_raises_anything_but_our_own_error(data: st.DataObject) -> None:
    mutilated = [copy.deepcopy(data.draw(st.sampled_from(DOCUMENTS)))]
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(mutilated)))
        if data.draw(st.booleans()):
            container[key] = copy.deepcopy(data.draw(JUNK))
        elif container is not mutilated:
            del container[key]
    text = yaml.safe_dump_all(mutilated, allow_unicode=True)
    try:
        workload = load(text, classes=CLASSES)
    except ManifestError as caught:
        error = caught
    else:
        assert workload == load(text, classes=CLASSES)
        return
    assert (error.file, error.document) == ("f.yaml", 1)
    assert str(error)


@given(st.text() | st.text("ab:-[]{}&*!<>|'\"#%.?\n ,~01", max_size=60))
def test_no_text_raises_anything_but_our_own_error(text: str) -> None:
    try:
        load(text)
    except ManifestError:
        return
