"""Groups of groups: k of n children start, and the reasons why they do not."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Bind,
    Evict,
    GroupKey,
    InvalidPodGroupError,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodUID,
    Preemption,
    RestartPolicy,
    Topology,
    presets,
)
from gangsched.testing import make_pod
from support.immediate_host import ImmediateHost

SERVE = GroupKey("default/serve")


class Host(ImmediateHost):
    """Nodes of 4 CPUs, two of them in each rack."""

    def __init__(self, nodes: int, **options: Any) -> None:
        super().__init__()
        self.scheduler = presets.gang(self.cluster, **options)
        for n in range(nodes):
            self.tell(NodeAdded(node(n)))

    def child(self, number: int, *, cpu: int = 2, **stated: Any) -> None:
        """Add a child of two members."""
        name = f"c{number}"
        given = {"parent": SERVE, "min_available": 2, **stated}
        self.tell(PodGroupAdded(PodGroup(name=name, **given)))
        self.tell(*[PodAdded(pod(name, member, cpu=cpu)) for member in range(2)])

    def why(self, number: int) -> str:
        """Return why a child does not run."""
        return str(self.scheduler.why(f"default/c{number}"))


def node(number: int) -> Node:
    """Return a node."""
    labels, allocatable = {"rack": f"r{number // 2}"}, {"cpu": 4, "pods": 9}
    return Node(name=NodeName(f"n{number}"), labels=labels, allocatable=allocatable)


def pod(group: str, member: int, *, cpu: int = 2, priority: int = 0) -> Pod:
    """Return a member of a child."""
    return make_pod(f"{group}-{member}", cpu=cpu, group=group, priority=priority)


def root(min_groups: int = 2, **stated: Any) -> PodGroupAdded:
    """Return the event that adds the root."""
    return PodGroupAdded(PodGroup(name="serve", min_groups=min_groups, **stated))


def test_children_wait_for_their_parent() -> None:
    host = Host(2)
    host.child(0)
    host.child(1)
    assert host.decide() == []
    assert host.why(0) == (
        "not admitted: waiting for pod group default/serve, a parent: it does not exist"
    )
    host.tell(root())
    assert host.decide() == ["c0-0", "c0-1", "c1-0", "c1-1"]


def test_as_many_children_start_as_are_wanted_and_no_other_by_half() -> None:
    host = Host(2)
    host.tell(root(1))
    host.child(0)
    host.child(1, cpu=3)
    assert host.decide() == ["c0-0", "c0-1"]
    assert "does not fit" in host.why(1)
    host.tell(NodeAdded(node(8)), NodeAdded(node(9)))
    assert host.decide() == ["c1-0", "c1-1"]


def test_too_few_children_are_counted() -> None:
    host = Host(2)
    host.tell(root(2))
    host.child(0)
    assert host.decide() == []
    assert host.why(0) == (
        "not admitted: waiting for pod groups whose parent is default/serve: 1 of 2 can start"
    )


def test_why_of_a_parent_is_about_its_children() -> None:
    host = Host(3)
    host.tell(root(2))
    why = partial(host.scheduler.why, SERVE)
    assert str(why()) == "not admitted: no pod group whose parent is default/serve has pods"
    host.child(0)
    host.decide()
    assert "1 of 2 can start" in str(why())
    host.child(1)
    host.decide()
    assert str(why()) == "4 members hold nodes"
    host.tell(PodGroupAdded(PodGroup(name="c2", min_available=2, parent=SERVE)))
    host.tell(PodAdded(pod("c2", 0)))
    assert host.decide() == []
    assert str(why()) == (
        "runs: 4 of 5 members hold nodes, and its minimum of 4 is met; 1 waits: not admitted:"
        " waiting for 1 more member of pod group default/c2: 1 of 2 exist"
    )
    host.end("c0-1")
    assert str(why()).startswith("runs in part: 3 of 4 members hold nodes, 1 of 2 default/serve;")


def test_three_levels_start_by_their_minima() -> None:
    host = Host(3)
    host.tell(root(2))
    middle = PodGroup(name="decode", min_groups=1, parent=SERVE, topology=Topology("rack"))
    host.tell(PodGroupAdded(middle))
    decode = GroupKey("default/decode")
    host.child(0, parent=decode)
    host.child(1, parent=decode)
    assert host.decide() == []  # the router is a child of the root, and has no pods yet
    host.tell(PodGroupAdded(PodGroup(name="router", min_available=1, parent=SERVE)))
    host.tell(PodAdded(pod("router", 0, cpu=4)))
    assert host.decide() == ["router-0", "c0-0", "c0-1", "c1-0", "c1-1"] or host.decide() == []
    racks = {bind.node for bind in host.effects if isinstance(bind, Bind) and "/c" in bind.uid}
    assert racks <= {"n0", "n1"} or racks <= {"n2"}


@pytest.mark.parametrize(
    ("parent", "child", "reason"),
    [
        ({"priority": 1}, {"priority": 2}, "priority must be that of default/serve, which is 1"),
        ({}, {"min_groups": 1, "min_available": 0}, "waiting for pod groups whose parent is"),
        ({"restart": RestartPolicy()}, {}, "only groups of pods are restarted"),
        ({"unmodelled": ["spec.x"]}, {}, "has a constraint that is not known: spec.x"),
    ],
)
def test_what_is_wrong_with_a_family_holds_it(
    parent: dict[str, Any], child: dict[str, Any], reason: str
) -> None:
    host = Host(4)
    host.tell(root(2, **parent))
    if "min_groups" in child:
        host.tell(PodGroupAdded(PodGroup(name="c9", parent=SERVE, min_groups=1)))
        child = {}
    host.child(0, **child)
    if "waiting" not in reason:
        host.child(1)
    assert host.decide() == []
    assert reason in host.why(0)


def test_parents_in_a_circle_hold_their_children() -> None:
    host = Host(2)
    host.tell(root(1, parent=GroupKey("default/top")))
    host.tell(PodGroupAdded(PodGroup(name="top", min_groups=1, parent=SERVE)))
    host.child(0)
    assert host.decide() == []
    assert "pod group default/serve is its own parent, by way of default/top" in host.why(0)


def test_pod_of_a_group_of_groups_is_refused() -> None:
    host = Host(2)
    host.tell(root(1))
    host.tell(PodAdded(pod("serve", 0)))
    assert host.decide() == []
    reason = str(host.scheduler.why(PodUID("default/serve-0")))
    assert "pod_group must be a group of pods; it has min_groups, so no pods" in reason


def test_running_family_goes_on_when_its_minimum_or_its_parent_changes() -> None:
    host = Host(2)
    host.tell(root(2))
    host.child(0)
    host.child(1)
    assert len(host.decide()) == 4
    host.tell(PodGroupUpdated(PodGroup(name="serve", min_groups=3)))
    host.tell(PodGroupDeleted(SERVE))
    host.tell(PodGroupUpdated(PodGroup(name="c0", min_available=2)))
    assert host.at(500.0) == []
    assert not [each for each in host.effects if isinstance(each, Evict)]
    assert host.why(0) == host.why(1) == "2 members hold nodes"


def test_replacement_of_a_member_starts_by_itself() -> None:
    host = Host(2)
    host.tell(root(2))
    host.child(0)
    host.child(1)
    host.decide()
    host.tell(PodDeleted(PodUID("default/c0-1")))
    host.tell(PodAdded(evolve(pod("c0", 1), uid=PodUID("again"))))
    host.decide()
    assert [each.uid for each in host.effects if isinstance(each, Bind)][-1] == "again"


def test_family_that_is_evicted_whole_gives_up_no_member() -> None:
    for whole, victims in ((False, 1), (True, 5)):
        host = Host(3, preemption=Preemption())
        host.tell(root(2, evicted_whole=whole))
        host.child(0)
        host.child(1)
        host.tell(PodAdded(pod("c1", 2)))
        assert len(host.decide()) == 5
        urgent = make_pod("urgent", cpu=2, priority=9)
        host.tell(*[PodAdded(make_pod(f"fill-{n}", cpu=1, priority=9)) for n in range(2)])
        host.decide()
        host.tell(PodAdded(urgent))
        host.decide()
        evicted = [each for each in host.effects if isinstance(each, Evict)]
        assert len(evicted) == victims


def test_parent_has_no_pods_of_its_own() -> None:
    with pytest.raises(InvalidPodGroupError, match="roles must be omitted"):
        PodGroup(name="serve", min_groups=1, roles={"a": 1})
    with pytest.raises(InvalidPodGroupError, match="bundle must be omitted"):
        PodGroup(name="c0", min_available=1, parent=SERVE, bundle=["default/c1"])
    with pytest.raises(InvalidPodGroupError, match="parent must be another group"):
        PodGroup(name="serve", min_groups=1, parent=SERVE)
