"""Queues that lend, borrow and take back: who is next, who waits and why, and who goes."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    ClusterState,
    InvalidValueError,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    Pod,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupDeleted,
    Preemption,
    Quota,
    Reclaim,
    Role,
    Scheduler,
    Topology,
    gang,
    group_key,
    presets,
)
from gangsched.explain import NotAdmitted
from gangsched.testing import make_node
from support.story import Story, Way, each_way

pytestmark = pytest.mark.once("the scheduler places whole gangs")

ORG = Quota(name="org")
A = Quota(name="a", parent="org", nominal={"cpu": 4})
B = Quota(name="b", parent="org", nominal={"cpu": 4})
each_rule = pytest.mark.parametrize("rule", list(Reclaim), ids=lambda rule: rule.value)


def shared(
    *quotas: Quota, way: Way = Way.LIVE, cpus: int = 99, host: Any = None, **options: Any
) -> Story:
    """Return a story of a scheduler with queues, two of 4 CPUs by default, on one large node."""

    def make(cluster: ClusterState) -> Scheduler:
        given = quotas or (ORG, A, B)
        return presets.gang(cluster, quotas=given, can_evict=True, **options)

    story = Story(make, way, **(host or {}))
    story.tell(NodeAdded(make_node("n", cpu=cpus)))
    return story


def pods(story: Story, queue: str | None, *names: str, cpu: int = 1, **more: Any) -> None:
    """Add regular pods of a queue, and decide."""
    requests = {"cpu": cpu}
    given = {"created_at": story.now, "requests": requests, "queue": queue, **more}
    story.add(*(Pod(name=name, **given) for name in names))
    story.decide()


def add_gang(story: Story, name: str, size: int, queue: str | None, **more: Any) -> None:
    """Add a gang of one CPU each, and decide."""
    story.tell(*gang(name, workers=size, cpu=1, queue=queue, **more).events())
    story.decide()


def share_of(story: Story, queue: str) -> float:
    return next(row.share for row in story.scheduler.quotas() if row.name == queue)


# What a queue may take


def test_queue_borrows_what_others_do_not_use_and_waits_with_a_reason() -> None:
    story = shared(ORG, A, evolve(B, lend={"cpu": 2}))
    pods(story, "a", *(f"a{n}" for n in range(7)))
    assert sorted(story.bound) == [f"a{n}" for n in range(6)]
    reason = "exceeded quota a: requested cpu=1, used cpu=6, limited cpu=6, nominal cpu=4"
    assert story.scheduler.why(story.uid("a6")) == NotAdmitted(reason)
    story.delete("a0")
    story.decide()
    assert "a6" in story.bound


@pytest.mark.parametrize(
    ("change", "count"),
    [({"borrow": {"cpu": 1}}, 5), ({"hard": {"cpu": 3}}, 3), ({"nominal": None}, 9)],
    ids=["borrow", "hard", "no-part"],
)
def test_queue_takes_at_most_what_its_limits_say(change: dict[str, Any], count: int) -> None:
    story = shared(ORG, evolve(A, **change), B)
    pods(story, "a", *(f"a{n}" for n in range(9)))
    assert len(story.bound) == count


def test_hard_of_a_parent_limits_all_queues_below_together() -> None:
    story = shared(evolve(ORG, hard={"cpu": 5}), A, B)
    pods(story, "a", *(f"a{n}" for n in range(3)))
    pods(story, "b", *(f"b{n}" for n in range(3)))
    assert sorted(story.bound) == ["a0", "a1", "a2", "b0", "b1"]
    assert "exceeded quota org" in str(story.scheduler.why(story.uid("b2")))


def test_request_of_more_than_the_tree_has_is_told_so() -> None:
    story = shared()
    add_gang(story, "g", 9, "a")
    assert str(story.scheduler.why("default/g")).endswith("it is more than the whole quota")


def test_resource_that_no_queue_names_is_not_limited() -> None:
    story = shared()
    story.tell(NodeAdded(make_node("m", allocatable={"memory": "9Gi", "pods": 9})))
    pods(story, "a", "x", cpu=0, requests={"memory": "8Gi"})
    assert story.bound == {"x": "m"}


@pytest.mark.parametrize(
    ("queue", "reason"),
    [("c", "queue c does not exist"), ("org", "queue org has queues below it")],
)
def test_pod_or_gang_in_no_queue_that_takes_pods_is_held_with_that_reason(
    queue: str, reason: str
) -> None:
    story = shared()
    pods(story, queue, "x")
    add_gang(story, "g", 2, queue)
    assert story.scheduler.why(story.uid("x")) == NotAdmitted(reason)
    assert reason in str(story.scheduler.why("default/g"))
    assert not story.bound
    story.update("x", queue="a")
    story.decide()
    assert list(story.bound) == ["x"]


def test_queues_of_pods_mean_nothing_to_a_scheduler_without_queues() -> None:
    story = shared(Quota(name="cap", namespaces=["default"], hard={"cpu": 2}))
    pods(story, "theirs", "x", "y", "z")
    assert sorted(story.bound) == ["x", "y"]


def test_namespace_has_a_queue_and_caps_beside_it() -> None:
    cap = Quota(name="cap", namespaces=["default"], hard={"cpu": 2})
    story = shared(ORG, evolve(A, namespaces=["default"]), B, cap)
    pods(story, None, "x", "y", "z")
    assert sorted(story.bound) == ["x", "y"]
    assert "exceeded quota cap" in str(story.scheduler.why(story.uid("z")))
    assert [row.used.amount("cpu") for row in story.scheduler.quotas()] == [2000, 2000, 0, 2000]


def test_running_group_whose_queue_changes_is_charged_to_the_other() -> None:
    story = shared()
    add_gang(story, "g", 3, "a")
    (spec,) = [group for group in story.cluster.pod_groups() if group.name == "g"]
    story.tell(PodGroupAdded(evolve(spec, queue="b")))
    used = {row.name: row.used.amount("cpu") for row in story.scheduler.quotas()}
    assert used == {"org": 3000, "a": 0, "b": 3000}


def test_group_is_in_the_queue_that_its_pods_name_if_it_names_none() -> None:
    story = shared()
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=2)))
    pods(story, "b", "g-0", "g-1", pod_group="g")
    assert {row.name: len(row.used) for row in story.scheduler.quotas()}["b"] == 1


def test_child_of_a_group_of_groups_is_in_the_queue_of_the_root() -> None:
    story = shared()
    story.tell(PodGroupAdded(PodGroup(name="root", min_groups=1, queue="b")))
    story.tell(
        PodGroupAdded(PodGroup(name="one", parent=group_key("default", "root"), min_available=2))
    )
    pods(story, None, "one-0", "one-1", pod_group="one")
    used = {row.name: row.used.amount("cpu") for row in story.scheduler.quotas()}
    assert used == {"org": 2000, "a": 0, "b": 2000}


def test_copies_are_charged_as_members_of_their_group() -> None:
    story = shared()
    replica = Role(3, minimum=2, roles={"leader": 1, "worker": 1})
    story.tell(*gang("serve", roles={"decode": replica}, cpu=2, queue="a").events())
    story.decide()
    assert len(story.bound) == 4, "two copies fit in 8 CPUs, and the third waits"


# Who is next


def test_queues_take_turns_by_their_shares_and_a_heavier_one_has_more() -> None:
    story = shared(ORG, evolve(A, nominal={"cpu": 0}, weight=3.0), evolve(B, nominal={"cpu": 0}))
    story.tell(NodeDeleted(NodeName("n")))
    pods(story, "b", *(f"b{n}" for n in range(9)))
    pods(story, "a", *(f"a{n}" for n in range(9)))
    story.set_quotas(evolve(ORG, nominal={"cpu": 8}), *_zero(evolve(A, weight=3.0), B))
    story.tell(NodeAdded(make_node("n", cpu=8)))
    story.decide()
    assert sum(name.startswith("a") for name in story.bound) == 6
    assert sum(name.startswith("b") for name in story.bound) == 2
    assert share_of(story, "a") == share_of(story, "b") == 0.25


def _zero(*quotas: Quota) -> list[Quota]:
    return [evolve(each, nominal={"cpu": 0}) for each in quotas]


def test_queue_within_its_nominal_goes_before_one_that_borrows() -> None:
    story = shared(cpus=8)
    pods(story, "b", *(f"b{n}" for n in range(8)))
    pods(story, "b", "late", cpu=3, priority=9)
    pods(story, "a", "own", cpu=3)
    story.delete("b0")
    story.decide()
    assert "own" not in story.bound
    story.delete("b1", "b2")
    story.decide()
    assert "own" in story.bound
    assert "late" not in story.bound


def test_queue_without_weight_is_last_and_its_nominal_is_its_own() -> None:
    story = shared(ORG, evolve(A, weight=0.0), B)
    pods(story, "a", *(f"a{n}" for n in range(6)))
    assert share_of(story, "a") == float("inf")


@each_way
def test_queue_that_had_much_waits_for_one_that_had_little(way: Way) -> None:
    """With history, usage that has ended still counts; a half-life later, half of it."""
    idle = Quota(name="c", parent="org", nominal={"cpu": 4})
    story = shared(ORG, *_zero(A, B), idle, way=way, cpus=4, history=100.0)
    pods(story, "a", *(f"a{n}" for n in range(4)))
    story.now = 100.0
    story.delete(*(f"a{n}" for n in range(4)))
    if way is not Way.REBUILT:  # no listing says what was
        story.interrupt()
        past = {row.name: row.past for row in story.scheduler.quotas()}
        assert past["a"] == pytest.approx(0.5)
        assert past["b"] == 0.0
    story.now = 110.0
    story.add(*(Pod(name=f"a{n}x", queue="a", requests={"cpu": 2}) for n in range(2)))
    story.add(Pod(name="b0", queue="b", requests={"cpu": 3}, created_at=9.0))
    story.decide()
    assert list(story.bound) == ["b0"]


def test_history_does_not_reclaim() -> None:
    story = shared(history=100.0, preemption=Preemption(reclaim=Reclaim.FAIR))
    pods(story, "a", *(f"a{n}" for n in range(8)))
    story.now = 300.0
    story.delete(*(f"a{n}" for n in range(8)))
    pods(story, "a", *(f"a{n}x" for n in range(4)))
    pods(story, "b", *(f"b{n}" for n in range(5)))
    assert not story.evicted


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), "week"])
def test_history_that_is_no_time_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidValueError, match="history"):
        shared(history=wrong)


# Who gives back


@each_rule
@each_way
def test_gang_takes_back_what_its_queue_has_lent_and_no_more(rule: Reclaim, way: Way) -> None:
    story = shared(way=way, preemption=Preemption(reclaim=rule))
    pods(story, "b", *(f"b{n}" for n in range(7)))
    story.interrupt()
    add_gang(story, "g", 3, "a")
    story.run(story.now + 1.0)
    assert len(story.evicted) == 2
    assert {"g-0", "g-1", "g-2"} <= story.bound.keys()


@each_rule
def test_gang_takes_back_though_its_pods_also_request_what_no_queue_names(rule: Reclaim) -> None:
    story = shared(preemption=Preemption(reclaim=rule), cpus=0)
    allocatable: dict[str, str | int] = {"cpu": 99, "memory": "99Gi", "pods": 110}
    story.tell(NodeUpdated(evolve(make_node("n"), allocatable=allocatable)))
    both = {"cpu": 1, "memory": "1Gi"}
    pods(story, "b", *(f"b{n}" for n in range(8)), requests=both)
    pods(story, "a", *(f"a{n}" for n in range(4)), requests=both)
    assert len(story.evicted) == 4
    assert {f"a{n}" for n in range(4)} <= story.bound.keys()


def test_gang_does_not_take_back_beyond_its_nominal_unless_shares_say_so() -> None:
    for rule, count in ((Reclaim.NOMINAL, 0), (Reclaim.FAIR, 1)):
        pool = evolve(ORG, nominal={"cpu": 4})
        story = shared(pool, A, *_zero(B), preemption=Preemption(reclaim=rule))
        pods(story, "b", *(f"b{n}" for n in range(4)))
        pods(story, "a", *(f"a{n}" for n in range(5)))
        assert len(story.evicted) == count, rule


def test_victim_goes_only_if_the_whole_gang_fits_then() -> None:
    """The quota has room for it, but no rack can be made free without pods that may stay."""
    story = shared(preemption=Preemption(reclaim=Reclaim.NOMINAL), cpus=0)
    for rack in ("r1", "r2"):
        for number in range(4):
            node = make_node(f"{rack}-{number}", cpu=1, labels={"rack": rack})
            story.tell(NodeAdded(node))
    story.add(*(_on(f"b-{rack}", "b", f"{rack}-0") for rack in ("r1", "r2")))
    story.add(*(_on(f"b2-{rack}", "b", f"{rack}-1") for rack in ("r1", "r2")))
    story.add(_on("b3", "b", "r1-2"))
    add_gang(story, "g", 4, "a", topology=Topology("rack"))
    assert not story.evicted, "each rack has two pods at least, and b has borrowed one"


def _on(name: str, queue: str, node: str) -> Pod:
    return Pod(name=name, queue=queue, requests={"cpu": 1}, node_name=NodeName(node))


@each_rule
def test_priority_takes_within_a_queue_and_not_from_another(rule: Reclaim) -> None:
    story = shared(preemption=Preemption(reclaim=rule), cpus=8)
    pods(story, "a", *(f"a{n}" for n in range(4)), priority=1)
    pods(story, "b", *(f"b{n}" for n in range(4)))
    pods(story, "a", "high", cpu=2, priority=9)
    assert len(story.evicted) == 2
    assert all(name.startswith("a") for name in story.evicted)
    assert "high" in story.bound


def test_pods_that_leave_slowly_keep_their_share_until_they_are_gone() -> None:
    policy = Preemption(reclaim=Reclaim.NOMINAL)
    story = shared(preemption=policy, host={"holds_evictions": True})
    pods(story, "b", *(f"b{n}" for n in range(8)))
    add_gang(story, "g", 2, "a")
    assert len(story.evicted) == 2
    pods(story, "b", "more")
    assert not {"g-0", "more"} & story.bound.keys()
    story.delete(*story.evicted)
    story.decide()
    assert {"g-0", "g-1"} <= story.bound.keys()
    assert "more" not in story.bound


def test_evicted_pods_that_come_again_wait_and_take_nothing_back() -> None:
    policy = Preemption(reclaim=Reclaim.FAIR)
    story = shared(preemption=policy, host={"recreates": True})
    pods(story, "b", *(f"b{n}" for n in range(8)))
    add_gang(story, "g", 4, "a")
    assert len(story.evicted) == 4
    assert sum(row.pending for row in story.scheduler.quotas() if row.name == "b") == 4


@each_way
def test_nothing_is_taken_that_has_just_begun(way: Way) -> None:
    story = shared(way=way, preemption=Preemption(reclaim=Reclaim.NOMINAL, min_runtime=600.0))
    pods(story, "b", *(f"b{n}" for n in range(8)))
    story.now = 10.0
    add_gang(story, "g", 2, "a")
    story.interrupt()
    story.run(599.0)
    assert not story.evicted
    story.run(1300.0)
    assert len(story.evicted) == 2
    assert {"g-0", "g-1"} <= story.bound.keys()


@each_way
def test_gang_waits_before_others_are_evicted_for_it(way: Way) -> None:
    story = shared(way=way, cpus=8, preemption=Preemption(reclaim=Reclaim.FAIR, delay=30.0))
    pods(story, "b", *(f"b{n}" for n in range(4)))
    pods(story, "a", *(f"a{n}" for n in range(4)))
    story.now = 10.0
    pods(story, "a", "high", priority=5, cpu=4)
    story.interrupt()
    story.run(39.0)
    assert not story.evicted
    story.run(100.0)
    assert "high" in story.bound
    assert all(name.startswith("a") for name in story.evicted)


@pytest.mark.parametrize("field", ["min_runtime", "delay"])
def test_times_of_preemption_are_checked(field: str) -> None:
    wrong: dict[str, Any] = {field: -1.0}
    with pytest.raises(InvalidValueError, match=field):
        Preemption(**wrong)


# Quotas change


@each_way
def test_quotas_are_replaced_while_pods_run_and_wait(way: Way) -> None:
    story = shared(way=way)
    pods(story, "a", *(f"a{n}" for n in range(9)))
    add_gang(story, "g", 2, "b")
    story.interrupt()
    assert len(story.bound) == 8
    larger = [ORG, evolve(A, nominal={"cpu": 9}), B]
    story.make = partial(presets.gang, quotas=larger, can_evict=True)
    story.set_quotas(*larger)
    story.decide()
    assert len(story.bound) == 11
    story.set_quotas()
    assert not story.scheduler.quotas()


@each_way
def test_gang_that_lacks_nodes_takes_back_once_the_quotas_say_so(way: Way) -> None:
    full = evolve(A, nominal={"cpu": 0}), evolve(B, nominal={"cpu": 4})
    story = shared(
        evolve(ORG, nominal={"cpu": 4}),
        *full,
        way=way,
        cpus=4,
        preemption=Preemption(reclaim=Reclaim.NOMINAL),
    )
    pods(story, "b", *(f"b{n}" for n in range(4)))
    add_gang(story, "g", 2, "a")
    assert "does not fit" in str(story.scheduler.why("default/g"))
    story.interrupt()
    halves = [evolve(each, nominal={"cpu": 2}) for each in full]
    story.set_quotas(ORG, *halves)
    story.decide()
    assert len(story.evicted) == 2


def test_malformed_quotas_change_nothing() -> None:
    story = shared()
    with pytest.raises(InvalidValueError, match="parent"):
        story.scheduler.set_quotas([evolve(A, parent="nobody")], now=0.0)
    with pytest.raises(InvalidValueError, match="now"):
        story.scheduler.set_quotas([], now=-5.0)
    assert [row.name for row in story.scheduler.quotas()] == ["org", "a", "b"]


def test_quotas_are_a_table_at_a_prompt() -> None:
    story = shared(evolve(ORG, hard={"cpu": 9}), A, B)
    pods(story, "a", *(f"a{n}" for n in range(6)))
    add_gang(story, "g", 4, "b")
    assert repr(story.scheduler.quotas()).splitlines() == [
        "QUOTA   USED    NOMINAL   HARD    SHARE   PENDING",
        "org     cpu=6   cpu=8     cpu=9   0.00    1",
        "  a     cpu=6   cpu=4     -       0.25    0",
        "  b     -       cpu=4     -       0.00    1",
    ]


def test_forked_scheduler_counts_for_itself() -> None:
    """What a question decides on its copy is charged there alone."""
    story = shared()
    pods(story, "a", *(f"a{n}" for n in range(3)))
    story.add(Pod(name="x", queue="b", requests={"cpu": 4}))
    answer = story.scheduler.what_if(now=story.now)
    assert any("x" in str(effect) for _at, effect in answer.timed)
    used = {row.name: row.used.amount("cpu") for row in story.scheduler.quotas()}
    assert used == {"org": 3000, "a": 3000, "b": 0}


# What an outsider found


def test_pod_that_changes_its_queue_gives_its_share_back() -> None:
    story = shared(evolve(A, parent=None), evolve(B, parent=None))
    pods(story, "a", "big", cpu=3)
    pods(story, "a", "waits", cpu=2)
    story.update("big", queue="b")
    story.decide()
    assert "waits" in story.bound


def test_active_pod_that_changes_its_queue_is_found_again() -> None:
    story = shared(evolve(A, parent=None), evolve(B, parent=None))
    pods(story, "a", "ax", cpu=4)
    pods(story, "b", "bx", cpu=4)
    pods(story, "a", "w", cpu=4)
    story.delete("ax")  # it is active now, and not tried yet
    story.update("w", queue="b")
    story.decide()
    assert "w" not in story.bound
    story.delete("bx")
    story.decide()
    assert "w" in story.bound


def test_pod_in_a_queue_above_is_not_taken() -> None:
    """It ran there before that queue had others below it."""
    story = shared(evolve(ORG, nominal={"cpu": 0}), A, preemption=Preemption(reclaim=Reclaim.FAIR))
    story.add(_on("above", "org", "n"))
    pods(story, "a", *(f"a{n}" for n in range(4)), priority=1)
    assert len(story.bound) == 4
    assert not story.evicted


def test_victim_goes_only_if_its_queue_and_those_above_are_over_their_nominal() -> None:
    """The queue of the victim is over, and the one above it has what that uses."""
    above = Quota(name="p", parent="org", nominal={"cpu": 2})
    below = Quota(name="q", parent="p", nominal={"cpu": 0})
    story = shared(ORG, A, above, below, preemption=Preemption(reclaim=Reclaim.FAIR), cpus=5)
    pods(story, "q", "q0", "q1")
    add_gang(story, "g", 4, "a")
    assert not story.evicted


def test_borrowing_is_limited_beyond_what_is_never_lent() -> None:
    """Of its 4 CPUs it keeps 2 for itself, and it borrows 1."""
    limited = evolve(A, lend={"cpu": 2}, borrow={"cpu": 1})
    for size, fits in ((5, True), (6, False)):
        story = shared(ORG, limited, evolve(B, nominal={"cpu": 9}))
        add_gang(story, "g", size, "a")
        assert bool(story.bound) == fits, size


def test_gang_that_its_quota_denies_while_it_backs_off_is_tried_afterwards() -> None:
    policy = Preemption(reclaim=Reclaim.FAIR)
    story = shared(preemption=policy, host={"recreates": True}, cpus=8)
    add_gang(story, "low", 4, "b")
    pods(story, "a", *(f"a{n}" for n in range(4)))
    add_gang(story, "high", 3, "b", priority=5)
    story.run(until=100.0)
    small = {name for name in story.bound if name.startswith("low")}
    assert not small, "the whole gang does not fit beside the other"
    story.delete("high-0", "high-1", "high-2")
    story.run(until=200.0)
    assert len([name for name in story.bound if name.startswith("low")]) == 4


def test_node_that_comes_lets_a_gang_take_back_that_lacked_a_place() -> None:
    story = shared(preemption=Preemption(reclaim=Reclaim.NOMINAL), cpus=8)
    pods(story, "b", *(f"b{n}" for n in range(8)))
    pods(story, "a", "large", cpu=4, node_selector={"kind": "big"})
    assert not story.evicted
    story.tell(NodeAdded(make_node("m", cpu=8, labels={"kind": "big"})))
    story.decide()
    assert story.bound["large"] == "m"


def test_queue_without_a_nominal_is_asked_though_its_tree_is_full() -> None:
    capped = Quota(name="c", parent="org", hard={"cpu": 2})
    story = shared(evolve(ORG, nominal={"cpu": 2}), *_zero(A), capped)
    pods(story, "a", "ax", cpu=2)
    pods(story, "c", "cx", cpu=2)
    pods(story, "a", "aw", cpu=2)
    pods(story, "c", "cw", cpu=2)
    gone = [story.cluster.apply(PodDeleted(story.uid(name))) for name in ("ax", "cx")]
    story.perform(*gone)
    story.decide()
    assert {"aw", "cw"} <= story.bound.keys()


@each_way
def test_restored_gangs_take_turns_by_the_queues_of_their_groups(way: Way) -> None:
    story = shared(ORG, *_zero(A, B), Quota(name="c", parent="org", nominal={"cpu": 4}), way=way)
    story.tell(NodeDeleted(NodeName("n")))
    story.tell(NodeAdded(make_node("m", cpu=4)))
    add_gang(story, "first", 2, "a")
    pods(story, "c", "block", cpu=2)
    add_gang(story, "again", 2, "a", created_at=1.0)
    add_gang(story, "other", 2, "b", created_at=2.0)
    story.interrupt()
    story.delete("block")
    story.decide()
    assert {"other-0", "other-1"} <= story.bound.keys()


@each_way
def test_queue_that_was_charged_once_has_a_past(way: Way) -> None:
    story = shared(ORG, *_zero(A, B), Quota(name="c", parent="org", nominal={"cpu": 4}), way=way,
                   history=100.0)  # fmt: skip
    pods(story, "a", "x", cpu=4)
    if way is Way.REBUILT:
        return  # no listing says when it began
    story.now = 50.0
    story.interrupt()
    story.now = 100.0
    story.delete("x")
    past = {row.name: row.past for row in story.scheduler.quotas()}
    assert past["a"] == pytest.approx(0.5)


def test_gangs_that_fail_together_are_done_waiting_together() -> None:
    story = shared(cpus=3, preemption=Preemption(reclaim=Reclaim.NOMINAL, delay=60.0))
    pods(story, "a", *(f"low{n}" for n in range(3)))
    story.add(*(Pod(name=f"p{n}", queue="a", requests={"cpu": 1}, priority=5) for n in range(3)))
    story.run(until=59.0)
    assert not story.evicted
    story.run(until=60.0)
    assert len(story.evicted) == 3


def test_pod_that_fits_waits_for_nothing() -> None:
    story = shared(preemption=Preemption(reclaim=Reclaim.NOMINAL, delay=60.0))
    pods(story, "a", "x")
    assert story.scheduler.next_deadline() is None


def test_group_of_groups_takes_back_what_all_of_its_children_need() -> None:
    """What the root needs was charged once for each child."""
    story = shared(preemption=Preemption(reclaim=Reclaim.NOMINAL))
    add_gang(story, "v", 8, "b")
    root = group_key("default", "root")
    story.tell(PodGroupAdded(PodGroup(name="root", min_groups=2, queue="a")))
    for name in ("one", "two"):
        story.tell(PodGroupAdded(PodGroup(name=name, parent=root, min_available=2)))
    pods(story, None, "one-0", "one-1", pod_group="one")
    pods(story, None, "two-0", "two-1", pod_group="two")
    assert sorted(story.bound) == ["one-0", "one-1", "two-0", "two-1"]


def test_share_of_a_parent_follows_when_a_group_below_is_gone() -> None:
    """What it has reserved is given back when a gang that waits for its node is active already."""
    some = {"cpu": 1}
    tree = [
        Quota(name="root", nominal={"cpu": 2}),
        Quota(name="m", parent="root"),
        *(Quota(name=name, parent="m", nominal=some) for name in "cd"),
        Quota(name="l", parent="root", nominal={"cpu": 3}),
    ]
    story = shared(*tree, cpus=4)
    parent = group_key("default", "t")
    story.tell(PodGroupAdded(PodGroup(name="t", min_groups=1, queue="d")))
    story.tell(PodGroupAdded(PodGroup(name="t0", parent=parent, min_available=2)))
    pods(story, None, "t-0", "t-1", cpu=2, pod_group="t0")
    add_gang(story, "waits", 3, "c")
    story.delete("t-1")
    story.decide()
    child = PodGroupDeleted(group_key("default", "t0"))
    pod = story.cluster.apply(PodDeleted(story.uid("t-0")))
    story.perform(pod, story.cluster.apply(child), story.cluster.apply(PodGroupDeleted(parent)))
    story.scheduler._check()
    story.decide()
    assert len(story.bound) == 3


@each_rule
def test_nominated_gang_that_gets_a_member_waits_until_its_victims_are_gone(rule: Reclaim) -> None:
    """Its event let it be tried at once, and what victims still held was passed."""
    two = [evolve(each, nominal={"cpu": 2}) for each in (A, B)]
    policy, slow = Preemption(reclaim=rule), {"holds_evictions": True}
    story = shared(ORG, *two, preemption=policy, host=slow)
    story.tell(*gang("v", workers=4, min_available=1, cpu=1, queue="b").events())
    story.decide()
    group, *members = gang("x", workers=3, min_available=2, cpu=1, queue="a").events()
    story.tell(group, *members[:2])
    story.decide()
    assert len(story.evicted) == 2
    story.tell(members[2])
    story.decide()
    assert len(story.bound) == 4
    story.delete(*story.evicted)
    story.decide()
    assert {"x-0", "x-1"} <= story.bound.keys()


def test_share_is_kept_for_a_gang_no_longer_than_its_nomination() -> None:
    """Members that terminate are on nodes still, and what was kept for others stayed reserved."""
    policy = Preemption(reclaim=Reclaim.NOMINAL, grace=10.0)
    story = shared(preemption=policy, host={"holds_evictions": True})
    pods(story, "b", *(f"b{n}" for n in range(6)))
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=2, queue="a")))
    story.add(evolve(_on("g-old", "a", "n"), pod_group="g", deleted_at=90.0))
    pods(story, "a", "g-0", "g-1", pod_group="g", cpu=1)
    pods(story, "a", "g-2", "g-3", pod_group="g", cpu=1)
    story.run(until=60.0)
    assert sum(row.used.amount("cpu") for row in story.scheduler.quotas() if not row.depth) <= 8000


@each_way
def test_snapshot_is_read_of_a_gang_that_has_lost_a_member(way: Way) -> None:
    """It was in the queue before its charge was read, so its account had another share there."""
    tree = (Quota(name="root", nominal={"cpu": 4}), Quota(name="a", parent="root", nominal={}))
    story = shared(*tree, way=way)
    add_gang(story, "g", 2, "a")
    story.delete("g-0")
    story.add(Pod(name="g-2", queue="a", requests={"cpu": 1}, pod_group="g"))
    story.interrupt()
    story.set_quotas(*tree)
    story.decide()
    assert "g-2" in story.bound


@each_way
def test_gangs_that_wait_for_one_that_was_woken_are_asked_after_a_restore(way: Way) -> None:
    story = shared(A, evolve(B, nominal={"cpu": 2}), ORG, way=way)
    add_gang(story, "a1", 4, "a")
    story.tell(*gang("b2", workers=2, min_available=1, cpu=2, queue="b").events())
    story.tell(*gang("b3", workers=2, cpu=2, queue="b").events())
    story.tell(*gang("b4", workers=1, cpu=2, queue="b").events())
    story.decide()
    story.perform(*[story.cluster.apply(PodDeleted(story.uid(f"a1-{n}"))) for n in range(4)])
    story.interrupt()
    story.decide()
    assert {"b2-0", "b2-1", "b4-0"} <= story.bound.keys()
