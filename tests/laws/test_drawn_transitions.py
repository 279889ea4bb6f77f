"""What the documentation draws of the two machines is what they do: these moves, and no other.

The table is ``pictures.moves``. It is about the states of a group's members, and about the places
of the queue.
"""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given

from gangsched import MemberState, Preemption, SchedulingUnit, WhenBindFails
from gangsched.core.records.gang import QueuePlace
from pictures.moves import MEMBERS, QUEUE
from support import histories as h
from support.driver import Fate
from support.examples import one_in
from support.history_steps import (
    ChangePod,
    Decide,
    DropGroup,
    DropNode,
    HistoryStep,
    Pass,
    PutGroup,
    PutNode,
    PutPods,
    Report,
    Restart,
)
from support.transitions import Moves, recorded

NODE = PutNode(0, cpu=2)
PAIR = PutPods(group=0, count=2, minimum=2)
TRIO = PutPods(group=0, count=3, minimum=3)
ONE = PutPods(group=0, minimum=1)
GATED = PutPods(group=0, minimum=1, gated=True)
OF_ANOTHER_PRIORITY = PutGroup(0, minimum=1, priority=1)
BIND_FAILS = Decide(fate=Fate.FAILED)
BIND_IS_UNDER_WAY = Decide(fate=Fate.PENDING)


def _pod(index: int, how: str, to: int = 0) -> ChangePod:
    return ChangePod(index, how, to)


LIVES: dict[str, tuple[HistoryStep, ...]] = {
    "a gang runs": (NODE, PAIR, Decide(), _pod(0, "succeed"), _pod(1, "fail")),
    "members are deleted": (NODE, PAIR, Decide(), _pod(0, "delete"), PAIR, _pod(1, "delete")),
    "members end": (
        *(NODE, ONE, Decide(), _pod(0, "terminate"), _pod(0, "succeed"), _pod(0, "delete")),
        *(ONE, _pod(0, "terminate"), _pod(0, "fail")),
    ),
    "who waits is deleted": (NODE, TRIO, Decide(1), _pod(0, "delete")),
    "who waits has finished": (NODE, TRIO, Decide(1), _pod(0, "succeed")),
    "who waits has failed": (NODE, TRIO, Decide(1), _pod(0, "fail")),
    "who waits is bound by another": (NODE, TRIO, Decide(1), _pod(0, "seize")),
    "who waits is refused": (NODE, TRIO, Decide(1), PutGroup(0, minimum=3, priority=1)),
    "who is being bound is refused": (
        *(NODE, ONE, BIND_IS_UNDER_WAY, OF_ANOTHER_PRIORITY, _pod(0, "succeed")),
    ),
    "who is being bound is deleted": (NODE, ONE, BIND_IS_UNDER_WAY, _pod(0, "delete")),
    "who was being bound has finished": (
        *(NODE, ONE, BIND_IS_UNDER_WAY, _pod(0, "succeed")),
        *(ONE, BIND_IS_UNDER_WAY, _pod(1, "fail")),
    ),
    "an attempt falls": (NODE, TRIO, Decide(), Pass()),
    "a bind fails": (NODE, ONE, BIND_FAILS, Pass(), Decide()),
    "a gate is lifted": (GATED, _pod(0, "ungate")),
    "who is gated ends": (
        *(GATED, _pod(0, "succeed"), GATED, _pod(1, "fail"), GATED, _pod(2, "terminate")),
    ),
    "who is gated is refused for a while": (GATED, OF_ANOTHER_PRIORITY, DropGroup(0)),
    "who is refused is bound by another": (NODE, ONE, OF_ANOTHER_PRIORITY, _pod(0, "seize")),
    "who is unscheduled is bound by another": (NODE, ONE, _pod(0, "seize")),
    "who is pending ends": (
        *(PAIR, PAIR, _pod(0, "succeed"), _pod(1, "fail"), _pod(2, "terminate")),
    ),
    "who comes is refused": (OF_ANOTHER_PRIORITY, ONE),
    "who is refused joins": (ONE, OF_ANOTHER_PRIORITY, DropGroup(0)),
    "who is refused has ended when it joins": (
        *(ONE, ONE, ONE, OF_ANOTHER_PRIORITY),
        *(_pod(0, "succeed"), _pod(1, "fail"), _pod(2, "terminate"), DropGroup(0)),
    ),
    "who has ended is found": (
        *(ONE, ONE, ONE, _pod(0, "succeed"), _pod(1, "fail"), _pod(2, "terminate"), Restart(1)),
    ),
    "who has succeeded is found": (NODE, ONE, Decide(), _pod(0, "succeed"), Restart(1)),
    "who is bound is found": (NODE, ONE, Decide(), Restart(1)),
    "a gang is not admitted while it is parked": (ONE, Decide(), PutGroup(0, minimum=2)),
    "a gang is not admitted while it backs off": (
        *(NODE, ONE, BIND_FAILS, PutGroup(0, minimum=2), PutGroup(0, minimum=1), Pass()),
    ),
    "a member changes while its gang is parked": (ONE, Decide(), _pod(0, "recast", 1)),
    "a gang goes while it backs off": (NODE, ONE, BIND_FAILS, _pod(0, "delete")),
    "a gang that is not whole in time backs off": (
        NODE,
        TRIO,
        Decide(1),
        PutNode(0, cpu=3),
        Pass(),
    ),
    "a bind fails while a late member is parked": (
        *(PutNode(0, cpu=3), PAIR, PAIR, BIND_IS_UNDER_WAY, Report(0, Fate.FAILED)),
    ),
    "a gang like one that is parked ends its backoff": (
        *(NODE, PAIR, BIND_FAILS, DropNode(0), PutPods(group=1, count=2, minimum=2)),
        *(Decide(), Pass(), Pass(), Pass()),
    ),
}

