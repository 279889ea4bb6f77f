"""Which node is best: each score plugin alone chooses the node that kube-scheduler chooses.

The plugin has a weight of 1000 and the rank of a node 1, on both sides. So the chosen node is one
of the best by the plugin, and of these the one with the highest rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from differential.draws import scenes
from differential.judge import Judge
from differential.lockstep import compare
from differential.profiles import WEIGHT, rank_and
from gangsched.plugins import NodeResources, Strategy, TaintToleration

SCORES: Final[Mapping[str, tuple[object, frozenset[str]]]] = {
    "judge-least": (NodeResources(Strategy.LEAST_ALLOCATED), frozenset({"fit"})),
    "judge-most": (NodeResources(Strategy.MOST_ALLOCATED), frozenset({"fit"})),
    "judge-taints": (TaintToleration(), frozenset({"taints"})),
}
"""By the name of kube-scheduler's profile, our plugin, and the constraints that matter for it."""

_SCENES: Final = {"fast": 6, "ci": 10, "deep": 60}


@pytest.mark.parametrize("name", SCORES)
@given(data=st.data())
@settings(max_examples=_SCENES[settings.get_current_profile_name()])
def test_best_node_is_that_of_kube_scheduler(judge: Judge, name: str, data: st.DataObject) -> None:
    plugin, kinds = SCORES[name]
    compare(judge, data.draw(scenes(kinds)), rank_and(plugin, WEIGHT), scheduler_name=name)
