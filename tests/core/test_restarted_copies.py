"""Copies that are restarted alone, under histories in which the scheduler is replaced at random."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from attrs import field, frozen
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    CopyBound,
    Evict,
    GroupRestarted,
    NodeAdded,
    PodGroup,
    PodGroupAdded,
    PodPhase,
    RestartPolicy,
    Role,
    SchedulingUnit,
    presets,
)
from gangsched.testing import make_node, make_pod
from support.examples import one_in
from support.story import Story, Way
from support.trees import leaves, of

LIMIT = 2
SHAPES: tuple[Mapping[str, Any], ...] = (
    {"roles": {"leader": 1, "worker": 2}},
    {"roles": {"leader": 1, "worker": Role(2, minimum=1)}},
    {
        "roles": {
            "leader": 1,
            "worker": Role(2, restart=RestartPolicy(max_restarts=LIMIT, backoff=3.0)),
        }
    },
    {
        "roles": {
            "part": Role(
                2,
                minimum=1,
                roles={"a": 1, "b": 1},
                restart=RestartPolicy(max_restarts=1, backoff=2.0),
            )
        }
    },
)


each_preset = pytest.mark.parametrize(
    "make",
    [presets.gang, *(partial(presets.coscheduling, unit=unit) for unit in SchedulingUnit)],
    ids=["gang", *(f"coscheduling by {unit.value}" for unit in SchedulingUnit)],
)


@frozen
class Seen:
    """What an oracle remembers of restarts: it reads effects and pods alone."""

    restarts: dict[str, int] = field(factory=dict[str, int])
    until: dict[str, float] = field(factory=dict[str, float])
    old: dict[str, set[str]] = field(factory=dict[str, set[str]])

    def check(self, story: Story, since: int) -> None:
        """Check the effects since a point."""
        for effect in story.effects[since:]:
            if isinstance(effect, GroupRestarted):
                path = effect.path
                assert effect.restarts == self.restarts.get(path, 0) + 1 <= effect.limit
                for inner in [
                    each for each in self.until if f"{each}/".startswith(f"{path}/") or not path
                ]:
                    for known in (self.restarts, self.until, self.old):
                        known.pop(inner, None)
                self.restarts[path], self.until[path] = effect.restarts, effect.until
                self.old[path] = {
                    p.uid for p in of(story.cluster.pods(), path) if p.node_name is not None
                }
            elif isinstance(effect, Bind):
                pod = story.cluster.pod(effect.uid)
                assert pod is not None
                for path, until in self.until.items():
                    if of([pod], path):
                        assert story.now >= until, f"{pod.name} starts in the backoff of {path}"


def stories(draw: random.Random, make: Any, *ways: Way) -> Iterator[Story]:
    """Yield stories of one group, whose copies or itself may be restarted."""
    shape = draw.choice(SHAPES)
    count = draw.randint(1, 3)
    copy = Role(
        count,
        minimum=draw.randint(1, count),
        restart=RestartPolicy(max_restarts=LIMIT, backoff=5.0) if draw.random() < 0.8 else None,
        **shape,
    )
    whole = RestartPolicy(max_restarts=LIMIT, backoff=7.0) if draw.random() < 0.5 else None
    group = PodGroup(name="g", roles={"decode": copy, "router": 1}, restart=whole)
    nodes, holds = draw.randint(2, 4), draw.random() < 0.5
    for way in ways:
        story = Story(lambda c: make(c, can_evict=True), way, holds_evictions=holds)
        for number in range(nodes):
            story.tell(NodeAdded(make_node(f"n{number}", cpu=4)))
        story.tell(PodGroupAdded(group))
        yield story


def create(story: Story, series: str) -> None:
    """Let the controller create the pods that are not there."""
    group = story.cluster.pod_group("default/g")
    assert group is not None
    there = [p.role for p in story.cluster.pods() if not p.is_finished and p.deleted_at is None]
    for number, role in enumerate(leaves(group.roles)):
        if role in there:
            there.remove(role)
        else:
            story.add(make_pod(f"{series}-{number}", group="g", role=role, cpu=1))


def step(story: Story, draw: random.Random, number: int) -> None:
    kinds = ["create", "create", "fail", "delete", "die", "end", "run", "run", "replace"]
    kind, pods = draw.choice(kinds), sorted(story.cluster.pods(), key=lambda pod: pod.name)
    picked = draw.choice(pods) if pods else None
    if kind == "create":
        create(story, f"s{number}")
    elif kind == "run":
        story.run(story.now + draw.choice([0.5, 1.0, 2.0, 30.0]))
    elif kind == "replace":
        story.interrupt()
    elif kind == "end":
        story.delete(*[pod.name for pod in pods if pod.deleted_at is not None])
    elif picked is not None and kind == "delete":
        story.delete(picked.name)
    elif picked is not None and kind == "die" and picked.deleted_at is None:
        story.update(picked.name, deleted_at=story.now)
    elif picked is not None and kind == "fail" and picked.node_name is not None:
        story.update(picked.name, phase=PodPhase.FAILED)
    story.decide()


@each_preset
@one_in(16, at_least=8)
@given(st.integers(0, 1 << 32))
def test_restarts_of_copies_keep_their_rules_in_any_history(make: Any, seed: int) -> None:
    draw, seen = random.Random(seed), Seen()
    (story,) = stories(draw, make, draw.choice([Way.RESTORED, Way.REBUILT]))
    create(story, "s")
    for number in range(25):
        since = len(story.effects)
        step(story, draw, number)
        seen.check(story, since)
        story.scheduler._check()
    since = len(story.effects)
    story.delete(*[pod.name for pod in story.cluster.pods()])
    story.run(story.now + 1_000.0)
    create(story, "last")
    story.run(story.now + 1_000.0)
    seen.check(story, since)
    size = sum(int(node.allocatable.amount("cpu")) for node in story.cluster.nodes()) // 1000
    if len(list(story.cluster.pods())) <= size:
        assert len(story.bound) == len(list(story.cluster.pods())), "all of it starts again"


@each_preset
@one_in(16, at_least=8)
@given(st.integers(0, 1 << 32))
def test_restored_scheduler_restarts_copies_as_the_one_before(make: Any, seed: int) -> None:
    found: list[tuple[Any, ...]] = []
    for way in (Way.LIVE, Way.RESTORED):
        draw = random.Random(seed)
        (story,) = stories(draw, make, way)
        create(story, "s")
        for number in range(25):
            step(story, draw, number)
        found.append(
            tuple(
                e for e in story.effects if isinstance(e, (GroupRestarted, CopyBound, Evict, Bind))
            )
        )
    assert found[0] == found[1]
