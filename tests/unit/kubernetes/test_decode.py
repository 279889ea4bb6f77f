"""Objects from the API server's JSON: the fast readers agree with the slow ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from gangsched.errors import GangschedError, ManifestError
from gangsched.events import NodeAdded, PodAdded
from gangsched.kubernetes import read_event
from gangsched.model import Node, Pod, PodPhase
from support.api_objects import Document, drawn_nodes, drawn_pods, node, pod, pod_group, raw

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

from gangsched.kubernetes._decode import (
    Condition,
    Dialect,
    GroupDecoder,
    NodeDecoder,
    PodDecoder,
    decode_priority_class,
)
from gangsched.kubernetes._events import UnexpectedAnswer

CORE = Dialect("scheduling.k8s.io", "v1beta1", "/apis/scheduling.k8s.io/v1beta1/podgroups")
VOLCANO = Dialect("scheduling.volcano.sh", "v1beta1", "/apis/scheduling.volcano.sh/v1beta1/x")

_BINDING: dict[str, Any] = {
    "name": "c",
    "volumeMounts": [{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}],
}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def slowly_read_pod(document: Document) -> Pod | str:
    try:
        event = read_event({"type": "ADDED", "object": json.loads(raw(document))})
    except ManifestError as error:
        return str(error)
    assert isinstance(event, PodAdded)
    return event.pod


def slowly_read_node(document: Document) -> Node | str:
    try:
        event = read_event({"type": "ADDED", "object": json.loads(raw(document))})
    except ManifestError as error:
        return str(error)
    assert isinstance(event, NodeAdded)
    return event.node


@given(documents=drawn_pods())
def test_pods_are_read_as_the_slow_reader_reads_them(documents: list[Document]) -> None:
    decode = PodDecoder()
    for document in [*documents, *documents]:
        try:
            found: Pod | str = decode(raw(document)).pod
        except ManifestError as error:
            found = str(error)
        assert found == slowly_read_pod(document)


@given(documents=drawn_pods())
def test_facts_do_not_depend_on_what_was_read_before(documents: list[Document]) -> None:
    decode = PodDecoder()
    for document in [*documents, *documents]:
        try:
            found: object = decode(raw(document))
        except ManifestError as error:
            found = str(error)
        try:
            alone: object = PodDecoder()(raw(document))
        except ManifestError as error:
            alone = str(error)
        assert found == alone


@given(documents=drawn_nodes())
def test_nodes_are_read_as_the_slow_reader_reads_them(documents: list[Document]) -> None:
    decode = NodeDecoder()
    for document in [*documents, *documents]:
        try:
            facts = decode(raw(document))
            found: Node | str = facts.node
            assert facts.identity.resource_version == document["metadata"]["resourceVersion"]
        except ManifestError as error:
            found = str(error)
        assert found == slowly_read_node(document)


def test_pods_of_one_job_are_read_once_and_share_what_is_alike() -> None:
    decode = PodDecoder()
    first, second = decode(raw(pod("w-0"))), decode(raw(pod("w-1")))
    assert (decode.slow, decode.fast) == (1, 1)
    assert second.pod == slowly_read_pod(pod("w-1"))
    assert second.pod.requests is first.pod.requests
    assert second.pod.uid != first.pod.uid


def test_bound_pod_differs_in_its_node_and_status_only() -> None:
    decode = PodDecoder()
    pending = decode(raw(pod()))
    document = pod(version="9", nodeName="n1")
    document["status"] = {
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "True"},
        ],
    }
    for _ in range(2):
        bound = decode(raw(document))
        assert bound.pod.node_name == "n1"
        assert bound.pod.phase is PodPhase.RUNNING
        assert bound.pod.requests == pending.pod.requests
        assert bound.conditions == (Condition("PodScheduled", "True"),)
        assert bound.identity.resource_version == "9"


@pytest.mark.parametrize(
    "change",
    [
        {"fieldOfTomorrow": {"mustBeOn": "the moon"}},
        {"containers": [{"name": "c", "fieldOfTomorrow": 1}]},
        {"volumes": [{"name": "v", "volumeOfTomorrow": {}}]},
        {"schedulingGroup": {"podGroupName": "g", "fieldOfTomorrow": 1}},
    ],
)
def test_pod_with_an_unknown_field_is_always_read_slowly(change: dict[str, Any]) -> None:
    decode = PodDecoder()
    for _ in range(2):
        decode(raw(pod(**change)))
    assert (decode.slow, decode.fast) == (2, 0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodeSelector", {"zone": "b"}),
        ("tolerations", [{"key": "gpu", "operator": "Exists"}]),
        ("schedulingGates", [{"name": "quota"}]),
        ("priority", 7),
        ("overhead", {"cpu": "1"}),
        ("topologySpreadConstraints", [SPREAD]),
        ("resourceClaims", [{"name": "gpu"}]),
        ("containers", [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]),
        ("initContainers", [{"name": "c", "resources": {"requests": {"cpu": "9"}}}]),
        ("volumes", [{"name": "v", "persistentVolumeClaim": {"claimName": "x"}}]),
        ("containers", [_BINDING]),
        ("initContainers", [_BINDING]),
    ],
)
def test_pod_with_another_specification_is_not_a_copy(field: str, value: object) -> None:
    decode = PodDecoder()
    decode(raw(pod()))
    change: dict[str, Any] = {field: value}
    other = pod("w-1", **change)
    assert decode(raw(other)).pod == slowly_read_pod(other)
    assert decode.slow == 2


def test_gangs_that_differ_in_their_name_only_are_read_once() -> None:
    decode = PodDecoder()
    for group in ({"podGroupName": "a"}, {"podGroupName": "b"}, {}, None):
        document = pod(schedulingGroup=group)
        assert decode(raw(document)).pod == slowly_read_pod(document)
    assert (decode.slow, decode.fast) == (1, 3)


def _on(node: str, *values: str, **more: Any) -> Document:
    term = {"matchExpressions": [{"key": "host", "operator": "In", "values": [*values]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return pod(f"ds-{node}", nodeName=node, affinity={"nodeAffinity": required, **more})


def test_pods_of_a_daemon_set_are_read_once() -> None:
    decode = PodDecoder()
    for name in ("n1", "n2", "n3", "n1"):
        document = _on(name, name)
        assert decode(raw(document)).pod == slowly_read_pod(document)
    assert (decode.slow, decode.fast) == (1, 3)


def test_affinity_to_another_node_than_its_own_is_not_that_of_a_daemon_set() -> None:
    decode = PodDecoder()
    for name, values in (("n1", ["n1"]), ("n2", ["n1"]), ("n3", ["n1", "n3"]), ("n4", ["n4"])):
        document = _on(name, *values)
        assert decode(raw(document)).pod == slowly_read_pod(document)
    assert (decode.slow, decode.fast) == (3, 1)


def test_node_that_is_written_with_an_escape_makes_no_template_for_others() -> None:
    decode = PodDecoder()
    for name in ("n1", "n2", "n1"):
        data = raw(_on(name, "n1")).replace(b'"values":["n1"]', b'"values":["n\\u0031"]')
        assert b"u0031" in data
        assert decode(data).pod == slowly_read_pod(_on(name, "n1"))


def test_node_that_is_named_where_it_is_not_read_makes_no_template() -> None:
    decode = PodDecoder()
    for name in ("n1", "n2"):
        document = _on(name, name, podAffinity={"fieldOfTomorrow": name})
        assert decode(raw(document)).pod == slowly_read_pod(document)
    assert (decode.slow, decode.fast) == (2, 0)


def _init(restart: str) -> list[Document]:
    return [{"name": "i", "restartPolicy": restart, "resources": {"requests": {"cpu": "5"}}}]


def _meta(**changes: object) -> Document:
    document = pod("w-1")
    document["metadata"].update(changes)
    return document


def _status(**changes: object) -> Document:
    document = pod("w-1")
    document["status"] = changes
    return document


LENIENT: dict[str, Any] = {"tolerations": [{"operator": "Exists", "value": "x"}]}
PORT = [{"name": "c", "ports": [{"hostPort": 80}]}]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pod(nodeName="n1", **LENIENT), pod(**LENIENT)),
        (pod(), pod("w-1", nodeName="n1")),
        (pod(initContainers=_init("Always")), pod(initContainers=_init(""))),
        (pod(containers=[{"name": "c"}]), pod(containers=PORT)),
        (pod(), _meta(uid="")),
        (pod(), _meta(uid=None)),
        (pod(), _meta(name="W")),
        (pod(), _meta(namespace="")),
        (pod(), _meta(namespace="other")),
        (pod(), _meta(labels=None)),
        (pod(), _meta(labels={"a": None})),
        (pod(), _meta(annotations={"scheduling.k8s.io/group-name": "g"})),
        (pod(), _meta(ownerReferences=[{"name": "job", "uid": "u", "kind": "Job"}])),
        (pod(), _meta(ownerReferences=[{"name": ""}])),
        (pod(), _meta(ownerReferences=[{}])),
        (pod(), _meta(ownerReferences=None)),
        (pod(), _meta(deletionTimestamp="2026-02-01T00:00:00Z")),
        (pod(), _meta(deletionTimestamp="2026-02-01T00:00:00")),
        (pod(), _meta(creationTimestamp=None)),
        (pod(), _status(phase="Running")),
        (pod(), _status(phase="Lost")),
        (pod(), _status()),
    ],
)
def test_second_pod_is_read_as_if_it_were_the_first(first: Document, second: Document) -> None:
    decode = PodDecoder()
    decode(raw(first))
    try:
        found: Pod | str = decode(raw(second)).pod
    except ManifestError as error:
        found = str(error)
    assert found == slowly_read_pod(second)
    try:
        alone: object = PodDecoder()(raw(second))
    except ManifestError as error:
        alone = str(error)
    again = alone if isinstance(alone, str) else decode(raw(second))
    assert again == alone


@pytest.mark.parametrize("field", ["labels", "taints", "unschedulable", "allocatable", "name"])
def test_node_that_changes_is_read_again(field: str) -> None:
    decode = NodeDecoder()
    decode(raw(node()))
    document = node(version="8")
    match field:
        case "labels":
            document["metadata"]["labels"] = {"zone": "b"}
        case "taints":
            document["spec"]["taints"] = []
        case "unschedulable":
            document["spec"]["unschedulable"] = True
        case "allocatable":
            document["status"]["allocatable"] = {"cpu": "9"}
        case _:
            document["metadata"]["name"] = "n2"
    assert decode(raw(document)).node == slowly_read_node(document)
    assert decode.slow == 2


def test_node_without_allocatable_offers_its_capacity() -> None:
    decode = NodeDecoder()
    for cpu in ("1", "2"):
        document = node(capacity={"cpu": cpu})
        del document["status"]["allocatable"]
        assert decode(raw(document)).node == slowly_read_node(document)


def test_constraints_about_pods_are_read_anew_for_other_labels() -> None:
    decode = PodDecoder()
    spread = [{**SPREAD, "labelSelector": {}, "matchLabelKeys": ["index"]}]
    for name in ("w-0", "w-1", "w-0"):
        decode(raw(pod(name, topologySpreadConstraints=spread)))
    assert (decode.slow, decode.fast) == (2, 1)


def test_parts_of_a_key_are_not_mixed_up() -> None:
    decode = PodDecoder()
    one = pod(containers=[{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}])
    other = pod(
        containers=[{"name": "c", "image": "x"}],
        initContainers=[{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
    )
    two = pod(containers=[*one["spec"]["containers"], *one["spec"]["containers"]])
    for document in (one, other, two):
        assert decode(raw(document)).pod == slowly_read_pod(document)
    assert decode.slow == 3


def test_field_that_the_model_lacks_is_named_in_each_pod() -> None:
    decode = PodDecoder()
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]
    slow, fast = (decode(raw(pod(name, volumes=volumes))) for name in ("w-0", "w-1"))
    assert slow.notes == fast.notes
    assert fast.pod == slowly_read_pod(pod("w-1", volumes=volumes))


def test_cache_of_specifications_is_bounded() -> None:
    decode = PodDecoder()
    for number in range(5000):
        decode(raw(pod(priority=number)))
    assert len(decode._templates) <= 4096
    assert decode(raw(pod("w-1", priority=4999))).pod.priority == 4999
    assert decode.fast == 1


def test_facts_do_not_keep_the_json() -> None:
    decode = PodDecoder()
    data = bytearray(raw(pod()))
    decode(raw(pod("w-9")))
    facts = decode(memoryview(data))
    data.clear()  # would raise BufferError if anything referred to it
    assert facts.pod.name == "w-0"


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"7", b'"x"', b"\xff"])
def test_bytes_that_are_no_object_are_an_unexpected_answer(text: bytes) -> None:
    for decode in (PodDecoder(), NodeDecoder(), GroupDecoder(CORE)):
        with pytest.raises(UnexpectedAnswer):
            decode(text)


def test_pod_of_a_list_needs_no_kind() -> None:
    document = pod()
    del document["kind"], document["apiVersion"]
    assert PodDecoder()(raw(document)).pod == slowly_read_pod(pod())


def test_heartbeat_of_a_node_is_not_read_again() -> None:
    decode = NodeDecoder()
    first = decode(raw(node(version="7", conditions=[{"type": "Ready", "status": "True"}])))
    second = decode(raw(node(version="8", conditions=[{"type": "Ready", "status": "False"}])))
    assert decode.slow == 1
    assert second.node is first.node
    assert second.identity.resource_version == "8"


def test_group_names_its_class_and_does_not_resolve_it() -> None:
    decode = GroupDecoder(CORE)
    facts = decode(raw(pod_group(priorityClassName="unknown-here")))
    assert facts.priority_class == "unknown-here"
    assert facts.group.priority is None
    assert facts.group.min_available == 2


def test_condition_of_a_group_does_not_make_it_another_group() -> None:
    decode = GroupDecoder(CORE)
    first = decode(raw(pod_group()))
    document = pod_group(version="8")
    document["status"] = {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]}
    second = decode(raw(document))
    assert second.group is first.group
    assert second.conditions == (Condition("PodGroupInitiallyScheduled", "True"),)


def test_group_of_volcano_has_its_phase_and_minimum() -> None:
    document = pod_group(minMember=3)
    document["apiVersion"] = "scheduling.volcano.sh/v1beta1"
    document["status"] = {"phase": "Inqueue"}
    facts = GroupDecoder(VOLCANO)(raw(document))
    assert facts.group.min_available == 3
    assert facts.phase == "Inqueue"


def test_malformed_group_is_refused_by_field() -> None:
    with pytest.raises(ManifestError, match="minCount"):
        GroupDecoder(CORE)(raw(pod_group(schedulingPolicy={"gang": {"minCount": 0}})))


def test_priority_class_is_read() -> None:
    document = {"metadata": {"name": "high"}, "value": 9, "preemptionPolicy": "Never"}
    facts = decode_priority_class(raw(document))
    assert (facts.name, facts.value, facts.preemption_policy) == ("high", 9, "Never")
    assert not facts.global_default


def test_priority_class_without_a_value_is_refused() -> None:
    with pytest.raises(ManifestError, match="value"):
        decode_priority_class(raw({"metadata": {"name": "high"}}))


def test_errors_of_decoding_are_of_this_package() -> None:
    assert issubclass(UnexpectedAnswer, GangschedError)


# Size -----------------------------------------------------------------------------------------


def annotated(name: str, annotations: dict[str, str]) -> bytes:
    document = pod(name)
    document["metadata"]["annotations"] = annotations
    return raw(document)


@pytest.mark.parametrize("is_fast", [True, False])
def test_annotations_beyond_a_size_are_left_out_the_longest_first(is_fast: bool) -> None:
    """A user could fill the memory of the scheduler with them."""
    decode = PodDecoder()
    if is_fast:
        decode(raw(pod("first")))
    claim = {"scheduling.k8s.io/group-name": "train"}
    found = decode(annotated("p", {"flood": "x" * 250_000, **claim})).pod
    assert decode.fast == is_fast
    assert dict(found.annotations) == claim


def test_annotations_of_a_usual_size_are_all_kept() -> None:
    annotations = {f"a{n}": "x" * 1000 for n in range(20)}
    assert dict(PodDecoder()(annotated("p", annotations)).pod.annotations) == annotations
