"""The ports: what the scheduler asks of a cluster and of a plugin, as protocols.

Rules:
  R1  ``ClusterState`` is read-only and local: it answers from memory and never blocks. It shows a
      change before the scheduler gets the event of that change;
  R2  a plugin is any object with the methods of its extension points: no base class, no
      registration, no handle. A method gets values and ``now``, and returns an outcome;
  R3  the views that a plugin gets are read-only, and valid until the method returns;
  R4  a plugin keeps no state between calls on which an outcome depends, unless it declares it with
      ``KeepsState`` or ``Forkable``.
"""

from __future__ import annotations

from gangsched.protocols._acceptance import (
    ChecksConstraints,
    ClusterHeadroom,
    Fitting,
    Headroom,
    IgnoresPods,
    NamesNodes,
    SkipsPods,
)
from gangsched.protocols._cluster import ClusterState, ObjectsView, ShowsObjects, ShowsServices
from gangsched.protocols._driving import FourCalls, Observer
from gangsched.protocols._gangs import GroupRequests, GroupWide, MinimaFirst, QuorumRule, RoleRule
from gangsched.protocols._groups import EntityView, GroupView, RoleView
from gangsched.protocols._points import (
    BindPlugin,
    ChoosesVolumes,
    FilterPlugin,
    NormalizeScore,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortKey,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from gangsched.protocols._reads import (
    HinderedBy,
    ObjectsRead,
    ObjectsScored,
    PodEnded,
    PodsAffected,
    PodsRead,
    PodsSelected,
    ScoresByPods,
)
from gangsched.protocols._signatures import (
    EvaluatesNodes,
    NodeEvaluator,
    NodeLabelsRead,
    NodeSignature,
    PodSignature,
    SignatureInCycle,
    SignsAllocatable,
    SignsAttributes,
    SignsNodeAlone,
    TopologyKeys,
)
from gangsched.protocols._state import Forkable, KeepsScratch, KeepsState
from gangsched.protocols._views import CycleView, DomainCounts, NodeView, PodCounts, StateKey

__all__ = [
    "BindPlugin",
    "ChecksConstraints",
    "ChoosesVolumes",
    "ClusterHeadroom",
    "ClusterState",
    "CycleView",
    "DomainCounts",
    "EntityView",
    "EvaluatesNodes",
    "FilterPlugin",
    "Fitting",
    "Forkable",
    "FourCalls",
    "GroupRequests",
    "GroupView",
    "GroupWide",
    "Headroom",
    "HinderedBy",
    "IgnoresPods",
    "KeepsScratch",
    "KeepsState",
    "MinimaFirst",
    "NamesNodes",
    "NodeEvaluator",
    "NodeLabelsRead",
    "NodeSignature",
    "NodeView",
    "NormalizeScore",
    "ObjectsRead",
    "ObjectsScored",
    "ObjectsView",
    "Observer",
    "PermitPlugin",
    "Plugin",
    "PodCounts",
    "PodEnded",
    "PodSignature",
    "PodsAffected",
    "PodsRead",
    "PodsSelected",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterExtensions",
    "PreFilterPlugin",
    "PreScorePlugin",
    "QueueSortKey",
    "QueueSortPlugin",
    "QuorumRule",
    "ReservePlugin",
    "RoleRule",
    "RoleView",
    "ScorePlugin",
    "ScoresByPods",
    "ShowsObjects",
    "ShowsServices",
    "SignatureInCycle",
    "SignsAllocatable",
    "SignsAttributes",
    "SignsNodeAlone",
    "SkipsPods",
    "StateKey",
    "TopologyKeys",
]
