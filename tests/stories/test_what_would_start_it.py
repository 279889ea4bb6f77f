"""What would start a gang, asked of the scheduler: after a loss, and while others still run."""

from __future__ import annotations

from functools import partial

import pytest

from gangsched import (
    GroupKey,
    MatchPolicy,
    NodeAdded,
    NodeDeleted,
    PodGroup,
    PodGroupAdded,
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
