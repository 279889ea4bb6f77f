"""What would start a gang, asked of the scheduler: after a loss, and while others still run."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    AnnotatedRunTimes,
    Backfill,
    GroupKey,
    GroupScheduled,
    InvalidValueError,
    MatchPolicy,
    NodeAdded,
    NodeDeleted,
    PluginError,
    Pod,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    PodScheduled,
    presets,
)
from gangsched.kubernetes._demand import pending_demand
from gangsched.testing import make_node, make_pod
from gangsched.what_if import Insufficient, Sufficient
from support.story import Story, Way, each_way

each_policy = pytest.mark.parametrize("match_policy", list(MatchPolicy)[:2])
SHAPE = make_node("more", cpu=1)


def gang_that_lost_a_node(match_policy: MatchPolicy, way: Way) -> Story:
    """Return a story in which 2 of 3 members run, and the third was created again."""
    story = Story(partial(presets.gang, match_policy=match_policy), way)
    story.tell(*(NodeAdded(make_node(f"n{number}", cpu=1)) for number in range(3)))
    story.tell(PodGroupAdded(PodGroup(name="g", min_available=3)))
    story.gang("g", 3, min_available=None)
    story.decide()
    assert len(story.bound) == 3
    (lost,) = (name for name, node in story.bound.items() if node == "n2")
    story.tell(NodeDeleted("n2"))
    story.delete(lost)
    story.add(make_pod("again", group="g", cpu=1))
    story.run(until=60)
    assert "again" not in story.bound
    story.interrupt()
    return story


@each_way
@each_policy
def test_gang_that_lost_a_node_asks_for_one(match_policy: MatchPolicy, way: Way) -> None:
    story = gang_that_lost_a_node(match_policy, way)
    key = GroupKey("default/g")
    change = story.scheduler.smallest_change(key, SHAPE, now=story.now)
    assert isinstance(change, Sufficient)
    assert (change.nodes, change.at) == (1, 60)
    (demand,) = pending_demand(story.scheduler, story.cluster.nodes(), now=story.now)
    assert demand.gangs == ((key, 1),)
    small = make_node("small", cpu="500m")
    answer = story.scheduler.smallest_change(key, small, now=story.now, most=3)
    assert isinstance(answer, Insufficient)
    assert answer.most == 3
    assert answer.refusal == "Insufficient cpu"
    story.tell(NodeAdded(make_node("n3", cpu=1)))
    story.run(until=120)
    assert "again" in story.bound
    story.add(make_pod("elastic", group="g", cpu=1))
    story.run(until=180)
    assert "elastic" not in story.bound
    assert pending_demand(story.scheduler, story.cluster.nodes(), now=story.now) == []
    assert story.scheduler.smallest_change(key, SHAPE, now=story.now) == Sufficient(
        key, SHAPE, 0, story.now, None
    )


@each_way
@each_policy
def test_nodes_do_not_help_a_gang_whose_lost_member_was_not_created_again(
    match_policy: MatchPolicy, way: Way
) -> None:
    story = gang_that_lost_a_node(match_policy, way)
    story.delete("again")
    story.run(until=120)
    answer = story.scheduler.smallest_change("default/g", SHAPE, now=story.now)
    assert isinstance(answer, Insufficient)
    assert answer.most == 0
    assert "exist" in str(answer)
    assert pending_demand(story.scheduler, story.cluster.nodes(), now=story.now) == []


def three_that_run_beside_a_gang(way: Way) -> Story:
    """Return a story in which a gang of 2 waits for pods of 100 s, of 150 s, and of no known end.

    The gang runs for 50 s, and a pod of 10 s that comes after it would be in its way.
    """
    backfill = Backfill(AnnotatedRunTimes("seconds"))
    story = Story(partial(presets.gang, backfill=backfill), way)
    story.tell(*(NodeAdded(make_node(f"n{number}", cpu=1)) for number in range(3)))

    def pod(name: str, seconds: str, **named: Any) -> Pod:
        return evolve(make_pod(name, cpu=1, **named), annotations={"seconds": seconds})

    story.add(pod("short", "100"), pod("long", "150"), pod("endless", "?"))
    story.decide()
    story.interrupt()
    story.add(*(pod(f"g-{n}", "50", group="g", min_available=2) for n in range(2)))
    story.add(pod("later", "10", created_at=1.0))
    story.decide()
    assert sorted(story.bound) == ["endless", "long", "short"]
    story.now = 20.0
    return story


@each_way
def test_start_is_predicted_from_the_run_times_of_those_that_run(way: Way) -> None:
    story = three_that_run_beside_a_gang(way)
    before = story.scheduler.snapshot()
    assert not story.scheduler.what_if(now=20.0).starts("default/g")
    assert not story.scheduler.what_if(now=20.0, until=149.0).starts("default/g")
    answer = story.scheduler.what_if(now=20.0, until=400.0)
    started = {e.group: at for at, e in answer.timed if isinstance(e, GroupScheduled)}
    assert started == {"default/g": 150.0}
    bound = {e.uid: at for at, e in answer.timed if isinstance(e, PodScheduled)}
    assert bound[story.uid("later")] == 100.0, "it has ended before the gang is expected to start"
    assert answer.until == 400.0
    assert story.scheduler.snapshot() == before
    change = story.scheduler.smallest_change("default/g", SHAPE, now=20.0, until=400.0)
    assert change == Sufficient(GroupKey("default/g"), SHAPE, 0, 20.0, 150.0, others_started=1)
    assert str(change) == "pod group default/g starts at t=2m30s as things stand"
    sooner = story.scheduler.smallest_change("default/g", SHAPE, now=20.0, until=149.0)
    assert sooner == Sufficient(GroupKey("default/g"), SHAPE, 1, 20.0, 100.0, others_started=1)
    for name, at in (("short", 100.0), ("later", 110.0), ("long", 150.0)):
        story.run(until=at)
        story.update(name, phase=PodPhase.SUCCEEDED)
        assert "g-0" not in story.bound
    story.decide()
    assert {"g-0", "g-1"} <= story.bound.keys()


def test_pod_that_is_late_ends_at_once_and_an_overdue_one_is_not_counted_on() -> None:
    story = three_that_run_beside_a_gang(Way.LIVE)
    late = story.scheduler.what_if(now=155.0, until=156.0)
    assert [at for at, e in late.timed if isinstance(e, GroupScheduled)] == [155.0]
    assert not story.scheduler.what_if(now=300.0, until=1000.0).starts("default/g")


@pytest.mark.parametrize("until", [19.0, math.inf, math.nan, "soon", True])
def test_instant_of_a_question_is_checked(until: Any) -> None:
    story = three_that_run_beside_a_gang(Way.LIVE)
    with pytest.raises(InvalidValueError, match="until must be"):
        story.scheduler.what_if(now=20.0, until=until)
    with pytest.raises(InvalidValueError, match="until must be"):
        story.scheduler.smallest_change("default/g", SHAPE, now=20.0, until=until)


def test_run_times_that_fail_are_named() -> None:
    class Broken:
        def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> float | None:
            raise RuntimeError("no estimate")

    story = Story(partial(presets.gang, backfill=Backfill(Broken())))
    story.tell(NodeAdded(make_node("n", cpu=1)))
    story.add(make_pod("p", cpu=1))
    story.decide()
    with pytest.raises(PluginError, match="no estimate"):
        story.scheduler.what_if(until=10.0)
