"""Trees at their edges: copies that a group does not have, minima that are raised, many levels."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Evict,
    GroupKey,
    NodeAdded,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    Preemption,
    Role,
    presets,
)
from gangsched.errors import InvalidPodGroupError
from gangsched.model import LabelledRole
from gangsched.testing import make_node, make_pod
from support.immediate_host import ImmediateHost

ROOT = GroupKey("default/root")


class Host(ImmediateHost):
    """A scheduler with nodes of some CPUs."""

    def __init__(self, *cpus: int, preemption: Preemption | None = None) -> None:
        super().__init__()
        self.scheduler = presets.gang(self.cluster, preemption=preemption)
        for number, cpu in enumerate(cpus):
            self.tell(NodeAdded(make_node(f"n{number}", cpu=cpu)))

    def group(self, name: str, **given: Any) -> None:
        """Add a group."""
        self.tell(PodGroupAdded(PodGroup(name=name, **given)))

    def pods(self, group: str, role: str | None, *cpus: int, priority: int = 0) -> None:
        """Add pods of a group and a role, each of so many CPUs."""
        path = "" if role is None else role.replace("/", "-")
        for number, cpu in enumerate(cpus):
            name = f"{group}{path}-{number}"
            pod = make_pod(name, group=group, role=role, cpu=cpu, priority=priority)
            self.tell(PodAdded(pod))

    @property
    def on(self) -> list[str]:
        """The running pods, by name."""
        return sorted(pod.name for pod in self.cluster.pods() if pod.node_name)

    def why(self, key: str) -> str:
        return str(self.scheduler.why(f"default/{key}"))


@pytest.mark.parametrize("role", ["d/2/w", "d/00/w", "d/0/x", "d", "d/0", "d/0/w/1"])
def test_pod_of_a_copy_or_a_role_that_does_not_exist_is_refused(role: str) -> None:
    host = Host(9)
    host.group("g", roles={"d": Role(2, minimum=1, roles={"w": 2})})
    host.pods("g", "d/0/w", 1, 1)
    host.pods("g", role, 1)
    host.decide()
    assert host.on == ["gd-0-w-0", "gd-0-w-1"]
    name = f"g{role.replace('/', '-')}-0"
    assert "the role of a copy that the group has" in host.why(name)


def test_pod_of_a_further_copy_starts_once_the_group_has_it() -> None:
    host = Host(9)
    host.group("g", roles={"d": Role(1, roles={"w": 2})})
    host.pods("g", "d/0/w", 1, 1)
    host.pods("g", "d/1/w", 1, 1)
    host.decide()
    assert len(host.on) == 2
    spec = host.cluster.pod_group(GroupKey("default/g"))
    assert spec is not None
    more = {"d": Role(2, minimum=1, roles={"w": 2})}
    host.tell(PodGroupUpdated(evolve(spec, roles=more)))
    host.decide()
    assert len(host.on) == 4


def test_group_of_groups_states_no_roles_by_labels() -> None:
    with pytest.raises(InvalidPodGroupError, match="labelled_roles"):
        PodGroup(name="root", min_groups=1, labelled_roles=[LabelledRole("a")])


def test_running_family_goes_on_if_more_groups_are_wanted_than_there_are() -> None:
    host = Host(9)
    host.group("root", min_groups=1)
    for name in ("a", "b"):
        host.group(name, min_available=2, parent=ROOT)
        host.pods(name, None, 1, 1)
    host.decide()
    root = host.cluster.pod_group(ROOT)
    assert root is not None
    host.tell(PodGroupUpdated(evolve(root, min_groups=3)))
    assert "2 of 3" in host.why("root")
    host.end("a-0")
    host.tell(PodAdded(make_pod("a-9", group="a", cpu=1)))
    host.tell(PodAdded(make_pod("b-9", group="b", cpu=1)))
    host.decide()
    assert host.on == ["a-1", "a-9", "b-0", "b-1"], "b lacks nothing, so b-9 waits"


def test_child_whose_copies_are_fewer_than_its_minimum_needs_is_not_tried() -> None:
    host = Host(9)
    host.group("root", min_groups=1)
    roles = {"d": Role(3, minimum=1, roles={"w": 2})}
    host.group("g", roles=roles, min_available=4, parent=ROOT)
    for copy, number in ((0, 2), (1, 1), (2, 1)):
        host.pods("g", f"d/{copy}/w", *[1] * number)
    assert host.decide() == []
    assert "incomplete" in host.why("g")
    assert "backing off" not in host.why("g")


def test_child_that_needs_more_copies_than_its_role_starts_if_they_fit() -> None:
    host = Host(4, 7, 5)
    host.group("root", min_groups=1)
    roles = {"d": Role(2, minimum=1, roles={"w": 2})}
    host.group("g", roles=roles, min_available=3, parent=ROOT)
    host.pods("g", "d/0/w", 4, 3)
    host.pods("g", "d/1/w", 5, 3)
    host.decide()
    assert len(host.on) == 4


def test_child_below_its_minimum_evicts_what_has_taken_its_place() -> None:
    host = Host(4, preemption=Preemption())
    host.group("root", min_groups=2)
    for name in ("a", "b"):
        host.group(name, min_available=2, parent=ROOT, priority=5)
        host.pods(name, None, 1, 1, priority=5)
    host.decide()
    host.end("a-0")
    host.tell(PodAdded(make_pod("other", cpu=1)))
    host.decide()
    assert "other" in host.on
    host.tell(PodAdded(make_pod("a-9", group="a", cpu=1, priority=5)))
    host.decide()
    assert [e.uid for e in host.effects if isinstance(e, Evict)] == ["default/other"]


def test_search_among_many_unlike_copies_is_given_up() -> None:
    host = Host(*[100] * 24)
    host.group("g", roles={"d": Role(24, minimum=12, roles={"w": 2}), "router": 1})
    for copy in range(24):
        host.pods("g", f"d/{copy}/w", 51 + copy % 40, 52 + copy % 39)
    host.pods("g", "router", 51)
    assert host.decide() == []
    assert "given up after 10000 steps" in host.why("g")


def test_tree_of_very_many_levels_is_held_and_says_so() -> None:
    host = Host(9)
    host.group("g0", min_groups=1)
    for level in range(1, 400):
        host.group(f"g{level}", min_groups=1, parent=GroupKey(f"default/g{level - 1}"))
    host.group("leaf", min_available=1, parent=GroupKey("default/g399"))
    host.pods("leaf", None, 1)
    assert host.decide() == []
    assert "16 groups of groups or more below default/g0" in host.why("leaf")
    host.tell(PodGroupUpdated(PodGroup(name="leaf", min_available=1)))
    host.decide()
    assert host.on == ["leaf-0"]


def test_member_that_no_node_takes_is_the_reason_of_a_further_copy() -> None:
    host = Host(9)
    host.group("root", min_groups=1)
    host.group("a", min_available=1, parent=ROOT)
    host.group("b", min_available=1, parent=ROOT)
    host.pods("a", None, 1)
    picky = evolve(make_pod("b-0", group="b", cpu=1), node_selector={"x": "y"})
    host.tell(PodAdded(picky))
    host.decide()
    assert host.on == ["a-0"]
    assert "node affinity/selector" in host.why("b")


@pytest.mark.parametrize(("size", "starts"), [(2, True), (3, False)])
def test_sibling_takes_the_place_of_a_parent_that_wants_more_children_than_there_are(
    size: int, starts: bool
) -> None:
    host = Host(2)
    host.group("root", min_groups=1)
    inner = PodGroup(name="inner", min_groups=1, parent=ROOT)
    host.tell(PodGroupAdded(inner))
    host.group("a", min_available=1, parent=inner.key)
    host.pods("a", None, 0)
    host.decide()
    host.tell(PodGroupUpdated(evolve(inner, min_groups=2)))
    host.group("b", min_available=1, parent=ROOT)
    host.pods("b", None, size)
    host.decide()
    assert host.on == (["a-0", "b-0"] if starts else ["a-0"])
    host.group("c", min_available=1, parent=inner.key)
    host.pods("c", None, 0)
    host.decide()
    assert "c-0" in host.on
