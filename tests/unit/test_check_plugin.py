"""``check_plugin`` passes every plugin of ours, and finds one that fails in one of its duties."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest

from gangsched import (
    Bind,
    Coscheduling,
    InMemoryCluster,
    MatchPolicy,
    NodeAdded,
    Order,
    WhenBindFails,
    gang,
    plugins,
    presets,
)
from gangsched.errors import InvalidValueError
from gangsched.model import NodeName, Pod
from gangsched.outcomes import SUCCESS, Outcome, RejectGroup, Unschedulable
from gangsched.plugins import NodeResources, Strategy
from gangsched.protocols import CycleView, NodeView, StateKey
from gangsched.testing import check_plugin, make_node, make_pod, node_view
from support.siblings import APP, ZONE, Beside, CountedPerZone, OnePerNode, OnePerZone, ruled

_CLASSES = (getattr(plugins, name) for name in plugins.__all__)
OURS = (
    *(each() for each in _CLASSES if isinstance(each, type) and hasattr(each, "name")),
    NodeResources(Strategy.MOST_ALLOCATED),
    Coscheduling(order=Order.CREATION),
    *(Coscheduling(match_policy=match) for match in MatchPolicy),
    Coscheduling(when_bind_fails=WhenBindFails.RELEASE_GROUP),
)


NAMES = [f"{number}-{type(each).__name__}" for number, each in enumerate(OURS)]


@pytest.mark.parametrize("plugin", OURS, ids=NAMES)
def test_our_plugins_keep_their_duties(plugin: object) -> None:
    check_plugin(plugin)


def based(base: type[Any] = object, **members: Any) -> Any:
    """Return a plugin of a class ``Base`` with these methods and attributes."""
    return type("Base", (base,), {"name": "Base", **members})()


def verdict(fits: bool) -> Outcome:
    return SUCCESS if fits else Unschedulable("no")


class Devices:
    """A right one that keeps what it reserved: two devices on each node."""

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

    def pod_ended(self, pod: Pod, node: NodeName, *, now: float) -> Any:
        had_one = pod.uid in self.taken.get(node, ())
        self.taken.get(node, set()).discard(pod.uid)
        return had_one


class Leaks(Devices):
    def unreserve(self, state: Any, pod: Pod, node: NodeName, *, cause: str, now: float) -> Any:
        if cause != "rejected":
            super().unreserve(state, pod, node, cause=cause, now=now)


class Counts(Devices):
    """Counts without looking whose device it is; never to more than *most*."""

    most = 99

    def reserve(self, state: Any, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        self.left: dict[str, int] = getattr(self, "left", {})
        if self.left.setdefault(node, 2) <= 0:
            return Unschedulable("no device")
        self.left[node] -= 1
        return SUCCESS

    def unreserve(self, state: Any, pod: Pod, node: NodeName, *, cause: str, now: float) -> Any:
        self.left[node] = min(self.most, self.left.get(node, 2) + 1)


class Alternates:
    calls = 0

    def filter(self, state: Any, pod: Pod, node: Any) -> Outcome:
        self.calls += 1
        return verdict(self.calls % 3 != 0)


class Takes:
    def filter(self, state: Any, pod: Pod, node: Any) -> Outcome:
        node.free["cpu"] = node.free.get("cpu", 0) - 1
        return SUCCESS


class KnowsItsGroup:
    def permit(self, state: Any, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        assert state.group.key
        return SUCCESS


def any_filter(*_args: Any) -> Outcome:
    return SUCCESS


def any_permit(*_args: Any, now: float) -> Outcome:
    return SUCCESS


def release(kept: Any, returned: Any) -> Callable[..., Any]:
    """Return a ``pod_ended`` that returns a value, after it has released the device or kept it."""

    def pod_ended(self: Devices, pod: Pod, node: NodeName, *, now: float) -> Any:
        if not kept:
            Devices.pod_ended(self, pod, node, now=now)
        return returned

    return pod_ended


NOT_UNDONE = "Base.unreserve: does not undo reserve"
SIGNED_PODS = "Base.pod_signature: is equal, and filter differs: "
WRONG: dict[str, tuple[Any, str]] = {
    "misspelt option": (
        based(filter=any_permit, read_pods=lambda _self, _pod: True),
        "Base.read_pods is never called: is it reads_pods?",
    ),
    "keeps it if rejected": (based(Leaks), NOT_UNDONE),
    "never gives back": (based(Devices, unreserve=lambda *_args, **_more: None), NOT_UNDONE),
    "counts": (based(Counts), "Base.unreserve: "),
    "clamps": (
        based(Counts, most=2),
        "Base.unreserve: calling it twice differs from calling it once",
    ),
    "raises": (
        based(Devices, unreserve=lambda self, _s, pod, node, **_more: self.taken[node].remove(pod)),
        "Base.unreserve raised KeyError",
    ),
    "answers unreserve": (
        based(Devices, unreserve=lambda *_args, **_more: SUCCESS),
        "Base.unreserve: Success() for ",
    ),
    "keeps it at the end": (
        based(Devices, pod_ended=release(kept=True, returned=True)),
        "Base.pod_ended: does not undo reserve",
    ),
    "keeps it and says so": (
        based(Devices, pod_ended=release(kept=True, returned=False)),
        "Base.pod_ended: does not undo reserve",
    ),
    "returns it silently": (
        based(Devices, pod_ended=release(kept=False, returned=False)),
        "Base.pod_ended: returned False for all",
    ),
    "says nothing of the end": (
        based(Devices, pod_ended=release(kept=False, returned=None)),
        "Base.pod_ended: returned None, not a bool",
    ),
    "alternates": (based(Alternates), "Base.filter: is not pure: "),
    "takes": (based(Takes), "Base.filter: is not pure: it changed a"),
    "truth": (based(filter=lambda *_args: True), "Base.filter: True for "),
    "score": (based(score=lambda *_args: 101), "Base.score: 101 is not within 0 to 100"),
    "signs pods": (
        based(
            pod_signature=lambda _self, _pod: "all alike",
            filter=lambda _self, _s, pod, _n: verdict(pod.requests.amount("cpu") < 2000),
        ),
        SIGNED_PODS,
    ),
    "signs nodes": (
        based(
            node_signature=lambda _self, node: node.pod_count,
            filter=lambda _self, _s, _p, node: verdict(node.node.labels.get("zone") == "z"),
        ),
        "Base.node_signature: is equal, and filter differs: ",
    ),
    "fits": (
        based(filter=lambda *_args: SUCCESS, fitted=lambda *_args: ["cpu"]),
        "Base.fitted: names cpu, and filter lets ",
    ),
    "ties": (
        based(queue_sort=lambda _self, entity: (-entity.priority, 0, 0, 0, 0)),
        "Base.queue_sort: total: ",
    ),
    "another attempt": (
        based(bind=lambda _self, pod, node, _attempt, *, now: Bind(pod.uid, node, 1)),
        "Base.bind: Bind(",
    ),
    "rejects at permit": (
        based(
            permit=lambda _self, state, *_args, now: (
                RejectGroup(state.group.key, "no") if state.group else SUCCESS
            )
        ),
        "Base.permit: RejectGroup(",
    ),
    "group wide": (
        based(group_wide=("filter",), permit=any_permit),
        "Base.group_wide is ('filter',)",
    ),
    "nameless": (based(name=None, permit=any_permit), "Base.name is None, not a text"),
    "knows its group": (based(KnowsItsGroup), "Base.permit raised AttributeError: "),
    "nothing": (based(), "Base has none of the points "),
}


@pytest.mark.parametrize("fault", WRONG)
def test_plugin_that_fails_in_a_duty_is_found(fault: str) -> None:
    plugin, sentence = WRONG[fault]
    with pytest.raises(AssertionError) as found:
        check_plugin(plugin)
    assert str(found.value).startswith(sentence)


def test_own_names_of_a_plugin_are_its_own() -> None:
    def fail(_self: object) -> None:
        raise RuntimeError

    members: dict[str, Any] = {"filter": any_filter, "score": lambda *_args: 0, "scores": print}
    check_plugin(based(**members, client=property(fail), _filter=print))


def test_plugin_that_keeps_what_it_reserved_passes() -> None:
    check_plugin(based(Devices), pods=[make_pod("own")], nodes=[make_node("own", cpu=9)])


def test_view_shows_the_pods_that_are_on_the_node() -> None:
    pods = [make_pod("p", cpu=1), make_pod("q", cpu=2)]
    view = node_view(make_node("a", cpu=4), pods=pods)
    assert (view.pods, view.pod_count, view.free["cpu"]) == (tuple(pods), 2, 1000)
    assert node_view(make_node("a", cpu=4), used={"cpu": 3}, pods=2).free["cpu"] == 1000
    refused: Any = ["p"]
    with pytest.raises(InvalidValueError, match="pods"):
        node_view(make_node("a"), pods=refused)


def test_own_pods_are_tried_too() -> None:
    class Minds:
        def filter(self, state: Any, pod: Pod, node: Any) -> Outcome:
            assert pod.name != "own"
            return SUCCESS

    check_plugin(based(Minds))
    with pytest.raises(AssertionError, match=r"(?s)Base.filter raised .*pod default/own"):
        check_plugin(based(Minds), pods=[make_pod("own")])


# Plugins that read the pods on nodes -------------------------------------------------------------

RULED = [ruled(make_pod("own-a"), "a"), ruled(make_pod("own-b"), "b")]
ZONES = [make_node(f"own-{zone}", cpu=9, labels={ZONE: zone}) for zone in "xy"]


def one_per_zone(_self: Any, state: Any, _pod: Pod, node: Any) -> bool:
    zone = node.node.labels.get(ZONE)
    views = [view for view in state.nodes.values() if view.node.labels.get(ZONE) == zone]
    return not any(other.labels.get(APP) for view in views for other in view.pods)


def independent(*_args: Any) -> bool:
    return False


UNDECLARED: list[tuple[Any, str]] = [
    (
        based(OnePerZone, reads_pods=independent, allows=one_per_zone),
        r"filter: answers .* reads_pods returned False",
    ),
    (
        based(filter=lambda _self, _s, _p, node: verdict(not node.pods)),
        r"filter raised LookupError: node\.pods is shown only for pods",
    ),
    (
        based(
            score=lambda _self, state, _p, _n: 10 * sum(len(v.pods) for v in state.nodes.values())
        ),
        r"score: answers 0 .* and 10 with pod",
    ),
    (
        based(OnePerNode, reads_pods=lambda *_args: "yes"),
        r"reads_pods: returned 'yes', not a bool",
    ),
    (
        based(OnePerNode, pod_signature=lambda *_args: None),
        r"pod_signature: is equal, and filter differs|which have equal",
    ),
    (
        based(CountedPerZone, add_pod=lambda *_args: None),
        r"add_pod: for pod .* filter returned .* after a new pre_filter",
    ),
    (
        based(CountedPerZone, remove_pod=lambda *_args: None),
        r"remove_pod: does not undo add_pod",
    ),
]


@pytest.mark.parametrize("rule", [OnePerZone, CountedPerZone, Beside])
def test_plugin_that_says_that_it_reads_pods_passes(rule: type[Any]) -> None:
    check_plugin(rule(), pods=RULED, nodes=ZONES)


@pytest.mark.parametrize(("plugin", "sentence"), UNDECLARED)
def test_plugin_that_depends_on_other_pods_and_does_not_say_so_is_found(
    plugin: Any, sentence: str
) -> None:
    with pytest.raises(AssertionError, match=sentence):
        check_plugin(plugin, pods=RULED, nodes=ZONES)


# Counts: a plugin may count in ``pre_filter`` and refuse in ``filter`` ----------------------------

USED: StateKey[int] = StateKey("CpuQuota", derived=True)
SIZES = [make_pod(f"p{n}", cpu=n) for n in range(1, 3)]


class CpuQuota:
    """Right: the pods on all nodes use at most 2 cpus; each pod is counted anew."""

    name = "CpuQuota"

    def reads_pods(self, pod: Pod) -> bool:
        return True

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        pods = (each for node in state.nodes.values() for each in node.pods)
        state.write(USED, sum(each.requests.amount("cpu") for each in pods))
        return SUCCESS

    def add_pod(self, state: CycleView, pod: Pod, added: Pod, node: NodeView) -> None:
        state.write(USED, (state.read(USED) or 0) + added.requests.amount("cpu"))

    def remove_pod(self, state: CycleView, pod: Pod, removed: Pod, node: NodeView) -> None:
        state.write(USED, (state.read(USED) or 0) - removed.requests.amount("cpu"))

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return verdict((state.read(USED) or 0) + pod.requests.amount("cpu") <= 2000)


class SaysNothing:
    """Counts and refuses as ``CpuQuota`` does, and has no ``reads_pods``."""

    name = "SaysNothing"
    pre_filter, filter = CpuQuota.pre_filter, CpuQuota.filter


class CountsThePod:
    """``filter`` reads what ``pre_filter`` wrote, which depends on the pod alone."""

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        state.write(USED, pod.requests.amount("cpu"))
        return SUCCESS

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        demand = state.read(USED)
        assert demand is not None
        return verdict(demand <= 1000)


@pytest.mark.parametrize("plugin", [CpuQuota(), based(CountsThePod)], ids=["quota", "of-the-pod"])
def test_count_that_a_scheduler_keeps_passes(plugin: object) -> None:
    check_plugin(plugin, pods=SIZES)


@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        (based(CpuQuota, reads_pods=independent), "reads_pods returned False"),
        (SaysNothing(), "reads_pods is missing"),
        (based(CountsThePod, pod_signature=lambda *_args: None), SIGNED_PODS),
    ],
    ids=["denied", "missing", "signed"],
)
def test_count_of_pods_in_pre_filter_that_is_not_declared_is_found(
    plugin: object, why: str
) -> None:
    with pytest.raises(AssertionError, match=why):
        check_plugin(plugin, pods=SIZES)


def test_scheduler_exceeds_a_quota_that_does_not_say_that_it_reads_pods() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, plugins=[SaysNothing()])
    for event in (NodeAdded(make_node("n", cpu=8)), *gang("g", workers=4, cpu=1).events()):
        scheduler.handle(cluster.apply(event), now=0.0)
    assert sum(isinstance(each, Bind) for each in scheduler.schedule_one(now=0.0) or ()) == 4


# Signatures: a signed answer must not depend on what the signature leaves out ---------------------

MEMBERS, LARGE = gang("g", workers=4, cpu=1).pods, [make_node("n", cpu=16)]
APPS = [Pod(name=name, labels={"app": name}, requests={"cpu": 1}) for name in ("web", "store")]


class Few:
    """At most some members of a group on a node; it does not count the pod itself."""

    name = "Few"

    def __init__(self, most: int = 2, *, compares_uids: bool = True) -> None:
        self.most, self.compares_uids = most, compares_uids

    def reads_pods(self, pod: Pod) -> bool:
        return pod.pod_group is not None

    def count(self, pod: Pod, node: NodeView) -> int:
        members = [each for each in node.pods if each.pod_group == pod.pod_group]
        return sum(not (self.compares_uids and each.uid == pod.uid) for each in members)

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return verdict(pod.pod_group is None or self.count(pod, node) < self.most)


class Signed(Few):
    def pod_signature(self, pod: Pod) -> Hashable:
        return pod.namespace, pod.pod_group

    def node_signature(self, node: NodeView) -> Hashable:
        return None


class SignedByUid(Signed):
    def pod_signature(self, pod: Pod) -> Hashable:
        return pod.uid


class Scored(Signed):
    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return SUCCESS

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        return 0 if pod.pod_group is None else min(self.count(pod, node), 100)


@pytest.mark.parametrize("plugin", [Signed(1), Signed(8), Scored()], ids=["1", "8", "score"])
def test_signed_plugin_that_compares_uids_is_found(plugin: object) -> None:
    with pytest.raises(AssertionError, match=r"Few\.pod_signature: is equal, and .* UIDs"):
        check_plugin(plugin, pods=MEMBERS, nodes=LARGE)


def test_signed_plugin_that_compares_uids_is_found_without_pods_of_a_caller() -> None:
    with pytest.raises(AssertionError, match=r"Few\.pod_signature: is equal, and filter differs"):
        check_plugin(Signed())


class OneOfAnApp:
    """One pod of each app on a node; the signature lacks the app."""

    def reads_pods(self, pod: Pod) -> bool:
        return "app" in pod.labels

    def pod_signature(self, pod: Pod) -> Hashable:
        return "app" in pod.labels

    def node_signature(self, node: NodeView) -> Hashable:
        return tuple(sorted(pod.labels.get("app", "") for pod in node.pods))

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        app = pod.labels.get("app")
        return verdict(app is None or all(each.labels.get("app") != app for each in node.pods))


def apart(_self: Any, _state: Any, pod: Pod, node: NodeView) -> int:
    return 100 - min(sum(each.labels == pod.labels for each in node.pods), 100)


@pytest.mark.parametrize(
    "plugin",
    [based(OneOfAnApp), based(OneOfAnApp, filter=lambda *_args: SUCCESS, score=apart)],
    ids=["filter", "score"],
)
def test_signature_without_the_label_that_is_compared_is_found(plugin: object) -> None:
    with pytest.raises(AssertionError) as found:
        check_plugin(plugin, pods=APPS, nodes=LARGE)
    message = str(found.value)
    assert "pod_signature" in message
    assert "sign all that is compared with node.pods" in message
    assert "a copy of default/web" in message


@pytest.mark.parametrize(
    ("plugin", "pods"),
    [
        (Few(), MEMBERS),
        (SignedByUid(), MEMBERS),
        (Scored(compares_uids=False), MEMBERS),
        (based(OneOfAnApp, pod_signature=lambda _self, pod: pod.labels.get("app")), APPS),
    ],
    ids=["unsigned", "signed by UID", "scores all", "signed by app"],
)
def test_plugin_whose_answer_holds_for_its_signature_passes(plugin: Any, pods: Any) -> None:
    check_plugin(plugin, pods=pods, nodes=LARGE)


# Forks: ``what_if`` refuses configuration that may change -----------------------------------------


class Configured:
    """Has configuration in a plain attribute."""

    name = "Configured"

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = limits

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return SUCCESS


@dataclass(frozen=True)
class FrozenConfigured:
    limits: Mapping[str, object]
    name: str = "FrozenConfigured"

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        return SUCCESS


class Forked(Configured):
    def fork(self) -> Forked:
        return Forked(dict(self.limits))


@pytest.mark.parametrize(
    ("plugin", "is_forkable"),
    [
        (FrozenConfigured(MappingProxyType({"red": 1})), True),
        (Forked({"red": 1}), True),
        (Configured({"red": 1}), False),
        (Configured(MappingProxyType({"red": 1})), False),
        (FrozenConfigured({"red": 1}), False),
        (FrozenConfigured(MappingProxyType({"red": [1]})), False),
    ],
    ids=["frozen", "fork", "plain", "plain-with-frozen", "frozen-with-dict", "frozen-of-lists"],
)
def test_plugin_that_what_if_refuses_is_found_if_forks_are_asked_for(
    plugin: Any, is_forkable: bool
) -> None:
    if is_forkable:
        check_plugin(plugin, forkable=True)
        presets.gang(InMemoryCluster(), plugins=[plugin]).what_if(now=0.0)
        return
    check_plugin(plugin)
    with pytest.raises(AssertionError, match="fork method"):
        check_plugin(plugin, forkable=True)
