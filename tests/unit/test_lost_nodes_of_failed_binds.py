"""A member whose bind failed loses its node: its gang does not run in part for ever."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import (
    Bind,
    BindFailed,
    Bound,
    Effect,
    Event,
    Evict,
    GroupRejected,
    InMemoryCluster,
    NodeAdded,
    PodAdded,
    PodDeleted,
    PodUID,
    Scheduler,
    WhenBindFails,
    presets,
)
from gangsched.testing import make_node, make_pod

MAKERS = pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])


class Host:
    """Nodes of one CPU each; the first binds of some pods fail, and evicted pods come again."""

    def __init__(self, make: Any, nodes: int, *, can_evict: bool = True, **how: Any) -> None:
        self.cluster, self.now, self.effects = InMemoryCluster(), 0.0, list[Effect]()
        self.scheduler: Scheduler = make(self.cluster, can_evict=can_evict, **how)
        self.fails: dict[str, int] = {}
        self.slow: set[str] = set()
        self.again = 0
        for number in range(nodes):
            self.tell(NodeAdded(make_node(f"n{number}", cpu=1)))

    def gang(self, name: str, size: int, **spec: Any) -> None:
        for number in range(size):
            pod = f"{name}-{number}"
            given: dict[str, Any] = {"group": name, "min_available": size, "cpu": 1}
            self.tell(PodAdded(make_pod(pod, **{**given, "created_at": self.now, **spec})))

    def tell(self, event: Event) -> None:
        self._take(self.scheduler.handle(self.cluster.apply(event), now=self.now))
        self.scheduler._check()

    def until(self, end: float) -> None:
        while True:
            effects = self.scheduler.schedule_one(now=self.now)
            if effects is not None:
                self._take(effects)
                continue
            due = self.scheduler.next_deadline()
            if due is None or due > end:
                break
            self.now = due
            self._take(self.scheduler.advance(now=due))
        self.now = end

    def _take(self, effects: tuple[Effect, ...]) -> None:
        self.effects += effects
        for effect in effects:
            if isinstance(effect, Bind):
                name = effect.uid.partition("/")[2]
                if name in self.slow:
                    continue
                if self.fails.get(name, 0):
                    self.fails[name] -= 1
                    self.tell(BindFailed(effect.uid, effect.attempt, "disk full"))
                else:
                    self.tell(Bound(effect.uid, effect.node, effect.attempt))
            elif isinstance(effect, Evict):
                pod = self.cluster.pod(effect.uid)
                assert pod is not None
                self.tell(PodDeleted(effect.uid))
                self.again += 1
                name = f"{pod.name}-{self.again}"
                given: dict[str, Any] = {"group": pod.name.partition("-")[0], "min_available": 3}
                self.tell(PodAdded(make_pod(name, **given, cpu=1, created_at=pod.created_at)))

    def bound(self, group: str) -> int:
        pods = self.cluster.pods()
        return sum(bool(pod.node_name) and pod.name.startswith(f"{group}-") for pod in pods)

    @property
    def reasons(self) -> list[str]:
        return [each.reason for each in self.effects if isinstance(each, GroupRejected)]


@MAKERS
def test_two_gangs_whose_binds_fail_do_not_keep_part_of_their_nodes_for_ever(make: Any) -> None:
    """Three members each on four nodes: with two nodes each, none could be completed."""
    host = Host(make, 4)
    host.fails = {"a-1": 1, "a-2": 2, "b-1": 1, "b-2": 1}
    host.gang("a", 3)
    host.until(0.5)
    host.gang("b", 3)
    host.until(200.0)
    assert sorted((host.bound("a"), host.bound("b"))) == [0, 3]
    assert any("cannot be placed again" in reason for reason in host.reasons)


@MAKERS
def test_gang_whose_member_lost_its_node_gives_the_others_back(make: Any) -> None:
    host = Host(make, 3)
    host.fails = {"a-2": 1}
    host.gang("a", 3)
    host.until(0.5)
    assert host.bound("a") == 2
    host.tell(PodAdded(make_pod("other-0", cpu=1)))
    host.until(60.0)
    assert (host.bound("a"), host.bound("other")) == (0, 1)
    reason = "the bind of pod a-2 failed, and it cannot be placed again: 0/3 nodes are available"
    assert any(each.startswith(reason) for each in host.reasons)
    host.tell(PodDeleted(PodUID("default/other-0")))
    host.until(120.0)
    assert host.bound("a") == 3


@pytest.mark.parametrize(
    "how", [{"when_bind_fails": WhenBindFails.RETRY_MEMBER}, {"can_evict": False}]
)
@MAKERS
def test_others_stay_if_they_are_not_to_be_evicted(make: Any, how: dict[str, Any]) -> None:
    host = Host(make, 3, **how)
    host.fails = {"a-2": 1}
    host.gang("a", 3)
    host.until(0.5)
    host.tell(PodAdded(make_pod("other-0", cpu=1)))
    host.until(60.0)
    assert host.bound("a") == 2
    assert not any(isinstance(effect, Evict) for effect in host.effects)


@MAKERS
def test_gang_that_was_whole_keeps_its_nodes_when_a_later_bind_fails(make: Any) -> None:
    """Its job controller has recreated a member."""
    host = Host(make, 3)
    host.gang("a", 3)
    host.until(1.0)
    assert host.bound("a") == 3
    host.tell(PodDeleted(PodUID("default/a-2")))
    host.fails = {"a-9": 1}
    host.tell(PodAdded(make_pod("a-9", group="a", min_available=3, cpu=1, created_at=1.0)))
    host.until(1.5)
    host.tell(PodAdded(make_pod("other-0", cpu=1)))
    host.until(60.0)
    assert (host.bound("a"), host.bound("other")) == (2, 1)
    assert not any(isinstance(effect, Evict) for effect in host.effects)


@MAKERS
@pytest.mark.parametrize("slow", [set[str](), {"a-0"}], ids=["bound", "being bound"])
def test_elastic_member_whose_bind_failed_does_not_cost_the_others_their_nodes(
    make: Any, slow: set[str]
) -> None:
    host = Host(make, 3)
    host.fails, host.slow = {"a-2": 1}, slow
    host.gang("a", 3, min_available=2)
    host.until(0.5)
    host.tell(PodAdded(make_pod("other-0", cpu=1)))
    host.until(60.0)
    assert host.bound("a") == 2 - len(slow)
    assert not any(isinstance(effect, Evict) for effect in host.effects)
