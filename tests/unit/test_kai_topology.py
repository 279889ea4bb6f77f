"""Topology constraints of groups of KAI Scheduler and of their sub groups."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import Node, PodGroup, Role, Topology
from gangsched.manifests import NoteKind
from gangsched.testing import make_node
from support.trees_of_peers import (
    Document,
    Placed,
    group_in,
    placed,
    pod_document,
    read,
    read_from_list,
)

GROUP = "pod-group-name"
PART = "kai.scheduler/subgroup-name"
LEVELS = ("block", "rack")
RACK = {"topology": "t", "requiredTopologyLevel": "rack"}
NEAR = {"topology": "t", "requiredTopologyLevel": "block", "preferredTopologyLevel": "rack"}


def kai(*sub_groups: Document, **spec: Any) -> Document:
    return {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "job", "namespace": "default"},
        "spec": {"queue": "default-queue", "subGroups": list(sub_groups), **spec},
    }


def sub(
    name: str, minimum: int, within: Document | None = None, *, parent: str | None = None
) -> Document:
    """Return a sub group that needs pods."""
    return {"name": name, "minMember": minimum, "parent": parent, "topologyConstraint": within}


def part(
    name: str, minimum: int | None, within: Document | None = None, *, parent: str | None = None
) -> Document:
    """Return a sub group that needs some of its children."""
    return {"name": name, "minSubGroup": minimum, "parent": parent, "topologyConstraint": within}


def pods(name: str | None, count: int) -> list[Document]:
    labels = {} if name is None else {PART: name}
    notes, prefix = {GROUP: "job"}, name or "pod"
    return [pod_document(f"{prefix}-{n}", labels=labels, annotations=notes) for n in range(count)]


def start(documents: list[Document], *places: str, **options: Any) -> Placed:
    """Return what starts on nodes of 2 CPUs, given the block and the rack of each, as ``b0/r1``."""
    nodes: list[Node] = []
    for place in places:
        block, rack = place.split("/")
        labels = {"block": block, "rack": rack}
        nodes.append(make_node(f"{block}-{rack}", cpu=2, labels=labels))
    return placed(documents, *nodes, **options)


# What is read -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constraint", "meant"),
    [
        ({}, None),
        ({"topology": "t"}, None),
        ({"requiredTopologyLevel": "rack"}, Topology("rack")),
        (RACK, Topology("rack")),
        ({"topology": "t", "preferredTopologyLevel": "rack"}, Topology("rack", required=False)),
        (NEAR, Topology("block", prefer="rack")),
        ({**RACK, "preferredTopologyLevel": "rack"}, Topology("rack")),
        ({**RACK, "preferredTopologyLevel": ""}, Topology("rack")),
    ],
)
def test_constraint_is_that_of_the_group_and_of_the_role(
    constraint: Document, meant: Topology | None
) -> None:
    document = kai(minMember=2, topologyConstraint=constraint)
    group = group_in(document)
    assert (group.topology, group.unmodelled, read(document).notes) == (meant, (), ())
    assert group == read_from_list(document)
    group = group_in(kai(sub("a", 2, constraint), sub("b", 1)))
    assert group.roles == PodGroup(name="g", roles={"a": Role(2, topology=meant), "b": 1}).roles
    assert (group.topology, group.unmodelled) == (None, ())


TREES: dict[str, tuple[Document, dict[str, int | Role]]] = {
    "of a sub group with children, and of one of them": (
        kai(part("p", None, NEAR), sub("a", 2, RACK, parent="p"), sub("b", 1, parent="p")),
        {
            "p": Role(
                1,
                roles={"a": Role(2, topology=Topology("rack")), "b": 1},
                topology=Topology("block", prefer="rack"),
            )
        },
    ),
    "of copies": (
        kai(sub("r-0", 2, RACK), sub("r-1", 2, {**RACK, "topology": "u"}), minSubGroup=1),
        {"r": Role(2, minimum=1, roles={"member": 2}, topology=Topology("rack"))},
    ),
    "of copies with sub groups, and of those": (
        kai(
            *(part("r-0", None, NEAR), sub("a-0", 1, parent="r-0")),
            sub("b-0", 1, RACK, parent="r-0"),
            *(part("r-1", None, NEAR), sub("b-1", 1, RACK, parent="r-1")),
            sub("a-1", 1, parent="r-1"),
            minSubGroup=1,
        ),
        {
            "r": Role(
                2,
                minimum=1,
                roles={"a": 1, "b": Role(1, topology=Topology("rack"))},
                topology=Topology("block", prefer="rack"),
            )
        },
    ),
    "of all copies together": (
        kai(
            part("p", 1, NEAR),
            *(sub("p-0", 2, RACK, parent="p"), sub("p-1", 2, RACK, parent="p")),
            sub("q", 1),
        ),
        {
            "p": Role(
                1,
                roles={
                    "member": Role(2, minimum=1, roles={"member": 2}, topology=Topology("rack"))
                },
                topology=Topology("block", prefer="rack"),
            ),
            "q": 1,
        },
    ),
    "of copies of copies": (
        kai(
            *(part("a-0", 1, NEAR), part("a-1", 1, NEAR)),
            *(sub("a-0-x", 2, RACK, parent="a-0"), sub("a-0-y", 2, RACK, parent="a-0")),
            *(sub("a-1-x", 2, RACK, parent="a-1"), sub("a-1-y", 2, RACK, parent="a-1")),
            minSubGroup=1,
        ),
        {
            "a": Role(
                2,
                minimum=1,
                roles={
                    "member": Role(2, minimum=1, roles={"member": 2}, topology=Topology("rack"))
                },
                topology=Topology("block", prefer="rack"),
            )
        },
    ),
}


@pytest.mark.parametrize("name", TREES)
def test_constraint_of_a_sub_group_is_that_of_its_role(name: str) -> None:
    document, roles = TREES[name]
    group = group_in(document)
    assert (group.roles, group.unmodelled) == (PodGroup(name="g", roles=roles).roles, ())
    named = [each.selector.match_labels.get(PART) for each in group.labelled_roles]
    leaves = {each["name"] for each in document["spec"]["subGroups"] if "minMember" in each}
    assert {name for name in named if name} == leaves


def test_copies_are_alike_only_if_their_constraints_are_equal() -> None:
    reason = "spec.minSubGroup (1 of 2 sub groups that are not alike)"
    nearer = {**RACK, "preferredTopologyLevel": "host"}
    for other in (None, NEAR, nearer, {"preferredTopologyLevel": "rack"}):
        group = group_in(kai(sub("r-0", 2, RACK), sub("r-1", 2, other), minSubGroup=1))
        assert group.unmodelled == (reason,)


def test_parent_of_unlike_copies_is_held_for_that_reason_alone() -> None:
    document = kai(part("p", 1, RACK), sub("a", 1, parent="p"), sub("b", 2, parent="p"))
    (reason,) = group_in(document).unmodelled
    assert reason == "spec.subGroups[0].minSubGroup (1 of 2 sub groups that are not alike)"


NEEDS_NONE = "of a sub group that needs no pods"


@pytest.mark.parametrize(
    ("document", "number"),
    [
        (kai(sub("a", 1), sub("more", 0, RACK)), 1),
        (kai(part("p", None, RACK), sub("a", 0, parent="p"), sub("b", 1)), 0),
        (kai(part("p", None), sub("a", 0, RACK, parent="p"), sub("b", 1, parent="p")), 1),
        (kai(part("p", 1, RACK), sub("a", 0, parent="p"), sub("a", 0, parent="p")), 0),
        (kai(sub("r-0", 0, RACK), sub("r-1", 0, RACK), minSubGroup=1), 0),
    ],
)
def test_required_level_of_a_sub_group_that_needs_no_pods_holds(
    document: Document, number: int
) -> None:
    for place, each in enumerate(document["spec"]["subGroups"]):
        each["name"] = f"{each['name']}{place}" if each["name"] == "a" else each["name"]
    held = f"spec.subGroups[{number}].topologyConstraint ({NEEDS_NONE})"
    assert held in group_in(document).unmodelled
    for each in document["spec"]["subGroups"]:
        if each["topologyConstraint"]:
            each["topologyConstraint"] = {"preferredTopologyLevel": "rack"}
    assert group_in(document).unmodelled == ()


@pytest.mark.parametrize("path", ["spec.topologyConstraint", "spec.subGroups.topologyConstraint"])
def test_constraint_can_be_ignored_and_a_note_says_so(path: str) -> None:
    document = kai(sub("a", 2, NEAR), sub("more", 0, RACK), topologyConstraint=NEAR)
    group = group_in(document, ignore=[path])
    of_group = path == "spec.topologyConstraint"
    assert (group.topology is None) == of_group
    notes = [note for note in read(document, ignore=[path]).notes if note.kind is NoteKind.IGNORED]
    if of_group:
        assert [note.field for note in notes] == [path]
    else:
        assert (group.roles, group.unmodelled) == ({"a": 2}, ())
        assert [note.field for note in notes] == [
            f"spec.subGroups[{n}].topologyConstraint" for n in (0, 1)
        ]


def test_unknown_field_of_a_constraint_holds() -> None:
    document = kai(sub("a", 1, {**RACK, "x": 1}), topologyConstraint={**RACK, "y": 1})
    assert group_in(document).unmodelled == (
        "spec.topologyConstraint.y",
        "spec.subGroups[0].topologyConstraint.x",
    )


# What starts ------------------------------------------------------------------------------------


def test_group_has_one_rack_with_and_without_levels() -> None:
    documents = [kai(minMember=3, topologyConstraint=RACK), *pods(None, 3)]
    for levels in ((), LEVELS):
        assert start(documents, "b0/r0", "b0/r1", levels=levels).nodes == {}
        found = start(documents, "b0/r0", "b0/r1", "b0/r2", levels=levels)
        assert found.nodes == {}
        document = kai(minMember=2, topologyConstraint=RACK)
        found = start([document, *pods(None, 2)], "b0/r0", "b0/r1", levels=levels)
        assert len({*found.nodes.values()}) == 1
    same = ("b0/r0", "b1/r0")
    assert len(start(documents, *same).nodes) == 3, "racks of one name are one rack"
    assert start(documents, *same, levels=LEVELS).nodes == {}


def test_group_prefers_a_rack_of_the_block_that_it_requires() -> None:
    documents = [kai(minMember=4, topologyConstraint=NEAR), *pods(None, 4)]
    places = ("b0/r0", "b0/r1", "b1/r0")
    found = start(documents, *places, levels=LEVELS)
    assert {*found.nodes.values()} == {"b0-r0", "b0-r1"}
    documents = [kai(minMember=6, topologyConstraint=NEAR), *pods(None, 6)]
    found = start(documents, *places, levels=LEVELS)
    assert found.nodes == {}
    assert "block" in str(found.scheduler.why("default/job"))


def test_two_levels_hold_the_pods_if_the_scheduler_knows_none() -> None:
    said = "rack is preferred within block, and the scheduler was given no levels"
    for document in (kai(minMember=2, topologyConstraint=NEAR), kai(sub("default", 2, NEAR))):
        documents = [document, *pods(None, 2)]
        found = start(documents, "b0/r0")
        assert found.nodes == {}
        assert said in str(found.scheduler.why("default/job"))
        assert len(start(documents, "b0/r0", levels=LEVELS).nodes) == 2


def test_preferred_level_alone_is_a_wish_with_and_without_levels() -> None:
    wish = {"topology": "t", "preferredTopologyLevel": "rack"}
    documents = [kai(minMember=2, topologyConstraint=wish), *pods(None, 2)]
    for levels in ((), LEVELS):
        assert len({*start(documents, "b0/r0", "b0/r1", levels=levels).nodes.values()}) == 1
        documents_of_four = [kai(minMember=4, topologyConstraint=wish), *pods(None, 4)]
        assert len(start(documents_of_four, "b0/r0", "b0/r1", levels=levels).nodes) == 4


def test_each_sub_group_has_its_own_rack_within_the_block_of_the_group() -> None:
    block = {"topology": "t", "requiredTopologyLevel": "block"}
    document = kai(sub("a", 2, RACK), sub("b", 2, RACK), topologyConstraint=block)
    documents = [document, *pods("a", 2), *pods("b", 2)]
    for levels in ((), LEVELS):
        found = start(documents, "b0/r0", "b1/r1", "b1/r2", levels=levels)
        assert {*found.nodes.values()} == {"b1-r1", "b1-r2"}
        assert len({found.nodes[f"a-{n}"] for n in range(2)}) == 1
        assert start(documents, "b0/r0", "b1/r1", levels=levels).nodes == {}


def test_further_pods_of_a_sub_group_stay_in_its_rack() -> None:
    document = kai(sub("a", 1, RACK), sub("b", 1))
    found = start([document, *pods("a", 4), *pods("b", 1)], "b0/r0", "b0/r1", levels=LEVELS)
    assert len({node for pod, node in found.nodes.items() if pod.startswith("a")}) == 1
    assert 2 <= len(found.nodes) <= 3


def test_each_copy_has_its_own_rack_and_all_copies_one_block() -> None:
    copies = [sub(f"p-{n}", 2, RACK, parent="p") for n in range(3)]
    members = [pod for n in range(3) for pod in pods(f"p-{n}", 2)]
    documents = [kai(part("p", 2, NEAR), *copies), *members]
    found = start(documents, "b0/r0", "b1/r1", "b1/r2", "b2/r0", levels=LEVELS)
    assert {*found.nodes.values()} == {"b1-r1", "b1-r2"}
    for copy in {pod[:3] for pod in found.nodes}:
        assert found.nodes[f"{copy}-0"] == found.nodes[f"{copy}-1"]
    assert start(documents, "b0/r0", "b1/r1", "b2/r2", levels=LEVELS).nodes == {}
