"""The configuration of kube-scheduler: one profile that filters, and one for each score plugin.

Scores of a plugin are from 0 to 100. Weights of 1 and ``WEIGHT`` make the rank of a node decide
between nodes that the plugin scores alike, so that there is one best node. kube-scheduler knows
the rank as a preference of the profile, which ``NodeAffinity`` adds to those of pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from differential.scene import HIGHEST, RANK

__all__ = ["FILTERS", "SCORES", "WEIGHT", "configuration"]

FILTERS: Final = "judge-filters"
WEIGHT: Final = 1000

_TIES: Final = {"name": "NodeAffinity", "weight": 1}
_BY_RANK: Final = [
    {
        "weight": rank * 100 // HIGHEST,
        "preference": {
            "matchExpressions": [{"key": RANK, "operator": "In", "values": [str(rank)]}]
        },
    }
    for rank in range(1, HIGHEST + 1)
]
_RANKED: Final[Mapping[str, Any]] = {
    "addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": _BY_RANK}
}
SCORES: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "judge-least": ("NodeResourcesFit", {"scoringStrategy": {"type": "LeastAllocated"}}),
    "judge-most": ("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated"}}),
    "judge-balanced": ("NodeResourcesBalancedAllocation", {}),
    "judge-taints": ("TaintToleration", {}),
    "judge-pod-affinity": ("InterPodAffinity", {}),
    "judge-spread": ("PodTopologySpread", {}),
}
"""By name of the profile, the score plugin that it has, and the plugin's arguments."""


def configuration() -> dict[str, Any]:
    """Return the fields of the ``KubeSchedulerConfiguration``."""
    profiles = [_profile(FILTERS, [_TIES], {})]
    for name, (plugin, arguments) in SCORES.items():
        given = {plugin: arguments} if arguments else {}
        profiles.append(_profile(name, [{"name": plugin, "weight": WEIGHT}, _TIES], given))
    return {
        "profiles": profiles,
        # every node is looked at, and none twice for one pod
        "percentageOfNodesToScore": 100,
        "podInitialBackoffSeconds": 600,
        "podMaxBackoffSeconds": 600,
    }


def _profile(
    name: str, scores: list[dict[str, Any]], arguments: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    everything = [{"name": "*"}]
    return {
        "schedulerName": name,
        "plugins": {
            "postFilter": {"disabled": everything},
            "preScore": {"disabled": everything, "enabled": _pre_scores(scores)},
            "score": {"disabled": everything, "enabled": scores},
        },
        "pluginConfig": [
            {"name": plugin, "args": dict(given)}
            for plugin, given in {"NodeAffinity": _RANKED, **arguments}.items()
        ],
    }


def _pre_scores(scores: list[dict[str, Any]]) -> list[dict[str, Any]]:
    prepares = {"NodeResourcesFit", "NodeResourcesBalancedAllocation", "TaintToleration"}
    prepares |= {"NodeAffinity", "InterPodAffinity", "PodTopologySpread"}
    return [{"name": each["name"]} for each in scores if each["name"] in prepares]
