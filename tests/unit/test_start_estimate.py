"""When and where a gang can start: the awaited pods, the need, and the horizon."""

from __future__ import annotations

from typing import Any, cast

import pytest
from attrs import evolve

from gangsched import (
    Backfill,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    Success,
    group_key,
)
from gangsched.framework.backfill import start_estimate
from gangsched.framework.placement import gang_layout
from gangsched.framework.placement.plan import Plan
from gangsched.testing import make_pod
from support.backfill_host import BIG, EXACT, FaultyHost, Host, running
from support.faulty_plugin import FaultyPlugin


def placed(host: Host, node: str, name: str, seconds: float | None = None, **more: Any) -> None:
    """Let a pod run on a node, wherever it came from."""
    pod = running(make_pod(name, **more), None if seconds is None else str(seconds))
    host.tell(PodAdded(evolve(pod, node_name=NodeName(node))))


def returning(host: Host) -> set[str]:
    """Return the pods that leave the needed nodes before the gang starts."""
    entries = host.scheduler._state.nodes.ledger.expected()
    return {uid.partition("/")[2] for entry in entries for uid in entry.returning or ()}


def needed(host: Host) -> int:
    """Return the number of pods for which capacity is reserved."""
    return sum(entry.pods for entry in host.scheduler._state.nodes.ledger.expected())


# Awaited pods ---------------------------------------------------------------------------------


def test_group_that_runs_when_the_gang_starts_is_not_waited_for() -> None:
    host = Host(a=4)
    host.pod("first", 50)
    host.pod("second", 100, cpu=2)
    host.pod("third", 200)
    host.decide()
    host.gang("big", 3)
    host.decide()
    assert host.reservation.starts_at == 100.0
    assert returning(host) == {"first", "second"}
    host.now = 50.0
    host.end("first")
    host.pod("long", 100)
    assert host.decide() == [], "what the first left is for the gang"


def test_running_members_of_the_gang_itself_are_not_waited_for() -> None:
    host = Host(a=4)
    placed(host, "a", "old", 100, cpu=2)
    placed(host, "a", "big-0", 50, cpu=2, group="big", min_available=3)
    for name in ("big-1", "big-2"):
        host.pod(name, 10, group="big", min_available=3)
    host.decide()
    assert host.reservation.group == BIG
    assert (host.reservation.starts_at, returning(host)) == (100.0, {"old"})


def test_no_node_is_drained_of_members_of_its_own_gang() -> None:
    host = Host(Backfill(), a=2, b=2)
    placed(host, "a", "big-0", cpu=2, group="big", min_available=3)
    for name in ("p", "q"):
        placed(host, "b", name, cpu=1)
    for name in ("big-1", "big-2"):
        host.pod(name, group="big", min_available=3)
    host.decide()
    assert (host.reservation.starts_at, host.reservation.nodes) == (None, ("b",))


def test_gang_that_requests_a_missing_resource_gets_no_reservation() -> None:
    host = Host(a=4)
    host.pod("old", 100, cpu=4)
    host.decide()
    host.gang("big", 2, gpu=1)
    assert host.decide() == []
    assert host.scheduler.reservation is None


def test_resource_that_the_node_does_not_offer_is_freed_with_its_pod() -> None:
    host = Host(a=2)
    placed(host, "a", "old", 100, cpu=2, gpu=1)
    host.gang("big", 2)
    host.decide()
    assert host.reservation.starts_at == 100.0


# What is needed -------------------------------------------------------------------------------


def test_no_more_of_each_role_and_in_total_are_needed_than_required() -> None:
    """A member with a role counts in the total too, and is last here."""
    host = Host(a=9)
    host.pod("old", 100, cpu=8)
    host.decide()
    host.tell(PodGroupAdded(PodGroup(name="big", min_available=3, roles={"head": 1, "arm": 1})))
    for n, role in enumerate(("leg", "leg", "leg", "head", "head", "arm")):
        host.pod(f"big-{n}", group="big", role=role)
    host.decide()
    state = host.scheduler._state
    entity = state.pods.entities[BIG]
    everybody = sorted((state.pods.members[pod.uid] for pod in entity.pending), key=lambda m: m.seq)
    index = state.nodes.infos[NodeName("a")].index
    plan = Plan(state.nodes)
    plan.placed = [(member, index) for member in everybody]
    chosen = [
        member.pod.name
        for member, _index in start_estimate._needed(
            state.settings, state.pods, state.call, entity, plan
        )
    ]
    assert chosen == ["big-0", "big-3", "big-5"]
    assert needed(host) == 3


