"""A fork of a scheduler has equal state, and shares no mutable object with the original."""

from __future__ import annotations

import enum
import gc
import re
import types
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import attrs
import pytest

from gangsched import (
    AnnotatedRunTimes,
    Backfill,
    Bind,
    Coscheduling,
    GroupKey,
    InMemoryCluster,
    InvalidValueError,
    Node,
    NodeAdded,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    Profile,
    Scheduler,
    Success,
    Unschedulable,
    Wait,
    plugins,
    presets,
)
from gangsched import _copying as copying
from gangsched._lazy_dict import LazyDict
from gangsched.errors import PluginError, ProfileError
from gangsched.framework.nodes.node_class import Snapshot
from gangsched.framework.what_if import simulate
from gangsched.model import FrozenMap
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.protocols import CycleView, EntityView, StateKey
from gangsched.testing import make_pod
from support.busy import NOW, busy_scheduler, tell
from support.fingerprint import attributes, fingerprint, is_frozen, is_ours, reachable

# The same, and nothing in common -------------------------------------------------------------


def forked(scheduler: Scheduler, *shared: object) -> Scheduler:
    return copying.fork(scheduler, instead=tuple((each, each) for each in shared))


def laid_open(thing: object) -> tuple[str, ...]:
    """Return a fingerprint in which a dict is a dict; all that it holds has been looked at."""
    return tuple(line.replace(": LazyDict", ": dict") for line in fingerprint(thing))


def test_fork_has_the_state_of_its_original() -> None:
    cluster, scheduler = busy_scheduler()
    profile = scheduler._state.settings.profile
    before = fingerprint(cluster, scheduler)
    twin = forked(scheduler, cluster, profile)
    assert laid_open(twin) == laid_open(scheduler)
    assert fingerprint(cluster, scheduler) == before
    twin._check()


def held(thing: Any) -> list[Any]:
    """Return what a thing holds that may change; values of the library never do."""
    if isinstance(thing, FrozenMap | Snapshot):
        return []
    if isinstance(thing, types.FunctionType):
        return [cell.cell_contents for cell in thing.__closure__ or ()]
    if isinstance(thing, Mapping):
        return [*thing.keys(), *thing.values()]
    if isinstance(thing, list | tuple | set | deque):
        return list(thing)
    if isinstance(thing, types.MethodType):
        return [thing.__self__]
    if is_ours(thing):
        return list(attributes(thing).values())
    return list(gc.get_referents(thing)) if type(thing).__module__ == "sortedcontainers" else []


def mutable(root: object, apart_from: tuple[object, ...]) -> list[Any]:
    """Return everything that is reached and can be changed."""
    apart = set(map(id, apart_from))
    found = reachable(root, lambda thing: [] if id(thing) in apart else held(thing))
    return [thing for thing in found if id(thing) not in apart and can_change(thing)]


def can_change(thing: object) -> bool:
    kept = is_frozen(thing) or isinstance(thing, FrozenMap | Snapshot | enum.Enum)
    return isinstance(thing, list | dict | set | deque) or (is_ours(thing) and not kept)


def test_fork_shares_no_mutable_object_with_its_original() -> None:
    cluster, scheduler = busy_scheduler()
    profile = scheduler._state.settings.profile
    twin = forked(scheduler, cluster, profile)
    laid_open(twin)
    apart = (cluster, profile, *profile.plugins)
    originals = mutable(scheduler, apart_from=apart)
    own = {id(thing): thing for thing in originals}
    shared = [thing for thing in mutable(twin, apart_from=apart) if id(thing) in own]
    assert [type(thing) for thing in shared] == []
    assert len(originals) > 150


def test_errors_of_plugins_in_a_fork_are_not_raised_by_the_original() -> None:
    class Sorted:
        name = "Sorted"

        def queue_sort(self, entity: EntityView) -> Any:
            if entity.pod.name == "odd":
                raise ZeroDivisionError("oops")
            return (0, entity.queued_at, 0, entity.seq, 0)

    cluster = InMemoryCluster()
    scheduler = Scheduler(cluster, Profile(Sorted(), NodeResources(), DefaultBinder()))
    tell(cluster, scheduler, PodAdded(make_pod("p", cpu=1)), now=NOW)
    before = fingerprint(cluster, scheduler)
    with pytest.raises(PluginError, match="oops"):
        scheduler.what_if(PodAdded(make_pod("odd", cpu=1)))
    assert fingerprint(cluster, scheduler) == before
    assert scheduler.schedule_one(now=NOW) is not None


