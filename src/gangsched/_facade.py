"""Lazy loading of the names of ``gangsched``: each is imported when it is first used.

Python runs ``gangsched/__init__.py`` before any submodule. If that imported everything, every user
of one module would pay 110 ms, most of it for value classes that attrs compiles. With lazy loading
``import gangsched`` takes 7 ms, one primitive 10 to 25 ms, and ``import hypothesis``, which loads
``gangsched.model`` through an entry point, 20 ms. A program that makes a scheduler pays the same in
both cases.

``__init__`` imports the names under ``TYPE_CHECKING`` for type checkers. A test compares these
imports with ``ORIGINS``.

Rules:
  R1  a loaded name becomes an ordinary attribute of the module;
  R2  a name that is also the name of a submodule, as ``membership`` is, keeps its value when the
      submodule is imported;
  R3  a public submodule is an attribute of ``gangsched`` without an import of its own.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Final

__all__ = ["MODULES", "ORIGINS", "Facade", "open_facade"]

ORIGINS: Final = {
    "primitives.backoff": "Backoff",
    "primitives.capacity": "resource_gap",
    "primitives.counters": "MemberState PodGroupCounters",
    "primitives.gate": "GangMember Gate",
    "primitives.group_info": "PodGroupInfo",
    "primitives.heap": "HeapHandle PriorityHeap heap_implementation",
    "primitives.ordering": "Order QueuedPod SortKey less sort_key",
    "primitives.quorum": "MatchPolicy",
    "primitives.registry": "PodGroupRegistry",
    "primitives.waiting": "WaitingMap WaitingPod",
    "coscheduling": "Coscheduling WhenBindFails WhenBlocked",
    "cycle_state": "CycleState",
    "errors": (
        "ClusterStateError DecisionLogError GangRejectedError GangschedError HostClosedError "
        "InternalError InvalidPodGroupError InvalidValueError ManifestError PluginError "
        "ProfileError ReentrantCallError TraceError UnknownPodError"
    ),
    "events": (
        "Bind BindFailed Bound CopyBound Effect Event Evict GroupBelowMinimum GroupBound "
        "GroupIncomplete GroupPartlyBound GroupRejected GroupRemoved GroupRestarted "
        "GroupScheduled NodeAdded NodeDeleted NodeUpdated Nominated NominationLapsed Notice "
        "ObjectChanged ObjectDeleted PermitAllowed PermitRejected PodAdded PodDeleted "
        "PodGroupAdded PodGroupDeleted PodGroupUpdated PodNotAdmitted PodRefused PodRejected "
        "PodScheduled PodUnschedulable PodUpdated PodWaiting PriorityOverruled Release "
        "RestartLimitReached VictimSearchExhausted VolumeChoice"
    ),
    "explain": "Why",
    "gangs": "Gang gang",
    "membership": "Membership membership ungrouped",
    "memory": "InMemoryCluster",
    "model": (
        "Comparison ContainerImage Disk GroupKey HostPort LabelSelector "
        "LabelSelectorRequirement LabelledRole Node NodeInclusionPolicy NodeName "
        "NodeSelectorRequirement NodeSelectorTerm Pod PodAffinityTerm PodGroup "
        "PodPhase PodUID PreemptionPolicy PreferredSchedulingTerm QOSClass Resources "
        "RestartPolicy Role Taint TaintEffect Toleration Topology TopologySpreadConstraint "
        "VolumeClaim WeightedPodAffinityTerm WhenUnsatisfiable group_key"
    ),
    "options": (
        "Backfill PlacementStrategy Preemption Quota Reclaim ReclaimFrom Reservation SchedulingUnit"
    ),
    "outcomes": "EvictGroup HoldGroup Outcome RejectGroup Skip Success Unschedulable Verdict Wait",
    "overlay": "OverlayCluster",
    "profile": "Profile",
    "protocols": "ClusterState StateKey",
    "run_times": "AnnotatedRunTimes RunTimes",
    "scheduler": "QueueEntry QueuePlace Scheduler SchedulingQueue",
    "status": "PodGroupPhase PodGroupStatus pod_group_status",
    "what_if": "Insufficient SmallestChange Sufficient WhatIf",
}
"""The names of the facade, by the module that defines them."""

MODULES: Final = (
    "cluster_objects",
    "constraints",
    "coscheduling",
    "errors",
    "events",
    "explain",
    "gangs",
    "memory",
    "model",
    "outcomes",
    "overlay",
    "plugins",
    "presets",
    "protocols",
    "quantity",
    "resources",
    "run_times",
    "status",
    "what_if",
)
"""The public submodules that are attributes of the facade."""

_ORIGIN: Final = {name: module for module, names in ORIGINS.items() for name in names.split()}


class Facade(ModuleType):
    """A module that imports its names when they are first used."""

    def __getattr__(self, name: str) -> object:
        """Import a name and store it as an attribute."""
        if name in _ORIGIN:
            value: object = getattr(import_module(f"{self.__name__}.{_ORIGIN[name]}"), name)
        elif name in MODULES:
            value = import_module(f"{self.__name__}.{name}")
        else:
            message = f"module {self.__name__!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=self)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute, unless the import system sets a submodule over another name (R2)."""
        if not (name in _ORIGIN and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        """Return all names, loaded or not."""
        return sorted({*super().__dir__(), *_ORIGIN, *MODULES})


def open_facade(name: str) -> None:
    """Make the module of a name a ``Facade``."""
    sys.modules[name].__class__ = Facade
