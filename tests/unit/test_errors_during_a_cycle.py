"""A plugin that raises in the cycle of a member: the attempt of its gang is unchanged.

If a plugin raises while an event releases waiting members, they wait on. This is compared with a
twin whose plugin returns ``Unschedulable``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gangsched import (
    Bind,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PluginError,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodUID,
    Profile,
    ReentrantCallError,
    Scheduler,
    Success,
    Unschedulable,
    Wait,
    group_key,
    presets,
)
from gangsched.coscheduling import Coscheduling
from gangsched.outcomes import SUCCESS
from gangsched.plugins import DefaultBinder, NodeResources, PrioritySort
from gangsched.testing import make_node, make_pod
from support.busy import NOW, tell
from support.faulty_plugin import OOPS, FaultyPlugin, interrupt
from support.shown import known, memory

NEEDED = {"post_filter": ["filter"], "reserve": ["unreserve"]}
Host = tuple[InMemoryCluster, Scheduler, FaultyPlugin]


def host(*points: str, cpu: int = 4, minimum: int = 2, size: int = 2) -> Host:
    """Return a gang that is next, and a faulty plugin that is asked before all others."""
    cluster = InMemoryCluster()
    faulty = FaultyPlugin(
        *sorted({*points, *(other for p in points for other in NEEDED.get(p, ()))})
    )
    profile = Profile(faulty, Coscheduling(permit_timeout=50.0), NodeResources(), DefaultBinder())
    scheduler = Scheduler(cluster, profile)
    node = Node(name=NodeName("n"), allocatable={"cpu": cpu})
    tell(cluster, scheduler, NodeAdded(node), now=NOW)
    tell(cluster, scheduler, PodGroupAdded(PodGroup(name="w", min_available=minimum)), now=NOW)
    for number in range(size):
        tell(cluster, scheduler, PodAdded(make_pod(f"w-{number}", group="w", cpu=2)), now=NOW)
    return cluster, scheduler, faulty


def finish(host: Host) -> list[PodUID]:
    """Run cycles until none is left; return the bound pods."""
    gone: list[PodUID] = []
    while (effects := host[1].schedule_one(now=NOW)) is not None:
        gone += [effect.uid for effect in effects if isinstance(effect, Bind)]
    return gone


# In its own cycle -----------------------------------------------------------------------------

ALWAYS = ["pre_filter", "filter", "post_filter", "pre_score", "score", "reserve", "permit"]
BREAKS = pytest.mark.parametrize(
    ("point", "turn"),
    [*((p, 0) for p in ALWAYS), *((p, 1) for p in [*ALWAYS, "pre_bind", "bind"])],
)


@BREAKS
def test_gang_is_unchanged_after_the_cycle_of_a_member_raised(point: str, turn: int) -> None:
    broken = host(point)
    for _turn in range(turn):
        assert broken[1].schedule_one(now=NOW)
    before = known(*broken[:2])
    for _again in range(2):
        error = interrupt(*broken[1:], point)
        assert (error.plugin, error.point) == ("FaultyPlugin", point)
        first_asked = 0 if point in ("pre_bind", "bind") else turn
        assert error.subject == f"default/w-{first_asked}"
        assert error.__cause__ is OOPS
        assert known(*broken[:2]) == before


@BREAKS
def test_gang_starts_as_usual_after_a_cycle_raised(point: str, turn: int) -> None:
    broken, whole = host(point), host(point)
    for _turn in range(turn):
        assert broken[1].schedule_one(now=NOW) == whole[1].schedule_one(now=NOW)
    interrupt(*broken[1:], point)
    assert finish(broken) == finish(whole) == ["default/w-0", "default/w-1"]
    assert memory(broken[1]) == memory(whole[1])


# As a fact lets it go -------------------------------------------------------------------------

AT_RELEASE = ("permit", "pre_bind", "bind")


def two_of_three_wait() -> Host:
    """Return a gang of three of which two hold a node, while nothing is left for the third.

    The plugin let both wait, so it is asked again.
    """
    waiting = host(*AT_RELEASE, minimum=3, size=3)
    waiting[2].answers["permit"] = Wait(60.0)
    assert finish(waiting) == []
    assert len(waiting[1].waiting) == 2
    waiting[2].answers.clear()
    return waiting


def need_two(host: Host) -> None:
    cluster, scheduler, _odd = host
    tell(cluster, scheduler, PodGroupUpdated(PodGroup(name="w", min_available=2)), now=NOW)


@pytest.mark.parametrize("point", AT_RELEASE)
def test_members_wait_on_when_a_plugin_raises_during_their_release(point: str) -> None:
    broken, refused = two_of_three_wait(), two_of_three_wait()
    broken[2].answers[point] = OOPS
    with pytest.raises(PluginError) as caught:
        need_two(broken)
    error = caught.value
    assert (error.plugin, error.point, error.subject) == ("FaultyPlugin", point, "default/w-0")
    refused[2].answers["permit"] = Wait(60.0)
    need_two(refused)
    for each in (broken, refused):
        each[2].answers.clear()
        each[1]._check()
        assert len(each[1].waiting) == 2
    told = [each[1].advance(now=NOW) for each in (broken, refused)]
    assert known(*broken[:2]) == known(*refused[:2])
    assert told == [(), ()]


@pytest.mark.parametrize("point", AT_RELEASE)
def test_members_delayed_by_an_error_are_released_at_the_next_event(point: str) -> None:
    broken = two_of_three_wait()
    broken[2].answers[point] = OOPS
    with pytest.raises(PluginError):
        need_two(broken)
    broken[2].answers.clear()
    cluster, scheduler, _odd = broken
    late = PodAdded(make_pod("w-3", group="w", cpu=2))
    effects = scheduler.handle(cluster.apply(late), now=NOW)
    assert [e.uid for e in effects if isinstance(e, Bind)] == ["default/w-0", "default/w-1"]
    scheduler._check()


# As a fact wakes others -----------------------------------------------------------------------


def test_pod_that_a_filter_cannot_judge_during_an_event_is_requeued() -> None:
    """Law 4: what is not known is no reason to sleep."""
    faulty, cluster = FaultyPlugin("filter", "pod_signature"), InMemoryCluster()
    scheduler = Scheduler(
        cluster, Profile(faulty, Coscheduling(), NodeResources(), DefaultBinder())
    )
    small = Node(name=NodeName("small"), allocatable={"cpu": 1})
    tell(cluster, scheduler, NodeAdded(small), now=NOW)
    tell(cluster, scheduler, PodAdded(make_pod("p", cpu=2)), now=NOW)
    assert scheduler.schedule_one(now=NOW)
    scheduler.advance(now=NOW + 60)
    assert scheduler.queue.head() is None, "it waits for a fact"
    faulty.answers["filter"] = OOPS
    large = Node(name=NodeName("large"), allocatable={"cpu": 2})
    tell(cluster, scheduler, NodeAdded(large), now=NOW + 60)
    with pytest.raises(PluginError) as caught:
        scheduler.schedule_one(now=NOW + 60)
    assert (caught.value.point, caught.value.subject) == ("filter", "default/p")
    faulty.answers["filter"] = Unschedulable("another node")
    assert scheduler.schedule_one(now=NOW + 60)
    assert scheduler.queue.head() is None
    scheduler._check()


# Which plugin is named -----------------------------------------------------------------------


def test_plugin_error_of_an_inner_plugin_passes_through() -> None:
    inner = PluginError("Inner", "score", "default/w-0", "raised it")

    def ask_another(*_args: object) -> int:
        raise inner

    broken = host("score")
    broken[2].answers["score"] = ask_another
    with pytest.raises(PluginError) as caught:
        broken[1].schedule_one(now=NOW)
    assert caught.value is inner
    assert caught.value.__cause__ is None


def test_every_bind_plugin_is_named_when_all_skip() -> None:
    one, other, cluster = (
        FaultyPlugin("bind"),
        FaultyPlugin("bind", "queue_sort"),
        InMemoryCluster(),
    )
    other.name = "Other"
    scheduler = Scheduler(cluster, Profile(one, other))
    tell(cluster, scheduler, NodeAdded(Node(name=NodeName("n"))), now=NOW)
    tell(cluster, scheduler, PodAdded(make_pod("p")), now=NOW)
    before = known(cluster, scheduler)
    with pytest.raises(PluginError) as caught:
        scheduler.schedule_one(now=NOW)
    error = caught.value
    assert (error.plugin, error.point, error.subject) == (
        "FaultyPlugin, Other",
        "bind",
        "default/p",
    )
    assert error.problem == "every plugin skipped the pod"
    assert known(cluster, scheduler) == before
    scheduler._check()


# A call of a scheduler from inside one of its own calls is refused, and changes nothing


CALLS: dict[str, Callable[[Scheduler], object]] = {
    "handle": lambda s: s.handle(PodDeleted(make_pod("p").uid), now=0.0),
    "advance": lambda s: s.advance(now=0.0),
    "schedule_one": lambda s: s.schedule_one(now=0.0),
    "rebuild": lambda s: s.rebuild(now=0.0),
    "snapshot": lambda s: s.snapshot(),
    "restore": lambda s: s.restore({}),
    "why": lambda s: s.why(make_pod("p")),
    "what_if": lambda s: s.what_if(),
    "smallest_change": lambda s: s.smallest_change(group_key("default", "g"), make_node("n")),
}


class CallsBack:
    """A plugin that calls its scheduler in PreFilter."""

    name = "CallsBack"

    def __init__(self) -> None:
        self.call: Callable[[], object] = lambda: None

    def pre_filter(self, _state: Any, _pod: Any, *, now: float) -> Success:
        self.call()
        return SUCCESS


@pytest.mark.parametrize("name", CALLS)
def test_call_from_inside_a_plugin_is_refused_by_name(name: str) -> None:
    plugin = CallsBack()
    cluster = InMemoryCluster()
    profile = Profile(PrioritySort(), plugin, NodeResources(), DefaultBinder())
    scheduler = Scheduler(cluster, profile)
    for event in (NodeAdded(make_node("n", cpu=1)), PodAdded(make_pod("p", cpu=1))):
        scheduler.handle(cluster.apply(event), now=0.0)
    before = scheduler.snapshot()
    plugin.call = lambda: CALLS[name](scheduler)
    with pytest.raises(PluginError, match="ReentrantCallError") as caught:
        scheduler.schedule_one(now=0.0)
    assert isinstance(caught.value.__cause__, ReentrantCallError)
    assert (caught.value.__cause__.inner, caught.value.__cause__.outer) == (name, "schedule_one")
    scheduler._check()
    assert {k: v for k, v in scheduler.snapshot().items() if k != "step"} == {
        k: v for k, v in before.items() if k != "step"
    }
    plugin.call = lambda: None
    assert scheduler.schedule_one(now=0.0)


def test_call_from_inside_a_cluster_state_is_refused() -> None:
    class Calls(InMemoryCluster):
        __slots__ = ("scheduler",)
        scheduler: Scheduler

        def pod(self, uid: Any) -> Any:
            scheduler: Scheduler | None = getattr(self, "scheduler", None)
            if scheduler is not None:
                scheduler.advance(now=0.0)
            return super().pod(uid)

    cluster = Calls()
    scheduler = presets.gang(cluster)
    scheduler.advance(now=0.0)
    cluster.scheduler = scheduler
    with pytest.raises(ReentrantCallError, match="advance was called from inside handle"):
        scheduler.handle(PodDeleted(make_pod("p").uid), now=0.0)
    del cluster.scheduler
    scheduler._check()
    assert scheduler.handle(PodDeleted(make_pod("p").uid), now=0.0) == ()
