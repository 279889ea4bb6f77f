"""The machine of restarts, alone: which groups run, fall, are held and may start again."""

from __future__ import annotations

import pytest

from gangsched import GroupKey, RestartPolicy
from gangsched._core._restarts import Fall, Minimum, Restarts
from gangsched.errors import InternalError
from gangsched.model import FrozenMap

G, H = GroupKey("ns/g"), GroupKey("ns/h")
FOUR = Minimum(4)
TWICE = RestartPolicy(max_restarts=2, backoff=10.0, longest_backoff=15.0)


def run(restarts: Restarts, key: GroupKey = G, minimum: Minimum = FOUR, now: float = 0.0) -> None:
    assert restarts.observe(key, minimum, TWICE, is_whole=True, is_short=False, now=now) is None
    restarts._check()


def fall(
    restarts: Restarts,
    policy: RestartPolicy | None = TWICE,
    *,
    key: GroupKey = G,
    minimum: Minimum | None = FOUR,
    now: float = 0.0,
) -> Fall | None:
    found = restarts.observe(key, minimum, policy, is_whole=False, is_short=True, now=now)
    restarts._check()
    return found


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
    found = restarts.observe(G, FOUR, TWICE, is_whole=False, is_short=False, now=1.0)
    assert found is None
    assert restarts.runs(G)


def test_restarts_are_counted_and_their_backoff_doubles_up_to_the_longest() -> None:
    restarts = Restarts()
    run(restarts)
    assert fall(restarts, now=100.0) == Fall(1, 2, 110.0)
    assert restarts.is_held(G)
    assert restarts.try_start(G, leaving=0, now=110.0)
    run(restarts, now=120.0)
    assert fall(restarts, now=200.0) == Fall(2, 2, 215.0)


def test_limit_is_reported_with_each_fall_after_the_last_restart() -> None:
    restarts = Restarts()
    for now in (0.0, 100.0):
        run(restarts)
        fall(restarts, now=now)
        restarts.try_start(G, leaving=0, now=now + 50.0)
    for _time in range(2):
        run(restarts)
        assert fall(restarts, now=300.0) == Fall(2, 2)
        assert not restarts.is_held(G)


def test_held_group_may_start_once_its_pods_are_gone_and_its_backoff_is_over() -> None:
    restarts = Restarts()
    run(restarts)
    fall(restarts, now=0.0)
    assert not restarts.try_start(G, leaving=0, now=9.9)
    assert not restarts.try_start(G, leaving=1, now=10.0)
    assert restarts.is_held(G)
    assert restarts.try_start(G, leaving=0, now=10.0)
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


@pytest.mark.parametrize("minimum", [None, Minimum(5), Minimum(4, FrozenMap({"ps": 1}))])
def test_raised_minimum_is_no_fall(minimum: Minimum | None) -> None:
    restarts = Restarts()
    run(restarts)
    assert fall(restarts, minimum=minimum) is None
    assert not restarts.runs(G)


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
    restarts.try_start(G, leaving=0, now=40.0)
    run(restarts)
    assert fall(restarts, now=50.0) == Fall(2, 2, 65.0)


def test_older_status_does_not_change_what_is_remembered() -> None:
    restarts = Restarts()
    run(restarts)
    fall(restarts, now=0.0)
    restarts.try_start(G, leaving=0, now=10.0)
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
    for damage in ("runs_with", "restarts", "until"):
        restarts = Restarts()
        run(restarts)
        fall(restarts)
        life = restarts.get(G)
        assert life is not None
        value = {"runs_with": FOUR, "restarts": 0, "until": 1.0}[damage]
        setattr(life, damage, value)
        with pytest.raises(InternalError):
            restarts._check()
