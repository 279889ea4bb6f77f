"""Objects from the API server's JSON: the fast readers agree with the slow ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import fields
from hypothesis import given

from gangsched import NodeAdded, Pod, PodAdded
from gangsched.errors import GangschedError, InvalidPodGroupError, ManifestError
from gangsched.kubernetes import read_event
from gangsched.kubernetes._annotations import MOST, kept_annotations
from gangsched.kubernetes._caches import Shared
from gangsched.kubernetes._decode import (
    Condition,
    Dialect,
    GroupDecoder,
    NodeDecoder,
    PodDecoder,
    decode_priority_class,
)
from gangsched.kubernetes._events import UnexpectedAnswer
from gangsched.manifests.pod_annotations import HELD_ANNOTATIONS
from gangsched.manifests.pod_topologies import ASKING
from gangsched.manifests.queues import QUEUE
from gangsched.membership import membership
from gangsched.model import Node, PodPhase
from gangsched.resources import FrozenMap
from support.api_objects import Document, drawn_nodes, drawn_pods, node, pod, pod_group, raw
from support.cluster_objects import group_json

pytest.importorskip("msgspec", reason="the extra kubernetes is not installed")

CORE = Dialect("scheduling.k8s.io", "v1beta1", "/apis/scheduling.k8s.io/v1beta1/podgroups")
VOLCANO = Dialect("scheduling.volcano.sh", "v1beta1", "/apis/scheduling.volcano.sh/v1beta1/x")
CLAIMS = "spec.resourceClaims"
CLAIMING: dict[str, Any] = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}]}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def slowly(document: Document) -> Pod | Node | str:
    """Return what the slow reader reads; its error for a malformed object."""
    try:
        event = read_event({"type": "ADDED", "object": json.loads(raw(document))})
    except ManifestError as error:
        return str(error)
    assert isinstance(event, PodAdded | NodeAdded)
    return event.pod if isinstance(event, PodAdded) else event.node


def read(decode: PodDecoder, document: Document) -> Any:
    """Return the facts of a pod; the error for a malformed one."""
    try:
        return decode(raw(document))
    except ManifestError as error:
        return str(error)


def read_each(*documents: Document) -> PodDecoder:
    """Read pods by one decoder as the slow reader does; return the decoder."""
    decode = PodDecoder()
    for document in documents:
        assert decode(raw(document)).pod == slowly(document)
    return decode


def counts(decode: PodDecoder) -> tuple[int, int]:
    return decode.slow, decode.fast


# Pods -------------------------------------------------------------------------------------------


def bound(document: Document) -> Document:
    """Return the echo of a bind of a pod."""
    return {**document, "spec": {**document.get("spec", {}), "nodeName": "n1"}}


@given(documents=drawn_pods())
def test_pods_are_read_as_the_slow_reader_reads_them_whatever_was_read_before(
    documents: list[Document],
) -> None:
    """An equal value of another attribute, or of another type, never takes the place of one."""
    decode = PodDecoder()
    for document in [*documents, *map(bound, documents)] * 2:
        found, alone = read(decode, document), read(PodDecoder(), document)
        assert found == alone
        if isinstance(found, str):
            assert found == slowly(document)
            continue
        assert found.pod == slowly(document)
        for each in fields(Pod):
            value = getattr(found.pod, each.name)
            assert type(value) is type(getattr(alone.pod, each.name)), each.name


def test_pods_of_one_job_are_read_once_and_share_what_is_alike() -> None:
    decode = PodDecoder()
    asked: Document = {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "k"}]}
    for name in ("first", "second"):
        pending, echo = decode(raw(pod(name, **asked))), decode(raw(bound(pod(name, **asked))))
        assert echo.pod.node_name == "n1"
    apart = {
        each.name
        for each in fields(Pod)
        if getattr(pending.pod, each.name) is not getattr(echo.pod, each.name)
    }
    assert apart == {"name", "namespace", "uid", "pod_group", "node_name"}  # texts of its own
    assert counts(decode) == (2, 2)


def test_bound_pod_has_its_node_and_status() -> None:
    decode = PodDecoder()
    decode(raw(pod()))
    document = pod(version="9", nodeName="n1")
    conditions = [{"type": name, "status": "True"} for name in ("PodScheduled", "Ready")]
    document["status"] = {"phase": "Running", "conditions": conditions}
    for _ in range(2):
        found = decode(raw(document))
        assert (found.pod.node_name, found.pod.phase) == ("n1", PodPhase.RUNNING)
        assert found.conditions == (Condition("PodScheduled", "True"),)
        assert found.identity.resource_version == "9"


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
    assert counts(read_each(pod(**change), pod(**change))) == (2, 0)


_BINDING: dict[str, Any] = {
    "name": "c",
    "volumeMounts": [{"name": "v", "mountPath": "/v", "bindMountOptions": ["noexec"]}],
}


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
def test_pod_with_another_specification_is_not_a_copy(field: str, value: Any) -> None:
    assert read_each(pod(), pod("w-1", **{field: value})).slow == 2


def test_gangs_that_differ_in_their_name_only_are_read_once() -> None:
    groups: list[Any] = [{"podGroupName": "a"}, {"podGroupName": "b"}, {}, None]
    assert counts(read_each(*(pod(schedulingGroup=group) for group in groups))) == (1, 3)


def _on(node: str, *values: str, **more: Any) -> Document:
    term = {"matchExpressions": [{"key": "host", "operator": "In", "values": [*values]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return pod(f"ds-{node}", nodeName=node, affinity={"nodeAffinity": required, **more})


def test_pods_of_a_daemon_set_are_read_once() -> None:
    assert counts(read_each(*(_on(name, name) for name in ("n1", "n2", "n3", "n1")))) == (1, 3)


def test_affinity_that_names_another_node_or_elsewhere_is_not_that_of_a_daemon_set() -> None:
    placed = (("n1", ["n1"]), ("n2", ["n1"]), ("n3", ["n1", "n3"]), ("n4", ["n4"]))
    assert counts(read_each(*(_on(name, *values) for name, values in placed))) == (3, 1)
    elsewhere = [_on(name, name, podAffinity={"fieldOfTomorrow": name}) for name in ("n1", "n2")]
    assert counts(read_each(*elsewhere)) == (2, 0)
    decode = PodDecoder()
    for name in ("n1", "n2", "n1"):
        data = raw(_on(name, "n1")).replace(b'"values":["n1"]', b'"values":["n\\u0031"]')
        assert b"u0031" in data
        assert decode(data).pod == slowly(_on(name, "n1"))


def _init(restart: str) -> list[Document]:
    return [{"name": "i", "restartPolicy": restart, "resources": {"requests": {"cpu": "5"}}}]


def _meta(**changes: object) -> Document:
    document = pod("w-1")
    document["metadata"].update(changes)
    return document


def _queued(queue: str) -> Document:
    return {"metadata": _meta(labels={QUEUE: queue})["metadata"]}


def _status(**changes: object) -> Document:
    return {**pod("w-1"), "status": changes}


LENIENT: dict[str, Any] = {"tolerations": [{"operator": "Exists", "value": "x"}]}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pod(nodeName="n1", **LENIENT), pod(**LENIENT)),
        (pod(), pod("w-1", nodeName="n1")),
        (pod(initContainers=_init("Always")), pod(initContainers=_init(""))),
        (pod(), pod(containers=[{"name": "c", "ports": [{"hostPort": 80}]}])),
        (pod(), _meta(uid="")),
        (pod(), _meta(uid=None)),
        (pod(), _meta(name="W")),
        (pod(), _meta(namespace="")),
        (pod(), _meta(namespace="other")),
        (pod(), _meta(labels=None)),
        (pod(), _meta(labels={"a": None})),
        *((pod(), _meta(labels={QUEUE: queue})) for queue in ("a", "", None)),
        (_meta(labels={QUEUE: "b"}), pod()),
        (pod(nodeName="n1"), {**pod("w-1", nodeName="n1"), **_queued("")}),
        ({**pod("w-1", nodeName="n1"), **_queued("")}, pod(nodeName="n1")),
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
        *((pod(), _meta(annotations={key: "x"})) for key in HELD_ANNOTATIONS if key not in ASKING),
        (pod(), _meta(annotations={"kueue.x-k8s.io/pod-group-serving": "true"})),
    ],
)
def test_second_pod_is_read_as_if_it_were_the_first(first: Document, second: Document) -> None:
    decode = PodDecoder()
    decode(raw(first))
    alone = read(PodDecoder(), second)
    for _ in range(2):
        found = read(decode, second)
        assert found == alone
        assert (found if isinstance(found, str) else found.pod) == slowly(second)


@pytest.mark.parametrize("key", ASKING)
def test_topology_that_a_pod_asks_for_is_no_other_pods(key: str) -> None:
    decode, second = PodDecoder(), _meta(annotations={key: "x"})
    decode(raw(pod()))
    assert read(decode, second) == read(PodDecoder(), second)


def test_volumes_that_are_alike_are_read_once() -> None:
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]
    assert counts(read_each(*(pod(name, volumes=volumes) for name in ("w-0", "w-1")))) == (1, 1)


def test_constraints_about_pods_are_read_anew_for_other_labels() -> None:
    spread = [{**SPREAD, "labelSelector": {}, "matchLabelKeys": ["index"]}]
    names = ("w-0", "w-1", "w-0")
    documents = (pod(name, topologySpreadConstraints=spread) for name in names)
    assert counts(read_each(*documents)) == (2, 1)


def test_parts_of_a_key_are_not_mixed_up() -> None:
    asks = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    plain = {"name": "c", "image": "x"}
    one = pod(containers=[{**plain, **asks}])
    other = pod(containers=[plain], initContainers=[asks])
    two = pod(containers=[{**plain, **asks}] * 2)
    assert read_each(one, other, two).slow == 3


@pytest.mark.parametrize(
    ("owners", "controller"),
    [
        ([], ""),
        ([("apps/v1", "ReplicaSet", "a", True)], "apps/v1/ReplicaSet/a"),
        (
            [("v1", "ReplicationController", "a", None), ("batch/v1", "Job", "b", True)],
            "batch/v1/Job/b",
        ),
        ([("v1", "Node", "a", False)], ""),
    ],
)
def test_controller_of_a_pod_is_read_with_its_owners(
    owners: list[tuple[str, str, str, bool | None]], controller: str
) -> None:
    keys = ("apiVersion", "kind", "name", "controller")
    references = [{**dict(zip(keys, owner, strict=True)), "uid": "u"} for owner in owners]
    decode = PodDecoder()
    for name in ("w-0", "w-1"):  # the first is read slowly, the second is a copy
        found = decode(raw(_meta(name=name, ownerReferences=references))).pod
        assert found.controller == controller
        assert found.owners == tuple(owner[2] for owner in owners)
    assert decode.fast == 1


def test_ignored_constraints_of_pods_and_of_groups_are_named_and_hold_nothing() -> None:
    later = "spec.fieldOfALaterVersion"
    claiming = pod(**CLAIMING, fieldOfALaterVersion={"zone": "a"})
    assert PodDecoder()(raw(claiming)).pod.unmodelled == (CLAIMS, later)
    decode = PodDecoder([CLAIMS])
    for name in ("w-0", "w-1"):  # the second is a copy
        facts = decode(raw(pod(name, **CLAIMING)))
        assert facts.pod.unmodelled == ()
        assert facts.notes == (f"{CLAIMS} is not modelled and was ignored",)
    assert decode.fast == 1
    assert PodDecoder([CLAIMS, later])(raw(claiming)).pod.unmodelled == ()
    group = group_json("g", 2, **CLAIMING)
    assert GroupDecoder(CORE)(raw(group)).group.unmodelled == (CLAIMS,)
    assert GroupDecoder(CORE, [CLAIMS])(raw(group)).group.unmodelled == ()


def test_cache_of_specifications_is_bounded() -> None:
    cache: Shared[int] = Shared(most=2, longest=3)
    for number, key in enumerate((b"a", b"b", b"c", b"long")):
        assert cache.put(key, number) == number
    assert len(cache) <= 2
    assert (cache.get(b"a"), cache.get(b"c"), cache.get(b"long")) == (None, 2, None)


def test_facts_do_not_keep_the_json() -> None:
    decode = PodDecoder()
    data = bytearray(raw(pod()))
    decode(raw(pod("w-9")))
    facts = decode(memoryview(data))
    data.clear()  # would raise BufferError if anything referred to it
    assert facts.pod.name == "w-0"


def test_pod_of_a_list_needs_no_kind() -> None:
    document = pod()
    del document["kind"], document["apiVersion"]
    assert PodDecoder()(raw(document)).pod == slowly(pod())


# What running pods were given is part of what tells them apart ----------------------------------


def running(name: str = "w-0", **status: Any) -> Document:
    return {**pod(name, nodeName="n1"), "status": {"phase": "Running", **status}}


def given_to(cpu: str, name: str = "c") -> list[Document]:
    amounts = {"cpu": cpu, "memory": "1Gi"}
    one = {"name": name, "ready": True, "resources": {"requests": amounts}}
    return [{**one, "allocatedResources": amounts}]


def pending(reason: str) -> Document:
    condition = {"type": "PodResizePending", "status": "True", "reason": reason}
    return {"containerStatuses": given_to("500m"), "conditions": [condition]}


def test_pods_that_were_given_the_same_are_read_once() -> None:
    given = [running(f"w-{n}", containerStatuses=given_to("3")) for n in range(4)]
    assert counts(read_each(*given)) == (1, 3)
    reasons = ("Deferred", "Infeasible", "Deferred")
    assert counts(read_each(*(running(**pending(reason)) for reason in reasons))) == (2, 1)


@pytest.mark.parametrize(
    "status",
    [
        {"containerStatuses": given_to("2")},
        {"containerStatuses": given_to("3", "other")},
        {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "9"}}]},
        {"containerStatuses": None},
        {"containerStatuses": [{"name": "c"}]},
        {"initContainerStatuses": given_to("3")},
        pending("Infeasible"),
        pending("Deferred"),
        {"resources": {"requests": {"cpu": "3"}}, "allocatedResources": {"cpu": "3"}},
    ],
)
def test_pod_that_was_given_something_else_is_no_copy(status: Document) -> None:
    given = (running(f"w-{cpu}", containerStatuses=given_to(cpu)) for cpu in ("3", "500m"))
    read_each(*given, running(**status), running(**status))


def test_names_of_containers_and_resources_of_the_whole_pod_are_part_of_the_key() -> None:
    first, second = (running(containerStatuses=given_to("3")) for _ in range(2))
    second["spec"]["containers"][0]["name"] = "d"
    read_each(first, second)
    assert slowly(first) != slowly(second)
    whole = [running(resources={"requests": {"cpu": cpu}}) for cpu in ("1", "2", "5")]
    for document in whole:
        document["spec"]["resources"] = {"requests": {"cpu": "2"}}
    assert read_each(*whole).slow == 3


# Annotations: the longest are left out, but none that names a group -----------------------------

NAME = "scheduling.k8s.io/group-name"


@pytest.mark.parametrize("is_fast", [True, False])
def test_annotations_beyond_a_size_are_left_out_the_longest_first(is_fast: bool) -> None:
    """A user could fill the memory of the scheduler with them."""
    decode = PodDecoder()
    if is_fast:
        decode(raw(pod("first")))
    found = decode(raw(_meta(annotations={"flood": "x" * 250_000, NAME: "train"}))).pod
    assert decode.fast == is_fast
    assert dict(found.annotations) == {NAME: "train"}
    usual = FrozenMap({f"a{n}": "x" * 1000 for n in range(20)})
    assert kept_annotations(usual) is usual
    assert dict(kept_annotations({"a": "1", "long": "x" * MOST})) == {"a": "1"}


def test_name_of_a_group_is_kept_or_refused_and_its_pod_does_not_start_alone() -> None:
    def claim(name: str, **others: str) -> Any:
        return membership(Pod(name="p", annotations=kept_annotations({**others, NAME: name})))

    found = claim("g" * 200, **{f"k{n}": "x" * 90 for n in range(1000)})
    assert found.group == f"default/{'g' * 200}"
    with pytest.raises(InvalidPodGroupError, match="at most 253 characters"):
        claim("x" * 200_000)


# Nodes, groups, classes -------------------------------------------------------------------------


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
        assert found == slowly(document)


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("metadata", "labels", {"zone": "b"}),
        ("metadata", "name", "n2"),
        ("spec", "taints", []),
        ("spec", "unschedulable", True),
        ("status", "allocatable", {"cpu": "9"}),
        ("status", "allocatable", None),
        ("status", "declaredFeatures", ["RestartAllContainersOnContainerExits"]),
        ("status", "images", [{"names": ["registry/image:1"], "sizeBytes": 23_000_000}]),
    ],
)
def test_node_that_changes_is_read_again(part: str, field: str, value: object) -> None:
    decode, before = NodeDecoder(), node(capacity={"cpu": "1"})
    decode(raw(before))
    after = {**before, part: {**before[part], field: value}}
    after["metadata"] = {**after["metadata"], "resourceVersion": "8"}
    assert decode(raw(after)).node == slowly(after)
    assert decode.slow == 2
    assert slowly(after) != slowly(before)


def test_heartbeat_of_a_node_is_not_read_again() -> None:
    decode = NodeDecoder()
    first, second = (
        decode(raw(node(version=version, conditions=[{"type": "Ready", "status": status}])))
        for version, status in (("7", "True"), ("8", "False"))
    )
    assert decode.slow == 1
    assert second.node is first.node
    assert second.identity.resource_version == "8"


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"7", b'"x"', b"\xff"])
def test_bytes_that_are_no_object_are_an_unexpected_answer(text: bytes) -> None:
    for decode in (PodDecoder(), NodeDecoder(), GroupDecoder(CORE)):
        with pytest.raises(UnexpectedAnswer) as caught:
            decode(text)
        assert isinstance(caught.value, GangschedError)


def test_group_has_its_minimum_its_class_and_its_conditions() -> None:
    decode = GroupDecoder(CORE)
    first = decode(raw(pod_group(priorityClassName="unknown-here")))
    assert (first.priority_class, first.group.priority) == ("unknown-here", None)
    assert first.group.min_available == 2
    document = pod_group(version="8", priorityClassName="unknown-here")
    document["status"] = {"conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]}
    second = decode(raw(document))
    assert second.group is first.group
    assert second.conditions == (Condition("PodGroupInitiallyScheduled", "True"),)
    with pytest.raises(ManifestError, match="minCount"):
        decode(raw(pod_group(schedulingPolicy={"gang": {"minCount": 0}})))


def test_group_of_volcano_has_its_phase_and_minimum() -> None:
    document = {**pod_group(minMember=3), "apiVersion": "scheduling.volcano.sh/v1beta1"}
    facts = GroupDecoder(VOLCANO)(raw({**document, "status": {"phase": "Inqueue"}}))
    assert (facts.group.min_available, facts.phase) == (3, "Inqueue")


def test_priority_class_is_read_and_needs_a_value() -> None:
    document = {"metadata": {"name": "high"}, "value": 9, "preemptionPolicy": "Never"}
    facts = decode_priority_class(raw(document))
    assert (facts.name, facts.value, facts.preemption_policy) == ("high", 9, "Never")
    assert not facts.global_default
    with pytest.raises(ManifestError, match="value"):
        decode_priority_class(raw({"metadata": {"name": "high"}}))
