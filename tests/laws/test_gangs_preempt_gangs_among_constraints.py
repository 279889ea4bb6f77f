"""A gang preempts pods and gangs among every constraint, against every allowed set of victims.

See ``support.preempting_gangs``. Members and running pods have affinity and anti-affinity in both
directions, spread constraints, host ports, node affinity and taints, in two namespaces.
"""

from __future__ import annotations

import pytest
from hypothesis import event as note_event
from hypothesis import given
from hypothesis import strategies as st

from gangsched import LabelSelector
from gangsched.cluster_objects import PodDisruptionBudget
from support.constrained_worlds import NAMESPACES
from support.examples import one_in
from support.preempting_gangs import HIGH, PRESETS, Case, Outcome, cases, play

pytestmark = pytest.mark.once("is about whole gangs")

BUDGETS = [
    PodDisruptionBudget(
        name="b",
        namespace=name,
        selector=LabelSelector({"app": "x"}),
        disruptions_allowed=0,
    )
    for name in NAMESPACES
]
"""Budgets that allow no eviction of some pods, in each namespace."""
BY_PRESET = st.sampled_from(sorted(PRESETS))


@given(cases(), BY_PRESET)
def test_gang_starts_after_its_victims_have_left_and_none_can_be_spared(
    case: Case, preset: str
) -> None:
    """Or nothing is evicted; and victims are found if any allowed set of victims helps."""
    found = play(case, preset)
    note_event(f"victims: {min(len(found.evicted), 3)}, starts: {bool(found.bound)}")
    victims_are_allowed(case, found)
    none_can_be_spared(case, found)
    victims_are_found(case, found)


def victims_are_allowed(case: Case, found: Outcome) -> None:
    assert found.nominations <= 1, "it preempted again"
    assert not found.evicted or found.bound, "pods were evicted, and the gang did not start"
    assert found.evicted in set(case.allowed())
    if found.bound:
        assert found.bound.keys() == {pod.uid for pod in case.gang}
        assert case.holds(found.evicted, found.bound)


def none_can_be_spared(case: Case, found: Outcome) -> None:
    if case.fits(()):
        assert found.evicted == frozenset()
        assert found.bound
    for each in case.running if not found.is_exhausted else ():
        if found.evicted & each.uids:
            assert not case.fits(found.evicted - each.uids), each.uids


def victims_are_found(case: Case, found: Outcome) -> None:
    """Affinity is left out: as in kube-scheduler, a companion may be among the lower pods."""
    if any(pod.pod_affinity for pod in case.gang):
        return
    helps = any(case.fits(gone) for gone in case.allowed())
    note_event(f"can be helped: {helps}")
    assert bool(found.bound) == helps or found.is_exhausted
    if found.evicted and not found.is_exhausted:
        priorities = {uid: each.priority for each in case.running for uid in each.uids}
        highest = max(priorities[uid] for uid in found.evicted)
        lower = {each for each in priorities.values() if each < min(highest, HIGH)}
        assert not any(case.fits(case.lower(priority)) for priority in lower)


@one_in(2)
@given(cases(), BY_PRESET)
def test_gang_violates_a_budget_only_where_no_other_victims_are_enough(
    case: Case, preset: str
) -> None:
    no_budget_is_violated_in_vain(case, play(case, preset, *BUDGETS))


def no_budget_is_violated_in_vain(case: Case, found: Outcome) -> None:
    if any(pod.pod_affinity for pod in case.gang) or found.is_exhausted:
        return
    held = {
        pod.uid for each in case.running for pod, _node in each.pods if pod.labels.get("app") == "x"
    }
    if any(case.fits(gone) for gone in case.allowed() if not gone & held):
        assert found.bound
        assert not found.evicted & held
