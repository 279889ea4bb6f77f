"""``check_plugin`` finds a count of pods that a scheduler would not keep: a quota without effect.

A plugin may count in ``pre_filter`` and refuse in ``filter``, or count what it reserves by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest

from gangsched import InMemoryCluster, NodeAdded, gang, presets
from gangsched.model import Pod
from gangsched.outcomes import Outcome, Success, Unschedulable
from gangsched.protocols import CycleView, NodeView, StateKey
from gangsched.testing import check_plugin, make_node, make_pod

USED: StateKey[int] = StateKey("CpuQuota", derived=True)
PODS = [make_pod(f"p{n}", cpu=n) for n in range(1, 3)]


class CpuQuota:
    """Right: the pods on all nodes use at most 2 cpus; each pod is counted anew."""

    name = "CpuQuota"

    def reads_pods(self, pod: Pod) -> bool:
        return True

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        pods = (each for node in state.nodes.values() for each in node.pods)
        state.write(USED, sum(each.requests.amount("cpu") for each in pods))
        return Success()

    def add_pod(self, state: CycleView, pod: Pod, added: Pod, node: NodeView) -> None:
        state.write(USED, (state.read(USED) or 0) + added.requests.amount("cpu"))

    def remove_pod(self, state: CycleView, pod: Pod, removed: Pod, node: NodeView) -> None:
        state.write(USED, (state.read(USED) or 0) - removed.requests.amount("cpu"))

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        if (state.read(USED) or 0) + pod.requests.amount("cpu") <= 2000:
            return Success()
        return Unschedulable("the quota is used up")


class DeniesReading(CpuQuota):
    def reads_pods(self, pod: Pod) -> bool:
        return False


class SaysNothing:
    """Counts and refuses as ``CpuQuota`` does, and has no ``reads_pods``."""

    name = "SaysNothing"

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        return CpuQuota().pre_filter(state, pod, now=now)

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return CpuQuota().filter(state, pod, node)


class NeedsItsCount:
    """Right: ``filter`` reads what ``pre_filter`` wrote, which depends on the pod alone."""

    name = "NeedsItsCount"

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        state.write(USED, pod.requests.amount("cpu"))
        return Success()

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        asked = state.read(USED)
        assert asked is not None
        return Success() if asked <= node.free.get("cpu", 0) else Unschedulable("too few cpus")


@dataclass(frozen=True)
class SignedCount:
    """Wrong: equal signatures, and another count from ``pre_filter``."""

    name: str = "SignedCount"

    def pod_signature(self, pod: Pod) -> None:
        return None

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        state.write(USED, pod.requests.amount("cpu"))
        return Success()

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return Success() if (state.read(USED) or 0) <= 1000 else Unschedulable("too many cpus")


@pytest.mark.parametrize("plugin", [CpuQuota(), NeedsItsCount()], ids=["quota", "of-the-pod"])
def test_count_that_a_scheduler_keeps_passes(plugin: object) -> None:
    check_plugin(plugin, pods=PODS)


@pytest.mark.parametrize(
    ("plugin", "why"),
    [(DeniesReading(), "reads_pods returned False"), (SaysNothing(), "reads_pods is missing")],
    ids=["denied", "missing"],
)
def test_count_of_pods_in_pre_filter_without_reads_pods_is_found(plugin: object, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        check_plugin(plugin, pods=PODS)


def test_scheduler_exceeds_a_quota_that_does_not_say_that_it_reads_pods() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, plugins=[SaysNothing()])
    for event in (NodeAdded(make_node("n", cpu=8)), *gang("g", workers=4, cpu=1).events()):
        scheduler.handle(cluster.apply(event), now=0.0)
    notices = [type(each).__name__ for each in scheduler.schedule_one(now=0.0) or ()]
    assert notices.count("Bind") == 4


def test_signature_that_leaves_out_what_pre_filter_writes_is_found() -> None:
    with pytest.raises(AssertionError, match="pod_signature: is equal, and filter differs"):
        check_plugin(SignedCount(), pods=PODS)


class Licences:
    """Right: two licences, taken at ``reserve`` and returned at the end of the pod."""

    name = "Licences"

    def __init__(self) -> None:
        self.held: set[str] = set()

    def reserve(self, state: CycleView, pod: Pod, node: str, *, now: float) -> Outcome:
        if len(self.held) >= 2 and pod.uid not in self.held:
            return Unschedulable("no licence is free", resolvable=False)
        self.held.add(pod.uid)
        return Success()

    def unreserve(self, state: CycleView, pod: Pod, node: str, *, cause: str, now: float) -> None:
        self.held.discard(pod.uid)

    def pod_ended(self, pod: Pod, node: str, *, now: float) -> Any:
        had_one = pod.uid in self.held
        self.held.discard(pod.uid)
        return had_one


class KeepsAtTheEnd(Licences):
    def pod_ended(self, pod: Pod, node: str, *, now: float) -> bool:
        return True


class KeepsAndSaysSo(Licences):
    def pod_ended(self, pod: Pod, node: str, *, now: float) -> bool:
        return False


class ReturnsSilently(Licences):
    def pod_ended(self, pod: Pod, node: str, *, now: float) -> bool:
        super().pod_ended(pod, node, now=now)
        return False


class ReturnsNothing(Licences):
    def pod_ended(self, pod: Pod, node: str, *, now: float) -> None:
        super().pod_ended(pod, node, now=now)


def test_licence_that_is_returned_at_the_end_of_a_pod_passes() -> None:
    check_plugin(Licences())


@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        (KeepsAtTheEnd(), "pod_ended: does not undo reserve"),
        (KeepsAndSaysSo(), "pod_ended: does not undo reserve"),
        (ReturnsSilently(), "pod_ended: returned False for all"),
        (ReturnsNothing(), "pod_ended: returned None, not a bool"),
    ],
    ids=["kept", "kept-and-said", "silent", "nothing"],
)
def test_licence_that_does_not_return_at_the_end_of_a_pod_is_found(
    plugin: object, why: str
) -> None:
    with pytest.raises(AssertionError, match=why):
        check_plugin(plugin)


class Configured:
    """Has configuration in a plain attribute."""

    name = "Configured"

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = limits

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return Success()


@dataclass(frozen=True)
class FrozenConfigured:
    limits: Mapping[str, object]
    name: str = "FrozenConfigured"

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return Success()


class Forked(Configured):
    def fork(self) -> Forked:
        return Forked(dict(self.limits))


@pytest.mark.parametrize(
    "plugin",
    [
        FrozenConfigured(MappingProxyType({"red": 1})),
        Forked({"red": 1}),
    ],
    ids=["frozen-mapping", "fork"],
)
def test_what_if_accepts_configuration_that_cannot_change(plugin: object) -> None:
    check_plugin(plugin, forkable=True)
    presets.gang(InMemoryCluster(), plugins=[plugin]).what_if(now=0.0)


@pytest.mark.parametrize(
    "plugin",
    [
        Configured({"red": 1}),
        Configured(MappingProxyType({"red": 1})),
        FrozenConfigured({"red": 1}),
        FrozenConfigured(MappingProxyType({"red": [1]})),
    ],
    ids=["plain", "plain-with-frozen-mapping", "frozen-with-dict", "mapping-of-lists"],
)
def test_plugin_that_what_if_refuses_is_found_if_forks_are_asked_for(plugin: Any) -> None:
    check_plugin(plugin)
    with pytest.raises(AssertionError, match="fork method"):
        check_plugin(plugin, forkable=True)
