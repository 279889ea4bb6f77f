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
    MatchPolicy,
    Node,
    NodeAdded,
    NodeDeleted,
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
    Role,
    Topology,
    presets,
)
from gangsched.testing import make_pod
from gangsched.what_if import Insufficient, Sufficient
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
        given: dict[str, Any] = {"parent": SERVE, "min_available": 2, **stated}
        self.tell(PodGroupAdded(PodGroup(name=name, **given)))
        self.tell(*[PodAdded(pod(name, member, cpu=cpu)) for member in range(2)])

    def why(self, number: int) -> str:
        """Return why a child does not run."""
        return str(self.scheduler.why(f"default/c{number}"))


def node(number: int) -> Node:
    """Return a node."""
    labels, allocatable = {"rack": f"r{number // 2}"}, {"cpu": 4, "pods": 9}
    return Node(name=NodeName(f"n{number}"), labels=labels, allocatable=allocatable)


def sized(number: int, cpu: int) -> Node:
    """Return a node of another size."""
    return evolve(node(number), allocatable={"cpu": cpu, "pods": 9})


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


def test_reason_says_nothing_of_each_of_unlike_children() -> None:
    host = Host(1)
    host.tell(root(2))
    host.child(0, cpu=1)
    host.child(1, cpu=2)
    host.tell(PodGroupAdded(PodGroup(name="c2", min_available=2, parent=SERVE)))
    host.tell(*[PodAdded(pod("c2", member, cpu=3)) for member in range(2)])
    assert host.decide() == []
    assert "each needs" not in host.why(0)
    alike = Host(1)
    alike.tell(root(2))
    alike.child(0, cpu=2)
    alike.child(1, cpu=2)
    assert alike.decide() == []
    assert alike.why(0).endswith(
        "at most 1 of 2 children of pod group default/serve fit: each needs 4 cpu"
    )


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


def test_member_that_is_lost_is_replaced_though_the_parent_is_gone() -> None:
    host = Host(2)
    host.tell(root(1))
    host.child(0)
    host.decide()
    host.tell(PodGroupDeleted(SERVE))
    host.end("c0-1")
    host.tell(PodAdded(evolve(pod("c0", 1), uid=PodUID("again"))))
    host.decide()
    assert [each.uid for each in host.effects if isinstance(each, Bind)][-1] == "again"


@pytest.mark.parametrize("evicts", [False, True])
def test_surplus_child_evicts_only_if_elastic_members_may(evicts: bool) -> None:
    host = Host(2, preemption=Preemption(elastic_members=evicts))
    host.tell(root(1, priority=9))
    host.child(0)
    host.decide()
    host.tell(*[PodAdded(make_pod(f"low-{n}", cpu=2)) for n in range(2)])
    assert len(host.decide()) == 2
    host.child(1)
    host.decide()
    assert any(isinstance(each, Evict) for each in host.effects) is evicts


def test_nominated_family_keeps_a_running_group_in_its_domain() -> None:
    host = Host(0, preemption=Preemption())
    host.tell(*[NodeAdded(sized(number, 1)) for number in (0, 2)])
    host.tell(root(1, priority=9))
    middle = GroupKey("default/m")
    host.tell(PodGroupAdded(PodGroup(name="m", min_groups=2, parent=SERVE)))
    near = Topology("rack")
    host.tell(PodGroupAdded(PodGroup(name="a", min_available=1, parent=middle, topology=near)))
    host.tell(PodGroupAdded(PodGroup(name="b", min_available=1, parent=middle)))
    host.tell(*[PodAdded(pod(name, 0, cpu=1)) for name in "ab"])
    assert len(host.decide()) == 2
    first = {each.uid: each.node for each in host.effects if isinstance(each, Bind)}
    host.tell(PodAdded(pod("a", 1, cpu=1)))
    host.tell(NodeDeleted(first[PodUID("default/b-0")]))
    host.end("b-0")
    host.tell(NodeAdded(sized(4, 3)), PodAdded(make_pod("low", cpu=3)))
    host.decide()
    host.tell(PodAdded(pod("b", 1, cpu=1)))
    host.decide()
    host.end("low")
    host.decide()
    started = {each.uid for each in host.effects if isinstance(each, Bind)}
    assert PodUID("default/b-1") in started
    assert PodUID("default/a-1") not in started


def test_group_gets_its_member_back_though_a_sibling_cannot_start_again() -> None:
    host = Host(0)
    host.tell(*[NodeAdded(sized(number, 2 if number else 3)) for number in range(4)])
    host.tell(root(1))
    host.tell(PodGroupAdded(PodGroup(name="m", min_groups=2, parent=SERVE)))
    host.tell(PodGroupAdded(PodGroup(name="z", min_available=1, parent=SERVE)))
    middle = GroupKey("default/m")
    host.child(0, cpu=1, parent=middle)
    host.tell(PodGroupAdded(PodGroup(name="c1", min_available=1, parent=middle)))
    host.tell(PodAdded(pod("c1", 0, cpu=3)), PodAdded(pod("z", 0)))
    assert len(host.decide()) == 4
    where = {each.uid: each.node for each in host.effects if isinstance(each, Bind)}
    host.tell(NodeDeleted(where[PodUID("default/c1-0")]))
    host.end("c1-0", "c0-1")
    host.tell(PodAdded(pod("c1", 1, cpu=3)), PodAdded(pod("c0", 2, cpu=1)))
    assert host.decide() == ["c0-2"]


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


