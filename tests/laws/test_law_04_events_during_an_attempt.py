"""Law 4, in the hardest case: events while a group is being tried or rejected.

A try takes many calls, and events arrive between them. A member that was refused before an event
must be tried again after it, whatever happened to the group meanwhile.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gangsched import WhenBlocked
from support.brute_force import could_start, entities
from support.examples import one_in
from support.histories import Policy, policies
from support.history_steps import (
    ChangePod,
    Decide,
    DropNode,
    HistoryStep,
    Pass,
    PutGroup,
    PutNode,
    PutPods,
)
from support.world import World

gangs = policies.filter(lambda policy: policy.gangs)
waits = Policy(when_blocked=WhenBlocked.UNTIL_TIMEOUT)


def every_entity_is_tried(world: World, policy: Policy) -> None:
    """Check every pending entity by brute force, also of unlike members."""
    cluster = world.finish().driver.cluster
    for entity in entities(cluster):
        could = could_start(policy.make, cluster, entity)
        assert not could, f"law 4: {sorted(could)} could start, and sleep"


members = st.builds(
    PutPods,
    group=st.just(0),
    count=st.integers(1, 2),
    minimum=st.just(3),
    cpu=st.integers(1, 2),
    gpu=st.sampled_from([0, 0, 1]),
    zone=st.sampled_from([None, None, "b"]),
)
room = st.one_of(
    st.builds(
        PutNode,
        index=st.integers(1, 9),
        cpu=st.integers(1, 3),
        gpu=st.integers(0, 1),
        zone=st.sampled_from("ab"),
    ),
    st.builds(ChangePod, index=st.integers(0, 2), how=st.just("delete")),
)
turns = st.one_of(st.just(Decide(1)), st.just(Decide(2)), st.just(Pass()), st.just(Pass(0.5)))


@one_in(2)
@given(
    gangs,
    st.lists(members, min_size=2, max_size=4),
    st.lists(st.one_of(turns, turns, room), max_size=16),
)
@example(
    policy=Policy(),
    pods=[PutPods(0, 1, 3, gpu=1), PutPods(0, 2, 3), PutPods(0, 1, 3, zone="b")],
    steps=[*[ChangePod(0)] * 2, Decide(1), PutNode(1, cpu=1, gpu=1)],
)
def test_each_unlike_member_is_tried_again_where_capacity_came_after_its_cycle(
    policy: Policy, pods: list[PutPods], steps: list[HistoryStep]
) -> None:
    """Capacity only grows, between any two cycles of one group; three pods run already, and end."""
    world = policy.world().live(PutNode(0, cpu=3), *[PutPods(None, 1)] * 3, Decide())
    world.live(*pods, *steps)
    every_entity_is_tried(world, policy)


Row = tuple[Policy, list[HistoryStep], int]
LET_GO = Policy()
AT_ONCE = Policy(when_blocked=WhenBlocked.AT_ONCE)
ROWS: dict[str, Row] = {
    "one can never start; the other fits as soon as the first is unassumed": (
        waits,
        [PutNode(0, cpu=4), PutPods(0, 2, 3), PutPods(0, 1, 3, gpu=1), PutPods(2, 3, 3)],
        3,
    ),
    "what the member needs that found no node is not free, but a sibling is in its way": (
        waits,
        [
            *(PutNode(0, cpu=2, gpu=1), PutNode(1, cpu=3)),
            *(PutPods(0, 1, 2, cpu=3), PutPods(0, 1, 2, gpu=2), Decide()),
            *(PutPods(2, 1, 2), PutPods(2, 1, 2, cpu=2, gpu=1), Decide()),
        ],
        2,
    ),
    "the first is in the way of the second on the only node; then there are two": (
        waits,
        [
            *(PutNode(0, cpu=2, gpu=1), PutPods(1, 1, 2), PutPods(1, 1, 2, cpu=2, gpu=1)),
            *(Decide(1), PutNode(1, cpu=3), Decide()),
        ],
        2,
    ),
    "neither the event nor the rejection of the other suffices alone": (
        waits,
        [
            *(PutNode(0, cpu=1, zone="b"), PutNode(1, cpu=3), PutPods(1, 1, 2, zone="b")),
            *(PutPods(1, 1, 2, cpu=4), Decide(), Pass(5), PutPods(3, 1, 2, cpu=3, priority=0)),
            *(PutPods(3, 1, 2, gpu=1), Decide(), Pass(1), PutNode(1, cpu=4)),
        ],
        2,
    ),
    "a node goes; the members that were next fit elsewhere": (
        LET_GO,
        [
            *(PutNode(0, cpu=1), PutNode(1, cpu=2, tainted=True), PutPods(1, 2, 2)),
            *(PutPods(1, 2, 2, tolerant=True), Decide(2), DropNode(0)),
        ],
        2,
    ),
    "a small pod prefers the emptier node, which alone can take a big one": (
        AT_ONCE,
        [
            *(PutPods(0, 1, 2), PutPods(0, 1, 2, cpu=4), PutPods(1, 1, 2), PutPods(1, 1, 2, cpu=4)),
            *(PutPods(2, 1, 2, cpu=4), PutPods(2, 1, 2), PutNode(0, cpu=3), Decide()),
            PutNode(1, cpu=4),
        ],
        2,
    ),
    "an attempt that was broken off does not count against the next": (
        LET_GO,
        [
            *(PutNode(0, cpu=2), PutPods(0, 1, 3, gpu=1), PutPods(0, 2, 3, cpu=2)),
            *(PutPods(0, 1, 3), Decide(1), ChangePod(1), ChangePod(1), Pass(20)),
            *(PutNode(1, cpu=4), PutPods(0, 2, 3), Decide()),
        ],
        3,
    ),
    "F22: the minimum becomes smaller when the backoff is over": (
        LET_GO,
        [PutNode(0, cpu=2), PutGroup(0, 3), PutPods(0, 3), Decide(), Pass(60), PutGroup(0, 2)],
        2,
    ),
    **{
        f"the last untried member leaves: {when.value}": (
            Policy(when_blocked=when),
            [
                *(PutNode(0, cpu=1), PutPods(0, 1, 2), PutPods(0, 2, 2), PutPods(0, 1, 2, cpu=3)),
                *(Decide(3), ChangePod(3), PutNode(1, cpu=1)),
            ],
            2,
        )
        for when in WhenBlocked
    },
}


@pytest.mark.parametrize(("policy", "steps", "count"), ROWS.values(), ids=ROWS)
def test_gang_whose_capacity_came_amid_an_attempt_starts(
    policy: Policy, steps: list[HistoryStep], count: int
) -> None:
    world = policy.world().live(*steps)
    every_entity_is_tried(world, policy)
    assert len(world.driver.running()) >= count


AT_THIS_INSTANT: dict[str, list[HistoryStep]] = {
    "the first found no node, capacity is added, the last finds none, and now the first fits": [
        *(PutNode(0, cpu=2), PutPods(0, 1, 3, gpu=1), PutPods(0, 2, 3)),
        *(PutPods(0, 1, 3, zone="b"), Decide(1), PutNode(1, cpu=1, gpu=1), Decide()),
    ],
    "two hold nodes, the third fits nowhere; the fourth does": [
        *(PutNode(0, cpu=3), PutPods(0, 2, 3), PutPods(0, 1, 3, gpu=1), Decide()),
        *(PutPods(0, 1, 3), Decide()),
    ],
}


@pytest.mark.pod_by_pod("one turn a member")
@pytest.mark.parametrize("steps", AT_THIS_INSTANT.values(), ids=AT_THIS_INSTANT)
def test_event_during_other_cycles_is_acted_on_in_the_same_instant(
    steps: list[HistoryStep],
) -> None:
    """F8."""
    world = waits.world().live(*steps)
    assert world.driver.now == 0.0
    assert len(world.driver.running()) == 3
