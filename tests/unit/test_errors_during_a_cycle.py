"""A plugin that raises in the cycle of a member: the attempt of its gang is unchanged.

If a plugin raises while an event releases waiting members, they wait on. This is compared with a
twin whose plugin returns ``Unschedulable``.
"""

from __future__ import annotations

import pytest

from gangsched import (
    Bind,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    PodGroupUpdated,
    PodUID,
    Profile,
    Scheduler,
    Unschedulable,
    Wait,
)
from gangsched.coscheduling import Coscheduling
from gangsched.errors import PluginError
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.testing import make_pod
from support.busy import NOW, tell
from support.faulty_plugin import OOPS, FaultyPlugin, interrupt
from support.fingerprint import Fingerprint, fingerprint, without

NEEDED = {"post_filter": ["filter"], "reserve": ["unreserve"]}
UNREMEMBERED = (
    r"\]\._state\.attempts\.step$",
    r"\]\._state\.nodes\.(version|classes|_total)",
    r"\]\._state\.pod_classes\.by_signature\[\d+\]\.judgements\.(_judged|_seen|_epoch|_nodes|_order|_ordered|_reasons|headroom)",
)
"""Counters that only ascend, and cached answers."""
STEPS = (r"_step$",)
"""Numbers of steps: an interrupted cycle was one too."""

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


def memory(host: Host, *but: str) -> Fingerprint:
    return without(fingerprint(*host[:2]), *UNREMEMBERED, *but)


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
    before = memory(broken)
    for _again in range(2):
        error = interrupt(*broken[1:], point)
        assert (error.plugin, error.point) == ("FaultyPlugin", point)
        first_asked = 0 if point in ("pre_bind", "bind") else turn
        assert error.subject == f"default/w-{first_asked}"
        assert error.__cause__ is OOPS
        assert memory(broken) == before


@BREAKS
def test_gang_starts_as_usual_after_a_cycle_raised(point: str, turn: int) -> None:
    broken, whole = host(point), host(point)
    for _turn in range(turn):
        assert broken[1].schedule_one(now=NOW) == whole[1].schedule_one(now=NOW)
    interrupt(*broken[1:], point)
    assert finish(broken) == finish(whole) == ["default/w-0", "default/w-1"]
    assert memory(broken, *STEPS) == memory(whole, *STEPS)


def test_attempt_that_raises_in_its_first_cycle_has_not_begun() -> None:
    broken = host("filter")
    interrupt(*broken[1:], "filter")
    (info,) = broken[1].registry
    assert (info.attempts, info.attempt_started_at) == (0, None)
    broken[1].schedule_one(now=NOW)
    assert (info.attempts, info.attempt_started_at) == (1, NOW)


def test_attempt_does_not_start_with_a_member_whose_cycle_failed() -> None:
    """It runs from the first one that holds a node."""
    broken = host("filter", "permit", size=3)
    scheduler, faulty = broken[1:]
    faulty.answers["filter"] = Unschedulable("not yet")
    assert scheduler.schedule_one(now=NOW)
    faulty.answers = {"permit": OOPS}
    (info,) = scheduler.registry
    for later in (NOW + 1, NOW + 2):
        tell(*broken[:2], NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 8})), now=later)
        with pytest.raises(PluginError):
            scheduler.schedule_one(now=later)
        assert info.attempt_started_at == NOW
        assert (info.attempts, info.waiting) == (1, 0)
    faulty.answers = {}
    assert scheduler.schedule_one(now=NOW + 3)
    assert info.attempt_started_at == NOW + 3
    scheduler._check()


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


def test_waiting_members_are_released_when_the_minimum_drops() -> None:
    waiting = two_of_three_wait()
    effects = waiting[1].handle(
        waiting[0].apply(PodGroupUpdated(PodGroup(name="w", min_available=2))), now=NOW
    )
    assert [e.uid for e in effects if isinstance(e, Bind)] == ["default/w-0", "default/w-1"]


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
    assert fingerprint(*broken[:2]) == fingerprint(*refused[:2])
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
    before = without(fingerprint(cluster, scheduler), *UNREMEMBERED)
    with pytest.raises(PluginError) as caught:
        scheduler.schedule_one(now=NOW)
    error = caught.value
    assert (error.plugin, error.point, error.subject) == (
        "FaultyPlugin, Other",
        "bind",
        "default/p",
    )
    assert error.problem == "every plugin skipped the pod"
    assert without(fingerprint(cluster, scheduler), *UNREMEMBERED) == before
    scheduler._check()
