"""Law 3: in the order of decisions the members of groups are contiguous."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Effect,
    Node,
    NodeAdded,
    NodeName,
    Order,
    PodUnschedulable,
    PodWaiting,
    Release,
)
from gangsched.testing import make_pod
from support.driver import Driver
from support.examples import one_in
from support.histories import Policy, policies


def decided_about(effects: tuple[Effect, ...]) -> list[str]:
    """Return the groups that one decision was about."""
    found = []
    for effect in effects:
        if isinstance(effect, PodWaiting | PodUnschedulable):
            found.append(effect.uid.split("/")[1].split("-")[0])
        elif isinstance(effect, Release):
            found.append(effect.group.split("/")[1])
    return found


arrivals = st.permutations([f"{group}-{n}" for group in "abcd" for n in range(3)])


@one_in(2)
@given(policies.filter(lambda p: p.gangs), arrivals, st.integers(0, 14), st.integers(1, 3))
def test_members_of_groups_of_one_priority_and_one_time_are_never_interleaved(
    policy: Policy, order: list[str], gpus: int, minimum: int
) -> None:
    """F1, F56: members arrive alternately in one instant, and every tie is a tie."""
    driver = Driver(policy.make)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"nvidia.com/gpu": gpus})))
    for name in order:
        driver.add(make_pod(name, group=name[0], min_available=minimum, gpu=1))
    driver.log.clear()
    driver.drain()
    turns = [group for told in driver.log for group in decided_about(told.effects)]
    runs = [group for n, group in enumerate(turns) if n == 0 or turns[n - 1] != group]
    assert len(runs) == len(set(runs)), turns


@one_in(2)
@given(st.sampled_from(Order), st.permutations(range(6)))
def test_groups_are_sorted_by_priority_then_age(order: Order, arrival: list[int]) -> None:
    driver = Driver(Policy(order=order).make)
    driver.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"nvidia.com/gpu": 12})))
    for n in arrival:
        for member in range(2):
            driver.add(
                make_pod(
                    f"g{n}-{member}",
                    group=f"g{n}",
                    min_available=2,
                    gpu=1,
                    priority=n % 2,
                    created_at=float(n // 2),
                )
            )
    driver.drain()
    released = [e.group for t in driver.log for e in t.effects if isinstance(e, Release)]
    expected = sorted(range(6), key=lambda n: (-(n % 2), n // 2))
    assert released == [f"default/g{n}" for n in expected]
