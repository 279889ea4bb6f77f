"""Whole gangs with constraints among members and volumes, before and after the cluster changes.

The oracle tries every order of the members on every node; see ``support.gang_and_events``.
"""

from __future__ import annotations

import pytest
from hypothesis import event as note_event
from hypothesis import given
from hypothesis import strategies as st

from gangsched import NodeName
from gangsched.model import PodUID
from support.examples import one_in
from support.gang_and_events import Gang, gangs_and_events
from support.gang_runs import PRESETS, Run

pytestmark = pytest.mark.once("is about whole gangs")


@given(gang=gangs_and_events(), preset=st.sampled_from(sorted(PRESETS)))
def test_gang_starts_exactly_when_some_order_of_its_members_can_be_placed(
    gang: Gang, preset: str
) -> None:
    found = Run(gang, PRESETS[preset], restores=False).play()
    _holds(gang, found.first, undecided=found.undecided[0])
    if found.first:
        note_event("started at once")
        return
    later = gang.after()
    note_event("started after a change" if found.second else "never started")
    _holds(later, found.second, undecided=found.undecided[1])


def _holds(gang: Gang, bound: dict[PodUID, NodeName], *, undecided: bool) -> None:
    if not bound:
        assert undecided or not gang.can_start(), "the gang could start"
        return
    nodes = {node.name: node for node in gang.nodes}
    placed = tuple((pod, nodes[bound[pod.uid]]) for pod in gang.members if pod.uid in bound)
    assert len(placed) >= gang.minimum
    assert gang.holds(placed), f"no order of the members leads to {bound}"


@one_in(2)
@given(gang=gangs_and_events(), preset=st.sampled_from(sorted(PRESETS)))
def test_restored_scheduler_places_the_members_alike(gang: Gang, preset: str) -> None:
    whole = Run(gang, PRESETS[preset], restores=False).play()
    assert Run(gang, PRESETS[preset], restores=True).play() == whole