VICTIMS_TERMINATE: tuple[HistoryStep, ...] = (
    *(NODE, PutPods(group=1, count=2, minimum=2), Decide()),
    *(PutPods(group=0, count=2, minimum=2, priority=1), Decide(fate=Fate.PENDING)),
)

PREEMPTIONS: dict[str, tuple[HistoryStep, ...]] = {
    "a nominated gang starts": (*VICTIMS_TERMINATE, Decide()),
    "a nominated gang grows": (*VICTIMS_TERMINATE, PutGroup(0, minimum=3, priority=1)),
    "a nominated gang is refused": (*VICTIMS_TERMINATE, PutGroup(0, minimum=2, priority=3)),
    "a nominated pod is like one that is parked": (
        *(NODE, PutPods(group=1, count=2, minimum=2), Decide(), PutNode(0, cpu=1)),
        *(PutPods(priority=2), PutPods(priority=2), Decide(fate=Fate.PENDING), Pass(), Pass()),
    ),
}


EVICTED_DURING_ITS_BIND = (
    *(NODE, PAIR, BIND_IS_UNDER_WAY),
    *(Report(0, Fate.FAILED), Report(0, Fate.FAILED)),
)


EVICTED_BEFORE_ITS_BIND_SUCCEEDS = (
    *(NODE, PAIR, BIND_IS_UNDER_WAY),
    *(Report(0, Fate.FAILED), Report(0, Fate.DONE)),
)


def _moves(policy: h.Policy, *steps: HistoryStep) -> Moves:
    with recorded() as moves:
        policy.world().live(*steps).clear()
    return moves


@pytest.mark.once("its schedulers decide pod by pod")
def test_every_move_that_is_drawn_happens() -> None:
    policy = h.Policy(unit=SchedulingUnit.POD, strict_priorities=True)
    seen = [_moves(policy, *steps) for steps in LIVES.values()]
    evicting = evolve(policy, when_bind_fails=WhenBindFails.RELEASE_GROUP)
    seen += [_moves(evicting, *EVICTED_DURING_ITS_BIND)]
    preempting = evolve(policy, preemption=Preemption())
    seen += [_moves(preempting, *steps) for steps in PREEMPTIONS.values()]

    assert {move for moves in seen for move in moves.members} ^ MEMBERS.keys() == set()
    assert {move for moves in seen for move in moves.queue} ^ QUEUE.keys() == set()


@pytest.mark.once("its schedulers decide pod by pod")
def test_member_that_is_evicted_during_its_bind_stays_terminating_when_the_bind_succeeds() -> None:
    policy = h.Policy(unit=SchedulingUnit.POD, when_bind_fails=WhenBindFails.RELEASE_GROUP)
    moves = _moves(policy, *EVICTED_BEFORE_ITS_BIND_SUCCEEDS)
    assert moves.members <= MEMBERS.keys()


@one_in(4)
@given(policy=h.all_policies, steps=h.histories())
def test_no_other_move_happens(policy: h.Policy, steps: list[HistoryStep]) -> None:
    moves = _moves(policy, *steps)

    assert moves.members <= MEMBERS.keys()
    assert moves.queue <= QUEUE.keys()


@pytest.mark.once("makes no scheduler")
def test_every_state_and_every_place_is_in_the_tables() -> None:
    states = {state for move in MEMBERS for state in move}
    places = {place for move in QUEUE for place in move}

    assert states == {state.name.lower() for state in MemberState} | {"unknown"}
    assert places == {place.value for place in QueuePlace}
