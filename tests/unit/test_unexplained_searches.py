"""Where only the plan of a gang is wanted, no search for the reasons of a failure is made."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from attrs import evolve

from gangsched import (
    Backfill,
    Evict,
    InMemoryCluster,
    NodeAdded,
    NodeName,
    PodAdded,
    Preemption,
    Scheduler,
    gang,
    presets,
)
from gangsched._packing import pack
from gangsched.model import Node, Pod
from support.packing import random_case


@pytest.fixture
def explained(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the placements of which the reasons were looked for."""
    found: list[Any] = []
    original = pack._reason

    def counted(problem: Any, quotas: Any, budget: Any) -> Any:
        found.append(problem)
        return original(problem, quotas, budget)

    monkeypatch.setattr(pack, "_reason", counted)
    return found


def crowded(nodes: int, **options: Any) -> Scheduler:
    """Return a scheduler with a pending gang of unlike members, and one low pod on each node."""
    cluster = InMemoryCluster()
    for n in range(nodes):
        name = NodeName(f"n{n}")
        cluster.apply(NodeAdded(Node(name=name, allocatable={"cpu": 8})))
        low = Pod(name=f"low-{n}", requests={"cpu": 6}, node_name=name)
        cluster.apply(PodAdded(low))
    for n, pod in enumerate(gang("high", workers=4, priority=5).pods):
        asked = evolve(pod, requests={"cpu": 3 + n % 2}, min_available=4)
        cluster.apply(PodAdded(asked))
    scheduler = presets.gang(cluster, **options)
    scheduler.rebuild(now=0.0)
    return scheduler


class EndInTurn:
    """The pods end one after the other, so that the gang fits only at the end."""

    def expected_end(self, pod: Pod, *, started_at: float | None, now: float) -> float | None:
        return 60.0 * (1 + int(pod.name.rpartition("-")[2]))


def test_only_the_attempt_itself_is_explained_when_a_gang_preempts(explained: list[Any]) -> None:
    scheduler = crowded(4, preemption=Preemption())
    effects = scheduler.schedule_one(now=0.0)
    assert effects is not None
    assert any(isinstance(effect, Evict) for effect in effects)
    assert len(explained) == 1


def test_only_the_attempt_itself_is_explained_when_a_gang_gets_a_reservation(
    explained: list[Any],
) -> None:
    scheduler = crowded(4, backfill=Backfill(EndInTurn()))
    while scheduler.schedule_one(now=0.0) is not None:
        pass
    attempts = len(explained)
    assert attempts == 1
    scheduler.advance(now=30.0)
    assert len(explained) == attempts


@pytest.mark.parametrize("seed", range(150))
def test_answer_without_reasons_is_of_the_same_kind(seed: int) -> None:
    case = random_case(Random(seed))
    demands = [
        pack.Demand(kind, count, case.room.requests[kind]) for kind, count in case.counts.items()
    ]
    arguments: Any = (demands, case.quotas, case.nodes, case.room)
    explained = pack.pack(*arguments, budget=case.budget)
    bare = pack.pack(*arguments, budget=case.budget, explains=False)
    assert type(bare) is type(explained)
    assert bare.steps <= explained.steps
    if isinstance(bare, pack.Impossible):
        assert not bare.exact
        assert bare.fits < bare.quota.at_least
