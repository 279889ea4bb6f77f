"""``check_plugin`` passes every plugin of ours, and finds one that fails in one of its duties."""

from __future__ import annotations

from typing import Any

import pytest

from gangsched import Coscheduling, MatchPolicy, Order, WhenBindFails
from gangsched.model import NodeName, Pod
from gangsched.outcomes import SUCCESS, Outcome, RejectGroup, Success, Unschedulable
from gangsched.plugins import (
    DefaultBinder,
    NodeAffinity,
    NodeResources,
    NodeUnschedulable,
    PrioritySort,
    QOSSort,
    Strategy,
    TaintToleration,
)
from gangsched.testing import check_plugin, make_node, make_pod
from support.siblings import (
    APP,
    ZONE,
    Beside,
    CountedPerZone,
    OnePerNode,
    OnePerZone,
    Rule,
    ruled,
)

OURS = (
    *(DefaultBinder(), NodeAffinity(), NodeUnschedulable(), PrioritySort(), QOSSort()),
    *(TaintToleration(), *(NodeResources(strategy) for strategy in Strategy)),
    Coscheduling(order=Order.CREATION),
    *(Coscheduling(match_policy=match) for match in MatchPolicy),
    Coscheduling(when_bind_fails=WhenBindFails.RELEASE_GROUP),
)


@pytest.mark.parametrize("plugin", OURS, ids=repr)
def test_our_plugins_keep_their_duties(plugin: object) -> None:
    check_plugin(plugin)


