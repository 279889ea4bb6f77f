"""What plugins see of a group whose members are tried, and what pods are told that one refuses."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Outcome,
    PodAdded,
    PodDeleted,
    PodNotAdmitted,
    PodUID,
    PodUnschedulable,
    Success,
    Unschedulable,
    Wait,
    WhenBlocked,
    presets,
)
from gangsched.testing import make_node, make_pod


class Spy:
    """Notes how many members are unscheduled, and how many of these are untried; of a role too."""

    name = "Spy"

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, int, int]] = []

    def _note(self, point: str, state: Any, pod: Any) -> Outcome:
        group = state.group
        if group is not None:
            role = group.role("w")
            assert 0 <= group.untried <= group.unscheduled
            assert (group.unscheduled, group.untried) == (role.unscheduled, role.untried)
            self.seen.append((point, pod.name, group.unscheduled, group.untried))
        return Success()

    def pre_filter(self, state: Any, pod: Any, *, now: float) -> Outcome:
        return self._note("pre_filter", state, pod)

    def post_filter(self, state: Any, pod: Any, reason: str, *, now: float) -> Outcome:
        self._note("post_filter", state, pod)
        return Unschedulable(reason)

    def permit(self, state: Any, pod: Any, node: str, *, now: float) -> Outcome:
        self._note("permit", state, pod)
        return Wait(5.0) if pod.name == "waits" else Success()


def test_member_is_untried_until_its_turn_and_again_in_the_next_round() -> None:
    cluster, spy = InMemoryCluster(), Spy()
    # without the gang policy's own verdict, which would end the attempt
    scheduler = presets.coscheduling(cluster, plugins=[spy], when_blocked=WhenBlocked.UNTIL_TIMEOUT)
    blocker = make_pod("blocker", cpu=1)
    events: list[Any] = [NodeAdded(make_node("n", cpu=4)), PodAdded(blocker)]
    for event in events:
        scheduler.handle(cluster.apply(event), now=0.0)
    binds = [e for e in scheduler.schedule_one(now=0.0) or () if isinstance(e, Bind)]
    assert len(binds) == 1
    for name, cpu in (("a", 1), ("b", 3), ("c", 3)):
        pod = make_pod(name, group="g", min_available=2, role="w", cpu=cpu)
        scheduler.handle(cluster.apply(PodAdded(pod)), now=0.0)
    spy.seen.clear()
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    assert spy.seen == [
        *[("pre_filter", "a", 3, 3), ("permit", "a", 2, 2)],
        *[("pre_filter", "b", 2, 2), ("post_filter", "b", 2, 1)],
        *[("pre_filter", "c", 2, 1), ("post_filter", "c", 2, 0)],
    ]
    spy.seen.clear()
    scheduler.handle(cluster.apply(PodDeleted(blocker.uid)), now=0.0)
    scheduler.schedule_one(now=0.0)
    assert spy.seen == [("pre_filter", "b", 2, 2), ("permit", "b", 1, 1)]
    scheduler._check()


def test_member_that_was_tried_counts_no_more_once_it_takes_a_node() -> None:
    """It waits on permit while another one of its attempt finds no node."""
    cluster, spy = InMemoryCluster(), Spy()
    scheduler = presets.gang(cluster, plugins=[spy])

    def tell(*events: Any, now: float) -> None:
        for event in events:
            scheduler.handle(cluster.apply(event), now=now)

    tell(NodeAdded(make_node("n", cpu=6, gpu=2)), now=0.0)
    for name, gpu in (("a", 1), ("b", 1), ("waits", 0)):
        pod = make_pod(name, group="g", min_available=2, role="w", cpu=1, gpu=gpu)
        tell(PodAdded(pod), now=0.0)
    scheduler.schedule_one(now=0.0)
    tell(Bound(PodUID("default/b"), NodeName("n"), 1), now=1.0)
    tell(NodeUpdated(make_node("n", cpu=6, gpu=1)), now=5.0)
    tell(BindFailed(PodUID("default/a"), 1, "fault"), now=5.0)
    scheduler.advance(now=7.0)
    spy.seen.clear()
    while scheduler.schedule_one(now=7.0) is not None:
        pass
    assert spy.seen[-2:] == [("permit", "waits", 1, 0), ("post_filter", "a", 1, 0)]


@pytest.mark.parametrize("preset", [presets.gang, presets.coscheduling])
def test_group_that_is_complete_is_told_why_a_plugin_keeps_it_out(preset: Any) -> None:
    class Closed:
        name = "Closed"

        def pre_enqueue(self, pod: Any, group: Any, *, now: float) -> Outcome:
            return Unschedulable("closed until noon")

    cluster = InMemoryCluster()
    scheduler = preset(cluster, plugins=[Closed()])
    scheduler.handle(cluster.apply(PodAdded(make_pod("a", group="g", min_available=2))), now=0.0)
    event = cluster.apply(PodAdded(make_pod("b", group="g", min_available=2)))
    effects = scheduler.handle(event, now=0.0)
    assert [type(effect) for effect in effects] == [PodNotAdmitted, *2 * [PodUnschedulable]]
    assert {effect.reason for effect in effects} == {"closed until noon"}
