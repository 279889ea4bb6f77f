"""The profiles of both schedulers: one that filters, and one for each score plugin.

Scores of a plugin are from 0 to 100. Weights of 1 and ``WEIGHT`` make the rank of a node decide
between nodes that the plugin scores alike, so that there is one best node. kube-scheduler knows
the rank as a preference of the profile, which ``NodeAffinity`` adds to those of pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from differential.scene import HIGHEST, RANK
from gangsched import Profile
from gangsched.model import Pod
from gangsched.plugins import (
    DefaultBinder,
    InterPodAffinity,
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeName,
    NodePorts,
    NodeResources,
    NodeUnschedulable,
    NodeVolumeLimits,
    PodTopologySpread,
    PrioritySort,
    TaintToleration,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)
from gangsched.protocols import CycleView, NodeView

__all__ = ["FILTERS", "PREEMPTING", "SCORES", "WEIGHT", "Rank", "configuration", "rank_and"]

FILTERS: Final = "judge-filters"
PREEMPTING: Final = "judge-preempting"
WEIGHT: Final = 1000

_TIES: Final = {"name": "NodeAffinity", "weight": 1}
_TIES_BY_TAINTS: Final = {"name": "TaintToleration", "weight": 1}
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
    "judge-ratio": (
        "NodeResourcesFit",
        {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": [
                    {"name": "cpu", "weight": 3},
                    {"name": "nvidia.com/gpu", "weight": 1},
                ],
                "requestedToCapacityRatio": {
                    "shape": [
                        {"utilization": 0, "score": 0},
                        {"utilization": 40, "score": 7},
                        {"utilization": 100, "score": 10},
                    ]
                },
            }
        },
    ),
    "judge-balanced": ("NodeResourcesBalancedAllocation", {}),
    "judge-node-affinity": ("NodeAffinity", {}),
    "judge-images": ("ImageLocality", {}),
    "judge-taints": ("TaintToleration", {}),
    "judge-pod-affinity": ("InterPodAffinity", {}),
    "judge-spread": ("PodTopologySpread", {}),
    "judge-spread-list": (
        "PodTopologySpread",
        {
            "defaultingType": "List",
            "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway"}
                for key in ("topology.kubernetes.io/zone", "rack")
            ],
        },
    ),
}
"""By name of the profile, the score plugin that it has, and the plugin's arguments."""


@frozen
class Rank:
    """Score a node by its rank; see ``scene``."""

    @property
    def name(self) -> str:
        """``Rank``."""
        return "Rank"

    def pod_signature(self, pod: Pod) -> None:
        """Return a constant: the plugin reads nothing of a pod."""
        return

    def node_signature(self, node: NodeView) -> str:
        """Return the rank."""
        return node.node.labels.get(RANK, "0")

    def score(self, state: CycleView, pod: Pod, node: NodeView) -> int:
        """Return the rank."""
        return int(node.node.labels.get(RANK, "0"))


@frozen
class _FilterOnly:
    """A plugin without its score."""

    plugin: Any

    def __getattr__(self, name: str) -> Any:
        if name in ("score", "pre_score", "normalize_score"):
            raise AttributeError(name)
        return getattr(self.plugin, name)


def rank_and(scoring: Any = None, weight: int = 1) -> Profile:
    """Return a profile with every filter, and with the scores of *scoring* and of the rank."""
    filters: list[Any] = [
        NodeUnschedulable(),
        NodeName(),
        TaintToleration(),
        NodeAffinity(),
        NodePorts(),
        NodeResources(),
        VolumeRestrictions(),
        NodeVolumeLimits(),
        VolumeBinding(),
        VolumeZone(),
        PodTopologySpread(),
        InterPodAffinity(),
        NodeDeclaredFeatures(),
    ]
    # kube-scheduler reports the first filter that refuses a node, so the order matters
    plugins = [
        scoring if scoring is not None and scoring.name == each.name else _FilterOnly(each)
        for each in filters
    ]
    if scoring is not None and scoring not in plugins:
        plugins.append(scoring)
    weights = {scoring.name: weight} if scoring is not None else {}
    return Profile(PrioritySort(), *plugins, Rank(), DefaultBinder(), weights=weights)


def configuration() -> dict[str, Any]:
    """Return the fields of the ``KubeSchedulerConfiguration``."""
    profiles = [
        _profile(FILTERS, [_TIES], {"NodeAffinity": _RANKED}),
        _profile(PREEMPTING, [_TIES], {"NodeAffinity": _RANKED}, preempts=True),
    ]
    for name, (plugin, arguments) in SCORES.items():
        # the plugin that breaks ties cannot be the one that is compared
        is_ours = plugin == _TIES["name"]
        scores = [{"name": plugin, "weight": WEIGHT}, _TIES_BY_TAINTS if is_ours else _TIES]
        given = {} if is_ours else {"NodeAffinity": _RANKED}
        profiles.append(_profile(name, scores, {**given, plugin: arguments}))
    return {
        "profiles": profiles,
        # every node is looked at, and none twice for one pod
        "percentageOfNodesToScore": 100,
        "podInitialBackoffSeconds": 600,
        "podMaxBackoffSeconds": 600,
    }


def _profile(
    name: str,
    scores: list[dict[str, Any]],
    arguments: Mapping[str, Mapping[str, Any]],
    *,
    preempts: bool = False,
) -> dict[str, Any]:
    everything = [{"name": "*"}]
    none: list[dict[str, str]] = []
    return {
        "schedulerName": name,
        "plugins": {
            "postFilter": {"disabled": none if preempts else everything},
            "preScore": {"disabled": everything, "enabled": _pre_scores(scores)},
            "score": {"disabled": everything, "enabled": scores},
        },
        "pluginConfig": [
            {"name": plugin, "args": dict(given)} for plugin, given in arguments.items() if given
        ],
    }


def _pre_scores(scores: list[dict[str, Any]]) -> list[dict[str, Any]]:
    prepares = {"NodeResourcesFit", "NodeResourcesBalancedAllocation", "TaintToleration"}
    prepares |= {"NodeAffinity", "InterPodAffinity", "PodTopologySpread"}
    return [{"name": each["name"]} for each in scores if each["name"] in prepares]