class Devices:
    """A right one that keeps what it reserved: two devices on each node."""

    name = "Devices"

    def __init__(self) -> None:
        self.taken: dict[NodeName, set[str]] = {}

    def reserve(self, state: Any, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        there = self.taken.setdefault(node, set())
        if len(there) == 2 and pod.uid not in there:
            return Unschedulable("no device")
        there.add(pod.uid)
        return SUCCESS

    def unreserve(self, state: Any, pod: Pod, node: NodeName, *, cause: str, now: float) -> Any:
        self.taken.get(node, set()).discard(pod.uid)

    def pod_ended(self, pod: Pod, node: NodeName, *, now: float) -> bool:
        had_one = pod.uid in self.taken.get(node, ())
        self.taken.get(node, set()).discard(pod.uid)
        return had_one


def test_plugin_that_keeps_what_it_reserved_passes() -> None:
    check_plugin(Devices(), pods=[make_pod("own")], nodes=[make_node("own", cpu=9)])


class _Leaks(Devices):
    def unreserve(self, state: Any, pod: Pod, node: NodeName, *, cause: str, now: float) -> Any:
        if cause != "rejected":
            super().unreserve(state, pod, node, cause=cause, now=now)


class _Never(Devices):
    def unreserve(self, state: Any, pod: Pod, node: NodeName, *, cause: str, now: float) -> Any:
        return None


class _Counts(Devices):
    """Counts without looking whose device it is."""

    def __init__(self) -> None:
        self.left: dict[NodeName, int] = {}

    def reserve(self, state: Any, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        left = self.left.setdefault(node, 2)
        if left <= 0:
            return Unschedulable("no device")
        self.left[node] = left - 1
        return SUCCESS

    def unreserve(self, state: Any, pod: Pod, node: NodeName, *, cause: str, now: float) -> Any:
        self.left[node] = self.left.get(node, 2) + 1


class _Clamps(_Counts):
    """Counts likewise, and never to more than there are."""

    def unreserve(self, state: Any, pod: Pod, node: NodeName, *, cause: str, now: float) -> Any:
        self.left[node] = min(2, self.left.get(node, 2) + 1)


class _Raises(Devices):
    def unreserve(self, state: Any, pod: Pod, node: NodeName, *, cause: str, now: float) -> Any:
        self.taken[node].remove(pod.uid)


class _Says(Devices):
    def unreserve(self, state: Any, pod: Pod, node: NodeName, *, cause: str, now: float) -> Any:
        return SUCCESS


class _Base:
    name = "Base"


class _Alternates(_Base):
    def __init__(self) -> None:
        self.calls = 0

    def filter(self, state: Any, pod: Pod, node: Any) -> Outcome:
        self.calls += 1
        return SUCCESS if self.calls % 3 else Unschedulable("not now")


class _Takes(_Base):
    def filter(self, state: Any, pod: Pod, node: Any) -> Outcome:
        node.free["cpu"] = node.free.get("cpu", 0) - 1
        return SUCCESS


class _Truth(_Base):
    def filter(self, state: Any, pod: Pod, node: Any) -> Any:
        return True


class _Scores(_Base):
    def score(self, state: Any, pod: Pod, node: Any) -> int:
        return 101


class _SignsForPods(_Base):
    def pod_signature(self, pod: Pod) -> str:
        return "all alike"

    def filter(self, state: Any, pod: Pod, node: Any) -> Outcome:
        return SUCCESS if pod.requests.amount("cpu") < 2000 else Unschedulable("too large")


class _SignsForNodes(_Base):
    def node_signature(self, node: Any) -> int:
        return int(node.pod_count)

    def filter(self, state: Any, pod: Pod, node: Any) -> Outcome:
        return SUCCESS if node.node.labels.get("zone") == "z" else Unschedulable("no zone")


class _Fits(_Base):
    def filter(self, state: Any, pod: Pod, node: Any) -> Outcome:
        return SUCCESS

    def fitted(self, pod: Pod) -> list[str]:
        return ["cpu"]


class _Ties(_Base):
    def queue_sort(self, entity: Any) -> tuple[int, ...]:
        return (-entity.priority, 0, 0, 0, 0)


class _BindsOthers(_Base):
    def bind(self, pod: Pod, node: NodeName, attempt: int, *, now: float) -> Any:
        from gangsched import Bind

        return Bind(pod.uid, node, 1)


class _Waits(_Base):
    def permit(self, state: Any, pod: Pod, node: NodeName, *, now: float) -> Any:
        return RejectGroup(state.group.key, "no") if state.group else SUCCESS


class _IsWide(_Base):
    group_wide = ("filter",)

    def permit(self, state: Any, pod: Pod, node: NodeName, *, now: float) -> Success:
        return SUCCESS


class _Nameless:
    def permit(self, state: Any, pod: Pod, node: NodeName, *, now: float) -> Success:
        return SUCCESS


class _Knows(_Base):
    def permit(self, state: Any, pod: Pod, node: NodeName, *, now: float) -> Success:
        assert state.group.key
        return SUCCESS


WRONG = {
    _Leaks: "Devices.unreserve: does not undo reserve",
    _Never: "Devices.unreserve: does not undo reserve",
    _Counts: "Devices.unreserve: ",
    _Clamps: "Devices.unreserve: calling it twice differs from calling it once",
    _Raises: "Devices.unreserve raised KeyError",
    _Says: "Devices.unreserve: Success() for ",
    _Alternates: "Base.filter: is not pure: ",
    _Takes: "Base.filter: is not pure: it changed a",
    _Truth: "Base.filter: True for ",
    _Scores: "Base.score: 101 is not within 0 to 100",
    _SignsForPods: "Base.pod_signature: is equal, and filter differs: ",
    _SignsForNodes: "Base.node_signature: is equal, and filter differs: ",
    _Fits: "Base.fitted: names cpu, and filter lets ",
    _Ties: "Base.queue_sort: total: ",
    _BindsOthers: "Base.bind: Bind(",
    _Waits: "Base.permit: RejectGroup(",
    _IsWide: "Base.group_wide is ('filter',)",
    _Nameless: "_Nameless.name is None, not a text",
    _Knows: "Base.permit raised AttributeError: ",
    _Base: "Base has none of the points ",
}


@pytest.mark.parametrize("plugin", WRONG, ids=lambda plugin: plugin.__name__.strip("_"))
def test_plugin_that_fails_in_a_duty_is_found(plugin: type[object]) -> None:
    with pytest.raises(AssertionError) as found:
        check_plugin(plugin())
    assert str(found.value).startswith(WRONG[plugin])


class _NoHeadroom:
    """Fits as ``NodeResources`` does, and reports a headroom of zero."""

    name = "NoHeadroom"
    filter = NodeResources.filter

    def headroom(self, pod: Pod, node: Any) -> int:
        return 0


def test_plugin_with_zero_headroom_for_an_accepted_pod_is_found() -> None:
    with pytest.raises(AssertionError, match=r"NoHeadroom.headroom: is 0, and filter lets "):
        check_plugin(_NoHeadroom())


def test_own_pods_are_tried_too() -> None:
    class Minds(_Base):
        def filter(self, state: Any, pod: Pod, node: Any) -> Outcome:
            assert pod.name != "own"
            return SUCCESS

    check_plugin(Minds())
    with pytest.raises(AssertionError, match=r"(?s)Base.filter raised .*pod default/own"):
        check_plugin(Minds(), pods=[make_pod("own")])


# Plugins that read the pods on nodes -------------------------------------------------------------

RULED = [ruled(make_pod("own-a"), "a"), ruled(make_pod("own-b"), "b")]
ZONES = [make_node(f"own-{zone}", cpu=9, labels={ZONE: zone}) for zone in "xy"]


@pytest.mark.parametrize("rule", [OnePerNode, OnePerZone, CountedPerZone, Beside])
def test_plugin_that_says_that_it_reads_pods_passes(rule: type[Rule]) -> None:
    check_plugin(rule(), pods=RULED, nodes=ZONES)


class _SaysItIsIndependent(OnePerZone):
    """Reads the pods of other nodes, and says that it reads none."""

    def reads_pods(self, pod: Pod) -> bool:
        return False

    def allows(self, state: Any, pod: Pod, node: Any) -> bool:
        zone = node.node.labels.get(ZONE)
        views = [view for view in state.nodes.values() if view.node.labels.get(ZONE) == zone]
        return not any(other.labels.get(APP) for view in views for other in view.pods)


class _SaysNothing:
    """Reads the pods on the node, and says nothing."""

    name = "SaysNothing"

    def filter(self, state: Any, pod: Pod, node: Any) -> Outcome:
        return Success() if not node.pods else Unschedulable("occupied")


class _ScoresByPods:
    """Scores by the pods of all nodes, and says nothing."""

    name = "ScoresByPods"

    def score(self, state: Any, pod: Pod, node: Any) -> int:
        return 10 * sum(len(view.pods) for view in state.nodes.values())


class _ReadsNow(OnePerNode):
    def reads_pods(self, pod: Pod) -> Any:
        return "yes"


class _UnequallySigned(OnePerNode):
    def pod_signature(self, pod: Pod) -> Any:
        return None


class _NeverAdds(CountedPerZone):
    def add_pod(self, state: Any, pod: Pod, added: Pod, node: Any) -> None:
        return None


class _NeverRemoves(CountedPerZone):
    def remove_pod(self, state: Any, pod: Pod, removed: Pod, node: Any) -> None:
        return None


@pytest.mark.parametrize(
    ("plugin", "sentence"),
    [
        (_SaysItIsIndependent, r"filter: answers .* reads_pods returned False"),
        (_SaysNothing, r"filter raised LookupError: node\.pods is shown only for pods"),
        (_ScoresByPods, r"score: answers 0 .* and 10 with pod"),
        (_ReadsNow, r"reads_pods: returned 'yes', not a bool"),
        (_UnequallySigned, r"pod_signature: is equal, and filter differs|which have equal"),
        (_NeverAdds, r"add_pod: for pod .* filter returned .* after a new pre_filter"),
        (_NeverRemoves, r"remove_pod: does not undo add_pod"),
    ],
)
def test_plugin_that_depends_on_other_pods_and_does_not_say_so_is_found(
    plugin: Any, sentence: str
) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_plugin(plugin(), pods=RULED, nodes=ZONES)
