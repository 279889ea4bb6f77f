"""What a reader of ``pending``, ``groups`` and ``why`` meets: late members, ended jobs, tables."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import pytest
from attrs import evolve

import gangsched
from gangsched import (
    Bind,
    Bound,
    Gang,
    GroupKey,
    InMemoryCluster,
    InvalidValueError,
    Node,
    NodeAdded,
    PodDeleted,
    PodGroupDeleted,
    Profile,
    Scheduler,
    gang,
    presets,
)
from gangsched.explain import BackingOff, NotEnoughMembers, in_utc
from gangsched.listings import Listing

G = GroupKey("default/g")
START = 1_795_466_633.8450027  # seconds since 1970


class Host:
    """A scheduler with one node of 3 CPUs, and a gang of 4 that starts with 2."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self.cluster = InMemoryCluster()
        self.scheduler: Scheduler = presets.gang(self.cluster)
        self.job: Gang = gang("g", workers=4, min_available=2, cpu=1)
        self.tell(NodeAdded(Node(name="n", allocatable={"cpu": 3})), *self.job.events())
        self.decide()

    def tell(self, *events: Any) -> None:
        for event in events:
            self.scheduler.handle(self.cluster.apply(event), now=self.now)

    def decide(self) -> None:
        while (effects := self.scheduler.schedule_one(now=self.now)) is not None:
            for each in effects:
                if isinstance(each, Bind):
                    self.tell(Bound(each.uid, each.node, each.attempt))

    def end(self) -> None:
        self.tell(*(PodDeleted(pod.uid) for pod in self.job.pods), PodGroupDeleted(G))


def test_late_member_of_a_started_gang_needs_no_further_member() -> None:
    (row,) = Host().scheduler.pending()
    assert (row.pods, row.needed) == (1, 0)
    assert row.cells()[row.COLUMNS.index("NEEDED")] == "0"


def test_deleted_job_is_no_longer_listed() -> None:
    host = Host()
    host.end()
    assert host.scheduler.groups() == ()
    assert host.scheduler.pending() == ()


def test_group_whose_pods_are_gone_is_listed_while_its_pod_group_exists() -> None:
    host = Host()
    host.tell(*(PodDeleted(pod.uid) for pod in host.job.pods))
    assert [row.key for row in host.scheduler.groups()] == [G]


def test_why_of_a_deleted_job_says_when_it_is_forgotten() -> None:
    host = Host(5.0)
    host.end()
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


class Rule:
    name = "Rule"

    def filter(self, state: Any, pod: Any, node: Any) -> gangsched.Outcome:
        return gangsched.Success()


@pytest.mark.parametrize("make", [presets.gang, presets.coscheduling])
def test_plugin_that_is_a_class_is_refused_when_the_scheduler_is_made(make: Any) -> None:
    with pytest.raises(InvalidValueError, match=r"plugins .*Rule\(\), not a class.*Rule'"):
        make(InMemoryCluster(), plugins=[Rule])
    with pytest.raises(InvalidValueError, match="plugins"):
        Profile(Rule)
    make(InMemoryCluster(), plugins=[Rule()])


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
