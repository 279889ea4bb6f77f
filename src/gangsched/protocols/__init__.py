"""The ports: what the scheduler asks of a cluster and of a plugin, as protocols.

Rules:
  R1  ``ClusterState`` is read-only and local: it answers from memory and never blocks. It shows a
      change before the scheduler gets the event of that change;
  R2  a plugin is any object with the methods of its extension points: no base class, no
      registration, no handle. A method gets values and ``now``, and returns an outcome;
  R3  the views that a plugin gets are read-only, and valid until the method returns;
  R4  a plugin keeps no state between calls on which an outcome depends, unless it declares it; see
      ``StateExtensions``;
  R5  each method of the protocols that end in ``Extensions`` is optional by itself. A plugin
      declares it by having it, and inherits from none of them.
"""

from __future__ import annotations

from gangsched.protocols._cluster import ClusterState, ObjectsView
from gangsched.protocols._driving import FourCalls, Observer
from gangsched.protocols._extensions import (
    GangExtensions,
    NodeExtensions,
    ObjectExtensions,
    PodExtensions,
    QueueExtensions,
    SignatureExtensions,
    StateExtensions,
)
from gangsched.protocols._groups import EntityView, GroupView, RoleView
from gangsched.protocols._points import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortKey,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from gangsched.protocols._views import CycleView, DomainCounts, NodeView, PodCounts, StateKey

__all__ = [
    "BindPlugin",
    "ClusterState",
    "CycleView",
    "DomainCounts",
    "EntityView",
    "FilterPlugin",
    "FourCalls",
    "GangExtensions",
    "GroupView",
    "NodeExtensions",
    "NodeView",
    "ObjectExtensions",
    "ObjectsView",
    "Observer",
    "PermitPlugin",
    "Plugin",
    "PodCounts",
    "PodExtensions",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreScorePlugin",
    "QueueExtensions",
    "QueueSortKey",
    "QueueSortPlugin",
    "ReservePlugin",
    "RoleView",
    "ScorePlugin",
    "SignatureExtensions",
    "StateExtensions",
    "StateKey",
]