# Victims ------------------------------------------------------------------------------------------


def full(nodes: int) -> Host:
    """A host whose nodes are filled by members; the caller binds them."""
    return Host(nodes, preemption=Preemption())


def parent(name: str, min_groups: int, **stated: Any) -> PodGroupAdded:
    """Return the event that adds a parent below the root."""
    return PodGroupAdded(PodGroup(name=name, min_groups=min_groups, parent=SERVE, **stated))


def run(host: Host, name: str, *cpus: int, on: int, least: int = 2, **stated: Any) -> None:
    """Add a child whose members run on one node."""
    given: dict[str, Any] = {"parent": SERVE, "min_available": least, **stated}
    host.tell(PodGroupAdded(PodGroup(name=name, **given)))
    bound = NodeName(f"n{on}")
    members = [evolve(pod(name, n, cpu=cpu), node_name=bound) for n, cpu in enumerate(cpus)]
    host.tell(*map(PodAdded, members))


def run_copies(host: Host, name: str, *nodes: int, cpu: int = 1, **stated: Any) -> None:
    """Add a child of copies of two pods, each of which runs on one node; one is needed."""
    roles = {"decode": Role(len(nodes), 1, roles={"a": 1, "b": 1})}
    host.tell(PodGroupAdded(PodGroup(name=name, parent=SERVE, roles=roles, **stated)))
    for number, each in enumerate(nodes):
        for n, role in enumerate("ab"):
            path, on = f"decode/{number}/{role}", NodeName(f"n{each}")
            made = pod(name, 2 * number + n, cpu=cpu)
            host.tell(PodAdded(evolve(made, role=path, node_name=on)))


def victims(host: Host, *cpus: int) -> list[str]:
    """Return the groups of the pods that are evicted for a gang of urgent pods."""
    made = [
        make_pod(f"u-{n}", group="u", min_available=len(cpus), cpu=cpu, priority=9)
        for n, cpu in enumerate(cpus)
    ]
    host.tell(*map(PodAdded, made))
    host.decide()
    gone = [each.uid for each in host.effects if isinstance(each, Evict)]
    return sorted(uid.removeprefix("default/").rpartition("-")[0] for uid in gone)


@pytest.mark.parametrize(
    ("nodes", "gone"), [(1, ["c3"]), (2, ["c2", "c3"]), (3, ["c0", "c1", "c2", "c3"])]
)
def test_surplus_children_go_whole_the_last_first_and_then_the_family(
    nodes: int, gone: list[str]
) -> None:
    host = full(4)
    host.tell(root(2))
    for number in range(4):
        run(host, f"c{number}", 2, 2, on=number)
    assert victims(host, *[3] * nodes) == [name for name in gone for _member in range(2)]


def test_child_below_its_minimum_goes_before_those_that_stand() -> None:
    host = full(4)
    host.tell(root(2))
    for number in range(4):
        run(host, f"c{number}", 2, 2, on=number)
    host.end("c1-0")
    assert victims(host, 3) == ["c1"]


@pytest.mark.parametrize(("min_groups", "gone"), [(1, ["c3"] * 2), (2, ["c2"] * 2 + ["c3"] * 2)])
def test_surplus_subtree_goes_whole_after_what_it_can_spare(
    min_groups: int, gone: list[str]
) -> None:
    host = full(4)
    host.tell(root(1), parent("a", 2), parent("b", min_groups))
    for number in range(4):
        run(host, f"c{number}", 2, 2, on=number, parent=GroupKey(f"default/{'aabb'[number]}"))
    assert victims(host, 3) == gone


def test_family_whose_root_is_unmet_gives_up_nothing_in_part() -> None:
    for lost, gone in ([], ["c0"]), (["c1-0"], ["c0"] * 4 + ["c1"]):
        host = full(2)
        host.tell(root(2))
        run(host, "c0", 1, 1, 1, 1, on=0)
        run(host, "c1", 2, 2, on=1)
        host.end(*lost)
        fill = [evolve(make_pod(name, cpu=2, priority=9), node_name="n1") for name in lost]
        host.tell(*map(PodAdded, fill))
        assert victims(host, 1) == gone


