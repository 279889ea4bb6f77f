"""Members whose client has left: kube-scheduler does not wait for longer than ``httpTimeout``."""

from __future__ import annotations

import asyncio

import pytest

from gangsched.events import Bind
from gangsched.kubernetes.extender import Holding
from gangsched.kubernetes.extender._plans import Plans, Release
from gangsched.model import GroupKey, NodeName, PodUID
from support.cluster_objects import GROUPS, NODES, PODS, group_json, node_json, pod_json
from support.extender_client import extending
from support.extender_model import KubeScheduler
from support.memory_api import MemoryApi
from support.running import on_a_loop, until

A, B = (Bind(PodUID(name), NodeName(f"n{name}"), 1) for name in "ab")


def decided() -> Plans:
    plans = Plans(timeout=10.0)
    plans.decided({GroupKey("default/g"): [A, B]}, 0.0)
    return plans


def released() -> Plans:
    """Return a gang of which kube-scheduler had given up the bind of A."""
    plans = decided()
    plans.arrive(A.uid, A.node, 0.0)
    plans.leave(A.uid, 1.0)
    assert plans.arrive(B.uid, B.node, 9.0) == [Release((A, B))]
    plans._check()
    return plans


def test_member_that_was_given_up_a_moment_ago_counts_as_arrived() -> None:
    released()


@pytest.mark.parametrize(("at", "is_released"), [(10.9, True), (11.0, False)])
def test_member_counts_as_arrived_for_the_timeout_after_its_client_left(
    at: float, is_released: bool
) -> None:
    plans = decided()
    plans.arrive(A.uid, A.node, 0.5)
    plans.leave(A.uid, 1.0)
    assert bool(plans.arrive(B.uid, B.node, at)) is is_released


def test_gang_of_which_all_clients_have_left_is_not_released_by_time() -> None:
    plans = decided()
    plans.arrive(A.uid, A.node, 0.0)
    plans.leave(A.uid, 1.0)
    assert plans.advance(9.9) == []


def test_capacity_of_a_member_that_was_given_up_is_reserved_until_it_is_seen_on_its_node() -> None:
    plans = decided()
    plans.arrive(A.uid, A.node, 0.0)
    assert plans.reserved() == {B.node}  # kube-scheduler assumes A to be on its node
    plans.leave(A.uid, 1.0)
    assert plans.reserved() == {A.node, B.node}
    plans.arrive(B.uid, B.node, 2.0)
    assert plans.reserved() == {A.node}
    plans.ended(A, 3.0, is_bound=True)
    plans.ended(B, 3.0, is_bound=True)
    assert (plans.reserved(), plans.next_deadline()) == ({A.node}, 4.0)
    plans.advance(4.0)
    assert (plans.reserved(), plans.next_deadline()) == (set(), None)
    plans._check()


def test_capacity_of_a_released_member_is_reserved_if_its_client_leaves() -> None:
    plans = decided()
    for each in (A, B):
        plans.arrive(each.uid, each.node, 0.0)
    assert plans.reserved() == set()
    plans.leave(A.uid, 1.0)
    assert plans.reserved() == {A.node}
    plans._check()


def test_bind_that_failed_reserves_nothing() -> None:
    plans = released()
    plans.ended(A, 9.5, is_bound=False)
    assert (plans.reserved(), plans.next_deadline()) == (set(), None)


def test_pod_that_is_gone_or_decided_anew_reserves_nothing_of_before() -> None:
    plans = released()
    plans.pod_is_gone(A.uid)
    assert plans.reserved() == set()
    plans = released()
    again = Bind(A.uid, NodeName("other"), 2)
    plans.decided({GroupKey("default/g"): [again]}, 9.5)
    assert plans.reserved() == {"other"}
    plans._check()


def test_ordinary_pod_does_not_take_the_capacity_of_a_member_that_was_given_up() -> None:
    world = KubeScheduler()
    world.add_node("n", 2)
    world.add_gang("a", 2, 2)
    world.attempt(PodUID("a-0"))
    world.leave(PodUID("a-0"))
    world.place_ordinary("x")
    world.attempt(PodUID("a-1"))
    world.place_ordinary("y")  # kube-scheduler has not seen yet that a-0 is on the node
    world.check()
    assert (world.released, world.on_nodes("a")) == (1, 2)


@on_a_loop
async def test_gang_starts_although_each_bind_is_given_up_before_the_next_member_comes() -> None:
    """As with ``httpTimeout: 100ms`` and members that are tried one after the other."""
    api = MemoryApi()
    api.put(NODES, node_json("n"))
    names = [f"g-{number}" for number in range(5)]
    for name in names:
        api.put(PODS, pod_json(name, group="g"))
    api.put(GROUPS, group_json("g", 5))
    async with extending(api, holding=Holding(timeout=10.0, grace=0.0)) as asking:
        for name in names[:-1]:
            node = await asking.decided(name, ["n"])
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await asking.bind(name, node)
            assert not any(api.pods().values())
        assert await asking.bind(names[-1], "n") == ""
        await until(lambda: all(api.pods().values()))
        assert await asking.bind(names[0], "n") == ""  # the try after the backoff
