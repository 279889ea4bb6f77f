"""A gang of which one bind fails: retries, notices, ``why``, nodes, and the release of others."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from attrs import define, field

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    Coscheduling,
    Evict,
    GroupBound,
    GroupKey,
    GroupPartlyBound,
    GroupRejected,
    InMemoryCluster,
    InvalidValueError,
    NodeAdded,
    NodeName,
    Preemption,
    WhenBindFails,
    presets,
)
from gangsched.explain import BackingOff, PartlyRunning, Queued, Running
from gangsched.metrics import Metrics
from gangsched.replay import DecisionLog, Recipe, replay
from gangsched.testing import make_node, make_pod
from support.shells import SHELLS, Shell
from support.story import Story

G = GroupKey("default/g")
MAKERS = pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])


@define(eq=False)
class Failing(Story):
    """A story in which the next binds of some pods fail, that many of each."""

    fails: dict[str, float] = field(factory=dict[str, float])

    def _bind(self, bind: Bind) -> None:
        name = bind.uid.partition("/")[2]
        if self.fails.get(name, 0) > 0:
            self.fails[name] -= 1
            self.tell(BindFailed(bind.uid, bind.attempt, "disk full"))
        else:
            super()._bind(bind)


def on_node(make: Any = presets.gang, size: int = 3, **how: Any) -> Failing:
    """Return a story with a gang of three or of another size, and a node for it."""
    story = Failing(lambda cluster: make(cluster, **how))
    story.tell(NodeAdded(make_node("n", cpu=9)))
    story.gang("g", size, min_available=min(size, 3))
    return story


def always(*names: str) -> dict[str, float]:
    return dict.fromkeys(names, float("inf"))


# Where the host evicts --------------------------------------------------------------------------


@MAKERS
def test_gang_is_released_by_default_when_the_retries_of_a_bind_fail(make: Any) -> None:
    """F18: half a gang runs for the time of three retries."""
    story = on_node(make, can_evict=True)
    story.fails = always("g-2")
    story.run(until=6.9)
    assert story.evicted == []
    story.run(until=7.0)
    assert story.evicted == ["g-0", "g-1"]
    assert len(story.of(GroupPartlyBound)) == 3, "one for each failure but the last"
    (rejected,) = story.of(GroupRejected)
    assert rejected.reason == "the bind of pod g-2 failed"
    assert rejected.retry_after > story.now + 2.0, "the backoff goes on growing"


@pytest.mark.parametrize(("retries", "at"), [(0, 0.0), (1, 1.0), (2, 3.0)])
def test_number_of_retries_is_an_argument(retries: int, at: float) -> None:
    story = on_node(can_evict=True, bind_retries=retries)
    story.fails = always("g-2")
    story.run(until=max(at - 0.1, 0.0))
    assert bool(story.evicted) is (retries == 0)
    story.run(until=at)
    assert story.evicted == ["g-0", "g-1"]


@pytest.mark.parametrize("retries", [-1, 1.0, True, "3"])
def test_number_of_retries_is_checked(retries: Any) -> None:
    with pytest.raises(InvalidValueError, match="bind_retries"):
        Coscheduling(bind_retries=retries)


def test_elastic_member_is_retried_for_ever() -> None:
    story = on_node(size=4, can_evict=True)
    story.fails = always("g-3")
    story.run(until=600.0)
    assert story.evicted == []
    assert story.of(GroupPartlyBound) == []


@pytest.mark.parametrize("arguments", [{"can_evict": True}, {"preemption": Preemption()}])
def test_scheduler_is_told_that_the_host_evicts_by_an_argument(arguments: Any) -> None:
    assert presets.gang(InMemoryCluster(), **arguments).can_evict


def test_argument_goes_before_what_a_driver_says() -> None:
    scheduler = presets.gang(InMemoryCluster(), can_evict=False, preemption=Preemption())
    scheduler.allow_evictions()
    assert not scheduler.can_evict
    wrong: Any = 1
    with pytest.raises(InvalidValueError, match="can_evict"):
        presets.gang(InMemoryCluster(), can_evict=wrong)


def test_ability_to_evict_outlives_restore_and_pickle() -> None:
    scheduler = presets.gang(InMemoryCluster())
    scheduler.allow_evictions()
    scheduler.restore(scheduler.snapshot())
    assert scheduler.can_evict
    assert pickle.loads(pickle.dumps(scheduler)).can_evict


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell.__name__.lower())
def test_driver_that_evicts_says_so(shell: type[Shell]) -> None:
    without, having = shell(presets.gang), shell(presets.gang, evict=lambda _effect: None)
    assert (without.scheduler.can_evict, having.scheduler.can_evict) == (False, True)


def test_wrappers_pass_on_that_the_host_evicts() -> None:
    lines: list[str] = []
    recorded = DecisionLog(lines.append, Recipe("gang")).scheduler(InMemoryCluster())
    pytest.importorskip("prometheus_client")
    from prometheus_client import CollectorRegistry

    measured = Metrics(CollectorRegistry()).watch(recorded)
    measured.allow_evictions()
    measured.allow_evictions()
    assert recorded.scheduler.can_evict
    assert lines[1:] == ['{"call":"allow_evictions"}\n'], "written once"
    assert replay(lines) is None


# Where it does not ------------------------------------------------------------------------------


@MAKERS
@pytest.mark.parametrize("when", [None, WhenBindFails.RETRY_MEMBER])
def test_each_failed_bind_says_that_the_gang_is_partly_bound(make: Any, when: Any) -> None:
    """F18: for ever, where the host does not evict."""
    story = on_node(make, **({} if when is None else {"when_bind_fails": when}))
    story.fails = always("g-2")
    story.run(until=25.0)
    assert story.evicted == []
    notices = story.of(GroupPartlyBound)
    assert len(notices) == 6
    assert {(n.group, n.scheduled, n.min_available, n.uid) for n in notices} == {
        (G, 2, 3, "default/g-2")
    }
    assert "disk full" in notices[0].reason
    assert "the host evicts no pods" in notices[0].reason
    why = story.scheduler.why(G)
    assert isinstance(why, PartlyRunning)
    assert isinstance(why.rest, BackingOff)
    assert str(why).startswith("runs in part: 2 of 3 members hold nodes; the rest: backing off")
    assert "disk full" in str(why)
    assert story.scheduler.why("default/g-2") == why


def test_why_says_that_a_started_gang_lost_a_member() -> None:
    story = on_node()
    story.decide()
    assert isinstance(story.scheduler.why(G), Running)
    story.delete("g-2")
    why = story.scheduler.why(G)
    assert why == PartlyRunning(G, 2, 3, None)
    assert str(why) == "runs in part: 2 of 3 members hold nodes; no other member exists"
    story.add(make_pod("g-3", group="g", min_available=3, cpu=1))
    why = story.scheduler.why(G)
    assert isinstance(why, PartlyRunning)
    assert isinstance(why.rest, Queued)


# All members are bound ---------------------------------------------------------------------------


@MAKERS
def test_gang_is_bound_once_when_the_last_bind_of_its_start_is_reported(make: Any) -> None:
    story = on_node(make)
    story.holds_binds = True
    story.decide()
    *before, last = story.binds
    for bind in before:
        story.finish_bind(bind)
    assert story.of(GroupBound) == []
    story.finish_bind(last)
    assert story.effects[-1] == GroupBound(G, 1, 3)
    story.tell(Bound(last.uid, last.node, last.attempt))
    story.add(make_pod("late", group="g", min_available=3, cpu=1))
    story.decide()
    story.finish_binds()
    assert len(story.of(GroupBound)) == 1


@pytest.mark.parametrize(("size", "failing"), [(3, "g-0"), (4, "g-3")], ids=["needed", "elastic"])
def test_gang_of_which_a_bind_failed_is_bound_when_those_that_it_needs_are(
    size: int, failing: str
) -> None:
    story = on_node(size=size)
    story.fails = {failing: 1}
    story.decide()
    assert bool(story.of(GroupBound)) is (size == 4)
    story.run(until=9.0)
    assert story.of(GroupBound) == [GroupBound(G, 1, 3)]


def test_gang_of_which_half_was_bound_before_a_restart_is_bound_once() -> None:
    story = on_node()
    story.holds_binds = True
    story.decide()
    story.finish_bind(story.binds[0])
    for expected in (1, 1, 1):
        story.binds.clear()
        story.scheduler = story.make(story.cluster)
        story.effects += story.scheduler.rebuild(now=story.now)
        story.decide()
        story.finish_binds()
        assert len(story.of(GroupBound)) == expected, "later schedulers see that it runs"


# An eviction while a bind is under way -----------------------------------------------------------


@pytest.mark.parametrize("elsewhere", [False, True])
def test_member_is_evicted_once_when_its_bind_has_ended(elsewhere: bool) -> None:
    story = on_node(when_bind_fails=WhenBindFails.RELEASE_GROUP)
    story.holds_binds = story.holds_evictions = True
    story.decide()
    first, _second, third = story.binds
    story.finish_bind(first)
    story.fail_bind("g-1")
    assert story.evicted == ["g-0"], "the bind of g-2 is under way"
    if elsewhere:
        story.tell(NodeAdded(make_node("m", cpu=9)))
        story.tell(Bound(third.uid, NodeName("m"), third.attempt))
    else:
        story.finish_bind(third)
        story.tell(Bound(third.uid, third.node, third.attempt))
    assert story.evicted == ["g-0", "g-2"]
    assert story.of(Evict)[-1].node == ("m" if elsewhere else "n")


# A member whose bind failed loses its node: its gang does not run in part for ever


def on_nodes(make: Any, count: int, **how: Any) -> Failing:
    """Return a story with nodes of one CPU each, in which evicted pods come again."""
    options = {"can_evict": True, **how}
    story = Failing(lambda cluster: make(cluster, **options), recreates=True)
    story.tell(*(NodeAdded(make_node(f"n{number}", cpu=1)) for number in range(count)))
    return story


def bound(story: Story, group: str) -> int:
    return sum(name.startswith(group) for name in story.bound)


@MAKERS
def test_two_gangs_whose_binds_fail_do_not_keep_part_of_their_nodes_for_ever(make: Any) -> None:
    """Three members each on four nodes: with two nodes each, none could be completed."""
    story = on_nodes(make, 4)
    story.fails = {"a-1": 1, "a-2": 2, "b-1": 1, "b-2": 1}
    story.gang("a", 3)
    story.run(until=0.5)
    story.gang("b", 3)
    story.run(until=200.0)
    assert sorted((bound(story, "a"), bound(story, "b"))) == [0, 3]
    assert any("cannot be placed again" in each.reason for each in story.of(GroupRejected))


@MAKERS
@pytest.mark.parametrize(
    "how", [{}, {"when_bind_fails": WhenBindFails.RETRY_MEMBER}, {"can_evict": False}]
)
def test_gang_whose_member_lost_its_node_gives_the_others_back_if_they_may_be_evicted(
    make: Any, how: dict[str, Any]
) -> None:
    story = on_nodes(make, 3, **how)
    story.fails = {"a-2": 1}
    story.gang("a", 3)
    story.run(until=0.5)
    assert bound(story, "a") == 2
    story.add(make_pod("other", cpu=1))
    story.run(until=60.0)
    assert bound(story, "other") == 1
    if how:
        assert (bound(story, "a"), story.evicted) == (2, [])
        return
    assert bound(story, "a") == 0
    reason = "the bind of pod a-2 failed, and it cannot be placed again: 0/3 nodes are available"
    assert any(each.reason.startswith(reason) for each in story.of(GroupRejected))
    story.delete("other")
    story.run(until=120.0)
    assert bound(story, "a") == 3


@MAKERS
def test_gang_that_was_whole_keeps_its_nodes_when_a_later_bind_fails(make: Any) -> None:
    """Its job controller has recreated a member."""
    story = on_nodes(make, 3)
    story.gang("a", 3)
    story.run(until=1.0)
    assert bound(story, "a") == 3
    story.delete("a-2")
    story.fails = {"a-9": 1}
    story.add(make_pod("a-9", group="a", min_available=3, cpu=1, created_at=1.0))
    story.run(until=1.5)
    story.add(make_pod("other", cpu=1))
    story.run(until=60.0)
    assert (bound(story, "a"), bound(story, "other")) == (2, 1)
    assert story.evicted == []


@MAKERS
@pytest.mark.parametrize("slow", [0, 1], ids=["bound", "being bound"])
def test_elastic_member_whose_bind_failed_does_not_cost_the_others_their_nodes(
    make: Any, slow: int
) -> None:
    story = on_nodes(make, 3)
    story.holds_binds = True
    story.gang("a", 3, min_available=2)
    story.decide()
    story.fail_bind("a-2")
    for bind in list(story.binds)[slow:]:
        story.finish_bind(bind)
    story.add(make_pod("other", cpu=1))
    story.run(until=60.0)
    assert bound(story, "a") == 2 - slow
    assert story.evicted == []
