"""Where a pod may go: our scheduler and kube-scheduler decide the same, for the same reasons.

Both prefer nodes in one strict order, so an equal decision shows more than a node in common: every
node before the chosen one is infeasible for both.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from differential.draws import scenes
from differential.judge import Judge
from differential.lockstep import Lockstep, Rank
from differential.profiles import FILTERS, configuration
from differential.scene import Scene
from gangsched import Profile
from gangsched.plugins import (
    DefaultBinder,
    NodeAffinity,
    NodeResources,
    NodeUnschedulable,
    PrioritySort,
    TaintToleration,
)
from support.control_plane import ControlPlane

_WEIGHT = 1_000_000


@pytest.fixture(scope="module")
def judge(control_plane: ControlPlane) -> Iterator[Judge]:
    """kube-scheduler, which was started for this file."""
    scheduler = control_plane.start_scheduler(configuration(), features={})
    yield Judge(control_plane.admin, FILTERS)
    scheduler.stop()


def profile() -> Profile:
    """Return all filters, and the rank as the score that decides."""
    return Profile(
        PrioritySort(),
        NodeUnschedulable(),
        TaintToleration(),
        NodeAffinity(),
        NodeResources(),
        Rank(),
        DefaultBinder(),
        weights={"Rank": _WEIGHT},
    )


def compare(judge: Judge, scene: Scene) -> None:
    """Check that both decide alike about each pending pod."""
    ours = Lockstep(profile())
    nodes, running = judge.stage(scene)
    for given_object in (*nodes, *running):
        ours.tell("ADDED", given_object)
    for pod in scene.pending:
        stored = judge.create(pod)
        expected = judge.verdict(stored)
        assert ours.verdict(stored) == expected, f"about pod {pod['metadata']['name']}"
        ours.follow(stored, expected)


KINDS = ("fit", "node affinity", "taints")


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_pods_are_placed_as_kube_scheduler_places_them(
    judge: Judge, kind: str, data: st.DataObject
) -> None:
    compare(judge, data.draw(scenes(frozenset((kind,)))))


@given(scenes(frozenset(KINDS)))
def test_pods_with_every_constraint_are_placed_as_kube_scheduler_places_them(
    judge: Judge, scene: Scene
) -> None:
    compare(judge, scene)
