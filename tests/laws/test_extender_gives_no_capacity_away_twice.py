"""Capacity that is decided for a gang is given to no other pod, however often binds are given up.

kube-scheduler forgets a member whose bind it gave up, and places pods without a group wherever it
believes to have capacity. It learns of a bind that it did not wait for when time passes.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.model import PodUID
from support.extender_model import KubeScheduler

pytestmark = pytest.mark.once("an extender has whole gangs only")

MEMBERS = (PodUID("g-0"), PodUID("g-1"))
STEPS = ("attempt", "attempt", "leave", "ordinary", "wait", "again")


def do(world: KubeScheduler, kind: str, uid: PodUID, number: int) -> None:
    match kind:
        case "attempt":
            world.attempt(uid)
        case "leave":
            world.leave(uid)
        case "ordinary":
            world.place_ordinary(f"ordinary-{number}")
        case "wait":
            world.wait(0.5)
        case _ if world.on_nodes("g"):
            for each in [pod.uid for pod in world.cluster.pods()]:
                world.delete_pod(each)  # the gang has ended, and its job begins anew
            for each in MEMBERS:
                world.add_member("g", each)
        case _:
            pass


@given(
    st.integers(2, 3),
    st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(MEMBERS)), max_size=40),
)
def test_no_node_is_given_away_twice(cpu: int, history: list[tuple[str, PodUID]]) -> None:
    world = KubeScheduler()
    world.add_node("n", cpu)
    world.add_gang("g", len(MEMBERS), len(MEMBERS))
    for number, (kind, uid) in enumerate(history):
        do(world, kind, uid, number)
        world.check()
        assert world.on_nodes("g") in (0, len(MEMBERS))
