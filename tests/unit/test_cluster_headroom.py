"""A plugin that bounds how many pods it accepts anywhere spares searches and useless attempts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import pytest

from gangsched import (
    Bind,
    Bound,
    Effect,
    Event,
    GroupRejected,
    GroupScheduled,
    InMemoryCluster,
    Node,
    NodeAdded,
    Order,
    PluginError,
    Pod,
    PodAdded,
    PodDeleted,
    PodUID,
    Profile,
    ProfileError,
    Role,
    gang,
    presets,
)
from gangsched.explain import Shortage
from gangsched.outcomes import Outcome, Success, Unschedulable
from gangsched.protocols import CycleView, NodeView, StateKey
from gangsched.testing import check_plugin
from gangsched.what_if import Insufficient

GPU = "nvidia.com/gpu"
USED: StateKey[int] = StateKey("GpuQuota", derived=True)


@dataclass(frozen=True)
class Undeclared:
    """The pods with GPUs use at most *limit* of them; says nothing of a bound."""

    limit: int
    name: str = "GpuQuota"

    def reads_pods(self, pod: Pod) -> bool:
        return pod.requests.amount(GPU) > 0

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        pods = (each for node in state.nodes.values() for each in node.pods)
        state.write(USED, sum(each.requests.amount(GPU) for each in pods))
        return Success()

    def add_pod(self, state: CycleView, pod: Pod, added: Pod, node: NodeView) -> None:
        state.write(USED, (state.read(USED) or 0) + added.requests.amount(GPU))

    def remove_pod(self, state: CycleView, pod: Pod, removed: Pod, node: NodeView) -> None:
        state.write(USED, (state.read(USED) or 0) - removed.requests.amount(GPU))

    def left(self, state: CycleView) -> int:
        return 1000 * self.limit - (state.read(USED) or 0)

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        if not self.reads_pods(pod) or pod.requests.amount(GPU) <= self.left(state):
            return Success()
        return Unschedulable(f"the lab may use {self.limit} GPUs", resolvable=False)

    def pod_signature(self, pod: Pod) -> Hashable:
        return pod.requests.amount(GPU)

    def node_signature(self, node: NodeView) -> Hashable:
        return None


@dataclass(frozen=True)
class GpuQuota(Undeclared):
    def cluster_headroom(self, state: CycleView, pod: Pod) -> int | None:
        if not self.reads_pods(pod):
            return None
        return max(self.left(state), 0) // pod.requests.amount(GPU)


class World:
    """A scheduler whose binds succeed at once; groups are tried in the order of their creation."""

    def __init__(self, plugin: object, *, nodes: int, gpus: int = 4) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler = presets.gang(self.cluster, plugins=[plugin], order=Order.CREATION)
        self.log: list[Effect] = []
        for number in range(nodes):
            self.tell(NodeAdded(Node(name=f"n{number}", allocatable={GPU: gpus, "pods": 99})))

    def tell(self, *events: Event, now: float = 0.0) -> None:
        for event in events:
            self.perform(self.scheduler.handle(self.cluster.apply(event), now=now), now)

    def perform(self, effects: Iterable[Effect], now: float) -> None:
        for effect in effects:
            self.log.append(effect)
            if isinstance(effect, Bind):
                self.tell(Bound(effect.uid, effect.node, effect.attempt), now=now)

    def decide(self, now: float = 0.0) -> None:
        self.perform(self.scheduler.advance(now=now), now)
        while (effects := self.scheduler.schedule_one(now=now)) is not None:
            self.perform(effects, now)

    def rejections(self) -> list[str]:
        return [each.group for each in self.log if isinstance(each, GroupRejected)]

    def starts(self) -> list[str]:
        return [each.group for each in self.log if isinstance(each, GroupScheduled)]

    def proof(self, key: str) -> object:
        member = getattr(self.scheduler.why(key), "unschedulable_member", None)
        return None if member is None else member.proof


def test_gang_beyond_a_quota_is_counted_exactly_without_a_search() -> None:
    steps: dict[type[Undeclared], int] = {}
    for kind in (Undeclared, GpuQuota):
        world = World(kind(12), nodes=6)
        world.tell(*gang("g", workers=20, gpu=1).events())
        world.decide()
        steps[kind] = world.scheduler._state.attempts.search_steps
        if kind is GpuQuota:
            proof = world.proof("default/g")
            assert isinstance(proof, Shortage)
            assert (proof.fits, proof.needed, proof.exact) == (12, 20, True)
    assert steps[Undeclared] > 1000
    assert steps[GpuQuota] < 10


def test_gang_within_the_quota_starts() -> None:
    world = World(GpuQuota(12), nodes=6)
    world.tell(*gang("g", workers=12, gpu=1).events())
    world.decide()
    assert world.starts() == ["default/g"]


def test_bound_prunes_a_search_over_members_of_two_sizes() -> None:
    steps: list[int] = []
    for plugin in (Undeclared(12), GpuQuota(12)):
        world = World(plugin, nodes=6)
        roles = {"ps": Role(1), "worker": Role(6, requests={GPU: 2})}
        world.tell(*gang("mixed", roles=roles, gpu=1).events())
        world.decide()
        assert world.rejections() == ["default/mixed"]
        steps.append(world.scheduler._state.attempts.search_steps)
    assert steps[1] < steps[0]


def test_added_nodes_do_not_hide_a_quota_from_the_smallest_change() -> None:
    world = World(GpuQuota(12), nodes=1)
    world.tell(*gang("g", workers=20, gpu=1).events())
    world.decide()
    found = world.scheduler.smallest_change(
        "default/g", Node(name="new", allocatable={GPU: 4, "pods": 99}), most=8
    )
    assert isinstance(found, Insufficient)
    assert not found.exhausted
    assert "at most 12 of 20 members fit" in str(found)
    assert "the lab may use 12 GPUs" in str(found)


def test_unrelated_pods_do_not_cause_attempts_of_a_gang_over_its_quota() -> None:
    world = World(GpuQuota(2), nodes=1, gpus=5)
    world.tell(*gang("first", workers=2, gpu=1, created_at=1.0).events())
    world.decide()
    world.tell(*gang("second", workers=2, gpu=1, created_at=2.0).events())
    world.decide()
    for number in range(5):
        now = 10.0 * (number + 1)
        world.tell(PodAdded(Pod(name=f"cpu-{number}")), now=now)
        world.decide(now)
        world.tell(PodDeleted(PodUID(f"default/cpu-{number}")), now=now + 5)
        world.decide(now + 5)
    assert world.rejections() == ["default/second"]
    for number in range(2):
        world.tell(PodDeleted(PodUID(f"default/first-{number}")), now=100.0)
    world.decide(100.0)
    assert world.starts() == ["default/first", "default/second"]


def test_older_gang_starts_before_a_younger_one_when_the_quota_returns() -> None:
    world = World(GpuQuota(2), nodes=1, gpus=2)
    for number, name in enumerate(("first", "older", "younger"), 1):
        members = gang(name, workers=2, gpu=1, created_at=float(number))
        world.tell(*members.events(), now=float(number))
        world.decide(float(number))
    for number in range(4):
        world.tell(PodAdded(Pod(name=f"cpu-{number}")), now=4.0 + number)
        world.decide(4.0 + number)
    for number in range(2):
        world.tell(PodDeleted(PodUID(f"default/first-{number}")), now=9.0)
    world.decide(9.0)
    assert world.starts() == ["default/first", "default/older"]


class Negative(GpuQuota):
    def cluster_headroom(self, state: CycleView, pod: Pod) -> int | None:
        return -1


class TooFew(GpuQuota):
    def cluster_headroom(self, state: CycleView, pod: Pod) -> int | None:
        return 0


def test_negative_bound_is_an_error_of_the_plugin() -> None:
    world = World(Negative(2), nodes=1)
    world.tell(*gang("g", workers=4, gpu=1).events())
    with pytest.raises(PluginError, match="cluster_headroom for default/g-0: returned -1"):
        world.decide()


def test_bound_needs_reads_pods() -> None:
    class Bounds:
        name = "Bounds"

        def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
            return Success()

        def cluster_headroom(self, state: CycleView, pod: Pod) -> int | None:
            return None

    with pytest.raises(ProfileError, match="cluster_headroom"):
        Profile(*presets.coscheduling_profile().plugins, Bounds())


def test_check_plugin_finds_a_bound_below_what_filter_accepts() -> None:
    pods = [Pod(name=f"p{n}", requests={GPU: n}) for n in (1, 2)]
    check_plugin(GpuQuota(4), pods=pods, forkable=True)
    with pytest.raises(AssertionError, match="cluster_headroom: is 0, and filter lets"):
        check_plugin(TooFew(4), pods=pods)
    with pytest.raises(AssertionError, match="cluster_headroom: returned -1"):
        check_plugin(Negative(4), pods=pods)
