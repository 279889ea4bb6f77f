"""Each owner of the state sees for itself what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve

from gangsched import GroupKey, InternalError
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.reservations import Reservations
from gangsched.framework.state.scheduler_state import State
from gangsched.testing import make_pod
from support.busy import busy_scheduler
from support.snapshots import nominating_scheduler

W = GroupKey("default/w")


def file_a_class_under_another_signature(state: State) -> None:
    found = PodClass("one", make_pod("p"))
    found.users = 1
    state.pod_classes.by_signature["other"] = found


def keep_a_class_without_users(state: State) -> None:
    state.pod_classes.by_signature["unused"] = PodClass("unused", make_pod("p"))


def date_a_wait_after_the_current_step(state: State) -> None:
    state.attempts.waiting_since[W] = state.attempts.step + 1


def date_a_try_after_the_current_step(state: State) -> None:
    for entity in state.attempts.tried.values():
        entity.tried_step = state.attempts.step + 1


def let_a_group_give_way_that_does_not_wait(state: State) -> None:
    state.attempts.giving_way[GroupKey("default/incomplete")] = "why"


FAULTS: list[tuple[Callable[[State], None], str, str]] = [
    (
        file_a_class_under_another_signature,
        "pod_classes",
        "pod class other has another signature",
    ),
    (keep_a_class_without_users, "pod_classes", "pod class unused miscounts its users"),
    (
        date_a_wait_after_the_current_step,
        "attempts",
        "default/w holds nodes since step {next} > {step}",
    ),
    (
        date_a_try_after_the_current_step,
        "attempts",
        "entity 22: tried_step is {next}, the current step is {step}",
    ),
    (
        let_a_group_give_way_that_does_not_wait,
        "attempts",
        "default/incomplete gives way, and no member of it waits on permit",
    ),
]


@pytest.mark.parametrize(("fault", "owner", "says"), FAULTS)
def test_owner_finds_its_own_fault(fault: Callable[[State], None], owner: str, says: str) -> None:
    _cluster, scheduler = busy_scheduler()
    state = scheduler._state
    scheduler._check()
    fault(state)
    with pytest.raises(InternalError) as caught:
        getattr(state, owner)._check()
    step = state.attempts.step
    assert caught.value.invariant == says.format(next=step + 1, step=step)


def test_state_finds_a_wait_of_a_group_that_it_does_not_know() -> None:
    _cluster, scheduler = busy_scheduler()
    scheduler._state.attempts.waiting_since[GroupKey("default/gone")] = 0
    with pytest.raises(InternalError, match="default/gone is not a known group, and holds nodes"):
        scheduler._check()


def nominations() -> Reservations:
    return nominating_scheduler()._state.reservations


def test_reservations_find_a_nomination_under_another_number() -> None:
    found = nominations()
    (seq,) = found.nominations
    found.nominations[seq + 1] = found.nominations.pop(seq)
    with pytest.raises(InternalError, match=f"entity {seq + 1} has another entity, or no pods"):
        found._check()


def test_reservations_find_a_nomination_without_pods() -> None:
    found = nominations()
    (nomination,) = found.nominations.values()
    nomination.pods.clear()
    with pytest.raises(InternalError, match="has another entity, or no pods"):
        found._check()


def test_reservations_find_an_entry_that_stands_for_two_pods() -> None:
    found = nominations()
    (nomination,) = found.nominations.values()
    (pod,) = nomination.pods.values()
    other = make_pod("other")
    nomination.pods[other.uid] = evolve(pod, uid=other.uid)
    with pytest.raises(InternalError, match="stands for two purposes"):
        found._check()


def test_pods_are_checked_without_the_other_owners() -> None:
    _cluster, scheduler = busy_scheduler()
    pods = scheduler._state.pods
    assert isinstance(pods, Pods)
    pods._check()
    del pods.members[next(iter(pods.waiting)).uid]
    with pytest.raises(InternalError, match="are not known pods"):
        pods._check()
