"""``Scheduler.pending``, ``running`` and ``groups``: rows, order, places and tables."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import pytest
from attrs import evolve

import gangsched
from gangsched import (
    BindFailed,
    Bound,
    Gang,
    GroupKey,
    InMemoryCluster,
    Node,
    NodeAdded,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroupDeleted,
    Preemption,
    Release,
    Scheduler,
    explain,
    gang,
    presets,
)
from gangsched.explain import BackingOff, NotEnoughMembers, in_utc
from gangsched.listings import Listing

# ``Scheduler.pending``, ``running`` and ``groups``: rows, order, places and tables
from support.immediate_host import ImmediateHost


def settled(*events: Any, preset: Any = presets.gang, cpu: int = 4) -> tuple[Scheduler, Any]:
    """Return a scheduler that has decided all, with its binds reported; and a function for more."""
    cluster = InMemoryCluster()
    scheduler: Scheduler = preset(cluster)

    def tell(*more: Any, now: float = 0.0) -> None:
        effects: list[Any] = []
        for event in more:
            effects += scheduler.handle(cluster.apply(event), now=now)
        while (decided := scheduler.schedule_one(now=now)) is not None:
            effects += decided
        for effect in effects:
            if isinstance(effect, Release):
                continue
            if type(effect).__name__ == "Bind":
                bound = Bound(effect.uid, effect.node, attempt=effect.attempt)
                scheduler.handle(cluster.apply(bound), now=now)

    tell(NodeAdded(Node(name="n", allocatable={"cpu": cpu})), *events)
    return scheduler, tell


def test_pending_gang_is_one_row_with_its_reason() -> None:
    scheduler, _tell = settled(*gang("big", workers=6, cpu=1, priority=3).events())
    (row,) = scheduler.pending()
    assert (row.name, row.group, row.uid) == ("default/big", "default/big", None)
    assert (row.priority, row.pods, row.needed, row.position) == (3, 6, 6, None)
    assert row.attempts == 1
    assert isinstance(row.why, explain.NoNodeFits)
    assert scheduler.running() == ()


def test_running_gang_is_one_row_with_its_nodes() -> None:
    scheduler, tell = settled(*gang("g", workers=3, cpu=1).events())
    tell(PodAdded(Pod(name="p", requests={"cpu": 1})), now=5.0)
    first, second = scheduler.running()
    assert (first.name, first.pods, first.nodes, first.age) == ("default/g", 3, ("n",), 5.0)
    assert (second.name, second.uid, second.group) == ("default/p", "default/p", None)
    assert scheduler.pending() == ()


def test_pending_entities_are_listed_in_the_order_in_which_they_are_tried() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    for number in range(5):
        pod = Pod(name=f"p{number}", priority=number % 3, created_at=float(number))
        scheduler.handle(cluster.apply(PodAdded(pod)), now=9.0)
    rows = scheduler.pending()
    assert [row.name[-2:] for row in rows] == ["p2", "p1", "p4", "p0", "p3"]
    assert [row.position for row in rows] == [0, 1, 2, 3, 4]
    assert [str(row.why) for row in rows] == [str(scheduler.why(row.name)) for row in rows]
    assert [row.age for row in rows] == [7.0, 8.0, 5.0, 9.0, 6.0]


def test_entities_that_are_not_queued_come_last_without_a_place() -> None:
    scheduler, _tell = settled(
        PodAdded(Pod(name="gated", scheduling_gates=("wait",))),
        *list(gang("few", workers=3).events())[:2],
        PodAdded(Pod(name="large", requests={"cpu": 9})),
    )
    rows = scheduler.pending()
    assert [row.name for row in rows] == ["default/large", "default/gated", "default/few"]
    assert [row.position for row in rows] == [None, None, None]
    assert isinstance(rows[1].why, explain.NotAdmitted)
    assert isinstance(rows[2].why, explain.NotEnoughMembers)
    assert rows[2].needed == 3


def test_groups_have_their_counts() -> None:
    scheduler, _tell = settled(
        *gang("a", workers=2, cpu=1).events(), *gang("b", workers=3, cpu=1).events()
    )
    first, second = scheduler.groups()
    assert (first.key, first.min_available, first.members, first.bound) == ("default/a", 2, 2, 2)
    assert first.was_scheduled
    assert (second.key, second.pending, second.bound) == ("default/b", 3, 0)
    assert not second.was_scheduled


@pytest.mark.parametrize("preset", [presets.gang, presets.coscheduling])
def test_every_answer_agrees_with_why(preset: Any) -> None:
    events = [e for n in range(4) for e in gang(f"g{n}", workers=2 + n % 2, cpu=1 + n).events()]
    scheduler, _tell = settled(*events, preset=preset)
    for row in scheduler.pending():
        assert row.why == scheduler.why(row.name, budget=0)
    for each in scheduler.groups():
        assert each.why == scheduler.why(each.key, budget=0)


def test_listing_shows_a_table() -> None:
    scheduler, _tell = settled(PodAdded(Pod(name="a\x1b[2J", requests={"cpu": 9})))
    assert "\x1b" not in repr(scheduler.pending())
    scheduler, _tell = settled(*gang("big", workers=6, cpu=1).events())
    lines = repr(scheduler.pending()).splitlines()
    assert lines[0].split()[:4] == ["NAME", "PRIORITY", "PODS", "NEEDED"]
    assert lines[1].startswith("default/big   0 ")
    assert str(scheduler.groups()).startswith("GROUP")
    assert repr(scheduler.running()) == "(nothing)"
    assert isinstance(scheduler.pending(), tuple)
    assert repr(Listing(())) == "(nothing)"


def test_gang_whose_binds_are_in_progress_is_listed_pod_by_pod() -> None:
    """Between its release and the reports it is neither pending nor running."""
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster)
    scheduler.handle(cluster.apply(NodeAdded(Node(name="n", allocatable={"cpu": 4}))), now=0.0)
    for event in (*gang("g", workers=2, cpu=1).events(), PodAdded(Pod(name="p"))):
        scheduler.handle(cluster.apply(event), now=0.0)
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    assert scheduler.pending() == ()
    assert scheduler.running() == ()
    rows = scheduler.binding()
    assert [(row.name, row.group, row.uid, row.node, row.attempt) for row in rows] == [
        ("default/g-0", "default/g", "default/g-0", "n", 1),
        ("default/g-1", "default/g", "default/g-1", "n", 1),
        ("default/p", None, "default/p", "n", 1),
    ]
    again = presets.gang(cluster)
    again.restore(scheduler.snapshot())
    assert again.binding() == rows
    assert str(again.binding()).splitlines()[3].split() == ["default/p", "-", "n", "1"]

    first, second, single = rows
    again.handle(cluster.apply(Bound(first.uid, first.node, attempt=first.attempt)), now=1.0)
    assert again.binding() == (second, single)
    assert str(again.why("default/g")) == "2 members hold nodes, 1 is being bound"
    assert [row.name for row in again.running()] == ["default/g"]
    again.handle(BindFailed(second.uid, reason="lost", attempt=second.attempt), now=1.0)
    assert [row.name for row in again.binding()] == ["default/p"]


def test_victim_is_listed_until_its_bind_is_reported() -> None:
    cluster = InMemoryCluster()
    scheduler = presets.gang(cluster, preemption=Preemption())
    low = PodAdded(Pod(name="low", requests={"cpu": 1}))
    for event in (NodeAdded(Node(name="n", allocatable={"cpu": 1})), low):
        scheduler.handle(cluster.apply(event), now=0.0)
    assert scheduler.schedule_one(now=0.0)
    high = Pod(name="high", priority=1, requests={"cpu": 1})
    scheduler.handle(cluster.apply(PodAdded(high)), now=0.0)
    scheduler.schedule_one(now=0.0)
    assert [row.name for row in scheduler.binding()] == ["default/low"]


# What a reader of ``pending``, ``groups`` and ``why`` meets: late members, ended jobs, tables

G = GroupKey("default/g")
START = 1_795_466_633.8450027  # seconds since 1970


class Host(ImmediateHost):
    """A scheduler with one node of 3 CPUs, and a gang of 4 that starts with 2."""

    def __init__(self, now: float = 0.0) -> None:
        super().__init__()
        self.now = now
        self.scheduler = presets.gang(self.cluster)
        self.job: Gang = gang("g", workers=4, min_available=2, cpu=1)
        self.tell(NodeAdded(Node(name="n", allocatable={"cpu": 3})), *self.job.events())
        self.decide()

    def end_job(self) -> None:
        self.tell(*(PodDeleted(pod.uid) for pod in self.job.pods), PodGroupDeleted(G))


def test_late_member_of_a_started_gang_needs_no_further_member() -> None:
    (row,) = Host().scheduler.pending()
    assert (row.pods, row.needed) == (1, 0)
    assert row.cells()[row.COLUMNS.index("NEEDED")] == "0"


def test_group_whose_pods_are_gone_is_listed_while_its_pod_group_exists() -> None:
    host = Host()
    host.tell(*(PodDeleted(pod.uid) for pod in host.job.pods))
    assert [row.key for row in host.scheduler.groups()] == [G]


def test_deleted_job_is_listed_no_more_and_why_says_when_it_is_forgotten() -> None:
    host = Host(5.0)
    host.end_job()
    assert (host.scheduler.groups(), host.scheduler.pending()) == ((), ())
    why = host.scheduler.why(G)
    assert isinstance(why, NotEnoughMembers)
    assert why.forgotten_at == 65.0
    assert str(why) == "pod group default/g has no pods; it is forgotten at 65"
    assert in_utc(why).endswith("forgotten at 1970-01-01T00:01:05Z")
    host.now = 65.0
    host.scheduler.advance(now=65.0)
    with pytest.raises(gangsched.UnknownPodError):
        host.scheduler.why(G)


def test_table_rounds_ages_to_a_tenth_of_a_second() -> None:
    host = Host()
    host.now = 0.056894
    host.scheduler.advance(now=host.now)
    (row,) = host.scheduler.groups()
    assert row.age == 0.056894
    assert row.cells()[row.COLUMNS.index("AGE")] == "0.1s"


def test_table_has_dates_for_a_clock_that_counts_from_1970() -> None:
    host = Host(START)
    (row,) = host.scheduler.pending()
    rows = Listing([evolve(row, why=BackingOff(START + 1, 1, "full"))])
    assert "backing off until 1795466634.8450027 after" in repr(rows)
    assert "backing off until 2026-11-23T20:43:54.845003Z after" in rows.in_utc()
    assert rows.in_utc().splitlines()[0] == repr(rows).splitlines()[0]
    assert host.scheduler.running().in_utc() == repr(host.scheduler.running())


def test_membership_is_the_only_public_name_that_is_also_a_module() -> None:
    """``import gangsched.membership as m`` binds the function; the page says what works."""
    modules = {each.name for each in pkgutil.iter_modules(gangsched.__path__)}
    shadowing = {
        name
        for name in gangsched.__all__
        if name in modules and not inspect.ismodule(getattr(gangsched, name))
    }
    assert shadowing == {"membership"}
    module = importlib.import_module("gangsched.membership")
    assert module.SPELLINGS