def test_fork_binds_methods_to_the_copy() -> None:
    cluster, scheduler = busy_scheduler()
    apart = (
        (cluster, cluster),
        (scheduler._state.settings.profile, scheduler._state.settings.profile),
    )
    both: tuple[Any, Any] = (scheduler, scheduler._check)
    twin, check = copying.fork(both, instead=apart)
    assert twin is not scheduler
    assert check.__self__ is twin
    twin._state.attempts.step = -1
    assert scheduler._state.attempts.step >= 0


# What is not looked at -----------------------------------------------------------------------


def many(count: int) -> tuple[InMemoryCluster, Scheduler]:
    cluster = InMemoryCluster()
    scheduler = presets.coscheduling(cluster)
    for number in range(count):
        name = NodeName(f"n{number:03}")
        tell(cluster, scheduler, NodeAdded(Node(name=name, allocatable={"cpu": 1})), now=0.0)
        pod = make_pod(f"p{number}", group=f"g{number}", min_available=1, cpu=1)
        tell(cluster, scheduler, PodAdded(attrs.evolve(pod, node_name=name)), now=0.0)
    return cluster, scheduler


def test_fork_copies_only_what_is_read() -> None:
    _cluster, scheduler = many(200)
    ahead = simulate.look(scheduler, scheduler._state, 1.0)
    members, nodes = ahead.state.pods.members, ahead.state.nodes
    groups = ahead.state.pods.registry._groups
    assert isinstance(members, LazyDict)
    assert isinstance(groups, LazyDict)
    assert isinstance(nodes.infos, LazyDict)
    name = NodeName("n007")
    ahead.tell(NodeUpdated(Node(name=name, allocatable={"cpu": 3})))
    ahead.run(1.0)
    assert [node for node in nodes.infos if node in nodes.infos._own] == [name]
    assert len(members._own) <= 1
    assert len(groups._own) <= 1


# Plugins -------------------------------------------------------------------------------------


