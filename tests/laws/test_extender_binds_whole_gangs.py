"""Through the extender no part of a gang is bound, in whatever order kube-scheduler asks.

Members come in any order, repeat, leave before the end, come too late, or are refused by filters of
kube-scheduler; pods and nodes are deleted meanwhile, and pods without a group take capacity that
kube-scheduler believes to be free: it forgets a member whose bind it gave up. No node is given away
twice. Afterwards kube-scheduler behaves, and every gang that fits starts, although a member that
was refused is woken by its nomination only.
"""

from __future__ import annotations

from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangsched.model import PodUID
from support.extender_model import TIMEOUT, KubeScheduler

pytestmark = pytest.mark.once("an extender has whole gangs only")

GROUPS = ("a", "b", "c")
NODES = ("m", "n", "o")

Step: TypeAlias = tuple[str, str, int]


def steps(*, refusals: bool) -> st.SearchStrategy[list[Step]]:
    kinds = ["attempt", "attempt", "attempt", "misfit", "leave", "delete", "recreate", "wait"]
    kinds += ["late", "node", "no-node", "awake", "awake", "ordinary", "ordinary"]
    kinds += ["refuse"] if refusals else []
    step = st.tuples(st.sampled_from(kinds), st.sampled_from(GROUPS), st.integers(0, 5))
    return st.lists(step, max_size=60)


@st.composite
def worlds(draw: st.DrawFn) -> KubeScheduler:
    world = KubeScheduler()
    for name in NODES:
        world.add_node(name, draw(st.integers(0, 3)))
    for name in GROUPS:
        size = draw(st.integers(1, 4))
        world.add_gang(name, size, draw(st.integers(1, size)))
    return world


def do(world: KubeScheduler, step: Step) -> None:
    kind, group, number = step
    uid = PodUID(f"{group}-{number}")
    match kind:
        case "attempt":
            world.attempt(uid)
        case "awake":
            for each in list(world.awake):
                world.attempt(each)
        case "misfit":
            world.attempt(uid, without=NODES[: 1 + number % 3])
            world.awake[uid] = None  # an event of kube-scheduler's own wakes it
        case "leave":
            world.leave(uid)
        case "delete":
            world.delete_pod(uid)
        case "recreate" | "late":
            world.add_member(group, uid)
        case "ordinary":
            world.place_ordinary(f"ordinary-{group}-{number}")
        case "wait":
            world.wait((0.5, 2.0, 5.0, 10.0, TIMEOUT, 2 * TIMEOUT)[number])
        case "node":
            world.add_node(NODES[number % 3], number)
        case "no-node":
            world.delete_node(NODES[number % 3])
        case _:
            world.fail_next(uid)


@given(worlds(), steps(refusals=False))
def test_release_is_a_quorum_that_has_come_to_be_bound(
    world: KubeScheduler, history: list[Step]
) -> None:
    for step in history:
        do(world, step)
        world.check()


@given(worlds(), steps(refusals=True))
def test_every_gang_that_fits_starts_once_kube_scheduler_behaves(
    world: KubeScheduler, history: list[Step]
) -> None:
    for step in history:
        do(world, step)
    world.add_node("large", 100)
    for _ in range(2):  # of a gang of which a bind is refused, the others are evicted
        for group in GROUPS:
            for number in range(4):
                world.add_member(group, f"{group}-{number}")
        world.settle()
    assert not world.held
    for group in GROUPS:
        pods = [pod for pod in world.cluster.pods() if pod.pod_group == group]
        assert all(pod.node_name is not None for pod in pods), group


def test_model_releases_a_gang() -> None:
    world = KubeScheduler()
    world.add_node("n", 3)
    world.add_gang("a", 3, 3)
    world.attempt(PodUID("a-0"))
    world.attempt(PodUID("a-1"))
    assert (world.released, world.on_nodes("a")) == (0, 0)
    world.attempt(PodUID("a-2"))
    assert (world.released, world.on_nodes("a")) == (1, 3)


MEMBERS = (PodUID("g-0"), PodUID("g-1"))
STEPS = ("attempt", "attempt", "leave", "ordinary", "wait", "again")


def do_with_one_gang(world: KubeScheduler, kind: str, uid: PodUID, number: int) -> None:
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
        do_with_one_gang(world, kind, uid, number)
        world.check()
        assert world.on_nodes("g") in (0, len(MEMBERS))
