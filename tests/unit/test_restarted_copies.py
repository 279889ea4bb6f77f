"""Copies of a role that fall below their own minimum while they run, and are restarted alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import evolve

from gangsched import (
    CopyBound,
    GroupBelowMinimum,
    GroupBound,
    GroupKey,
    GroupRejected,
    GroupRestarted,
    NodeAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodPhase,
    RestartLimitReached,
    RestartPolicy,
    Role,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.story import Story, Way, each_way

KEY = GroupKey("default/serve")
ALONE = RestartPolicy(max_restarts=2, backoff=10.0, longest_backoff=15.0)
WHOLE = RestartPolicy(max_restarts=3, backoff=100.0)
PARTS = ("leader", "worker-0", "worker-1")


def decode(*, alone: bool = True, **more: Any) -> Role:
    given: dict[str, Any] = {"minimum": 3, "roles": {"leader": 1, "worker": 2}, **more}
    return Role(4, restart=ALONE if alone else None, **given)


def names(*copies: int, series: str = "") -> list[str]:
    return [f"{series}{copy}-{part}" for copy in copies for part in PARTS]


def create(story: Story, pods: Iterable[str]) -> None:
    """Let the controller create pods: ``b1-worker-0`` is a worker of ``decode/1``."""
    for name in pods:
        copy, role = name.lstrip("abc").split("-")[:2]
        role = f"decode/{copy}/{role}"
        story.add(make_pod(name, group="serve", role=role, cpu=1, created_at=story.now))


def serving(
    role: Role, way: Way = Way.LIVE, cpu: int = 12, *, can_evict: bool = True, **group: Any
) -> Story:
    """Return a story in which four copies of a leader and two workers run; three are needed."""
    story = Story(lambda c: presets.gang(c, can_evict=can_evict), way, holds_evictions=True)
    story.tell(NodeAdded(make_node("n", cpu=cpu)))
    story.tell(PodGroupAdded(PodGroup(name="serve", roles={"decode": role}, **group)))
    create(story, names(0, 1, 2, 3))
    story.decide()
    assert len(story.bound) == 12
    story.run(until=100.0)
    story.effects.clear()
    return story


def settle(story: Story) -> None:
    """Let pass the second after which a lost member counts as lost."""
    story.run(until=story.now + 1.0)


# The group by its tree ------------------------------------------------------------------------


def test_group_with_enough_copies_is_not_restarted() -> None:
    story = serving(decode(alone=False), restart=WHOLE)
    story.delete("1-worker-0")
    settle(story)
    assert story.evicted == []
    assert story.of(GroupBelowMinimum) == []
    create(story, ["b1-worker-0"])
    story.decide()
    assert "b1-worker-0" in story.bound, "it is replaced"


def test_group_with_too_few_copies_is_restarted_as_a_whole() -> None:
    story = serving(decode(alone=False), restart=WHOLE)
    story.delete("1-worker-0", "2-leader")
    settle(story)
    assert story.of(GroupBelowMinimum) == [GroupBelowMinimum(KEY, 8, 9)]
    assert story.of(GroupRestarted) == [GroupRestarted(KEY, 1, 3, 201.0)]
    assert len(story.evicted) == 10


def test_group_that_falls_with_its_copies_is_restarted_and_they_are_not() -> None:
    story = serving(decode(), restart=WHOLE)
    story.delete("1-worker-0")
    settle(story)
    story.effects.clear()
    story.delete("2-leader")
    settle(story)
    assert story.of(GroupRestarted) == [GroupRestarted(KEY, 1, 3, 202.0)]
    story.delete(*story.bound)
    create(story, names(0, 1, 2, 3, series="b"))
    story.run(until=201.9)
    assert story.bound == {}
    story.run(until=202.0)
    assert len(story.bound) == 12
    story.delete("b1-leader")
    settle(story)
    copy = GroupRestarted(KEY, 1, 2, 213.0, "decode/1")
    assert story.of(GroupRestarted)[-1] == copy, "its count began anew"


# A copy alone ---------------------------------------------------------------------------------


@each_way
def test_copy_that_lost_a_worker_is_restarted_alone(way: Way) -> None:
    story = serving(decode(), way)
    story.delete("1-worker-0")
    settle(story)
    assert story.of(GroupBelowMinimum) == [GroupBelowMinimum(KEY, 2, 3, "decode/1")]
    assert story.of(GroupRestarted) == [GroupRestarted(KEY, 1, 2, 111.0, "decode/1")]
    assert story.evicted == ["1-leader", "1-worker-1"]
    assert story.of(GroupRejected) == []
    story.interrupt()
    create(story, names(1, series="b"))
    story.delete("1-leader")
    story.interrupt()
    story.run(until=112.0)
    assert not any(name.startswith("b") for name in story.bound), "an old pod is on a node"
    why = story.scheduler.why(KEY)
    assert "decode/1 of pod group default/serve is being restarted: pod 1-worker-1" in str(why)
    story.delete("1-worker-1")
    story.run(until=113.0)
    assert sorted(story.bound) == sorted([*names(0, 2, 3), *names(1, series="b")])
    assert len(story.of(GroupRestarted)) == 1, "it is counted once"
    assert story.of(CopyBound) == [CopyBound(KEY, "decode/1", 3)]
    group = story.cluster.pod_group(KEY)
    assert group is not None
    assert group.copy_restarts == {"decode/1": (1, None)}, "its status says it"


def test_member_is_not_replaced_while_its_copy_may_be_restarted() -> None:
    story = serving(decode())
    story.delete("1-worker-0")
    create(story, ["b1-worker-0"])
    story.run(until=100.9)
    assert "b1-worker-0" not in story.bound
    assert "decode/1 of pod group default/serve has lost members" in str(story.scheduler.why(KEY))


def test_backoff_of_a_copy_holds_only_its_own_members() -> None:
    story = serving(decode(), cpu=15)
    story.delete("1-worker-0")
    settle(story)
    story.delete("1-leader", "1-worker-1")
    create(story, names(1, series="b"))
    story.delete("2-leader", "2-worker-0", "2-worker-1")
    create(story, names(2, series="b"))
    story.run(until=103.0)
    assert sorted(story.bound) == sorted([*names(0, 3), *names(2, series="b")])
    assert "decode/1 of pod group default/serve is being restarted" in str(story.scheduler.why(KEY))
    story.run(until=110.9)
    assert not any(name.startswith("b1") for name in story.bound)
    story.run(until=111.0)
    assert len(story.bound) == 12


def test_copy_that_was_deleted_as_a_whole_is_not_restarted() -> None:
    story = serving(decode())
    story.delete(*names(1))
    settle(story)
    assert story.of(GroupBelowMinimum) == []
    create(story, names(1, series="b"))
    story.decide()
    assert len(story.bound) == 12, "it starts again without a backoff"


def test_copy_with_an_elastic_worker_is_restarted_below_its_minimum() -> None:
    workers = Role(2, minimum=1)
    story = serving(decode(roles={"leader": 1, "worker": workers}))
    story.delete("1-worker-0")
    settle(story)
    assert story.evicted == []
    story.delete("1-worker-1")
    settle(story)
    assert story.evicted == ["1-leader"]


@each_way
def test_copy_is_restarted_until_its_limit_and_then_keeps_its_members(way: Way) -> None:
    story = serving(decode(), way)
    for name, later in (("", "a"), ("a", "b"), ("b", "c")):
        story.run(until=story.now + 99.0)
        story.delete(f"{name}1-leader")
        settle(story)
        story.interrupt()
        if name != "b":
            story.delete(f"{name}1-worker-0", f"{name}1-worker-1")
            create(story, names(1, series=later))
            story.run(until=story.now + 50.0)
    assert [each.until for each in story.of(GroupRestarted)] == [210.0, 365.0]
    assert story.of(RestartLimitReached) == [RestartLimitReached(KEY, 2, "decode/1")]
    create(story, ["c1-leader"])
    story.decide()
    assert {"c1-leader", "b1-worker-0", "b1-worker-1"} <= story.bound.keys()
    story.delete("2-leader")
    settle(story)
    assert story.of(GroupRestarted)[-1].path == "decode/2", "the others have counts of their own"
    assert story.of(GroupRestarted)[-1].restarts == 1


def test_rebuilt_scheduler_starts_a_copy_as_a_whole() -> None:
    story = serving(decode(), Way.REBUILT)
    story.delete("1-worker-0")
    settle(story)
    create(story, ["b1-worker-0"])
    story.interrupt()
    story.decide()
    assert "b1-worker-0" not in story.bound
    story.delete("1-leader", "1-worker-1")
    create(story, ["b1-leader", "b1-worker-1"])
    story.run(until=130.0)
    assert len(story.bound) == 12


def test_raised_minimum_of_a_copy_is_no_loss() -> None:
    story = serving(decode())
    group = story.cluster.pod_group(KEY)
    assert group is not None
    roles = {"decode": decode(roles={"leader": 1, "worker": 3})}
    story.tell(PodGroupUpdated(evolve(group, roles=roles, min_available=12)))
    settle(story)
    assert story.evicted == []
    story.delete("1-leader")
    settle(story)
    assert story.evicted == ["1-worker-0", "1-worker-1"]


def test_restart_of_a_copy_ends_if_its_policy_is_gone() -> None:
    story = serving(decode())
    story.delete("1-worker-0")
    settle(story)
    group = story.cluster.pod_group(KEY)
    assert group is not None
    story.tell(PodGroupUpdated(evolve(group, roles={"decode": decode(alone=False)})))
    story.delete("1-leader", "1-worker-1")
    create(story, names(1, series="b"))
    story.decide()
    assert len(story.bound) == 12
    rows = story.scheduler.snapshot()["restarts"]
    assert not any("path" in row for row in rows), "nothing of copies is remembered"


def test_loss_of_a_copy_is_told_where_nothing_can_be_evicted() -> None:
    story = serving(decode(), can_evict=False)
    story.delete("1-worker-0")
    settle(story)
    assert story.of(GroupBelowMinimum) == [GroupBelowMinimum(KEY, 2, 3, "decode/1")]
    assert story.of(GroupRestarted) == []


def test_role_of_pods_is_restarted_alone() -> None:
    roles: dict[str, int | Role] = {"router": Role(2, restart=ALONE), "worker": 2}
    story = Story(lambda c: presets.gang(c, can_evict=True), holds_evictions=True)
    story.tell(NodeAdded(make_node("n", cpu=9)))
    story.tell(PodGroupAdded(PodGroup(name="serve", roles=roles)))
    story.add(*(make_pod(f"r{n}", group="serve", role="router", cpu=1) for n in range(2)))
    story.add(*(make_pod(f"w{n}", group="serve", role="worker", cpu=1) for n in range(2)))
    story.decide()
    assert len(story.bound) == 4
    story.run(until=100.0)
    story.delete("r0")
    settle(story)
    assert story.evicted == ["r1"]
    assert story.of(GroupRestarted) == [GroupRestarted(KEY, 1, 2, 111.0, "router")]
    story.delete("r1", "w0")
    story.add(*(make_pod(f"b{n}", group="serve", role="router", cpu=1) for n in range(2)))
    story.add(make_pod("w2", group="serve", role="worker", cpu=1))
    story.run(until=110.9)
    assert set(story.bound) == {"w1", "w2"}
    story.run(until=111.0)
    assert len(story.bound) == 4


# Groups of groups -----------------------------------------------------------------------------


@each_way
def test_group_of_a_group_of_groups_is_restarted_alone(way: Way) -> None:
    story = Story(lambda c: presets.gang(c, can_evict=True), way, holds_evictions=True)
    story.tell(NodeAdded(make_node("n", cpu=9)))
    story.tell(PodGroupAdded(PodGroup(name="serve", min_groups=2)))
    for name in "abc":
        spec = PodGroup(name=name, min_available=2, parent=KEY, restart=ALONE)
        story.tell(PodGroupAdded(spec))
        story.add(*(make_pod(f"{name}{n}", group=name, cpu=1) for n in range(2)))
    story.decide()
    assert len(story.bound) == 6
    story.run(until=100.0)
    story.delete("a0")
    settle(story)
    assert story.evicted == ["a1"]
    assert story.of(GroupRestarted) == [GroupRestarted(GroupKey("default/a"), 1, 2, 111.0)]
    story.interrupt()
    story.delete("a1", "b0")
    story.add(*(make_pod(f"new{n}", group="a", cpu=1) for n in range(2)))
    story.interrupt()
    story.run(until=110.9)
    assert not {"new0", "new1"} & story.bound.keys()
    story.run(until=111.0)
    assert {"new0", "new1"} <= story.bound.keys()


def family(way: Way = Way.LIVE, **root: Any) -> Story:
    """Return a story in which three groups of two members run; two are needed."""
    story = Story(lambda c: presets.gang(c, can_evict=True), way, holds_evictions=True)
    story.tell(NodeAdded(make_node("n", cpu=9)))
    given: dict[str, Any] = {"name": "serve", "min_groups": 2, "restart": ALONE, **root}
    story.tell(PodGroupAdded(PodGroup(**given)))
    for name in "abc":
        story.tell(PodGroupAdded(PodGroup(name=name, min_available=2, parent=KEY)))
        story.add(*(make_pod(f"{name}{n}", group=name, cpu=1) for n in range(2)))
    story.decide()
    assert len(story.bound) == 6
    story.run(until=100.0)
    return story


@each_way
def test_group_of_groups_is_restarted_below_its_number_of_groups(way: Way) -> None:
    story = family(way)
    bound = [each for each in story.of(GroupBound) if each.group == KEY]
    assert bound == [GroupBound(KEY, 1, 4)], "two of its groups run"
    story.delete("a0")
    settle(story)
    assert story.evicted == []
    story.interrupt()
    story.delete("b0")
    story.effects.clear()
    settle(story)
    story.interrupt()
    assert story.of(GroupBelowMinimum) == [GroupBelowMinimum(KEY, 3, 4)]
    (restart,) = story.of(GroupRestarted)
    assert restart == GroupRestarted(KEY, 1, 2, restart.until)
    assert story.evicted == ["a1", "b1", "c0", "c1"]
    for name in "abc":
        story.add(*(make_pod(f"new-{name}{n}", group=name, cpu=1) for n in range(2)))
    story.interrupt()
    story.run(until=restart.until)
    assert not any(name.startswith("new") for name in story.bound), "old pods are on nodes"
    assert "serve is being restarted: pod a1 on node n" in str(story.scheduler.why("default/b"))
    story.delete("a1", "b1", "c0", "c1")
    story.decide()
    assert len(story.bound) == 6
    assert story.of(GroupRestarted) == [restart], "it is counted once"
    assert KEY in [each.group for each in story.of(GroupBound)]
    root = story.cluster.pod_group(KEY)
    assert root is not None
    assert (root.restarts, root.restarting_until) == (1, None)


def test_member_is_not_replaced_while_its_group_of_groups_may_be_restarted() -> None:
    story = family()
    story.delete("a0", "b0")
    story.add(make_pod("new", group="a", cpu=1))
    story.run(until=100.9)
    assert "new" not in story.bound
    assert "serve has lost members, and is restarted" in str(story.scheduler.why("default/a"))


def test_group_of_groups_without_a_policy_says_that_it_fell() -> None:
    story = family(restart=None)
    story.delete("a0", "b0")
    settle(story)
    assert GroupBelowMinimum(KEY, 3, 4) in story.of(GroupBelowMinimum)
    assert story.evicted == []


def test_group_of_groups_whose_minimum_is_lowered_is_not_restarted() -> None:
    story = family()
    story.delete("a0", "b0")
    root = story.cluster.pod_group(KEY)
    assert root is not None
    story.tell(PodGroupUpdated(evolve(root, min_groups=1)))
    settle(story)
    assert story.evicted == []


def test_group_of_groups_is_restarted_up_to_its_limit() -> None:
    story = family(restart=evolve(ALONE, max_restarts=1))
    story.delete("a0", "b0")
    settle(story)
    story.delete("a1", "b1", "c0", "c1")
    for name in "abc":
        story.add(*(make_pod(f"new-{name}{n}", group=name, cpu=1) for n in range(2)))
    story.run(until=200.0)
    assert len(story.bound) == 6
    story.delete("new-a0", "new-b0")
    settle(story)
    assert story.of(RestartLimitReached) == [RestartLimitReached(KEY, 1)]
    assert len(story.bound) == 4


@each_way
def test_only_the_group_of_groups_that_fell_is_restarted(way: Way) -> None:
    story = Story(lambda c: presets.gang(c, can_evict=True), way)
    story.tell(NodeAdded(make_node("n", cpu=9)))
    story.tell(PodGroupAdded(PodGroup(name="serve", min_groups=1, restart=WHOLE)))
    for name in "ab":
        spec = PodGroup(name=name, min_groups=2, parent=KEY, restart=ALONE)
        story.tell(PodGroupAdded(spec))
        for part in ("x", "y"):
            child = PodGroup(name=f"{name}{part}", min_available=2, parent=spec.key)
            story.tell(PodGroupAdded(evolve(child, restart=ALONE)))
            pods = (make_pod(f"{name}{part}{n}", group=child.name, cpu=1) for n in range(2))
            story.add(*pods)
    story.decide()
    assert len(story.bound) == 8
    story.run(until=100.0)
    story.interrupt()
    story.delete("ax0")
    settle(story)
    assert {each.group for each in story.of(GroupRestarted)} == {"default/a"}
    assert sorted(story.bound) == ["bx0", "bx1", "by0", "by1"]


def test_group_of_groups_without_a_child_does_not_keep_its_parent_running() -> None:
    story = family()
    story.tell(PodGroupAdded(PodGroup(name="d", min_groups=1, parent=KEY)))
    story.delete("a0", "b0")
    settle(story)
    assert {each.group for each in story.of(GroupRestarted)} == {KEY}


@each_way
def test_restart_of_a_group_of_groups_is_not_counted_for_those_within_it(way: Way) -> None:
    story = Story(lambda c: presets.gang(c, can_evict=True), way)
    story.tell(NodeAdded(make_node("n", cpu=9)))
    story.tell(PodGroupAdded(PodGroup(name="serve", min_groups=1, restart=ALONE)))
    story.tell(PodGroupAdded(PodGroup(name="a", min_groups=1, parent=KEY, restart=ALONE)))
    child = PodGroup(name="ax", min_available=2, parent=GroupKey("default/a"))
    story.tell(PodGroupAdded(child))
    story.add(*(make_pod(f"ax{n}", group="ax", cpu=1) for n in range(2)))
    story.decide()
    story.run(until=100.0)
    story.interrupt()
    story.update("ax0", phase=PodPhase.FAILED)
    settle(story)
    story.add(*(make_pod(f"new{n}", group="ax", cpu=1) for n in range(2)))
    story.run(until=111.0)
    assert [each.group for each in story.of(GroupRestarted)] == [KEY]
    assert {"new0", "new1"} <= story.bound.keys(), "nothing waits for the inner one"
