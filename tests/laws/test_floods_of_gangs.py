"""One tenant's gangs that never fit cost the decisions about others nothing, counted and not timed.

With backfill each of them may ask for the reservation. None is looked at again until something has
changed for it: by a rejection or an event of its own, or by a node that may help it.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Backfill,
    Bind,
    Bound,
    Effect,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
)
from gangsched.testing import make_pod
from support.backfill_host import Host
from support.calls import lines_for

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

NODES = 8
FEW, MANY = 40, 400


class Unchecked(Host):
    """A host that does not check all of the scheduler after each call, which would be counted."""

    def _take(self, effects: tuple[Effect, ...]) -> None:
        self.effects += effects
        for effect in effects:
            if isinstance(effect, Bind):
                self.tell(Bound(effect.uid, effect.node, effect.attempt))


def of_a_size(number: int) -> dict[str, Any]:
    return {"requests": {"cpu": 9, "memory": 1000 + number}}


def of_a_label(number: int) -> dict[str, Any]:
    return {"requests": {"cpu": 9}, "labels": {"flood": f"x{number}"}}


def node(name: str, **labels: str) -> Node:
    offers = {"cpu": 8, "memory": 10**9}
    return Node(name=NodeName(name), allocatable=offers, labels=labels)


def flooded(count: int, pods: Callable[[int], dict[str, Any]], members: int = 1) -> Host:
    """Return a cluster with so many failed gangs, of which no member fits on any node."""
    host = Unchecked(Backfill())
    for number in range(NODES):
        host.tell(NodeAdded(node(f"n{number}")))
    for number in range(count):
        reject(host, f"f{number}", pods(number), members)
    return host


def reject(host: Host, name: str, pod: dict[str, Any], members: int) -> None:
    """Let a gang of the flood arrive, and fail."""
    for place in range(members):
        host.tell(PodAdded(flooding(f"{name}-{place}", name, members, **pod)))
    assert host.decide() == []


def flooding(name: str, group: str, members: int, **more: Any) -> Pod:
    labels = more.pop("labels", {})
    pod = make_pod(name, group=group, min_available=members, **more)
    return evolve(pod, labels={**pod.labels, **labels})


def arrives(host: Host) -> None:
    """Let a gang of 4 that fits arrive, and start."""
    host.gang("fits", 4, None)
    assert len(host.decide()) == 4


def cost(host: Host, what: Callable[[Host], object]) -> int:
    return lines_for(partial(what, host))


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("pods", [of_a_size, of_a_label])
def test_gang_that_fits_costs_the_same_beside_a_few_failed_gangs_and_beside_many(
    pods: Callable[[int], dict[str, Any]], members: int
) -> None:
    few, many = (cost(flooded(n, pods, members), arrives) for n in (FEW, MANY))
    assert many <= 1.3 * few


@pytest.mark.parametrize("members", [1, 2])
def test_gang_that_fails_costs_the_same_beside_a_few_failed_gangs_and_beside_many(
    members: int,
) -> None:
    def fails(host: Host) -> None:
        reject(host, "last", of_a_size(MANY), members)

    few, many = (cost(flooded(n, of_a_size, members), fails) for n in (FEW, MANY))
    assert many <= 1.3 * few


@pytest.mark.parametrize("members", [1, 2])
def test_change_of_a_node_costs_the_same_beside_a_few_failed_gangs_and_beside_many(
    members: int,
) -> None:
    """No node has more than any had before: none is looked at that fits on no empty node."""

    def changes(host: Host) -> None:
        host.tell(NodeUpdated(node("n0", flood="x")))
        arrives(host)

    few, many = (flooded(count, of_a_size, members) for count in (FEW, MANY))
    for host in (few, many):
        host.tell(NodeUpdated(node("n0", flood="w")))  # the first one joins the proofs of all
        host.decide()
    assert cost(many, changes) <= 1.3 * cost(few, changes)


def test_decision_looks_ahead_for_a_few_gangs_only_and_later_ones_for_the_others() -> None:
    """Each member fits on an empty node, and the cluster is too small for two of a gang."""
    host = Host(Backfill())
    host.tell(NodeAdded(node("n0")))
    for number in range(FEW):
        for place in range(2):
            requests = {"cpu": 8, "memory": 1000 + number}
            host.tell(PodAdded(flooding(f"f{number}-{place}", f"f{number}", 2, requests=requests)))
    host.decide()
    host.tell(NodeAdded(evolve(node("n1"), unschedulable=True)))
    assert host.scheduler.reservation is None
    calls = 0
    while host.scheduler.schedule_one(now=host.now) is not None:
        calls += 1
    assert calls > 1
    host.tell(NodeAdded(node("n2")))
    host.decide()
    assert host.reservation.group == "default/f1"  # the first gang has started


def test_pending_gang_that_is_unlike_all_others_holds_a_bounded_amount_of_memory() -> None:
    """``docs/how-to/operate-on-kubernetes.md`` says how much; ``benchmarks/memory.py`` measures."""
    flooded(FEW, of_a_size)  # what is kept once, whatever the number
    tracemalloc.start()
    try:
        host = flooded(FEW, of_a_size)
        before = held(host)
        for number in range(FEW, 6 * FEW):
            reject(host, f"f{number}", of_a_size(number), 1)
        grown = held(host) - before
    finally:
        tracemalloc.stop()
    assert grown / (5 * FEW) < 20_000


def held(host: Host) -> int:
    """Return the bytes that are held, without the effects that the host remembers."""
    host.effects.clear()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
