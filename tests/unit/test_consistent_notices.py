"""Notices of groups do not contradict each other: numbers begin at 1, and an attempt ends once."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    Effect,
    GroupIncomplete,
    GroupRejected,
    GroupScheduled,
    MatchPolicy,
    NodeUpdated,
    PodGroupAdded,
    PodUID,
    PodUpdated,
    SchedulingUnit,
    WhenBlocked,
    presets,
)
from gangsched.testing import make_group, make_node, make_pod
from support.driver import Driver, Fate
from support.gangs import node

pytestmark = pytest.mark.once("chooses the unit itself")

UNITS = pytest.mark.parametrize("unit", list(SchedulingUnit))


def host(unit: SchedulingUnit, match: MatchPolicy, cpu: int = 3, **more: Any) -> Driver:
    driver = Driver(
        lambda cluster: presets.coscheduling(cluster, unit=unit, match_policy=match, **more),
        match=match,
    )
    driver.tell(node("n", cpu))
    return driver


def contradictions(calls: Iterable[tuple[Effect, ...]]) -> list[str]:
    """Return what the notices of one group say against each other."""
    found: list[str] = []
    ended, last = 0, None
    for effects in calls:
        told = [effect for effect in effects if isinstance(effect, GroupIncomplete)]
        for one, following in pairwise(told):
            if one == following:
                found.append(f"told twice in one call: {one}")
        for effect in effects:
            if isinstance(effect, GroupRejected | GroupScheduled):
                if effect.attempt <= ended:
                    found.append(f"{last}, then {effect}")
                ended, last = effect.attempt, effect
    return found


@UNITS
def test_released_member_that_is_deleted_rejects_no_attempt(unit: SchedulingUnit) -> None:
    driver = host(unit, MatchPolicy.ONLY_WAITING)
    driver.fate = Fate.PENDING
    driver.add(*(make_pod(f"g{n}", group="g", min_available=3, cpu=1) for n in range(3)))
    driver.drain()
    driver.add(*(make_pod(f"g{n}", group="g", min_available=3, cpu=1) for n in range(3, 5)))
    before = len(driver.log)
    driver.delete("default/g0")
    told = [e for call in driver.log[before:] for e in call.effects]
    assert not [effect for effect in told if isinstance(effect, GroupRejected)]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["add", "delete", "bind", "fail", "decide", "wait", "grow", "spec", "gate"]
        ),
        st.integers(0, 5),
    ),
    max_size=30,
)


@given(
    STEPS,
    st.sampled_from(SchedulingUnit),
    st.sampled_from(MatchPolicy),
    st.sampled_from(WhenBlocked),
)
def test_notices_of_a_group_agree_in_any_history(
    steps: list[tuple[str, int]],
    unit: SchedulingUnit,
    match: MatchPolicy,
    when_blocked: WhenBlocked,
) -> None:
    driver = host(unit, match, when_blocked=when_blocked)
    driver.fate = Fate.PENDING
    made = 0
    for what, number in steps:
        uid = PodUID(f"default/g{number}")
        pod = driver.cluster.pod(uid)
        if what == "add":
            made += 1
            driver.add(make_pod(f"g{made}", group="g", min_available=2, cpu=1))
        elif what == "delete" and pod is not None:
            driver.delete(uid)
        elif what in ("bind", "fail") and driver.under_way:
            bind = driver.under_way[0]
            driver.report(bind, Fate.DONE if what == "bind" else Fate.FAILED)
        elif what == "decide":
            driver.drain()
        elif what == "wait":
            driver.advance(driver.now + 11.0)
        elif what == "grow":
            driver.tell(NodeUpdated(make_node("n", cpu=1 + number)))
        elif what == "spec":
            driver.tell(PodGroupAdded(make_group("g", 1 + number)))
        elif what == "gate" and pod is not None and pod.node_name is None:
            gates = () if pod.scheduling_gates else ("hold",)
            driver.tell(PodUpdated(evolve(pod, scheduling_gates=gates)))
    assert contradictions(told.effects for told in driver.log) == []
