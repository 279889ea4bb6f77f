"""The status of a pod group: one phase for every case, from the members."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched.errors import InvalidValueError
from gangsched.membership import ungrouped
from gangsched.model import Pod, PodGroup, PodPhase
from gangsched.status import PodGroupPhase, PodGroupStatus, pod_group_status

PENDING, RUNNING, SUCCEEDED, FAILED = (
    PodPhase.PENDING,
    PodPhase.RUNNING,
    PodPhase.SUCCEEDED,
    PodPhase.FAILED,
)
KEY = "scheduling.x-k8s.io/pod-group"


def gang(minimum: int = 3, **fields: Any) -> PodGroup:
    return PodGroup(name="g", namespace="ns", min_available=minimum, **fields)


def members(*phases: PodPhase, group: str = "g", namespace: str = "ns", **fields: Any) -> list[Pod]:
    return [
        Pod(name=f"m{n}", namespace=namespace, labels={KEY: group}, phase=phase, **fields)
        for n, phase in enumerate(phases)
    ]


def phase_of(*phases: PodPhase, before: PodGroupPhase = PodGroupPhase.SCHEDULING) -> PodGroupPhase:
    known = PodGroupStatus(phase=before)
    return pod_group_status(gang(), members(*phases), before=known).phase


def test_group_without_members_is_pending() -> None:
    """F50, F51."""
    assert pod_group_status(gang(), []) == PodGroupStatus()
    assert PodGroupStatus() == PodGroupStatus(
        phase="Pending", occupied_by="", running=0, succeeded=0, failed=0
    )


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ((RUNNING, RUNNING), PodGroupPhase.PENDING),
        ((PENDING, PENDING, PENDING), PodGroupPhase.SCHEDULING),
        ((RUNNING, RUNNING, PENDING), PodGroupPhase.SCHEDULING),
        ((RUNNING, RUNNING, PodPhase.UNKNOWN), PodGroupPhase.SCHEDULING),
        ((RUNNING, RUNNING, RUNNING), PodGroupPhase.RUNNING),
        ((RUNNING, SUCCEEDED, SUCCEEDED, PENDING), PodGroupPhase.RUNNING),
        ((SUCCEEDED, SUCCEEDED, SUCCEEDED), PodGroupPhase.FINISHED),
        ((SUCCEEDED, SUCCEEDED, SUCCEEDED, RUNNING, FAILED), PodGroupPhase.FINISHED),
        ((RUNNING, RUNNING, FAILED), PodGroupPhase.FAILED),
        ((SUCCEEDED, SUCCEEDED, FAILED), PodGroupPhase.FAILED),
        ((FAILED, PENDING, PENDING), PodGroupPhase.SCHEDULING),
        ((FAILED, RUNNING, PENDING, PENDING), PodGroupPhase.SCHEDULING),
        ((FAILED, FAILED), PodGroupPhase.PENDING),
    ],
)
@pytest.mark.parametrize(
    "before", [PodGroupPhase.PENDING, PodGroupPhase.SCHEDULING, PodGroupPhase.RUNNING]
)
def test_phase_follows_from_the_members(
    before: PodGroupPhase, phases: tuple[PodPhase, ...], expected: PodGroupPhase
) -> None:
    """F48: counts do not accumulate; the phase follows from the current members."""
    assert phase_of(*phases, before=before) is expected


def test_failed_elastic_member_does_not_fail_its_group() -> None:
    """F49."""
    assert phase_of(RUNNING, RUNNING, RUNNING, FAILED) is PodGroupPhase.RUNNING
    assert phase_of(RUNNING, RUNNING, SUCCEEDED, FAILED) is PodGroupPhase.RUNNING


@pytest.mark.parametrize(
    ("phases", "expected"),
    [
        ((), PodGroupPhase.FAILED),
        ((RUNNING, RUNNING), PodGroupPhase.FAILED),
        ((RUNNING, RUNNING, PENDING), PodGroupPhase.FAILED),
        ((RUNNING, RUNNING, FAILED), PodGroupPhase.FAILED),
        ((RUNNING, RUNNING, RUNNING), PodGroupPhase.RUNNING),
        ((RUNNING, RUNNING, FAILED, RUNNING), PodGroupPhase.RUNNING),
        ((SUCCEEDED, SUCCEEDED, SUCCEEDED), PodGroupPhase.FINISHED),
    ],
)
def test_failed_group_recovers_only_with_a_quorum(
    phases: tuple[PodPhase, ...], expected: PodGroupPhase
) -> None:
    assert phase_of(*phases, before=PodGroupPhase.FAILED) is expected


@pytest.mark.parametrize("phases", [(), (RUNNING,), (FAILED, FAILED, FAILED), (PENDING,) * 4])
def test_finished_group_keeps_phase_and_counts(phases: tuple[PodPhase, ...]) -> None:
    """F50: its pods may be deleted or recreated."""
    before = PodGroupStatus(phase="Finished", occupied_by="ns/job", succeeded=3, failed=1)
    assert pod_group_status(gang(), members(*phases), before=before) == before


@pytest.mark.parametrize(
    ("before", "after"), [("Scheduling", "Pending"), ("Running", "Pending"), ("Failed", "Failed")]
)
def test_group_that_lost_all_members_is_pending_unless_failed(before: str, after: str) -> None:
    """F50."""
    known = PodGroupStatus(phase=before, running=2, succeeded=1, failed=1)
    assert pod_group_status(gang(), [], before=known) == PodGroupStatus(phase=after)


# Whose members --------------------------------------------------------------------------------


def test_members_of_another_namespace_do_not_count() -> None:
    """F52."""
    pods = members(RUNNING, RUNNING) + members(RUNNING, FAILED, namespace="other")
    assert pod_group_status(gang(), pods) == PodGroupStatus(phase="Pending", running=2)


def test_pods_count_by_their_claim_in_any_spelling() -> None:
    malformed = {"pod-group/name": "g", "pod-group/min-available": "two"}
    pods = [
        Pod(name="a", namespace="ns", pod_group="g", phase="Running"),
        Pod(name="b", namespace="ns", labels={"pod-group/name": "g"}, phase="Running"),
        *members(RUNNING),
        *members(RUNNING, group="h"),
        Pod(name="regular", namespace="ns", phase="Running"),
        Pod(name="bad", namespace="ns", labels=malformed, phase="Running"),
    ]
    assert pod_group_status(gang(), pods).running == 3
    assert pod_group_status(gang(), pods, membership=ungrouped) == PodGroupStatus()


def test_phase_follows_a_changed_specification() -> None:
    """F22."""
    pods = members(RUNNING, RUNNING)
    assert pod_group_status(gang(2), pods).phase is PodGroupPhase.RUNNING
    assert pod_group_status(gang(3), pods).phase is PodGroupPhase.PENDING


# Owners ---------------------------------------------------------------------------------------


def test_occupied_by_is_the_owners_of_the_first_member() -> None:
    first, second = members(PENDING, PENDING)
    pods = [evolve(first, owners=("beta", "alpha")), evolve(second, owners=("gamma",))]
    assert pod_group_status(gang(), pods).occupied_by == "ns/alpha,ns/beta"
    before = PodGroupStatus(occupied_by="ns/job")
    assert pod_group_status(gang(), [second], before=before).occupied_by == ""


def test_owners_are_kept_without_members() -> None:
    """F50."""
    before = PodGroupStatus(occupied_by="ns/job", phase="Running", running=3)
    after = pod_group_status(gang(), [], before=before)
    assert after == PodGroupStatus(occupied_by="ns/job")


# As a value -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "bad"),
    [("phase", "Unknown"), ("occupied_by", None), ("running", -1), ("failed", True)],
)
def test_invalid_status_is_refused(field: str, bad: object) -> None:
    values: dict[str, Any] = {field: bad}
    with pytest.raises(InvalidValueError) as caught:
        PodGroupStatus(**values)
    assert (caught.value.field, caught.value.value) == (field, bad)


PODS = st.lists(
    st.builds(
        lambda group, namespace, phase, owners: members(
            phase, group=group, namespace=namespace, owners=owners
        )[0],
        st.sampled_from("gh"),
        st.sampled_from(["ns", "other"]),
        st.sampled_from(PodPhase),
        st.lists(st.sampled_from("ab"), max_size=2),
    ),
    max_size=8,
)
BEFORE = st.none() | st.builds(
    PodGroupStatus,
    phase=st.sampled_from(PodGroupPhase),
    occupied_by=st.sampled_from(["", "ns/z"]),
    running=st.integers(0, 4),
)


@given(st.integers(1, 4), PODS, BEFORE)
def test_status_is_a_pure_total_idempotent_function(
    minimum: int, pods: list[Pod], before: PodGroupStatus | None
) -> None:
    """F48, F49, F52."""
    group, given_ = gang(minimum), copy.copy(pods)
    status = pod_group_status(group, pods, before=before)
    own = [pod for pod in pods if (pod.namespace, pod.labels[KEY]) == ("ns", "g")]

    assert pods == given_
    assert pod_group_status(group, iter(pods), before=before) == status
    assert pod_group_status(group, own, before=before) == status
    assert pod_group_status(group, pods, before=status) == status
    if before is not None and before.phase is PodGroupPhase.FINISHED:
        assert status == before
    else:
        counted = (status.running, status.succeeded, status.failed)
        assert counted == tuple(
            sum(pod.phase is phase for pod in own) for phase in (RUNNING, SUCCEEDED, FAILED)
        )


@given(st.integers(1, 4), PODS, st.sampled_from(["Pending", "Scheduling", "Running"]))
def test_phase_matches_its_definition(minimum: int, pods: list[Pod], before: str) -> None:
    status = pod_group_status(gang(minimum), pods, before=PodGroupStatus(phase=before))
    own = sum((pod.namespace, pod.labels[KEY]) == ("ns", "g") for pod in pods)
    well = status.running + status.succeeded
    holds = {
        PodGroupPhase.PENDING: own < minimum,
        PodGroupPhase.SCHEDULING: well + status.failed < minimum <= own,
        PodGroupPhase.RUNNING: status.succeeded < minimum <= well,
        PodGroupPhase.FINISHED: status.succeeded >= minimum,
        PodGroupPhase.FAILED: well < minimum <= well + status.failed,
    }
    assert [phase for phase, is_so in holds.items() if is_so] == [status.phase]
