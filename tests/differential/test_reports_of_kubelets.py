"""What kubelets report: both schedulers read the same in the status of nodes and running pods."""

from __future__ import annotations

from typing import Final

from hypothesis import given, settings

from differential.draws import scenes
from differential.judge import Judge
from differential.lockstep import compare
from differential.profiles import rank_and
from differential.scene import Scene
from support.examples import PROFILE

_SCENES: Final = {"fast": 8, "ci": 16, "deep": 400}
_FEW: Final = settings(max_examples=_SCENES[PROFILE])


@given(scene=scenes(frozenset({"fit", "resized"})))
@_FEW
def test_resized_pod_takes_what_it_takes_for_kube_scheduler(judge: Judge, scene: Scene) -> None:
    compare(judge, scene, rank_and())


@given(scene=scenes(frozenset({"features"})))
@_FEW
def test_pod_goes_where_its_features_are_declared(judge: Judge, scene: Scene) -> None:
    compare(judge, scene, rank_and())