@pytest.mark.parametrize(
    ("whole", "gone"),
    [
        ("", ["c1"]),
        ("c1", ["c1"] * 3),
        ("m", ["c0"] * 3 + ["c1"] * 3),
        ("serve", ["c0"] * 3 + ["c1"] * 3 + ["a"] * 3),
    ],
)
def test_what_is_evicted_whole_gives_up_nothing_below(whole: str, gone: list[str]) -> None:
    host = full(3)
    host.tell(root(1, evicted_whole=whole == "serve"))
    host.tell(parent("m", 1, evicted_whole=whole == "m"))
    run(host, "a", 1, 1, 2, on=2, least=3)
    for number in range(2):
        name, middle = f"c{number}", GroupKey("default/m")
        is_whole = whole == name or (whole == "c1" and name == "c0")
        run(host, name, 1, 1, 2, on=number, parent=middle, evicted_whole=is_whole)
    assert victims(host, 1) == sorted(gone)


@pytest.mark.parametrize(
    ("least", "asked", "gone"), [(2, 2, 4), (3, 2, 6), (4, 2, 6), (4, 1, 2), (5, 1, 6)]
)
def test_minimum_of_a_child_keeps_copies_within_it(least: int, asked: int, gone: int) -> None:
    host = full(3)
    host.tell(root(1))
    run_copies(host, "c0", 0, 1, 2, cpu=2, min_available=least)
    assert len(victims(host, *[3] * asked)) == gone


def test_child_takes_along_a_member_beyond_its_minimum_on_another_node() -> None:
    host = full(3)
    host.tell(root(1))
    fill = make_pod("fill", cpu=2, priority=9)
    host.tell(PodAdded(evolve(fill, node_name="n2")))
    for number in range(2):
        run(host, f"c{number}", 2, 2, on=number)
        host.tell(PodAdded(evolve(pod(f"c{number}", 2, cpu=1), node_name="n2")))
    assert victims(host, 3) == ["c1"] * 3


def test_child_takes_along_the_copies_within_it() -> None:
    host = full(4)
    host.tell(root(1))
    fill = [make_pod(f"fill-{n}", cpu=2, priority=9) for n in range(2)]
    host.tell(*[PodAdded(evolve(each, node_name=f"n{2 + n}")) for n, each in enumerate(fill)])
    for number in range(2):
        on = (number, 2 + number)
        run_copies(host, f"c{number}", *on, min_available=2)
    assert victims(host, 3) == ["c1"] * 4


def test_parent_has_no_pods_of_its_own() -> None:
    with pytest.raises(InvalidPodGroupError, match="roles must be omitted"):
        PodGroup(name="serve", min_groups=1, roles={"a": 1})
    with pytest.raises(InvalidPodGroupError, match="bundle must be omitted"):
        PodGroup(name="c0", min_available=1, parent=SERVE, bundle=["default/c1"])
    with pytest.raises(InvalidPodGroupError, match="parent must be another group"):
        PodGroup(name="serve", min_groups=1, parent=SERVE)


def test_smallest_change_of_a_parent_is_about_the_groups_that_it_wants() -> None:
    host = Host(1)
    host.tell(root(2))
    ask = partial(host.scheduler.smallest_change, SERVE, node(7), most=3)
    lacking = ask()
    assert isinstance(lacking, Insufficient)
    assert "no pod group whose parent is default/serve has pods" in str(lacking.why)
    host.child(0)
    one = ask()
    assert isinstance(one, Insufficient)
    assert (one.most, "1 of 2 can start" in str(one.why)) == (0, True)
    host.child(1)
    host.decide()
    change = ask()
    assert isinstance(change, Sufficient)
    assert (change.nodes, change.at) == (1, 0.0)
    host.tell(NodeAdded(node(8)))
    host.decide()
    started = ask()
    assert isinstance(started, Sufficient)
    assert (started.nodes, started.at) == (0, None)
    host.child(2)
    host.decide()
    assert ask() == started, "the third child is not wanted"


@pytest.mark.parametrize("policy", [MatchPolicy.ONCE_SATISFIED, MatchPolicy.WAITING_AND_RUNNING])
@pytest.mark.parametrize("roles", [{}, {"a": 1, "b": 2}])
def test_child_gets_a_member_back_though_a_sibling_lacks_one_that_is_gone(
    policy: MatchPolicy, roles: dict[str, int]
) -> None:
    host = Host(2, match_policy=policy)
    host.tell(PodGroupAdded(PodGroup(name="serve", min_groups=1)))
    made = [evolve(pod("c0", n, cpu=1), role="abb"[n] if roles else None) for n in range(3)]
    first = PodGroup(name="c0", parent=SERVE, min_available=3, roles=roles)
    host.tell(PodGroupAdded(first), *map(PodAdded, made))
    host.child(1, cpu=1)
    assert len(host.decide()) == 5
    # of the first child one runs, and what is created lacks a role, or another member
    host.end("c0-0", "c0-1", "c1-0")
    host.tell(*[PodAdded(evolve(made[1], uid=PodUID(f"u{n}"))) for n in range(1 + bool(roles))])
    host.tell(PodAdded(evolve(pod("c1", 0, cpu=1), uid=PodUID("again"))))
    host.decide()
    again = host.cluster.pod("again")
    assert again is not None
    assert again.node_name is not None
