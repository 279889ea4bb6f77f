"""``check_plugin`` finds counts that a scheduler would exceed, and accepts refusals for good."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import define, field

from gangsched import NodeAdded, Pod, PodDeleted, PodUID, presets
from gangsched.outcomes import SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView, StateKey
from gangsched.testing import check_plugin, make_node, make_pod
from support.story import Story

USED: StateKey[int] = StateKey("PodQuota", derived=True)
LIMITS = [1, 2, 3, 4, 7]


@define
class PodQuota:
    """Right: at most so many pods run, wherever they are."""

    limit: int
    name: str = "PodQuota"

    def reads_pods(self, pod: Pod) -> bool:
        return True

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        state.write(USED, sum(len(node.pods) for node in state.nodes.values()))
        return SUCCESS

    def add_pod(self, state: CycleView, pod: Pod, added: Pod, node: NodeView) -> None:
        state.write(USED, (state.read(USED) or 0) + 1)

    def remove_pod(self, state: CycleView, pod: Pod, removed: Pod, node: NodeView) -> None:
        state.write(USED, (state.read(USED) or 0) - 1)

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        is_full = (state.read(USED) or 0) >= self.limit
        return Unschedulable("the quota is used up") if is_full else SUCCESS


class NeverAdds(PodQuota):
    """Wrong: the members of one gang do not count for each other."""

    def add_pod(self, state: CycleView, pod: Pod, added: Pod, node: NodeView) -> None:
        return None


class AddsOnce(PodQuota):
    """Wrong: it counts one pod that is added, however many there are."""

    def add_pod(self, state: CycleView, pod: Pod, added: Pod, node: NodeView) -> None:
        state.write(USED, sum(len(each.pods) for each in state.nodes.values() if each is node))


class NeverRemoves(PodQuota):
    """Wrong: a victim counts as if it stayed."""

    def remove_pod(self, state: CycleView, pod: Pod, removed: Pod, node: NodeView) -> None:
        return None


class ReadsSilently(PodQuota):
    """Wrong: it says that it reads no pods."""

    def reads_pods(self, pod: Pod) -> bool:
        return False


class BoundsTooLow(PodQuota):
    """Wrong: the bound is 0 while one more pod fits."""

    def cluster_headroom(self, state: CycleView, pod: Pod) -> int | None:
        return max(self.limit - 1 - (state.read(USED) or 0), 0)


@pytest.mark.parametrize("limit", LIMITS)
def test_quota_that_counts_passes(limit: int) -> None:
    check_plugin(PodQuota(limit))


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        (NeverAdds, r"add_pod: .* after a new pre_filter"),
        (AddsOnce, r"add_pod: .* after a new pre_filter"),
        (NeverRemoves, r"remove_pod: does not undo add_pod"),
        (ReadsSilently, r"filter: answers .* reads_pods returned False"),
        (BoundsTooLow, r"cluster_headroom: is 0, and filter lets"),
    ],
)
def test_quota_that_does_not_count_is_found(plugin: type[PodQuota], why: str, limit: int) -> None:
    if plugin is AddsOnce and limit == 1:
        pytest.skip("right for one pod")
    with pytest.raises(AssertionError, match=f"(?s)PodQuota.{why}"):
        check_plugin(plugin(limit))


def test_scheduler_exceeds_a_quota_that_does_not_count() -> None:
    """Why it matters: the gang is planned whole, and each member is counted alone."""
    story = Story(lambda cluster: presets.gang(cluster, plugins=[NeverAdds(2)]))
    story.tell(NodeAdded(make_node("n", cpu=8, allocatable={"pods": 10})))
    story.gang("g", 4)
    story.run(until=100.0)
    assert len(story.bound) == 4


# What ``reserve`` takes --------------------------------------------------------------------------


@define
class Devices:
    """Wrong: two devices on each node, which no pod gives back when it ends."""

    taken: dict[str, set[str]] = field(factory=dict[str, set[str]])
    name: str = "Devices"

    def reserve(self, state: CycleView, pod: Pod, node: str, *, now: float) -> Outcome:
        there = self.taken.setdefault(node, set())
        if len(there) >= 2 and pod.uid not in there:
            return Unschedulable("no device is free")
        there.add(pod.uid)
        return SUCCESS

    def unreserve(self, state: CycleView, pod: Pod, node: str, *, cause: str, now: float) -> None:
        self.taken.get(node, set()).discard(pod.uid)


class ReturnedDevices(Devices):
    """Right: they are given back."""

    def pod_ended(self, pod: Pod, node: str, *, now: float) -> bool:
        had_one = pod.uid in self.taken.get(node, ())
        self.taken.get(node, set()).discard(pod.uid)
        return had_one


class UntilBound(Devices):
    """Right: a device counts while a bind is under way; then others see the pod on its node."""

    def post_bind(self, pod: Pod, node: str, *, now: float) -> None:
        self.taken.get(node, set()).discard(pod.uid)


@define
class RefusesLargePods:
    """Right: large pods are refused for good, and nothing is kept."""

    name: str = "RefusesLargePods"

    def reserve(self, state: CycleView, pod: Pod, node: str, *, now: float) -> Outcome:
        is_large = pod.requests.amount("cpu") > 2000
        return Unschedulable("too large", resolvable=False) if is_large else SUCCESS


class RefusesAndHears(RefusesLargePods):
    """Right: that a pod has ended helps no other."""

    def pod_ended(self, pod: Pod, node: str, *, now: float) -> bool:
        return False


class RefusesLargeAndCounts(ReturnedDevices):
    """Right: large pods are refused for good, and the others take devices."""

    def reserve(self, state: CycleView, pod: Pod, node: str, *, now: float) -> Outcome:
        refused = RefusesLargePods().reserve(state, pod, node, now=now)
        if isinstance(refused, Unschedulable):
            return refused
        return super().reserve(state, pod, node, now=now)


class ReturnsSilently(RefusesLargeAndCounts):
    """Wrong: a pod that found no device is not tried again."""

    def pod_ended(self, pod: Pod, node: str, *, now: float) -> bool:
        super().pod_ended(pod, node, now=now)
        return False


@pytest.mark.parametrize(
    "plugin",
    [ReturnedDevices, UntilBound, RefusesLargePods, RefusesAndHears, RefusesLargeAndCounts],
)
def test_reserve_that_is_right_passes(plugin: Any) -> None:
    check_plugin(plugin())


def test_devices_that_are_never_given_back_are_found() -> None:
    with pytest.raises(AssertionError, match=r"Devices\.pod_ended: is missing"):
        check_plugin(Devices())


def test_devices_that_are_given_back_silently_are_found() -> None:
    with pytest.raises(AssertionError, match=r"Devices\.pod_ended: returned False for all"):
        check_plugin(ReturnsSilently())


@pytest.mark.parametrize(("plugin", "bound"), [(Devices(), 2), (ReturnedDevices(), 3)])
def test_scheduler_starves_if_devices_are_never_given_back(plugin: Devices, bound: int) -> None:
    """Why it matters: two pods end, and a third one waits for ever."""
    story = Story(lambda cluster: presets.gang(cluster, plugins=[plugin]))
    story.tell(NodeAdded(make_node("n", cpu=8, allocatable={"pods": 10})))
    story.add(make_pod("a", cpu=1), make_pod("b", cpu=1))
    story.decide()
    started = len(story.bound)
    story.tell(PodDeleted(PodUID("default/a")), PodDeleted(PodUID("default/b")))
    story.add(make_pod("c", cpu=1))
    story.run(until=1000.0)
    assert started + len(story.bound) == bound
