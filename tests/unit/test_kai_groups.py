"""Pod groups of KAI Scheduler: which tree they are, which pods are where, and what holds."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import LabelSelector, ManifestError, PodGroup, PodGroupAdded, Role, membership
from gangsched.manifests import NoteKind
from gangsched.simulation import load_manifests
from support.trees_of_peers import (
    Document,
    group_in,
    pod_document,
    pod_in,
    read,
    read_from_list,
    starts,
)

GROUP = "pod-group-name"
PART = "kai.scheduler/subgroup-name"


def kai(sub_groups: list[Document] | None = None, **spec: Any) -> Document:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"queue": "default-queue", "subGroups": sub_groups, **spec},
    }


def leaf(name: str, minimum: int, parent: str | None = None, **more: Any) -> Document:
    return {"name": name, "minMember": minimum, "parent": parent, **more}


def inner(name: str, minimum: int | None = None, parent: str | None = None) -> Document:
    return {"name": name, "minSubGroup": minimum, "parent": parent}


def paths(group: PodGroup) -> dict[str, str | None]:
    """Return the path of each sub group with pods."""
    names = [each.selector.match_labels.get(PART) for each in group.labelled_roles]
    return {name: group.path_of(None, {PART: name}) for name in names if name is not None}


def pods(name: str | None, count: int, start: int = 0) -> list[Document]:
    labels = {} if name is None else {PART: name}
    return [
        pod_document(f"{name}-{n}".lower(), labels=labels, annotations={GROUP: "job"})
        for n in range(start, start + count)
    ]


# Trees ------------------------------------------------------------------------------------------

DECODE = Role(1, roles={"decode-leaders": 1, "decode-workers": 4})
PREFILL = Role(1, roles={"prefill-leaders": 1, "prefill-workers": 4})
REPLICAS = [
    *(inner("replica-1", 2), leaf("leaders-1", 1, "replica-1"), leaf("workers-1", 3, "replica-1")),
    *(inner("replica-2"), leaf("workers-2", 3, "replica-2"), leaf("leaders-2", 1, "replica-2")),
]

TREES: dict[str, tuple[Document, dict[str, int | Role], dict[str, str]]] = {
    "flat sub groups": (
        kai([leaf("decode", 4), leaf("prefill", 1)], minSubGroup=2),
        {"decode": 4, "prefill": 1},
        {"decode": "decode", "prefill": "prefill"},
    ),
    "flat sub groups, and a minimum of members": (
        kai([leaf("head", 1), leaf("small", 2)], minMember=3),
        {"head": 1, "small": 2},
        {"head": "head", "small": "small"},
    ),
    "a sub group without a minimum": (
        kai([leaf("head", 1), leaf("more", 0)]),
        {"head": 1},
        {"head": "head", "more": "more"},
    ),
    "nested sub groups, all of them": (
        kai(
            [
                inner("decode", 2),
                leaf("decode-workers", 4, "decode"),
                leaf("decode-leaders", 1, "decode"),
                inner("prefill"),
                leaf("prefill-workers", 4, "prefill"),
                leaf("prefill-leaders", 1, "prefill"),
            ],
            minSubGroup=2,
        ),
        {"decode": DECODE, "prefill": PREFILL},
        {
            "decode-workers": "decode/0/decode-workers",
            "decode-leaders": "decode/0/decode-leaders",
            "prefill-workers": "prefill/0/prefill-workers",
            "prefill-leaders": "prefill/0/prefill-leaders",
        },
    ),
    "k replicas": (
        kai([leaf(f"replica-{n}", 3) for n in (1, 2, 3)], minSubGroup=2),
        {"replica": Role(3, minimum=2, roles={"member": 3})},
        {f"replica-{n + 1}": f"replica/{n}/member" for n in range(3)},
    ),
    "k replicas with sub groups, in any order": (
        kai(REPLICAS, minSubGroup=1),
        {"replica": Role(2, minimum=1, roles={"leaders": 1, "workers": 3})},
        {
            "leaders-1": "replica/0/leaders",
            "workers-1": "replica/0/workers",
            "leaders-2": "replica/1/leaders",
            "workers-2": "replica/1/workers",
        },
    ),
    "replicas without a common name": (
        kai([leaf("red", 2), leaf("blue", 2)], minSubGroup=1),
        {"copy": Role(2, minimum=1, roles={"member": 2})},
        {"red": "copy/0/member", "blue": "copy/1/member"},
    ),
    "k replicas below a parent": (
        kai(
            [
                leaf("driver", 1),
                inner("workers", 1),
                leaf("workers-replica-0", 4, "workers"),
                leaf("workers-replica-1", 4, "workers"),
            ]
        ),
        {"driver": 1, "workers": Role(2, minimum=1, roles={"member": 4})},
        {
            "driver": "driver",
            "workers-replica-0": "workers/0/member",
            "workers-replica-1": "workers/1/member",
        },
    ),
    "k of n within k of n": (
        kai(
            [
                *(inner("a-0", 1), leaf("a-0-x", 2, "a-0"), leaf("a-0-y", 2, "a-0")),
                *(inner("a-1", 1), leaf("a-1-x", 2, "a-1"), leaf("a-1-y", 2, "a-1")),
            ],
            minSubGroup=1,
        ),
        {"a": Role(2, minimum=1, roles={"member": Role(2, minimum=1, roles={"member": 2})})},
        {
            "a-0-x": "a/0/member/0/member",
            "a-0-y": "a/0/member/1/member",
            "a-1-x": "a/1/member/0/member",
            "a-1-y": "a/1/member/1/member",
        },
    ),
    "names that are alike without their numbers": (
        kai(
            [
                *(inner("r-0"), leaf("w-00", 1, "r-0"), leaf("w-01", 1, "r-0")),
                *(inner("r-1"), leaf("w-10", 1, "r-1"), leaf("w-11", 1, "r-1")),
            ],
            minSubGroup=1,
        ),
        {"r": Role(2, minimum=1, roles={"w-00": 1, "w-01": 1})},
        {"w-00": "r/0/w-00", "w-01": "r/0/w-01", "w-10": "r/1/w-00", "w-11": "r/1/w-01"},
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_sub_groups_are_roles(name: str) -> None:
    document, roles, expected = TREES[name]
    group = group_in(document)
    assert group == read_from_list(document)
    assert group.roles == PodGroup(name="g", roles=roles).roles
    assert group.min_available == PodGroup(name="g", roles=roles).min_available
    assert (group.unmodelled, paths(group)) == ((), expected)


def test_group_without_sub_groups_has_a_minimum_of_members() -> None:
    for document, minimum in ((kai(minMember=4), 4), (kai(), 1), (kai(minMember=0), 1)):
        group = group_in(document)
        assert (group.min_available, group.roles, group.unmodelled) == (minimum, {}, ())
    notes = [str(note) for note in read(kai(minMember=0)).notes]
    assert len(notes) == 1
    assert "its pods start one by one" in notes[0]
    assert not read(kai(minMember=1)).notes


def test_other_fields_of_a_group() -> None:
    document = kai(minMember=2, priorityClassName="system-node-critical", schedulingBackoff=1)
    document["metadata"]["annotations"] = {
        "gang.scheduling.koordinator.sh/groups": '["default/other"]',
        "gangsched.io/restart-policy": "BelowMinimum",
    }
    group = group_in(document)
    assert group.priority == 2_000_001_000
    assert group.bundle == ("default/other",)
    assert group.restart is not None
    assert group.unmodelled == ()


HELD: dict[str, tuple[Document, str]] = {
    "a queue": (kai(minMember=2, queue="team-a"), "spec.queue"),
    "not preemptible": (kai(preemptibility="non-preemptible"), "spec.preemptibility"),
    "a preemption delay": (kai(preemptionDelay="1m0s"), "spec.preemptionDelay"),
    "an unknown field": (kai(spread="rack"), "spec.spread"),
    "an unknown field of a sub group": (kai([leaf("a", 1, spread=1)]), "spec.subGroups[0].spread"),
    "k unlike sub groups": (
        kai([leaf("a", 1), leaf("b", 2), leaf("c", 2)], minSubGroup=2),
        "spec.minSubGroup (2 of 3 sub groups that are not alike)",
    ),
    "k unlike sub groups below a parent": (
        kai([inner("p", 1), leaf("a", 1, "p"), leaf("b", 2, "p")]),
        "spec.subGroups[0].minSubGroup (1 of 2 sub groups that are not alike)",
    ),
    "none of the sub groups": (
        kai([leaf("a", 1), leaf("b", 1)], minSubGroup=0),
        "spec.minSubGroup (0 needs none of its sub groups)",
    ),
    "more sub groups than there are": (
        kai([leaf("a", 1)], minSubGroup=2),
        "spec.minSubGroup (it needs more sub groups than there are)",
    ),
    "sub groups where there are none": (
        kai(minSubGroup=2),
        "spec.minSubGroup (it needs more sub groups than there are)",
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_what_has_no_meaning_here_holds_the_pods_and_says_why(name: str) -> None:
    document, reason = HELD[name]
    found = read(document)
    assert group_in(document).unmodelled == (reason,)
    assert [note.kind for note in found.notes] == [NoteKind.HELD]
    members = [*pods(None, 2), *pods("a", 2), *pods("b", 2), *pods("c", 2)]
    assert starts([document, *members], cpu=99)[0] == set()


@pytest.mark.parametrize("name", HELD)
def test_what_is_to_be_ignored_holds_nothing(name: str) -> None:
    document, reason = HELD[name]
    path = reason.partition(" (")[0].replace("[0]", "")
    group = group_in(document, ignore=[path])
    assert group.unmodelled == ()
    if "minSubGroup" in path:
        assert (group.roles, group.labelled_roles) == ({}, ()), "its sub groups count for nothing"
    assert group_in(TREES["k replicas"][0], ignore=["spec.subGroups"]).labelled_roles == ()


def test_what_describes_a_group_holds_nothing() -> None:
    document = kai(
        [leaf("a", 1)],
        preemptibility="preemptible",
        preemptionDelay="0s",
        markUnschedulable=True,
        schedulingBackoff=-1,
        stalenessGracePeriod="-1s",
        queue="default",
    )
    assert (group_in(document).unmodelled, read(document).notes) == ((), ())


@pytest.mark.parametrize(
    "document",
    [
        kai(minMember=1, minSubGroup=1),
        kai([{"name": "a", "minMember": 1, "minSubGroup": 1}]),
        kai([leaf("a", 1), leaf("a", 1)]),
        kai([leaf("a", 1, "b")]),
        kai([leaf("a", 1, "a")]),
        kai([inner("a", 1, "b"), inner("b", 1, "a"), leaf("c", 1)]),
        kai([inner("a", 1)]),
        kai([leaf("", 1)]),
        kai([leaf("a.b", 1)]),
        kai([leaf("a", -1)]),
        kai(minMember=-1),
        kai([leaf(f"s{n}", 1, f"s{n - 1}" if n else None) for n in range(18)]),
    ],
)
def test_malformed_tree_is_refused(document: Document) -> None:
    with pytest.raises(ManifestError):
        group_in(document)


def test_minimum_of_members_of_a_parent_is_ignored_with_a_note() -> None:
    document = kai([{"name": "p", "minMember": 9}, leaf("a", 1, "p")])
    assert group_in(document).min_available == 1
    assert "spec.subGroups[0].minMember" in str(read(document).notes[0])
    chain = kai([leaf(f"s{n}", 1, f"s{n - 1}" if n else None) for n in range(17)])
    assert group_in(chain).min_available == 1
    replicas = [{**inner(f"r-{n}"), "minMember": n} for n in (1, 2)]
    document = kai([*replicas, leaf("a", 1, "r-1"), leaf("b", 1, "r-2")], minSubGroup=1)
    assert group_in(document).roles == {"r": Role(2, minimum=1, roles={"a": 1})}


# Pods -------------------------------------------------------------------------------------------


def test_pod_names_its_group_in_an_annotation() -> None:
    claim = membership(pod_in(pods("a", 1)[0]))
    assert claim is not None
    assert (claim.group, claim.role) == ("default/job", None)


def test_k_replicas_start_and_each_further_one_as_a_whole() -> None:
    members = [each for n in (1, 2, 3) for each in pods(f"replica-{n}", 3)]
    document, _roles, _paths = TREES["k replicas"]
    assert starts([document, *members], cpu=5)[0] == set()
    bound, _refused = starts([document, *members], cpu=8)
    assert bound == {f"replica-{n}-{i}" for n in (1, 2) for i in range(3)}
    assert len(starts([document, *members], cpu=9)[0]) == 9


def test_replicas_start_with_their_leaders() -> None:
    document, _roles, _paths = TREES["k replicas with sub groups, in any order"]
    without = [*pods("workers-1", 3), *pods("workers-2", 3)]
    assert starts([document, *without], cpu=99)[0] == set()
    bound, _refused = starts([document, *without, *pods("leaders-2", 1)], cpu=99)
    assert bound == {*(f"workers-2-{n}" for n in range(3)), "leaders-2-0"}


def test_elastic_sub_group_starts_after_the_others() -> None:
    document, _roles, _paths = TREES["a sub group without a minimum"]
    assert starts([document, *pods("more", 2)], cpu=9)[0] == set()
    bound, _refused = starts([document, *pods("more", 2), *pods("head", 1)], cpu=9)
    assert bound == {"more-0", "more-1", "head-0"}


def test_pod_of_no_sub_group_is_refused_and_told() -> None:
    document = kai([leaf("a", 1), inner("p"), leaf("b", 1, "p")])
    members = [*pods("a", 1), *pods("b", 1)]
    for odd in (None, "p", "c"):
        bound, refused = starts([document, *members, *pods(odd, 1)], cpu=9)
        assert bound == {"a-0", "b-0"}
        assert "those of a role of its group" in refused[f"{odd}-0".lower()]
    bound, refused = starts([kai(minMember=1), *pods("a", 1), *pods("default", 1)], cpu=9)
    assert (bound, list(refused)) == ({"default-0"}, ["a-0"])


def test_pod_that_names_no_sub_group_is_in_the_default_one() -> None:
    document = kai([leaf("a", 1), leaf("default", 2)])
    bound, refused = starts([document, *pods("a", 1), *pods(None, 1), *pods("default", 1)], cpu=9)
    assert (bound, refused) == ({"a-0", "none-0", "default-0"}, {})


def test_role_that_another_spelling_names_counts_for_nothing() -> None:
    document = kai([leaf("a", 1), leaf("b", 1)])
    members = [*pods("a", 1), *pods("b", 1)]
    for each in members:
        each["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] = "workers"
    assert starts([document, *members], cpu=9) == ({"a-0", "b-0"}, {})


@pytest.mark.parametrize("name", ["gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"])
def test_pod_with_a_part_of_a_gpu_is_held(name: str) -> None:
    (document,) = pods("a", 1)
    document["metadata"]["annotations"][name] = "0.5"
    assert pod_in(document).unmodelled == (name,)
    group = kai([leaf("a", 1)])
    assert starts([group, document], cpu=9)[0] == set()
    group["metadata"]["annotations"] = {name: "0.5", "kueue.x-k8s.io/podset-group-name": "x"}
    assert group_in(group).unmodelled == (), "it has annotations of its owner"


def test_groups_of_other_labels_are_not_selected() -> None:
    group = group_in(kai([leaf("a", 1)]))
    assert group.labelled_roles[0].selector == LabelSelector({PART: "a"})


FILE = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: job}
spec:
  minSubGroup: 1
  subGroups: [{name: r-0, minMember: 1}, {name: r-1, minMember: 1}]
"""


def test_file_has_groups_of_kai() -> None:
    workload = load_manifests(FILE, file="kai.yaml")
    (arrival,) = workload.arrivals
    assert isinstance(arrival.event, PodGroupAdded)
    expected = group_in(kai([leaf("r-0", 1), leaf("r-1", 1)], minSubGroup=1))
    assert arrival.event.group == expected
