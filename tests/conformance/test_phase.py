"""Rows 81 to 98: the phase of a group, and what is counted of its members."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from attrs import evolve

from gangsched import Pod, PodGroup, PodGroupPhase, PodGroupStatus, PodPhase, pod_group_status
from support.conformance import gang, row, rows, worker

P, R, S, F = PodPhase.PENDING, PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED


pytestmark = pytest.mark.once("makes no scheduler that decides")


def crowd(*phases: PodPhase, group: str | None = "holly", **fields: Any) -> list[Pod]:
    """Return members in these phases."""
    return [
        worker(f"holly-{number}", group, phase=phase, **fields)
        for number, phase in enumerate(phases)
    ]


def status(
    group: PodGroup, pods: list[Pod], before: str | PodGroupStatus = "Pending"
) -> PodGroupStatus:
    """Return the status after *before*."""
    if isinstance(before, str):
        before = PodGroupStatus(phase=PodGroupPhase(before))
    return pod_group_status(group, pods, before=before)


@pytest.mark.parametrize(
    ("before", "phases", "minimum", "after"),
    [
        row(81, "Scheduling", [R] * 3, 3, "Running"),
        # all five of them, not only the first ones
        row(82, "Scheduling", [R] * 5, 2, "Running"),
        row(83, "Scheduling", [F] * 3, 3, "Failed"),
        row(84, "Scheduling", [S] * 3, 3, "Finished"),
        row(85, "Pending", [P] * 3, 3, "Scheduling"),
        row(87, "Pending", [R] * 2, 4, "Pending"),
        row(90, "Pending", [P] * 2, 4, "Pending"),
        row(91, "Running", [R] * 3, 5, "Pending"),
    ],
)
def test_group_goes_from_one_phase_to_another(
    before: str, phases: list[PodPhase], minimum: int, after: str
) -> None:
    """Rows 81 to 91; every member is counted."""
    found = status(gang("holly", minimum), crowd(*phases), before)
    counted = Counter(phases)
    assert found == PodGroupStatus(
        phase=after, running=counted[R], succeeded=counted[S], failed=counted[F]
    )


@rows(86)
def test_group_whose_members_succeed_while_it_is_scheduling_finishes() -> None:
    group = gang("holly", 3)
    scheduling = status(group, crowd(P, P, P))
    assert scheduling.phase is PodGroupPhase.SCHEDULING
    assert status(group, crowd(S, S, S), scheduling).phase is PodGroupPhase.FINISHED


@rows(88)
def test_group_finishes_through_scheduling_when_members_succeed_one_by_one() -> None:
    group, seen, known = gang("holly", 2), list[PodGroupPhase](), PodGroupStatus()
    for phases in ([P, P], [S, P], [S, S]):
        known = status(group, crowd(*phases), known)
        seen.append(known.phase)
    assert seen == [
        PodGroupPhase.SCHEDULING,
        PodGroupPhase.SCHEDULING,
        PodGroupPhase.FINISHED,
    ]


@rows(89, ours=True)
def test_group_does_not_grow_too_old_to_be_scheduled() -> None:
    hour = 3600.0
    young = gang("holly", 2, created_at=72 * hour)
    old = evolve(young, created_at=0.0)
    pods = crowd(P, P, created_at=72 * hour)
    assert status(old, pods) == status(young, pods)
    assert status(old, pods).phase is PodGroupPhase.SCHEDULING


@pytest.mark.parametrize(
    ("owners", "occupied_by"),
    [
        row(92, ["forge"], "lab/forge"),
        row(93, ["press", "forge"], "lab/forge,lab/press"),
    ],
)
def test_group_states_its_owners(owners: list[str], occupied_by: str) -> None:
    """Rows 92 and 93."""
    found = status(gang("holly", 2), crowd(P, P, owners=owners))
    assert found == PodGroupStatus(phase="Scheduling", occupied_by=occupied_by)


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [
        row(94, [P] * 4, [R] * 4, PodGroupStatus(phase="Running", running=4)),
        row(95, [R] * 4, [S] * 4, PodGroupStatus(phase="Finished", succeeded=4)),
        row(96, [R] * 4, [R, R, S, R], PodGroupStatus(phase="Running", running=3, succeeded=1)),
        row(97, [R] * 4, [R, R, F, R], PodGroupStatus(phase="Failed", running=3, failed=1)),
    ],
)
def test_bound_members_change_and_their_group_with_them(
    earlier: list[PodPhase], later: list[PodPhase], expected: PodGroupStatus
) -> None:
    """Rows 94 to 97, F48."""
    group = gang("holly", 4)
    before = status(group, crowd(*earlier, node_name="n1"))
    assert before.phase is (PodGroupPhase.SCHEDULING if P in earlier else PodGroupPhase.RUNNING)
    assert status(group, crowd(*later, node_name="n1"), before) == expected


@rows(98)
def test_pods_that_claim_no_group_change_none() -> None:
    assert status(gang("holly", 3), crowd(R, R, R, group=None)) == PodGroupStatus()
