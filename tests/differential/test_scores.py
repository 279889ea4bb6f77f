"""Which node is best: each score plugin alone chooses the node that kube-scheduler chooses.

The plugin has a weight of 1000 and the rank of a node 1, on both sides. So the chosen node is one
of the best by the plugin, and of these the one with the highest rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from differential.draws import scenes
from differential.judge import Judge
from differential.lockstep import compare
from differential.profiles import WEIGHT, rank_and
from differential.scene import repelling_by_rank
from gangsched.plugins import (
    CountingTaintToleration,
    ImageLocality,
    NodeResourcesBalancedAllocation,
    NodeResourcesFit,
    PreferredInterPodAffinity,
    PreferredNodeAffinity,
    ScoringPodTopologySpread,
    ScoringStrategy,
)
from support.examples import PROFILE

_REQUESTS: Final = frozenset({"fit", "spacious"})
SCORES: Final[Mapping[str, tuple[Any, frozenset[str]]]] = {
    "judge-least": (NodeResourcesFit(), _REQUESTS),
    "judge-most": (
        NodeResourcesFit(scoring_strategy=ScoringStrategy.MOST_ALLOCATED),
        _REQUESTS,
    ),
    "judge-ratio": (
        NodeResourcesFit(
            scoring_strategy=ScoringStrategy.REQUESTED_TO_CAPACITY_RATIO,
            resources={"cpu": 3, "nvidia.com/gpu": 1},
            shape=((0, 0), (40, 7), (100, 10)),
        ),
        _REQUESTS,
    ),
    "judge-balanced": (NodeResourcesBalancedAllocation(), _REQUESTS),
    "judge-taints": (CountingTaintToleration(), frozenset({"taints"})),
    "judge-node-affinity": (PreferredNodeAffinity(), frozenset({"preferred nodes"})),
    "judge-pod-affinity": (PreferredInterPodAffinity(), frozenset({"pod affinity"})),
    "judge-spread": (ScoringPodTopologySpread(), frozenset({"spread", "node affinity"})),
    "judge-images": (ImageLocality(), frozenset({"images"})),
}
"""By the name of kube-scheduler's profile, our plugin, and the constraints that matter for it."""

_SCENES: Final = {"fast": 6, "ci": 10, "deep": 60}


@pytest.mark.parametrize("name", SCORES)
@given(data=st.data())
@settings(max_examples=_SCENES[PROFILE])
def test_best_node_is_that_of_kube_scheduler(judge: Judge, name: str, data: st.DataObject) -> None:
    plugin, kinds = SCORES[name]
    scene = data.draw(scenes(kinds))
    if plugin.name == "NodeAffinity":
        scene = repelling_by_rank(scene)
    compare(judge, scene, rank_and(plugin, WEIGHT), scheduler_name=name)
