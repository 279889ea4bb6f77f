"""What-if and smallest changes among every constraint come true when the change is made.

Members have affinity and anti-affinity, spread constraints, host ports, disks and claims; see
``support.gang_and_events``. The change is made for a scheduler with the same history.
"""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import event as note_event
from hypothesis import given
from hypothesis import strategies as st

from gangsched import Node, NodeAdded, NodeName, Sufficient
from support.constrained_worlds import small_nodes
from support.examples import one_in
from support.gang_and_events import Gang, gangs_and_events, roomy_nodes
from support.gang_runs import KEY, LATER, PREEMPTING, PRESETS, Make, Run
from support.questions import PerformedEffects, explanations

pytestmark = pytest.mark.once("is about whole gangs")

MAKES: dict[str, Make] = {**PRESETS, "preempting": PREEMPTING}
NAMES = st.sampled_from(sorted(MAKES))
MOST = 3


def _begun(gang: Gang, name: str) -> PerformedEffects:
    """Return a scheduler after the first attempt of a gang, with a driver."""
    high = tuple(evolve(pod, priority=9) for pod in gang.members)
    run = Run(evolve(gang, members=high), MAKES[name], restores=False)
    run.begin()
    return PerformedEffects(run.cluster, run.scheduler, 1.0)


@given(gangs_and_events(), NAMES, st.sampled_from([1.0, LATER]))
def test_forecast_among_every_constraint_comes_true(gang: Gang, name: str, until: float) -> None:
    told = _begun(gang, name).scheduler.what_if(*gang.changes, now=1.0, until=until)
    really = _begun(gang, name)
    for change in gang.changes:
        really.tell(change)
    really.run(until)
    note_event(f"effects: {min(len(really.timed), 4)}")
    assert list(told.timed) == really.timed
    assert dict(told.why) == explanations(really.scheduler)


@one_in(4)
@given(gangs_and_events(), NAMES, small_nodes() | roomy_nodes())
def test_smallest_change_among_every_constraint_is_the_least_that_starts_the_gang(
    gang: Gang, name: str, shapes: tuple[Node, ...]
) -> None:
    shape = evolve(shapes[0], name=NodeName("more"))
    scheduler = _begun(gang, name).scheduler
    found: Any = scheduler.smallest_change(KEY, shape, most=MOST, now=1.0, until=LATER)
    least = next((n for n in range(MOST + 1) if _starts(gang, name, shape, n)), None)
    note_event(f"nodes: {least}")
    assert (found.nodes if isinstance(found, Sufficient) else None) == least


def _starts(gang: Gang, name: str, shape: Node, number: int) -> bool:
    """Return whether the gang starts when so many nodes are really added."""
    really = _begun(gang, name)
    for n in range(number):
        really.tell(NodeAdded(evolve(shape, name=NodeName(f"more-{n}"))))
    really.run(LATER)
    group = really.scheduler.registry.get(KEY)
    return group is not None and group.was_scheduled
