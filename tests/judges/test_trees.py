"""Trees, as other schedulers are tested with them: kube-scheduler, Kueue, KAI, Volcano, Grove.

What a case demands of every correct scheduler holds. What its own scheduler does holds too, apart
from what ``DIFFERENCES`` lists with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from gangsched import (
    ClusterState,
    Event,
    PodAdded,
    PodGroupAdded,
    Preemption,
    Scheduler,
    SchedulingUnit,
    presets,
)
from support.judges import CASES, Case, Spelled, Tree, World, families, levels_of, roles, wrong

DIFFERENCES: Final = {
    "k8s-preempt-best-rack": "the victims of either rack cost the same; the peer prefers the rack "
    "that is fuller afterwards, here the rule is that of victims alone",
    "kueue-min-racks": "the constraint names the block alone; which racks it has is not known, so "
    "their number is not minimized",
}
"""By case: what differs from its own scheduler, and why."""


def _gang(cluster: ClusterState, case: Case) -> Scheduler:
    return presets.gang(cluster, preemption=_preemption(case), levels=levels_of(case))


def _coscheduling(cluster: ClusterState, case: Case) -> Scheduler:
    return presets.coscheduling(cluster, preemption=_preemption(case), levels=levels_of(case))


def _coscheduling_by_group(cluster: ClusterState, case: Case) -> Scheduler:
    unit, levels = SchedulingUnit.GROUP, levels_of(case)
    return presets.coscheduling(cluster, unit=unit, preemption=_preemption(case), levels=levels)


def _preemption(case: Case) -> Preemption | None:
    return Preemption() if case.get("preempt") else None


class _Restored(World):
    """A world whose scheduler is restored from its snapshot before each step, and after it."""

    def _play(self, events: Sequence[Event]) -> None:
        for some in (events, ()):
            fresh = self.preset(self.cluster)
            fresh.restore(self.scheduler.snapshot())
            self.scheduler = fresh
            super()._play(some)


class _Reversed(World):
    """A world of which pods and groups arrive in the opposite order."""

    def _play(self, events: Sequence[Event]) -> None:
        late = [each for each in events if isinstance(each, PodAdded | PodGroupAdded)]
        early = [each for each in events if each not in late]
        super()._play([*early, *reversed(late)])


class _OneByOne(World):
    """A world in which all that arrives is decided before the next pod: those that run first."""

    def _play(self, events: Sequence[Event]) -> None:
        pods = [each for each in events if isinstance(each, PodAdded)]
        for each in (
            *[each for each in events if not isinstance(each, PodAdded)],
            *sorted(pods, key=lambda added: added.pod.node_name is None),
        ):
            super()._play([each])
        super()._play([])


class _Idle(World):
    """A world in which no decision is made."""

    def decide(self) -> list[str]:
        return []


Spelling = Callable[[Tree], Spelled | None]


_SPELLED: Final = [
    pytest.param(case, spelling, id=f"{case['id']}-{spelling.__name__}")
    for case in CASES
    for spelling in (families, roles)
    if spelling is families or any(map(roles, case["gangs"]))
]
"""Each case as a family, and as roles if they can say it."""


def _play(kind: type[World], case: Case, preset: Any, spelling: Spelling) -> tuple[list[str], ...]:
    """Play a case; return what does not hold of its ``must``, and of its ``peer``."""
    world = kind(case, lambda cluster: preset(cluster, case), spelling)
    steps = [case, *case.get("then", ())]
    must, peer = list[str](), list[str]()
    for number, step in enumerate(steps):
        if number:
            world.step(step)
        must += [f"step {number}: {each}" for each in wrong(world, step.get("must", {}))]
        peer += [f"step {number}: {each}" for each in wrong(world, step.get("peer", {}))]
    return must, peer


@pytest.mark.parametrize("preset", [_gang, _coscheduling, _coscheduling_by_group])
@pytest.mark.parametrize(("case", "spelling"), _SPELLED)
def test_case_ends_as_it_must_and_as_its_own_scheduler_ends_it(
    case: Case, preset: Any, spelling: Spelling
) -> None:
    must, peer = _play(World, case, preset, spelling)
    assert must == []
    assert bool(peer) == (case["id"] in DIFFERENCES), peer


@pytest.mark.parametrize("kind", [_Restored, _Reversed, _OneByOne])
@pytest.mark.parametrize(("case", "spelling"), _SPELLED)
def test_case_ends_as_it_must_when_restored_and_in_another_order(
    case: Case, spelling: Spelling, kind: type[World]
) -> None:
    must, _peer = _play(kind, case, _gang, spelling)
    assert must == []


def test_cases_are_decided() -> None:
    names = {case["id"] for case in CASES if not _play(_Idle, case, _gang, families)[0]}
    assert names == {
        "grove-tas13",
        "k8s-cpg-conflict",
        "k8s-cpg-none",
        "kai-fragmented",
        "kai-min-4-of-4-none",
        "kai-no-domain",
        "kueue-block-5-none",
        "kueue-layers-racks",
        "kueue-layers-rounding",
        "kueue-leader-no-fit",
        "kueue-rack-4-none",
        "kueue-replace-in-slice-none",
        "kueue-slices-1-of-2",
        "volcano-4.3",
        "volcano-9.4",
    }, "each of the others starts something"


@pytest.mark.parametrize(
    "words",
    [
        {"runs": {"g": 3}},
        {"runs": {"g/s1": [5, 8]}},
        {"pending": ["g/s0"]},
        {"same": [["g", "rack"]]},
        {"inside": [["g", "rack", ["z2/rack-1"]]]},
        {"inside": [["g/s1", "rack", ["rack-2"]]]},
        {"uses": [["g", "rack", 1]]},
        {"counts": [["g", "rack", [3, 5]]]},
        {"at": {"e": ["n1"]}},
        {"not_at": {"e": ["n5"]}},
        {"evicted": ["e"]},
        {"evicted_count": 1},
    ],
    ids=lambda words: str(words),
)
def test_words_that_do_not_hold_are_noticed(words: dict[str, Any]) -> None:
    (case,) = (case for case in CASES if case["id"] == "k8s-cpg-3-pinned")
    world = World(case, presets.gang, families)
    assert wrong(world, {"runs": {"g": 8}, "uses": [["g", "rack", 2]], "evicted": []}) == []
    assert len(wrong(world, words)) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"queue": "a"},
        {"within": {"preferred": "rack", "spread": True}},
    ],
)
def test_case_that_cannot_be_spelled_is_refused(more: dict[str, Any]) -> None:
    gang = {"name": "g", "pods": [{"count": 2, "name": "g", "requests": {"cpu": 1}}], **more}
    case: Case = {"id": "x", "levels": ["rack"], "nodes": [], "gangs": [gang]}
    with pytest.raises(ValueError, match=r"^g: "):
        World(case, presets.gang, families)
