"""The machine of restarts, alone: which groups run, fall, are held and may start again."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from gangsched import GroupKey, RestartPolicy
from gangsched._core._restarts import SETTLING_SECONDS, Fall, Minimum, Restarts
from gangsched.errors import InternalError

G, H = GroupKey("ns/g"), GroupKey("ns/h")
FOUR = Minimum(4)
TWICE = RestartPolicy(max_restarts=2, backoff=10.0, longest_backoff=15.0)


def observe(
    restarts: Restarts,
    left: int,
    policy: RestartPolicy | None = TWICE,
    *,
    key: GroupKey = G,
    minimum: Minimum | None = FOUR,
    now: float = 0.0,
) -> Fall | None:
    """Let a group have so many members on nodes, all bound."""
    found = restarts.observe(
        key,
        minimum,
        policy,
        is_whole=minimum is not None and left >= minimum.members,
        is_short=lambda needed: left < needed.members,
        is_left=left > 0,
        now=now,
    )
    restarts._check()
    return found


def run(restarts: Restarts, key: GroupKey = G, minimum: Minimum = FOUR, now: float = 0.0) -> None:
    assert observe(restarts, minimum.members, key=key, minimum=minimum, now=now) is None


def fall(
    restarts: Restarts,
    policy: RestartPolicy | None = TWICE,
    *,
    key: GroupKey = G,
    now: float = 0.0,
) -> Fall | None:
    """Let a group have lost a member for as long as it takes to be sure."""
    if policy is not None:
        found = observe(restarts, 3, policy, key=key, now=now - SETTLING_SECONDS)
        assert found is None
    return observe(restarts, 3, policy, key=key, now=now)


def gone(_until: float) -> float:
    return -math.inf


def on_nodes(_until: float) -> float:
    return math.inf


def terminating_until(instant: float) -> Callable[[float], float]:
    return lambda _until: instant


def test_group_that_never_ran_does_not_fall() -> None:
    restarts = Restarts()
    assert fall(restarts) is None
    assert len(restarts) == 0


def test_fall_without_a_policy_is_reported_once() -> None:
    restarts = Restarts()
    run(restarts)
    assert fall(restarts, None) == Fall()
    assert fall(restarts, None) is None
    assert len(restarts) == 0


def test_group_that_is_neither_whole_nor_short_goes_on_running() -> None:
    restarts = Restarts()
    run(restarts)
    found = restarts.observe(
        *(G, FOUR, TWICE), is_whole=False, is_short=lambda _minimum: False, is_left=True, now=1.0
    )
    assert found is None
    assert restarts.runs(G)


def test_restarts_are_counted_and_their_backoff_doubles_up_to_the_longest() -> None:
    restarts = Restarts()
    run(restarts)
    assert fall(restarts, now=100.0) == Fall(1, 2, 110.0)
    assert restarts.is_held(G)
    assert restarts.try_start(G, gone_at=gone, now=110.0)
    run(restarts, now=120.0)
    assert fall(restarts, now=200.0) == Fall(2, 2, 215.0)


def test_limit_is_reported_with_each_fall_after_the_last_restart() -> None:
    restarts = Restarts()
    for now in (0.0, 100.0):
        run(restarts)
        fall(restarts, now=now)
        restarts.try_start(G, gone_at=gone, now=now + 50.0)
    for _time in range(2):
        run(restarts)
        assert fall(restarts, now=300.0) == Fall(2, 2)
        assert not restarts.is_held(G)


def test_held_group_may_start_once_its_pods_are_gone_and_its_backoff_is_over() -> None:
    restarts = Restarts()
    run(restarts)
    fall(restarts, now=0.0)
    assert not restarts.try_start(G, gone_at=gone, now=9.9)
    assert not restarts.try_start(G, gone_at=on_nodes, now=10.0)
    assert restarts.is_held(G)
    assert restarts.try_start(G, gone_at=gone, now=10.0)
    assert not restarts.is_held(G)
    restarts._check()


def test_backoff_is_due_once_at_its_instant() -> None:
    restarts = Restarts()
    for key, now in ((G, 5.0), (H, 0.0)):
        run(restarts, key)
        fall(restarts, key=key, now=now)
    assert restarts.next_deadline() == 10.0
    assert restarts.due(now=9.0) == []
    assert restarts.due(now=15.0) == [H, G]
    assert restarts.due(now=15.0) == []
    assert restarts.next_deadline() is None
    assert restarts.is_held(G), "its pods may not be gone yet"


def test_group_that_runs_again_is_not_held() -> None:
    restarts = Restarts()
    run(restarts)
    fall(restarts)
    run(restarts, now=1.0)
    assert not restarts.is_held(G)
    assert restarts.next_deadline() is None


def test_group_without_a_minimum_runs_no_more() -> None:
    restarts = Restarts()
    run(restarts)
    assert observe(restarts, 3, minimum=None) is None
    assert not restarts.runs(G)


@pytest.mark.parametrize("lost_first", [True, False])
def test_raised_minimum_is_no_fall_and_hides_none(lost_first: bool) -> None:
    restarts = Restarts()
    run(restarts)
    five = Minimum(5)
    assert observe(restarts, 4, minimum=five) is None
    assert not restarts.is_short(G), "the members that it ran with are there"
    for minimum in (FOUR, five) if lost_first else (five, FOUR):
        assert observe(restarts, 3, minimum=minimum, now=1.0) is None
    assert observe(restarts, 3, minimum=five, now=2.0) == Fall(1, 2, 12.0)


def test_lowered_minimum_ends_the_suspicion() -> None:
    restarts = Restarts()
    run(restarts)
    assert observe(restarts, 3, now=5.0) is None
    assert restarts.is_short(G)
    assert restarts.next_deadline() == 6.0
    assert observe(restarts, 3, minimum=Minimum(3), now=5.5) is None
    assert not restarts.is_short(G)
    assert restarts.next_deadline() is None


def test_group_of_which_all_members_were_deleted_does_not_fall() -> None:
    restarts = Restarts()
    run(restarts)
    assert observe(restarts, 1, now=5.0) is None
    assert observe(restarts, 0, now=5.9) is None
    assert not restarts.runs(G)
    assert len(restarts) == 0
    assert restarts.next_deadline() is None


@pytest.mark.parametrize("failed_first", [True, False])
def test_group_that_lost_all_members_falls_if_one_of_them_failed(failed_first: bool) -> None:
    restarts = Restarts()
    run(restarts)
    if failed_first:
        restarts.note_failed(G, now=5.0)
    assert observe(restarts, 1, now=5.5) is None
    if not failed_first:
        restarts.note_failed(G, now=6.0)
    assert observe(restarts, 0, now=6.0) is None
    assert observe(restarts, 0, now=6.5) == Fall(1, 2, 16.5)


def test_pod_that_stays_terminating_is_waited_for_until_its_bound() -> None:
    restarts = Restarts()
    run(restarts)
    fall(restarts, now=0.0)
    assert restarts.due(now=10.0) == [G]
    stuck = terminating_until(60.0)
    assert not restarts.try_start(G, gone_at=stuck, now=10.0)
    assert restarts.next_deadline() == 60.0
    restarts._check()
    assert restarts.due(now=60.0) == [G]
    assert restarts.try_start(G, gone_at=stuck, now=60.0)
    restarts._check()


def test_group_that_joins_a_restart_has_its_count_and_its_backoff() -> None:
    restarts = Restarts()
    for key in (G, H):
        run(restarts, key)
    begun = fall(restarts, now=0.0)
    assert begun is not None
    restarts.join(H, begun)
    restarts._check()
    assert restarts.is_held(H)
    assert not restarts.try_start(H, gone_at=gone, now=9.0)
    assert restarts.try_start(H, gone_at=gone, now=10.0)
    run(restarts, H)
    assert fall(restarts, key=H, now=20.0) == Fall(2, 2, 35.0)


def test_group_that_was_stopped_does_not_fall() -> None:
    restarts = Restarts()
    run(restarts)
    restarts.stop(G)
    assert fall(restarts) is None


def test_status_of_a_group_is_taken_over_by_a_new_scheduler() -> None:
    restarts = Restarts()
    restarts.resume(G, 1, 40.0, now=20.0)
    restarts._check()
    assert restarts.is_held(G)
    assert restarts.next_deadline() == 40.0
    restarts.try_start(G, gone_at=gone, now=40.0)
    run(restarts)
    assert fall(restarts, now=50.0) == Fall(2, 2, 65.0)


def test_older_status_does_not_change_what_is_remembered() -> None:
    restarts = Restarts()
    run(restarts)
    fall(restarts, now=0.0)
    restarts.try_start(G, gone_at=gone, now=10.0)
    restarts.resume(G, 1, 10.0, now=11.0)
    assert not restarts.is_held(G), "the status lags behind"
    restarts.resume(G, 0, None, now=11.0)
    run(restarts)
    assert fall(restarts, now=20.0) == Fall(2, 2, 35.0)


def test_status_of_a_group_that_runs_does_not_hold_it() -> None:
    restarts = Restarts()
    run(restarts)
    restarts.resume(G, 1, 100.0, now=0.0)
    assert not restarts.is_held(G)
    assert restarts.runs(G)
    restarts._check()


def test_forgotten_group_leaves_nothing() -> None:
    restarts = Restarts()
    run(restarts)
    fall(restarts)
    restarts.forget(G)
    assert len(restarts) == 0
    assert restarts.next_deadline() is None
    restarts._check()


def test_check_finds_contradictions() -> None:
    for damage in ("runs_with", "restarts", "due_at"):
        restarts = Restarts()
        run(restarts)
        fall(restarts)
        life = restarts.get(G)
        assert life is not None
        value = {"runs_with": FOUR, "restarts": 0, "due_at": 1.0}[damage]
        setattr(life, damage, value)
        with pytest.raises(InternalError):
            restarts._check()
