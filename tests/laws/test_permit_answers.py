"""A waiting pod is allowed or rejected in the name of a permit plugin, per plugin and per attempt.

Rules, each a property of any history:
  R1  a pod is bound only if each permit plugin allowed it in that attempt;
  R2  the members of a gang are released as the laws demand, whoever allows them, and when;
  R3  an answer about another attempt changes nothing;
  R4  once everything is allowed, everything that fits is bound.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Bind,
    ClusterState,
    Coscheduling,
    GroupRejected,
    GroupScheduled,
    InvalidValueError,
    NodeName,
    Outcome,
    PermitAllowed,
    PermitRejected,
    Pod,
    PodRejected,
    PodUID,
    PodUpdated,
    PodWaiting,
    Profile,
    Scheduler,
    SchedulingUnit,
    Success,
    Unschedulable,
    Wait,
)
from gangsched.cluster_objects import ClusterObject, PersistentVolumeClaim
from gangsched.events import ObjectChanged, PodDeleted
from gangsched.explain import OnPermit
from gangsched.plugins import DefaultBinder, NodeResources
from gangsched.testing import make_pod
from support.driver import Driver
from support.gangs import members, node

pytestmark = pytest.mark.once("says itself which unit it is about")
UNITS = pytest.mark.parametrize("unit", SchedulingUnit)
LICENCE, QUOTA = "Licence", "Quota"


class Awaits:
    """Lets pods wait until it is told otherwise."""

    def __init__(self, name: str, timeout: float, *, wide: bool = False) -> None:
        self.name = name
        self.timeout = timeout
        self.says: dict[str, Outcome] = {}
        self.asked: list[str] = []
        self.group_wide = ("permit",) if wide else ()

    def permit(self, state: object, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        self.asked.append(pod.name)
        return self.says.get(pod.name, self.says.get("", Wait(self.timeout)))


class Host(Driver):
    """A driver whose profile has plugins that let pods wait."""

    def __init__(self, unit: SchedulingUnit, *plugins: Awaits, cpu: int = 9) -> None:
        def make(cluster: ClusterState) -> Scheduler:
            policy = Coscheduling(permit_timeout=50.0)
            profile = Profile(policy, *plugins, NodeResources(), DefaultBinder())
            return Scheduler(cluster, profile, unit=unit)

        super().__init__(make, permit_timeout=50.0)
        self.tell(node("n", cpu))

    def answer(self, event: Callable[..., Any], name: str, plugin: str, *more: str) -> None:
        self.tell(event(f"default/{name}", plugin, self.attempt(name), *more))

    def attempt(self, name: str) -> int:
        waits = (e for call in self.log for e in call.effects if isinstance(e, PodWaiting))
        return max((e.attempt for e in waits if e.uid == f"default/{name}"), default=1)

    def bound(self) -> list[str]:
        return sorted(self.running())

    def change(self, name: str) -> None:
        pod = self.cluster.pod(PodUID(f"default/{name}"))
        assert pod is not None
        self.tell(PodUpdated(evolve(pod, annotations={"some": "thing"})))

    def pending(self, name: str) -> tuple[str, ...]:
        entry = self.scheduler.waiting.get(PodUID(f"default/{name}"))
        return () if entry is None else entry.pending_plugins


def begun(host: Host, *pods: Pod) -> Host:
    """Add pods, and decide."""
    host.add(*pods)
    host.drain()
    return host


# One pod ----------------------------------------------------------------------------------------


@UNITS
def test_pod_is_released_once_each_of_its_plugins_allows_it(unit: SchedulingUnit) -> None:
    host = begun(Host(unit, Awaits(LICENCE, 5.0), Awaits(QUOTA, 20.0)), make_pod("p", cpu=1))
    (waits,) = host.effects(PodWaiting)
    assert (waits.plugins, waits.attempt, waits.deadline) == ((LICENCE, QUOTA), 1, 5.0)
    host.answer(PermitAllowed, "p", LICENCE)
    assert host.bound() == []
    assert host.pending("p") == (QUOTA,)
    assert host.scheduler.next_deadline() == 5.0, "law 6: no answer makes a wait longer"
    host.answer(PermitAllowed, "p", QUOTA)
    assert host.bound() == ["p"]
    assert host.effects(Bind)[0].attempt == waits.attempt


@UNITS
def test_rejected_pod_gives_its_node_back_and_is_tried_again_after_a_backoff(
    unit: SchedulingUnit,
) -> None:
    host = begun(Host(unit, Awaits(LICENCE, 5.0), cpu=1), make_pod("p", cpu=1))
    host.answer(PermitRejected, "p", LICENCE, "none is free")
    (rejected,) = host.effects(PodRejected)
    assert rejected.reason == "Licence rejected it: none is free"
    assert host.scheduler.next_deadline() == 1.0, "a backoff"
    host.advance(1.0)
    host.drain()
    assert host.attempt("p") == 2


@UNITS
@pytest.mark.parametrize("event", [PermitAllowed, PermitRejected])
def test_answer_about_an_earlier_attempt_changes_nothing(
    unit: SchedulingUnit, event: Callable[..., Any]
) -> None:
    host = begun(Host(unit, Awaits(LICENCE, 5.0)), make_pod("p", cpu=1))
    host.advance(5.0)
    host.advance(6.0)
    host.drain()
    assert host.attempt("p") == 2
    before = host.scheduler.snapshot()
    host.tell(event("default/p", LICENCE, 1, *(("late",) if event is PermitRejected else ())))
    assert host.scheduler.snapshot() == before


@UNITS
def test_answer_about_a_pod_that_does_not_wait_changes_nothing(unit: SchedulingUnit) -> None:
    host = begun(Host(unit, Awaits(LICENCE, 5.0)), make_pod("large", cpu=99))
    before = host.scheduler.snapshot()
    for uid in ("default/large", "default/unknown"):
        host.tell(PermitAllowed(uid, LICENCE, 0), PermitRejected(uid, LICENCE, 0, "late"))
        host.tell(PermitAllowed(uid, LICENCE, 1), PermitRejected(uid, LICENCE, 1, "late"))
    assert host.scheduler.snapshot() == before


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (PermitAllowed("default/p", "Typo", 1), "'Coscheduling', 'Licence'"),
        (PermitRejected("default/p", "NodeResourcesFit", 1, ""), "'Coscheduling', 'Licence'"),
        (PermitAllowed("default/p", "Coscheduling", 1), "counts the quorum"),
    ],
    ids=["no-plugin", "no-permit-plugin", "the-quorum"],
)
def test_answer_of_a_plugin_that_cannot_give_it_is_refused(event: Any, expected: str) -> None:
    host = begun(Host(SchedulingUnit.POD, Awaits(LICENCE, 5.0)), make_pod("p", cpu=1))
    before = host.scheduler.snapshot()
    with pytest.raises(InvalidValueError, match=expected) as caught:
        host.tell(event)
    assert (caught.value.field, caught.value.value) == ("plugin", event.plugin)
    assert host.scheduler.snapshot() == before


def test_late_answer_finds_a_pod_that_the_cluster_no_longer_shows_gone() -> None:
    host = begun(Host(SchedulingUnit.POD, Awaits(LICENCE, 5.0)), make_pod("p", cpu=1))
    host.tell_late(PodDeleted("default/p"))
    host.answer(PermitAllowed, "p", LICENCE)
    assert host.effects(Bind) == []
    assert len(host.scheduler.waiting) == 0


# Gangs ------------------------------------------------------------------------------------------


@UNITS
def test_gang_is_released_together_when_the_last_needed_member_is_allowed(
    unit: SchedulingUnit,
) -> None:
    host = begun(Host(unit, Awaits(LICENCE, 20.0)), *members("g", 3, cpu=1))
    for name in ("g-1", "g-0"):
        host.answer(PermitAllowed, name, LICENCE)
        assert host.bound() == []
    host.answer(PermitAllowed, "g-2", LICENCE)
    assert host.bound() == ["g-0", "g-1", "g-2"]
    (started,) = host.effects(GroupScheduled)
    assert (started.attempt, started.scheduled) == (1, 3)


@UNITS
def test_elastic_member_that_is_not_allowed_delays_no_other(unit: SchedulingUnit) -> None:
    host = Host(unit, licence := Awaits(LICENCE, 20.0))
    licence.says = {"g-0": Success(), "g-1": Success()}
    host.add(*members("g", 3, 2, cpu=1))
    host.drain()
    assert host.bound() == ["g-0", "g-1"]
    assert host.pending("g-2") == (LICENCE,)
    host.answer(PermitAllowed, "g-2", LICENCE)
    assert host.bound() == ["g-0", "g-1", "g-2"]


@UNITS
def test_member_that_needs_no_wait_waits_for_its_siblings_as_long_as_they_do(
    unit: SchedulingUnit,
) -> None:
    host = Host(unit, licence := Awaits(LICENCE, 20.0))
    licence.says = {"g-1": Success()}
    host.add(*members("g", 2, cpu=1))
    host.drain()
    last = host.effects(PodWaiting)[-1]
    assert (last.uid, last.plugins, last.deadline) == ("default/g-1", (), 20.0)
    assert host.bound() == []
    host.answer(PermitAllowed, "g-0", LICENCE)
    assert host.bound() == ["g-0", "g-1"]


@UNITS
def test_rejected_member_rejects_the_attempt_of_a_gang_that_needs_it(unit: SchedulingUnit) -> None:
    host = begun(Host(unit, Awaits(LICENCE, 20.0)), *members("g", 2, cpu=1))
    host.answer(PermitRejected, "g-1", LICENCE, "none is free")
    assert {each.uid for each in host.effects(PodRejected)} == {"default/g-0", "default/g-1"}
    assert [each.group for each in host.effects(GroupRejected)] == ["default/g"]
    assert len(host.scheduler.waiting) == 0


@UNITS
def test_rejected_elastic_member_rejects_no_sibling(unit: SchedulingUnit) -> None:
    host = begun(Host(unit, Awaits(LICENCE, 20.0)), *members("g", 3, 2, cpu=1))
    host.answer(PermitRejected, "g-2", LICENCE, "none is free")
    assert {each.uid for each in host.effects(PodRejected)} == {"default/g-2"}
    assert host.effects(GroupRejected) == []
    for name in ("g-0", "g-1"):
        host.answer(PermitAllowed, name, LICENCE)
    assert host.bound() == ["g-0", "g-1"]


@UNITS
def test_plugin_that_answers_for_a_group_allows_every_waiting_member(unit: SchedulingUnit) -> None:
    host = begun(Host(unit, Awaits(LICENCE, 20.0, wide=True)), *members("g", 3, cpu=1))
    host.answer(PermitAllowed, "g-1", LICENCE)
    assert host.bound() == ["g-0", "g-1", "g-2"]


def test_sibling_that_still_waits_for_a_plugin_is_not_released_by_the_last_member() -> None:
    """A quota says Wait about the first member only, and the last completes the quorum."""
    host = Host(SchedulingUnit.POD, licence := Awaits(LICENCE, 20.0))
    licence.says = {"g-1": Success(), "g-2": Success()}
    host.add(*members("g", 3, cpu=1))
    host.drain()
    assert host.bound() == []


# Asking again -----------------------------------------------------------------------------------


@UNITS
@pytest.mark.parametrize("grouped", [False, True], ids=["pod", "gang"])
def test_plugin_is_asked_again_when_its_waiting_pod_changes(
    unit: SchedulingUnit, grouped: bool
) -> None:
    host = begun(
        Host(unit, licence := Awaits(LICENCE, 20.0)),
        *(members("g", 2, cpu=1) if grouped else [make_pod("g-0", cpu=1)]),
    )
    licence.says = {"": Success()}
    licence.asked.clear()
    host.change("g-0")
    assert licence.asked == (["g-0", "g-1"] if grouped else ["g-0"])
    assert host.bound() == licence.asked


@UNITS
def test_plugin_that_allowed_a_pod_is_not_asked_about_it_again(unit: SchedulingUnit) -> None:
    host = begun(
        Host(unit, licence := Awaits(LICENCE, 20.0), Awaits(QUOTA, 20.0)), make_pod("p", cpu=1)
    )
    host.answer(PermitAllowed, "p", LICENCE)
    licence.asked.clear()
    host.change("p")
    assert licence.asked == []


@UNITS
def test_asking_again_makes_no_wait_longer(unit: SchedulingUnit) -> None:
    host = begun(Host(unit, Awaits(LICENCE, 20.0)), make_pod("p", cpu=1))
    host.advance(15.0)
    host.change("p")
    assert host.scheduler.next_deadline() == 20.0


@UNITS
@pytest.mark.parametrize("wide", [False, True], ids=["each", "group"])
def test_pod_that_a_plugin_refuses_when_asked_again_gives_its_node_back(
    unit: SchedulingUnit, wide: bool
) -> None:
    host = begun(Host(unit, licence := Awaits(LICENCE, 20.0, wide=wide)), *members("g", 2, cpu=1))
    licence.says = {"g-0": Unschedulable("expired")}
    host.change("g-1")
    assert host.effects(PodRejected)[0] == PodRejected(
        PodUID("default/g-0"), NodeName("n"), "expired"
    )
    assert [each.group for each in host.effects(GroupRejected)] == ["default/g"]


def test_sibling_that_a_plugin_refuses_in_the_cycle_of_another_gives_its_node_back() -> None:
    host = Host(SchedulingUnit.POD, licence := Awaits(LICENCE, 20.0))
    host.add(*members("g", 2, cpu=1))
    host.step()
    licence.says = {"g-0": Unschedulable("expired"), "g-1": Success()}
    host.step()
    assert {each.uid: each.reason for each in host.effects(PodRejected)}["default/g-0"] == "expired"
    assert host.bound() == []


class AwaitsClaims(Awaits):
    """Reads claims, and is asked again when one changes."""

    def objects_read(self, pod: Pod) -> tuple[type[ClusterObject], ...]:
        return (PersistentVolumeClaim,)

    def pod_signature(self, pod: Pod) -> str:
        return ""


@UNITS
def test_plugin_is_asked_again_when_an_object_that_it_reads_changes(unit: SchedulingUnit) -> None:
    host = begun(Host(unit, licence := AwaitsClaims(LICENCE, 20.0)), *members("g", 2, cpu=1))
    licence.says = {"": Success()}
    host.tell(ObjectChanged(PersistentVolumeClaim(name="c")))
    assert host.bound() == ["g-0", "g-1"]


# What is shown and kept -------------------------------------------------------------------------


@UNITS
def test_why_names_the_plugins_that_have_not_allowed_a_pod(unit: SchedulingUnit) -> None:
    host = begun(Host(unit, Awaits(LICENCE, 20.0), Awaits(QUOTA, 20.0)), *members("g", 2, cpu=1))
    for name in ("g-0", "g-1"):
        host.answer(PermitAllowed, name, QUOTA)
    why = host.scheduler.why("default/g")
    assert isinstance(why, OnPermit)
    assert why.plugins == (LICENCE,)
    assert str(why).endswith("until 20, not allowed yet by Licence")


@UNITS
def test_restored_scheduler_takes_the_same_answers(unit: SchedulingUnit) -> None:
    host = begun(Host(unit, Awaits(LICENCE, 5.0), Awaits(QUOTA, 20.0)), *members("g", 2, cpu=1))
    host.answer(PermitAllowed, "g-0", LICENCE)
    again = host.make(host.cluster)
    again.restore(json.loads(json.dumps(host.scheduler.snapshot())))
    again._check()
    effects: tuple[Any, ...] = ()
    for name, plugin in (("g-0", QUOTA), ("g-1", LICENCE), ("g-1", QUOTA)):
        event = PermitAllowed(f"default/{name}", plugin, 1)
        effects = again.handle(event, now=1.0)
        assert effects == host.scheduler.handle(event, now=1.0)
    assert sum(isinstance(each, Bind) for each in effects) == 2


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda row: row["plugins"].append("Typo"), "waiting[0].plugins[2]"),
        (lambda row: row["plugins"].append(LICENCE), "waiting[0].plugins[2]"),
    ],
    ids=["unknown", "twice"],
)
def test_snapshot_whose_waits_contradict_the_profile_is_refused(
    change: Callable[[Any], Any], path: str
) -> None:
    host = begun(
        Host(SchedulingUnit.POD, Awaits(LICENCE, 5.0), Awaits(QUOTA, 20.0)), make_pod("p", cpu=1)
    )
    data = host.scheduler.snapshot()
    change(data["waiting"][0])
    with pytest.raises(InvalidValueError) as caught:
        host.make(host.cluster).restore(data)
    assert caught.value.field == path


# Any history ------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["allow", "allow", "reject", "late", "update", "pass", "decide"]),
        st.integers(0, 4),
        st.sampled_from([LICENCE, QUOTA]),
    ),
    max_size=25,
)


@UNITS
@given(steps=STEPS, count=st.integers(1, 4), elastic=st.integers(0, 2), wide=st.booleans())
def test_no_pod_is_bound_that_a_plugin_has_not_allowed_in_that_attempt(
    unit: SchedulingUnit, steps: list[tuple[str, int, str]], count: int, elastic: int, wide: bool
) -> None:
    """R1 to R4. The oracle of the driver judges R2 after every call."""
    plugins = {LICENCE: Awaits(LICENCE, 7.0), QUOTA: Awaits(QUOTA, 30.0, wide=wide)}
    host = Host(unit, *plugins.values(), cpu=5)
    minimum = max(1, count - elastic)
    pods = [*members("g", count, minimum, cpu=1), make_pod("alone", cpu=1)]
    host.add(*pods)
    allowed: set[tuple[str, int, str]] = set()

    def allow(name: str, plugin: str) -> None:
        attempt = host.attempt(name)
        together = [name]
        if wide and plugin == QUOTA and name != "alone":
            waiting = host.scheduler.waiting
            together = [pod.name for pod in pods[:-1] if pod.uid in waiting]
        if f"default/{name}" in host.scheduler.waiting:
            allowed.update((each, host.attempt(each), plugin) for each in together)
        host.tell(PermitAllowed(f"default/{name}", plugin, attempt))

    for step, index, plugin in steps:
        pod = pods[index % len(pods)]
        if step == "allow":
            allow(pod.name, plugin)
        elif step == "reject":
            host.answer(PermitRejected, pod.name, plugin, "no")
        elif step == "late":
            host.tell(PermitAllowed(pod.uid, plugin, host.attempt(pod.name) - 1))
        elif step == "update":
            shown = host.cluster.pod(pod.uid)
            assert shown is not None
            host.tell(PodUpdated(evolve(shown, annotations={"step": str(index)})))
        elif step == "pass":
            host.advance(host.now + 2.5 * index)
        else:
            host.drain()
    for bind in host.effects(Bind):
        name = bind.uid.removeprefix("default/")
        by = {who for pod_name, n, who in allowed if (pod_name, n) == (name, bind.attempt)}
        assert by == {LICENCE, QUOTA}
    for each in plugins.values():
        each.says = {"": Success()}
    host.settle()
    assert len(host.bound()) == len(pods)
