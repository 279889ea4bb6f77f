"""Kueue's annotations of pod templates are the topology of a group and of its roles."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest
from attrs import evolve

from gangsched import (
    GroupKey,
    LabelledRole,
    LabelSelector,
    Pod,
    PodGroup,
    PodPhase,
    Role,
    Topology,
)
from gangsched.errors import ManifestError
from gangsched.events import PodAdded, PodGroupAdded, PodGroupDeleted
from gangsched.kubernetes import read_notification
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._facts import PodFacts
from gangsched.kubernetes._known import Identity
from gangsched.kubernetes._reflector import Delta
from gangsched.manifests.member_topologies import MemberTopologies
from gangsched.membership import SPELLINGS, Membership
from gangsched.model import PodUID
from gangsched.resources import EMPTY
from gangsched.simulation import Workload, load_manifests
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.memory_api import MemoryApi
from support.memory_cluster import all_bound, change, scheduled
from support.running import ALONE, on_a_loop, running, until

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

KUEUE: Final = "kueue.x-k8s.io/"
HOST: Final = "kubernetes.io/hostname"
REQUIRED, PREFERRED, FREE, SLICE, SIZE, SLICES, TOGETHER, SPREADING = (
    *("podset-required-topology", "podset-preferred-topology", "podset-unconstrained-topology"),
    *("podset-slice-required-topology", "podset-slice-size"),
    *("podset-slice-required-topology-constraints", "podset-group-name", "topology-spreading"),
)
IN_RACK: Final = {REQUIRED: "rack"}
NESTED: Final = (
    '[{"topology": "rack", "size": 4}, {"topology": "kubernetes.io/hostname", "size": 2}]'
)


def pods(
    count: int,
    role: str = "",
    *,
    first: int = 0,
    jobs: int = 0,
    asked: Mapping[str, str] = EMPTY,
) -> list[dict[str, Any]]:
    """Return members of the group ``g`` with annotations of Kueue; with *jobs*, of a JobSet."""
    found: list[dict[str, Any]] = []
    for number in range(first, first + count):
        labels = {"scheduling.x-k8s.io/pod-group": "g"}
        if role:
            labels["jobset.sigs.k8s.io/replicatedjob-name"] = role
        if jobs:
            labels["jobset.sigs.k8s.io/replicatedjob-replicas"] = str(jobs)
            labels["jobset.sigs.k8s.io/job-index"] = str(number * jobs // count)
        pod = pod_json(f"{role or 'p'}-{number}")
        pod["metadata"]["labels"] = labels
        pod["metadata"]["annotations"] = {f"{KUEUE}{key}": text for key, text in asked.items()}
        found.append(pod)
    return found


def load(*objects: dict[str, Any], minimum: int = 0, **spec: Any) -> Workload:
    """Read a group with a minimum, and pods."""
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": minimum, **spec},
    }
    items = [*([group] if minimum else []), *objects]
    return load_manifests(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), file="f"
    )


def group_of(workload: Workload) -> PodGroup:
    (group,) = [e.event.group for e in workload.arrivals if isinstance(e.event, PodGroupAdded)]
    return group


def summary(group: PodGroup) -> tuple[Any, ...]:
    return group.topology, dict(group.roles), group.min_available, group.unmodelled


# What is asked for by all members alike -----------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "topology"),
    [
        (IN_RACK, Topology("rack")),
        ({PREFERRED: "rack"}, Topology("rack", required=False)),
        ({FREE: "true"}, None),
        ({SLICE: "rack", SIZE: "4"}, Topology(slices={"rack": 4})),
        ({REQUIRED: "block", SLICE: "rack", SIZE: "4"}, Topology("block", slices={"rack": 4})),
        (
            {PREFERRED: "block", SLICE: "rack", SIZE: "4"},
            Topology("block", required=False, slices={"rack": 4}),
        ),
        ({FREE: "true", SLICE: "rack", SIZE: "4"}, Topology(slices={"rack": 4})),
        ({REQUIRED: "block", SLICES: NESTED}, Topology("block", slices={"rack": 4, HOST: 2})),
        ({SLICES: NESTED}, Topology(slices={"rack": 4, HOST: 2})),
        ({REQUIRED: "rack", TOGETHER: "a"}, Topology("rack")),
    ],
    ids=str,
)
def test_members_that_ask_alike_give_the_group_their_topology(
    asked: Mapping[str, str], topology: Topology | None
) -> None:
    workload = load(*pods(8, asked=asked), minimum=8)
    assert summary(group_of(workload)) == (topology, {}, 8, ())
    assert workload.skipped == ()
    held = [e.event.pod.unmodelled for e in workload.arrivals if isinstance(e.event, PodAdded)]
    assert held == [()] * 8


def test_group_of_kueue_has_no_object_and_is_stated_with_its_total() -> None:
    members = pods(4, asked=IN_RACK)
    for member in members:
        member["metadata"]["labels"] = {f"{KUEUE}pod-group-name": "g"}
        member["metadata"]["annotations"][f"{KUEUE}pod-group-total-count"] = "4"
    workload = load(*members)
    assert summary(group_of(workload)) == (Topology("rack"), {}, 4, ())
    assert isinstance(workload.arrivals[0].event, PodGroupAdded), "before its members"


# What roles ask for -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        (
            [*pods(2, "a", asked=IN_RACK), *pods(3, "b", asked=IN_RACK)],
            (
                None,
                {"a": Role(2, topology=Topology("rack")), "b": Role(3, topology=Topology("rack"))},
            ),
        ),
        (
            [*pods(1, "leader"), *pods(4, "worker", asked=IN_RACK)],
            (None, {"worker": Role(4, topology=Topology("rack"))}),
        ),
    ],
)
def test_roles_have_what_their_members_ask_for(
    members: Sequence[dict[str, Any]], expected: tuple[Any, ...]
) -> None:
    workload = load(*members, minimum=5)
    assert summary(group_of(workload)) == (*expected, 5, ())


def test_leader_and_workers_of_one_name_share_the_domain_of_the_group() -> None:
    both = {REQUIRED: "block", TOGETHER: "serve"}
    workload = load(*pods(1, "leader", asked=both), *pods(4, "worker", asked=both), minimum=5)
    assert summary(group_of(workload)) == (Topology("block"), {}, 5, ())


def test_workers_in_the_domain_of_their_leader_keep_their_slices() -> None:
    both = {REQUIRED: "block", TOGETHER: "serve"}
    sliced = {**both, SLICE: "rack", SIZE: "2"}
    workload = load(*pods(1, "leader", asked=both), *pods(4, "worker", asked=sliced), minimum=5)
    workers = Role(4, topology=Topology(slices={"rack": 2}))
    assert summary(group_of(workload)) == (Topology("block"), {"worker": workers}, 5, ())


def test_slices_of_a_job_set_are_cut_within_each_job() -> None:
    asked = {REQUIRED: "block", SLICE: "rack", SIZE: "2"}
    group = group_of(load(*pods(8, "w", jobs=2, asked=asked), minimum=8))
    member = Role(4, topology=Topology(slices={"rack": 2}))
    assert summary(group)[:3] == (Topology("block"), {"w": Role(2, roles={"member": member})}, 8)
    selector = LabelSelector({"jobset.sigs.k8s.io/replicatedjob-name": "w"})
    number = "jobset.sigs.k8s.io/job-index"
    assert group.labelled_roles == (LabelledRole("w/*/member", selector, number=number),)


def test_minimum_of_a_role_is_that_of_the_group() -> None:
    members = pods(3, "worker", asked=IN_RACK)
    for member in members:
        member["metadata"]["annotations"]["volcano.sh/task-spec"] = "worker"
        member["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = "g"
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {"minMember": 3, "minTaskMember": {"worker": 2, "master": 1}},
    }
    master = pods(1, "master")[0]
    roles = {"worker": Role(2, topology=Topology("rack")), "master": 1}
    assert summary(group_of(load(group, master, *members)))[:2] == (None, roles)


# What has no meaning ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        (
            [*pods(2, asked=IN_RACK), *pods(3, first=2)],
            "podset-required-topology (of some members and not of others)",
        ),
        (
            [*pods(2, "a", asked={**IN_RACK, TOGETHER: "x"}), *pods(3, "b")],
            "podset-group-name (a domain that only some members share)",
        ),
        (
            [*pods(1, "a"), *pods(6, "b", asked=IN_RACK)],
            "podset-required-topology (its group needs fewer pods than have it)",
        ),
        (
            pods(6, "w", jobs=2, asked={SLICE: "rack", SIZE: "2"}),
            "podset-slice-required-topology (5 pods are not 2 jobs of one size)",
        ),
        (pods(5, asked={REQUIRED: "rack", SPREADING: "[]"}), "topology-spreading"),
        (pods(5, asked={TOGETHER: "x"}), "podset-group-name (without a topology)"),
    ],
)
def test_what_has_no_meaning_holds_the_group_and_names_the_annotation(
    members: Sequence[dict[str, Any]], reason: str
) -> None:
    workload = load(*members, minimum=5)
    (held,) = group_of(workload).unmodelled
    assert reason in held
    assert [note for note in workload.skipped if reason in note and "held" in note]


def test_topology_of_the_group_is_not_overruled_by_its_members() -> None:
    topology = {"topology": [{"key": "block"}]}
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": topology,
        },
    }
    found = group_of(load(group, *pods(2, asked=IN_RACK)))
    path = f"metadata.annotations.{KUEUE}{REQUIRED}"
    assert summary(found)[::3] == (Topology("block"), (f"{path} (its group has a topology)",))
    same = group_of(load(group, *pods(2, asked={REQUIRED: "block"})))
    assert summary(same)[::3] == (Topology("block"), ())


def test_annotations_of_the_group_add_to_what_its_members_ask_for() -> None:
    group = group_json("g", 4)
    group["metadata"]["annotations"] = {"gangsched.io/exclusive": "rack"}
    asked = {REQUIRED: "block", SLICE: "rack", SIZE: "2"}
    found = group_of(load(group, *pods(4, asked=asked)))
    expected = Topology("block", slices={"rack": 2}, exclusive="rack")
    assert summary(found)[::3] == (expected, ())
    two = [*pods(2, "a", asked=IN_RACK), *pods(2, "b", asked=IN_RACK)]
    role = Role(2, topology=Topology("rack"))
    exclusive = Topology(exclusive="rack")
    assert summary(group_of(load(group, *two))) == (exclusive, {"a": role, "b": role}, 4, ())


@pytest.mark.parametrize(("asked", "is_held"), [(IN_RACK, True), ({PREFERRED: "rack"}, False)])
def test_pod_in_no_group_is_held_for_a_hard_topology_alone(
    asked: Mapping[str, str], is_held: bool
) -> None:
    (pod,) = pods(1, asked=asked)
    del pod["metadata"]["labels"]
    (arrival,) = load(pod).arrivals
    assert isinstance(arrival.event, PodAdded)
    assert bool(arrival.event.pod.unmodelled) is is_held
    # a program that reads single objects does not see the other members
    for given in (pod, pods(1, asked=asked)[0]):
        found = read_notification({"type": "ADDED", "object": given}, scheduler_names=None)
        assert isinstance(found.event, PodAdded)
        assert bool(found.event.pod.unmodelled) is is_held


def test_pods_for_which_kueue_has_chosen_nodes_ask_for_nothing() -> None:
    workload = load(*pods(4, asked={**IN_RACK, "workload": "w"}), minimum=4)
    assert summary(group_of(workload)) == (None, {}, 4, ())


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({REQUIRED: "a", PREFERRED: "b"}, f"{PREFERRED}]: expected it alone, and there is"),
        ({FREE: "yes"}, f"{FREE}]: expected one of true, "),
        ({SLICE: "rack"}, f"{SIZE}]: expected an int >= 1, got nothing"),
        ({SLICE: "rack", SIZE: "0"}, f"{SIZE}]: expected an int >= 1, got '0'"),
        ({SLICE: "rack", SIZE: "four"}, f"{SIZE}]: expected an int >= 1, got 'four'"),
        ({SIZE: "4"}, f"{SLICE}]: expected a label, as"),
        ({SLICES: "["}, f"{SLICES}]: expected a JSON list"),
        ({SLICES: "[]"}, f"{SLICES}]: expected a JSON list"),
        ({SLICES: '[{"topology": "rack"}]'}, f"{SLICES}]: expected a JSON list"),
        ({SLICES: '[{"topology": "rack", "size": 2, "x": 1}]'}, f"{SLICES}]: expected a JSON"),
        ({SLICES: NESTED, SIZE: "2"}, f"{SIZE}]: expected it without"),
        (
            {SLICES: '[{"topology": "rack", "size": 4}, {"topology": "host", "size": 3}]'},
            "expected a size that divides 4",
        ),
        ({REQUIRED: "rack", SLICE: "rack", SIZE: "2"}, "expected a label that is not named twice"),
    ],
    ids=str,
)
def test_value_that_kueue_refuses_is_malformed(asked: Mapping[str, str], problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(*pods(1, asked=asked), minimum=1)
    assert problem in str(caught.value)


# As members come and go ---------------------------------------------------------------------------


def said(role: str | None = None, **changes: Any) -> tuple[Membership, Pod]:
    claim = Membership(GroupKey("default/g"), None, SPELLINGS[0], role)
    return claim, Pod(name="p", annotations={f"{KUEUE}{REQUIRED}": "rack"}, **changes)


def test_role_needs_as_many_members_as_it_has_had_while_one_is_replaced() -> None:
    found, group = MemberTopologies(), PodGroup(name="g", min_available=5)
    leader = (Membership(group.key, None, SPELLINGS[0], "leader"), Pod(name="l"))
    worker = said("worker")
    for member in (leader, *[worker] * 4):
        found.change(None, member)
    roles = {"worker": Role(4, topology=Topology("rack"))}
    assert summary(found.stated(group.key, group) or group) == (None, roles, 5, ())
    failed = said("worker", phase=PodPhase.FAILED)
    assert found.change(worker, failed) == (group.key,)
    assert summary(found.stated(group.key, group) or group) == (None, roles, 5, ())
    assert found.change(None, worker) == (group.key,)
    assert summary(found.stated(group.key, group) or group) == (None, roles, 5, ())
    assert found.change(failed, None) == ()
    for member in (leader, *[worker] * 4):
        assert found.change(member, None) == (group.key,)
        found._check()
    assert found.stated(group.key, group) is group
    assert found.stated(group.key, None) is None
    assert not found._said
    assert not found._most


def test_ignored_annotation_asks_for_nothing() -> None:
    group = PodGroup(name="g", min_available=1)
    for ignored in (f"{KUEUE}{REQUIRED}", f"metadata.annotations.{KUEUE}{REQUIRED}"):
        found = MemberTopologies([ignored])
        assert found.change(None, said()) == ()
        assert found.stated(group.key, group) is group


def test_pod_whose_group_is_in_no_file_and_has_no_minimum_is_held() -> None:
    (arrival,) = load(*pods(1, asked=IN_RACK)).arrivals
    assert isinstance(arrival.event, PodAdded)
    (reason,) = arrival.event.pod.unmodelled
    assert reason.endswith("(its group has no minimum in this file)")


# On a cluster -------------------------------------------------------------------------------------


def racks(api: MemoryApi, **gpus: int) -> None:
    for name, gpu in gpus.items():
        node = node_json(name, gpu=gpu)
        node["metadata"]["labels"] = {"rack": name[0]}
        api.put(NODES, node)


@on_a_loop
async def test_members_share_a_rack_that_only_their_annotations_name() -> None:
    api = MemoryApi()
    racks(api, a1=2, b1=2, b2=1)
    api.put(GROUPS, group_json("g", 3))
    for pod in pods(3, asked=IN_RACK):
        api.put(PODS, pod)
    async with running(api):
        await until(lambda: all_bound(api))
    assert {str(node)[0] for node in api.pods().values()} == {"b"}


@on_a_loop
async def test_pods_wait_until_all_members_ask_for_what_has_a_meaning() -> None:
    api = MemoryApi()
    racks(api, a1=2, b1=2, b2=1)
    api.put(GROUPS, group_json("g", 3))
    for pod in (*pods(2, asked=IN_RACK), *pods(1, first=2)):
        api.put(PODS, pod)
    async with running(api):
        await until(lambda: "podset-required-topology" in str(scheduled(api, "p-0")))
        assert not any(api.pods().values())
        change(api, PODS, "default/p-2", metadata={"annotations": {f"{KUEUE}{REQUIRED}": "rack"}})
        await until(lambda: all_bound(api))
    assert {str(node)[0] for node in api.pods().values()} == {"b"}


@on_a_loop
async def test_group_that_only_labels_name_has_the_topology_of_its_members() -> None:
    api = MemoryApi()
    racks(api, a1=2, b1=2, b2=1)
    for pod in pods(3, asked=IN_RACK):
        pod["metadata"]["labels"] = {
            "pod-group.scheduling.sigs.k8s.io/name": "g",
            "pod-group.scheduling.sigs.k8s.io/min-available": "3",
        }
        api.put(PODS, pod)
    async with running(api):
        await until(lambda: all_bound(api))
    assert {str(node)[0] for node in api.pods().values()} == {"b"}


def claiming(name: str, **asked: str) -> PodFacts:
    """Return a member of a group without an object, as a watch shows it."""
    key = "pod-group.scheduling.sigs.k8s.io/"
    pod = Pod(
        name=name,
        uid=name,
        labels={f"{key}name": "g", f"{key}min-available": "1"},
        annotations={f"{KUEUE}{word}": text for word, text in asked.items()},
    )
    return PodFacts(pod=pod, identity=Identity(str(pod.key), name, "1"), scheduler_name="ours")


def test_group_without_an_object_is_gone_with_its_last_member() -> None:
    cache, facts = Cache(["ours"]), claiming("p", **IN_RACK)
    cache.pod(Delta("added", facts.identity, facts))
    (event,) = cache.take_restated()
    assert isinstance(event, PodGroupAdded)
    assert cache.cluster.pod_group(GroupKey("default/g")) == event.group
    assert cache.take_restated() == []
    cache.pod(Delta("deleted", facts.identity, None))
    assert cache.take_restated() == [PodGroupDeleted(GroupKey("default/g"))]
    assert cache.cluster.pod_group(GroupKey("default/g")) is None


def test_group_that_members_state_is_no_object_that_could_be_read() -> None:
    cache, facts = Cache(["ours"]), claiming("p", **IN_RACK)
    cache.pod(Delta("added", facts.identity, facts))
    cache.unreadable("PodGroup.v1beta1.scheduling.k8s.io", "they cannot be read")
    pod = cache.cluster.pod(PodUID("p"))
    assert pod is not None
    assert "needs PodGroup.v1beta1.scheduling.k8s.io objects" in str(pod.unmodelled)


@on_a_loop
async def test_pod_in_no_group_is_held_and_says_why_unless_the_annotation_is_ignored() -> None:
    api = MemoryApi()
    racks(api, a1=2)
    for name, asked in (("hard", IN_RACK), ("soft", {PREFERRED: "rack"})):
        (pod,) = pods(1, asked=asked)
        pod["metadata"] |= {"name": name, "labels": {}}
        api.put(PODS, pod)
    async with running(api):
        await until(lambda: "of a pod in no group" in str(scheduled(api, "hard")))
        await until(lambda: api.pods()["default/soft"] is not None)
        assert api.pods()["default/hard"] is None
    async with running(api, evolve(ALONE, ignored=(f"{KUEUE}{REQUIRED}",))):
        await until(lambda: all_bound(api))
