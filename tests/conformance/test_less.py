"""Rows 1 to 20: which of two pods goes ahead.

Each comparison is made under both published orders; a failure moves a group in one of them only.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, product

import pytest

from gangsched import (
    Coscheduling,
    NodeAdded,
    Order,
    Pod,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupInfo,
    PodGroupRegistry,
    QueuedPod,
    less,
    membership,
    sort_key,
)
from support.conformance import gang, machine, row, rows, worker
from support.driver import Driver

Line = tuple[QueuedPod, QueuedPod]


class Desk:
    """Takes pods in, in the order in which they are handed over."""

    def __init__(self, *groups: PodGroup) -> None:
        self.registry = PodGroupRegistry()
        self._numbers = count(1)
        for group in groups:
            self.registry.set_spec(group)

    def take(self, pod: Pod) -> QueuedPod:
        claim = membership(pod)
        info = None if claim is None else self.registry.join(pod, claim)
        return QueuedPod(pod=pod, seq=next(self._numbers), queued_at=pod.created_at, group=info)


def pair(first: Pod, second: Pod, *groups: PodGroup, late: bool = False) -> Line:
    """Return two queued pods; the second one is taken in first when it is *late*."""
    desk = Desk(*groups)
    if late:
        then = desk.take(second)
        return desk.take(first), then
    return desk.take(first), desk.take(second)


ELM, OAK = gang("elm", 2, created_at=21.0), gang("oak", 2, created_at=22.0)


@pytest.mark.parametrize(
    ("first", "second", "groups", "ahead"),
    [
        row(1, worker("a", priority=3), worker("b", priority=40), (), False),
        row(2, worker("a", priority=40), worker("b", priority=3), (), True),
        row(3, worker("a", created_at=21.0), worker("b", created_at=22.0), (), True),
        row(4, worker("a", created_at=22.0), worker("b", created_at=21.0), (), False),
        row(5, worker("a", "elm", priority=3), worker("b", priority=40), (ELM,), False),
        row(6, worker("a", "elm", priority=40), worker("b", priority=3), (ELM,), True),
        row(7, worker("a", "elm", created_at=30.0), worker("b", created_at=22.0), (ELM,), True),
        row(8, worker("a", "oak", created_at=9.0), worker("b", created_at=21.0), (OAK,), False),
        row(
            9,
            worker("a", "elm", priority=3),
            worker("b", "oak", priority=40),
            (ELM, OAK),
            False,
        ),
        # the group of b is in another namespace, so nothing but b itself speaks for it
        row(
            10,
            worker("a", "oak", priority=40, created_at=22.0),
            worker("b", "elm", priority=3, created_at=21.0),
            (gang("elm", 2, namespace="attic", created_at=1.0), OAK),
            True,
        ),
        row(11, worker("a", "elm"), worker("b", "oak"), (ELM, OAK), True),
        # newer and less urgent, against older and more urgent: both orders agree
        row(
            12,
            worker("a", "oak", priority=3),
            worker("b", "elm", priority=40),
            (ELM, OAK),
            False,
        ),
        # a's group is described nowhere: its first member's creation stands in
        row(
            13,
            worker("a", "ash", created_at=21.0),
            worker("b", "oak", created_at=1.0),
            (OAK, gang("ash", 2, namespace="attic", created_at=99.0)),
            True,
        ),
        row(14, worker("a", created_at=21.0), worker("b", "oak", created_at=1.0), (OAK,), True),
        row("14v", worker("a", created_at=22.0), worker("b", "oak"), (OAK,), True),
    ],
)
def test_one_pod_is_evicted_before_the_other(
    first: Pod, second: Pod, groups: tuple[PodGroup, ...], ahead: bool
) -> None:
    """Rows 1 to 14 and 14v, in both orders of arrival."""
    for order, late in product(Order, (False, True)):
        a, b = pair(first, second, *groups, late=late)
        assert less(a, b, order=order) is ahead
        assert less(b, a, order=order) is not ahead
        sort = Coscheduling(order=order).queue_sort
        assert (sort(a) < sort(b)) is ahead


# A failure ------------------------------------------------------------------------------------


def nothing(_group: PodGroupInfo) -> None:
    """Leave a group as it is."""


def fails(group: PodGroupInfo) -> None:
    """Let an attempt of a group be rejected after all pods were created."""
    group.last_failure_at = 50.0


def recovers(group: PodGroupInfo) -> None:
    """Let a group fail, and then be scheduled."""
    fails(group)
    group.last_failure_at = None


@pytest.mark.parametrize(
    ("happens", "ahead"),
    [row(15, nothing, True), row(16, fails, False), row(17, recovers, True)],
)
def test_failed_entity_sorts_behind_untried_ones(
    happens: Callable[[PodGroupInfo], None], ahead: bool
) -> None:
    """Rows 15 to 17, F3. By creation alone a failure changes nothing."""
    older, newer = pair(worker("a", "elm"), worker("b", "oak"), ELM, OAK)
    info = older.group
    assert isinstance(info, PodGroupInfo)
    happens(info)
    assert less(older, newer) is ahead
    assert less(newer, older) is not ahead
    assert less(older, newer, order=Order.CREATION)


def effective_time(driver: Driver) -> float:
    """Return the time by which the group of the story below is ordered."""
    info = driver.scheduler.registry.get(ELM.key)
    assert info is not None
    pod = worker("elm-0", "elm")
    return sort_key(QueuedPod(pod=pod, seq=1, queued_at=0.0, group=info)).at


def story(*, fails: bool = False, recovers: bool = False) -> Driver:
    """Add a group with capacity for one of two members, and later for both."""
    driver = Driver(now=30.0)
    driver.tell(NodeAdded(machine("n1", cpu=2)), PodGroupAdded(ELM))
    other = worker("other", requests={"cpu": 1})
    driver.add(other)
    driver.drain()
    driver.add(worker("elm-0", "elm", requests={"cpu": 1}))
    if fails or recovers:
        driver.add(worker("elm-1", "elm", requests={"cpu": 1}))
        driver.drain()
        driver.advance(driver.now + 15.0)
    if recovers:
        driver.tell(PodDeleted(other.uid))
        driver.settle()
    return driver


@rows(18)
def test_before_a_failure_the_creation_of_the_group_is_its_time() -> None:
    assert effective_time(story()) == ELM.created_at


@rows(19)
def test_after_a_failure_the_failure_is_its_time() -> None:
    driver = story(fails=True)
    assert ELM.created_at < effective_time(driver) <= driver.now


@rows(20)
def test_time_of_a_scheduled_group_is_its_creation_again() -> None:
    driver = story(recovers=True)
    assert all(pod.node_name for pod in driver.cluster.pods())
    assert effective_time(driver) == ELM.created_at
