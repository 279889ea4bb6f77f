"""Gangs that stay partly on nodes are evicted when their bound is over, and not later."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from gangsched import (
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    Scheduler,
    presets,
)
from gangsched.events import Evict
from gangsched.kubernetes._partial import PartialGangs
from gangsched.kubernetes._start_marks import BOUND_IN_START, WAS_WHOLE
from gangsched.model import GroupKey, Pod, PodPhase, PodUID
from support.stepped_loop import run_stepped

KEY = GroupKey("default/g")
BOUND = 10.0


class World:
    """A gang of three, seen by ``PartialGangs`` on the time since the program began."""

    def __init__(
        self,
        assigned: int = 0,
        *,
        begun: bool = True,
        settled: bool = True,
        marks: dict[str, str] | None = None,
    ) -> None:
        self.info: Any = SimpleNamespace(
            key=KEY,
            spec=None,
            min_available=3,
            assigned=assigned,
            assumed=0,
            members=_Members(["a"]),
        )
        self.pod = Pod(name="a", uid="a", node_name="n", annotations=marks or {})
        self.evicted: list[float] = []
        self.reported: list[tuple[float, str]] = []
        cluster = SimpleNamespace(pod=lambda _uid: self.pod)
        registry = {KEY: self.info}
        scheduler = SimpleNamespace(registry=_Registry(registry))
        cache: Any = SimpleNamespace(
            cluster=cluster, group_facts=lambda _key: None, group_of=lambda _pod: KEY
        )
        made: Any = scheduler
        self.partial = PartialGangs(
            *(cache, made, self._evict, self._report, self.now), bound=BOUND
        )
        if settled:
            self.partial.settled()
        if begun:
            self.partial.begun(KEY)
        self.start = 0.0

    def now(self) -> float:
        return asyncio.get_running_loop().time() - self.start

    async def _evict(self, evict: Evict) -> None:
        assert evict.uid == "a"
        self.evicted.append(self.now())
        self.info.assigned = 0

    def _report(self, key: GroupKey, note: str) -> None:
        assert key == KEY
        self.reported.append((self.now(), note))


def tree() -> tuple[InMemoryCluster, Scheduler, PartialGangs]:
    """Return a tree of two groups of one pod, both on nodes, of which nothing is written."""
    cluster = InMemoryCluster()
    root = PodGroup(name="root", min_groups=2)
    groups = [PodGroup(name=n, min_available=1, parent=root.key) for n in ("a", "b")]
    pods = [Pod(name=f"{n}-0", uid=n, pod_group=n, node_name="n") for n in ("a", "b")]
    cluster.apply(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 4})))
    for group in (root, *groups):
        cluster.apply(PodGroupAdded(group))
    for pod in pods:
        cluster.apply(PodAdded(pod))
    scheduler = presets.gang(cluster)
    scheduler.rebuild(now=0.0)
    cache: Any = SimpleNamespace(cluster=cluster, group_facts=lambda _key: None)
    never: Any = None
    partial = PartialGangs(cache, scheduler, never, never, lambda: 0.0, bound=BOUND)
    return cluster, scheduler, partial


@pytest.mark.parametrize("is_seen", [True, False])
def test_tree_that_this_process_saw_whole_stays_so_without_a_group(is_seen: bool) -> None:
    cluster, scheduler, partial = tree()
    partial.begun(GroupKey("default/a"))
    if is_seen:
        partial.whole(GroupKey("default/a"))
    scheduler.handle(cluster.apply(PodDeleted(PodUID("a"))), now=0.0)
    assert partial.was_whole(GroupKey("default/root")) is (True if is_seen else None)


class _Members(list[str]):
    """The members of a group, none of which has finished."""

    count = lambda _self, _state: 0  # noqa: E731


class _Registry(dict[GroupKey, Any]):
    """The groups by key; iterates over the groups, as the registry does. None has a parent."""

    above = lambda _self, _key: ()  # noqa: E731
    spec = lambda _self, _key: None  # noqa: E731

    def __iter__(self) -> Any:
        return iter(self.values())


def played(world: World, *steps: tuple[float, dict[str, int]], until: float = 60.0) -> list[float]:
    """Let the gang change at some seconds; return when its member was evicted."""

    async def program() -> None:
        world.start = asyncio.get_running_loop().time()
        looking = asyncio.ensure_future(world.partial.run())
        for at, change in steps:
            await asyncio.sleep(at - world.now())
            vars(world.info).update(change)
        await asyncio.sleep(until - world.now())
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking

    run_stepped(program())
    return world.evicted


LATE = 1.11 * BOUND
WHOLE = {"assumed": 0, "assigned": 3}


@pytest.mark.parametrize(
    ("assigned", "steps", "evicted"),
    [
        (0, [(0.9, {"assigned": 1})], (0.9 + BOUND, 0.9 + LATE)),
        (1, [], (BOUND, LATE)),  # as after a restart
        (1, [(8.0, {"assumed": 2}), (15.0, {"assumed": 0})], (15.0, 15.1)),
        (1, [(9.0, {"assumed": 2}), (12.0, WHOLE)], None),
        (1, [(4.0, {"assigned": 0}), (8.0, {"assigned": 1})], (8.0 + BOUND, 8.0 + LATE)),
    ],
    ids=["begins", "is partial at first", "bind fails", "is completed", "is partial again"],
)
def test_partial_gang_is_evicted_at_most_a_tenth_of_the_bound_late(
    assigned: int,
    steps: list[tuple[float, dict[str, int]]],
    evicted: tuple[float, float] | None,
) -> None:
    world = World(assigned)
    found = played(world, *steps)
    assert [evicted is not None and evicted[0] <= at <= evicted[1] for at in found] == [True][
        : evicted is not None
    ]
    assert world.reported == []


def test_gang_of_which_nothing_is_known_is_reported_once_and_not_evicted() -> None:
    """A gang by labels that another leader has placed in part."""
    world = World(assigned=1, begun=False)
    assert played(world) == []
    (found, (at, note)) = world.reported
    assert found[0] <= 1.11, "at the first look"
    assert found[1].startswith("1 of 3 members of pod group default/g are on nodes, as an earlier")
    assert BOUND <= at <= 1.11 * BOUND
    assert note.startswith(
        "1 of 3 members of pod group default/g are on nodes, and the others were not placed"
        " within 10 s; they are not evicted"
    )


def test_gang_that_is_taken_in_after_the_first_look_is_reported_as_it_was_found() -> None:
    """Much is listed, and it is not all taken in when the first look comes."""
    world = World(begun=False, settled=False)
    assert played(world, (3.3, {"assigned": 1})) == []
    (at, note) = world.reported[0]
    assert 3.3 <= at <= 3.3 + 1.11
    assert "as an earlier" in note
    assert ["as an earlier" in note for _at, note in world.reported] == [True, False]


def test_gang_of_which_nothing_is_known_is_reported_again_when_it_is_partial_again() -> None:
    world = World(assigned=1, begun=False)
    steps = (15.0, {"assigned": 3}), (20.0, {"assigned": 2})
    assert played(world, *steps) == []
    later = [note[:1] for at, note in world.reported if at > BOUND]
    assert later == ["1", "2"]


def test_gang_that_was_whole_is_neither_evicted_nor_reported() -> None:
    """It belongs to its job controller."""
    world = World(assigned=2)
    world.partial.whole(KEY)
    assert played(world) == []
    assert world.reported == []


@pytest.mark.parametrize("mark", [BOUND_IN_START, WAS_WHOLE, ""])
def test_pods_say_whether_a_gang_that_is_found_in_part_is_evicted(mark: str) -> None:
    world = World(assigned=1, begun=False, marks={mark: "true"} if mark else {})
    assert (len(played(world)) == 1) is (mark == BOUND_IN_START)
    found = ["are on nodes, as an earlier" in note for _at, note in world.reported]
    assert found == {BOUND_IN_START: [True], WAS_WHOLE: [], "": [True, False]}[mark]


@pytest.mark.parametrize("leaves", [{"deleted_at": 1.0}, {"phase": PodPhase.SUCCEEDED}])
def test_pods_that_leave_do_not_say_that_a_gang_was_whole(leaves: dict[str, Any]) -> None:
    """They may be of an earlier gang of the same name."""
    marks = {WAS_WHOLE: "true"}
    world = World(assigned=1, begun=False, marks=marks)
    world.pod = Pod(name="a", uid="a", node_name="n", annotations=marks, **leaves)
    assert world.partial.was_whole(KEY) is None


def test_gang_whose_pods_said_that_it_was_whole_stays_so() -> None:
    """Its pods leave, or a member is replaced under a new leader, which is no start."""
    world = World(assigned=2, begun=False, marks={WAS_WHOLE: "true"})
    assert world.partial.was_whole(KEY)
    world.pod = Pod(name="a", uid="a", node_name="n", annotations={BOUND_IN_START: "true"})
    assert world.partial.was_whole(KEY)
    world.partial.begun(KEY)
    assert world.partial.was_whole(KEY)
    assert played(world) == []


def test_bind_says_whether_it_is_a_part_of_a_start() -> None:
    world = World(begun=False)
    world.partial.begun(KEY)
    assert world.partial.marks_with_bind(world.pod) == {BOUND_IN_START: "true"}
    world.partial.whole(KEY)
    assert world.partial.marks_with_bind(world.pod) == {WAS_WHOLE: "true"}
    world = World()
    world.info.min_available = 1
    assert world.partial.marks_with_bind(world.pod) == {}


def test_reported_gang_does_not_make_the_looks_more_frequent() -> None:
    """A gang whose bound is over would be looked at every hundredth of a second."""
    world = World(assigned=1, begun=False)
    looks = 0
    look = world.partial.look

    async def counted() -> None:
        nonlocal looks
        looks += 1
        await look()

    object.__setattr__(world.partial, "look", counted)
    played(world, until=60.0)
    assert looks <= 61
