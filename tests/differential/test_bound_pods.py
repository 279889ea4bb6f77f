"""Pods that are created on a node: no scheduler places them, and both count them alike.

They arrive between pods that are decided about. They need not fit: the node may have no room for
them, refuse them for a constraint, or not exist.
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

KINDS: Final = ("fit", "ports", "pod affinity", "spread")
"""The kinds of constraint for which pods on nodes matter."""

_SCENES: Final = {"fast": 6, "ci": 12, "deep": 400}
_FEW: Final = settings(max_examples=_SCENES[PROFILE])


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@_FEW
def test_pod_beside_pods_that_name_their_node_is_placed_as_by_kube_scheduler(
    judge: Judge, kind: str, data: st.DataObject
) -> None:
    compare(judge, data.draw(scenes(frozenset((kind,)), rivals=True)), rank_and())


@given(scene=scenes(frozenset((*KINDS, "volumes", "node affinity", "taints")), rivals=True))
@_FEW
def test_pod_with_every_constraint_beside_pods_that_name_their_node_is_placed_alike(
    judge: Judge, scene: Scene
) -> None:
    compare(judge, scene, rank_and())