def least(host: Host, group: str) -> dict[str, int]:
    """Return what a gang asks for at least, in whole units."""
    state = host.scheduler._state
    found = start_estimate._least(
        state.settings, state.pods, state.call, state.pods.entities[group_key("default", group)]
    )
    return {name.rpartition("/")[2]: amount // 1000 for name, amount in found.items() if amount}


def test_gang_needs_at_least_the_smallest_requests_of_its_minimum() -> None:
    host = Host()
    for name, cpu, gpu in (("p", 5, 1), ("q", 1, 1), ("r", 2, 0), ("s", 3, 1)):
        host.pod(name, cpu=cpu, gpu=gpu, group="big", min_available=2)
    assert least(host, "big") == {"cpu": 3, "gpu": 1}


def test_bundle_needs_at_least_what_its_groups_need_together() -> None:
    host = Host()
    bundle = (group_key("default", "one"), group_key("default", "two"))
    for name, count in (("one", 1), ("two", 2)):
        host.tell(PodGroupAdded(PodGroup(name=name, min_available=count, bundle=bundle)))
        for n in range(count + 1):
            host.pod(f"{name}-{n}", cpu=count + n, group=name)
    assert least(host, "one") == {"cpu": 1 + 2 + 3}


# How far it is looked -------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 40])
def test_first_instant_with_a_plan_is_found_in_few_plans_without_repetition(
    count: int,
) -> None:
    """As many as it takes to double the distance, and to halve it again."""
    for start in range(count + 1):
        for first in range(start, count + 1):
            looks: list[int] = []

            def plan_at(number: int, first: int = first, looks: list[int] = looks) -> Plan | None:
                looks.append(number)
                return cast("Plan", f"plan {number}") if number >= first else None

            number, plan = start_estimate._first(plan_at, start, range(count))
            assert cast("object", plan) == (f"plan {first}" if first < count else None)
            assert plan is None or number == first
            assert set(looks) <= set(range(start, count))
            assert len(looks) == len(set(looks))
            assert len(looks) <= max(2 * (first - start).bit_length(), 1) + (first == count)


def test_no_instant_with_too_little_or_fragmented_capacity_is_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(a=2, b=2, c=2)
    for n, (node, seconds) in enumerate((("a", 10), ("b", 20), ("c", 30), ("a", 40), ("b", 50))):
        placed(host, node, f"p{n}", seconds, cpu=1)
    placed(host, "c", "last", 60, cpu=1)
    laid_out: list[bool] = []
    inner = gang_layout.plan_gang

    def counted(state: Any, entity: Any, **named: Any) -> Any:
        found = inner(state, entity, **named)
        laid_out.append(isinstance(found[0], Plan))
        return found

    monkeypatch.setattr(gang_layout, "plan_gang", counted)
    host.gang("big", 2, cpu=2)
    host.decide()
    assert host.reservation.starts_at == 50.0
    assert laid_out.count(False) == 1, "its own turn alone"


@pytest.mark.parametrize(("policy", "starts_at"), [(Backfill(EXACT), 100.0), (Backfill(), None)])
def test_plugins_are_asked_about_the_future_as_of_now(
    policy: Backfill, starts_at: float | None
) -> None:
    faulty = FaultyPlugin("pre_filter", "pre_score")
    host = FaultyHost(faulty, a=2)
    host.policy = policy
    host.scheduler = host.make()
    asked: list[tuple[str, float]] = []

    def see(_state: object, pod: Pod, *_nodes: object, now: float) -> Success:
        asked.append((pod.name, now))
        return Success()

    faulty.answers.update(pre_filter=see, pre_score=see)
    host.pod("old", 100)
    host.decide()
    host.now = 7.0
    host.gang("big", 2)
    host.decide()
    assert host.reservation.starts_at == starts_at
    assert {now for name, now in asked if name.startswith("big")} == {7.0}
