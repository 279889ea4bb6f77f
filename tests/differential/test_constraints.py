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
from differential.lockstep import compare
from differential.profiles import rank_and
from differential.scene import Scene
from support.examples import PROFILE

KINDS: Final = ("fit", "node affinity", "node names", "taints", "ports", "pod affinity", "spread")
"""The kinds of constraint that are compared; see ``draws.KINDS``."""

_ALL: Final = frozenset((*KINDS, "volumes"))

_SCENES: Final = {"fast": 8, "ci": 16, "deep": 400}
_FEW: Final = settings(max_examples=_SCENES[PROFILE])


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@_FEW
def test_pod_is_placed_as_by_kube_scheduler(judge: Judge, kind: str, data: st.DataObject) -> None:
    compare(judge, data.draw(scenes(frozenset((kind,)))), rank_and())


@given(scene=scenes(frozenset({"volumes", "node affinity"}), pending=6))
@settings(max_examples=max(_SCENES[PROFILE] // 2, 8))
def test_pod_with_volumes_is_placed_as_by_kube_scheduler(judge: Judge, scene: Scene) -> None:
    compare(judge, scene, rank_and())


@given(scene=scenes(_ALL))
@_FEW
def test_pod_with_every_constraint_is_placed_as_by_kube_scheduler(
    judge: Judge, scene: Scene
) -> None:
    compare(judge, scene, rank_and())