class Quota:
    """Lets so many pods in at once."""

    name = "Quota"

    def __init__(self, left: int) -> None:
        self.left = left
        self.forks = 0

    def reserve(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Any:
        if not self.left:
            return Unschedulable("over quota")
        self.left -= 1
        return Success()

    def unreserve(self, state: Any, pod: Any, node: Any, *, cause: str, now: float) -> None:
        self.left += 1


class ForkableQuota(Quota):
    def fork(self) -> ForkableQuota:
        self.forks += 1
        return ForkableQuota(self.left)


def host(*plugins: object) -> tuple[InMemoryCluster, Scheduler]:
    cluster = InMemoryCluster()
    profile = Profile(Coscheduling(), NodeResources(), *plugins, DefaultBinder())
    scheduler = Scheduler(cluster, profile)
    node = Node(name=NodeName("n"), allocatable={"cpu": 8})
    tell(cluster, scheduler, NodeAdded(node), now=NOW)
    for number in range(3):
        tell(cluster, scheduler, PodAdded(make_pod(f"p{number}", cpu=1)), now=NOW)
    return cluster, scheduler


def bound(scheduler: Scheduler) -> int:
    return sum(isinstance(effect, Bind) for effect in scheduler.what_if().effects)


def test_what_if_calls_the_fork_of_a_plugin_with_state() -> None:
    quota = ForkableQuota(2)
    _cluster, scheduler = host(quota)
    assert bound(scheduler) == 2
    assert bound(scheduler) == 2
    assert (quota.left, quota.forks) == (2, 2)
    assert scheduler._state.settings.profile.plugins[2] is quota
    assert scheduler.schedule_one(now=NOW) is not None
    assert quota.left == 1
    assert bound(scheduler) == 1


def questions(scheduler: Scheduler) -> tuple[Callable[[], object], ...]:
    return (
        scheduler.what_if,
        lambda: scheduler.smallest_change(GroupKey("default/g"), Node(name=NodeName("x"))),
    )


def test_what_if_refuses_a_plugin_with_state_and_no_fork() -> None:
    cluster, scheduler = host(Quota(2))
    before = fingerprint(cluster, scheduler)
    for ask in questions(scheduler):
        with pytest.raises(ProfileError) as caught:
            ask()
        assert caught.value.point == "what_if"
        assert caught.value.problem.startswith("plugin 'Quota' has state and no fork method;")
    assert fingerprint(cluster, scheduler) == before


def test_error_of_fork_names_the_plugin() -> None:
    class Broken(Quota):
        def fork(self) -> object:
            raise ZeroDivisionError("oops")

    told = "plugin 'Quota' at fork for what_if: raised ZeroDivisionError('oops')"
    with pytest.raises(PluginError, match=re.escape(told)) as caught:
        host(Broken(1))[1].what_if()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_error_of_the_library_from_fork_is_not_wrapped() -> None:
    error = ProfileError("what_if", "a connection cannot be forked")

    class Connected(Quota):
        def fork(self) -> object:
            raise error

    with pytest.raises(ProfileError) as caught:
        host(Connected(1))[1].what_if()
    assert caught.value is error


def test_fork_without_the_methods_of_the_plugin_is_refused() -> None:
    class Other(Quota):
        def fork(self) -> object:
            return object()

    with pytest.raises(ProfileError):
        host(Other(1))[1].what_if()


class Still:
    name = "Still"

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Any:
        return Success()


@dataclass(frozen=True)
class Data:
    size: object = 1
    name: str = "Data"

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Any:
        return Success()


@attrs.frozen
class Frozen:
    size: object = 1
    name: str = "Frozen"

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Any:
        return Success()


def counting() -> Any:
    seen: list[int] = []
    return lambda: seen.append(1)


def constant(number: int) -> Any:
    return lambda: number


class Bare:
    """Could keep something, and does not."""

    __slots__ = ("__dict__",)
    name = "Bare"

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Any:
        return Success()


class Single(Bare):
    """Has one slot, which is not said as a tuple."""

    __slots__ = "left"
    name = "Single"

    def __init__(self, left: list[int]) -> None:
        self.left = left


class Private(Bare):
    """Has a slot whose name is a private one."""

    __slots__ = ("__left",)
    name = "Private"

    def __init__(self, left: list[int]) -> None:
        self.__left = left


@dataclass(frozen=True)
class Listed(list[str]):
    """Sets nothing, and is a list."""

    name: ClassVar[str] = "Listed"

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Any:
        return Success()


SHARED = [
    Still(),
    Bare(),
    Data(),
    Frozen(),
    Data((1, "a", frozenset({2.5}))),
    Frozen(FrozenMap({"a": (None, Data())})),
    Data(constant(3)),
]
REFUSED = [
    Data([]),
    Frozen({}),
    Data((1, [2])),
    Frozen(Frozen(set())),
    Frozen(FrozenMap({"a": []})),
    Data(counting()),
    Data(Still().pre_filter),
    Frozen(object()),
    Single([1]),
    Private([1]),
    Listed(),
]


@pytest.mark.parametrize("plugin", SHARED, ids=range(len(SHARED)))
def test_plugin_without_state_is_shared(plugin: object) -> None:
    profile = Profile(Coscheduling(), plugin, DefaultBinder())
    assert copying.forked_profile(profile) is profile


@pytest.mark.parametrize("plugin", REFUSED, ids=range(len(REFUSED)))
def test_plugin_that_may_have_state_is_not_shared(plugin: object) -> None:
    profile = Profile(Coscheduling(), plugin, DefaultBinder())
    with pytest.raises(ProfileError, match="has state and no fork method"):
        copying.forked_profile(profile)


def test_every_plugin_of_the_library_can_be_forked_or_shared() -> None:
    for scheduler in (presets.coscheduling, presets.gang, presets.pod_by_pod):
        profile = scheduler(InMemoryCluster())._state.settings.profile
        forked = copying.forked_profile(profile)
        for plugin, twin in zip(profile.plugins, forked.plugins, strict=True):
            # the only plugin that remembers anything between two calls
            assert (plugin is twin) is not isinstance(plugin, plugins.VolumeBinding)
    no_plugins = {"Strategy", "ScoringStrategy", "SYSTEM_DEFAULT_CONSTRAINTS"}
    for name in set(plugins.__all__) - no_plugins - {"VolumeBinding"}:
        plugin = getattr(plugins, name)()
        assert copying._plugin(plugin, name) is plugin


# Run times and clusters ----------------------------------------------------------------------


class Learned:
    """Run times that record the instants of their calls."""

    def __init__(self, answer: float | None = None) -> None:
        self.answer = answer
        self.asked: list[float] = []

    def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> float | None:
        self.asked.append(now)
        return self.answer


class ForkableTimes(Learned):
    def __init__(self, answer: float | None = None) -> None:
        super().__init__(answer)
        self.forks: list[Learned] = []

    def fork(self) -> Any:
        self.forks.append(Learned(self.answer))
        return self.forks[-1]


class ForkedToNothing(Learned):
    def fork(self) -> Any:
        return object()


class ForkedInVain(Learned):
    def fork(self) -> Any:
        raise ZeroDivisionError("oops")


def reserving(run_times: Any) -> Scheduler:
    """Return a scheduler with a gang of two that does not fit."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, backfill=Backfill(run_times))
    node = Node(name=NodeName("n"), allocatable={"cpu": 2})
    tell(cluster, scheduler, NodeAdded(node), now=NOW)
    pod = make_pod("old", cpu=1)
    tell(cluster, scheduler, PodAdded(attrs.evolve(pod, node_name=node.name)), now=NOW)
    for number in range(2):
        member = make_pod(f"p{number}", group="g", min_available=2, cpu=1)
        tell(cluster, scheduler, PodAdded(member), now=NOW)
    return scheduler


def test_what_if_calls_the_fork_of_run_times_with_state() -> None:
    run_times = ForkableTimes(NOW + 50.0)
    scheduler = reserving(run_times)
    scheduler.what_if(now=NOW)
    (fork,) = run_times.forks
    assert fork.asked != []
    assert run_times.asked == []


def test_what_if_refuses_run_times_with_state_and_no_fork() -> None:
    run_times = Learned()
    scheduler = reserving(run_times)
    before = scheduler.snapshot()
    for ask in questions(scheduler):
        with pytest.raises(ProfileError) as caught:
            ask()
        assert caught.value.problem.startswith("plugin 'run_times' has state and no fork method;")
    assert scheduler.snapshot() == before
    assert run_times.asked == []


def test_error_or_a_wrong_result_of_run_times_fork_is_named() -> None:
    with pytest.raises(PluginError, match=r"'run_times' at fork .* raised Zero") as caught:
        reserving(ForkedInVain()).what_if()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(InvalidValueError, match="run_times must be a RunTimes or None"):
        reserving(ForkedToNothing()).what_if()


@pytest.mark.parametrize("run_times", [None, AnnotatedRunTimes("seconds", wrong_by=2.0)])
def test_run_times_without_state_are_shared(run_times: Any) -> None:
    policy = Backfill(run_times)
    assert copying.forked_policy(policy) is policy
    assert copying.forked_policy(None) is None


def test_error_of_the_fork_of_a_cluster_is_named() -> None:
    class Broken(InMemoryCluster):
        def fork(self) -> Any:
            raise ZeroDivisionError("oops")

    with pytest.raises(PluginError, match=r"'cluster' at fork .* raised Zero") as caught:
        presets.gang(Broken()).what_if(now=NOW)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


# What plugins write --------------------------------------------------------------------------

KEY: StateKey[Any] = StateKey("claim")


@attrs.frozen
class Writer:
    """Writes a value in a pod's cycle, and lets the pod wait."""

    value: Any
    name: str = "Writer"

    def fork(self) -> Writer:
        return self

    def permit(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Any:
        state.write(KEY, self.value)
        return Wait(30.0)


def written(value: object) -> Any:
    """Return what a fork reads in the place of a value."""
    _cluster, scheduler = host(Writer(value))
    scheduler.schedule_one(now=NOW)
    ahead = simulate.look(scheduler, scheduler._state, NOW)
    member = next(m for m in ahead.state.pods.members.values() if m.cycle is not None)
    assert member.cycle is not None
    return member.cycle.read(KEY)


def test_written_values_are_shared_and_containers_copied() -> None:
    values: list[Any] = [1, "text", (1, 2), Data()]
    for value in values:
        assert written(value) is value
    containers: list[Any] = [[1], {"a": 1}, {1}, deque([1])]
    for value in containers:
        assert written(value) == value
        assert written(value) is not value
    quota = ForkableQuota(4)
    assert written(quota) is not quota
    assert written(quota).left == 4


CHANGING = [Quota(1), [[1]], {"a": []}, object()]


@pytest.mark.parametrize("value", CHANGING, ids=range(len(CHANGING)))
def test_written_mutable_object_without_fork_is_refused(value: object) -> None:
    with pytest.raises(ProfileError, match=r"written under StateKey\(.*claim.*no fork") as caught:
        written(value)
    assert caught.value.point == "what_if"


def test_error_of_the_fork_of_a_written_value_names_the_key() -> None:
    class Broken(Quota):
        def fork(self) -> Any:
            raise ZeroDivisionError("oops")

    with pytest.raises(PluginError, match=r"'claim' at fork .* raised Zero") as caught:
        written(Broken(1))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
