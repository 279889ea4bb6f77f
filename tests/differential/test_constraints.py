"""Where a pod may go: our scheduler and kube-scheduler decide the same, for the same reasons.

Both prefer nodes in one strict order, so an equal decision shows more than a node in common: every
node before the chosen one is infeasible for both.
"""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from differential.draws import scenes
from differential.judge import Judge
from differential.lockstep import Lockstep, Rank
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

KINDS: Final = ("fit", "node affinity", "taints")
"""The kinds of constraint that are compared; see ``draws.KINDS``."""

_SCENES: Final = {"fast": 8, "ci": 16, "deep": 400}
_FEW: Final = settings(max_examples=_SCENES[settings.get_current_profile_name()])
_OUTWEIGHS: Final = 1_000_000


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
        weights={"Rank": _OUTWEIGHS},
    )


def compare(judge: Judge, scene: Scene) -> None:
    """Check that both decide alike about each pending pod."""
    ours = Lockstep(profile())
    nodes, running = judge.stage(scene)
    for stored in (*nodes, *running):
        ours.tell("ADDED", stored)
    for pod in scene.pending:
        stored = judge.create(pod)
        expected = judge.verdict(stored)
        assert ours.verdict(stored) == expected, f"about pod {pod['metadata']['name']}"
        ours.follow(stored, expected)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@_FEW
def test_pod_is_placed_as_by_kube_scheduler(judge: Judge, kind: str, data: st.DataObject) -> None:
    compare(judge, data.draw(scenes(frozenset((kind,)))))


@given(scene=scenes(frozenset(KINDS)))
@_FEW
def test_pod_with_every_constraint_is_placed_as_by_kube_scheduler(
    judge: Judge, scene: Scene
) -> None:
    compare(judge, scene)
