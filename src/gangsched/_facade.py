"""How ``import gangsched`` gives its names: each is loaded when it is first asked for.

Who imports the package for one function does not pay for the value classes of all of it, which take
most of the time. ``__init__`` says to type checkers where each name is from; a test keeps that and
``ORIGINS`` the same.

Rules:
  R1  what was asked for is kept: from then on it costs what any name of a module costs;
  R2  where a name is also that of a module, as ``membership`` is, it stays what the facade says,
      whoever loads the module and whenever;
  R3  a public module is there by its name, too, without an import of its own.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Final

__all__ = ["MODULES", "ORIGINS", "Facade", "open_facade"]

ORIGINS: Final = {
    "_core._backoff": "Backoff",
    "_core._capacity": "resource_gap",
    "_core._counters": "MemberState PodGroupCounters",
    "_core._gate": "GangMember Gate",
    "_core._heap": "HeapHandle PriorityHeap heap_implementation",
    "_core._ordering": "Order QueuedPod SortKey less sort_key",
    "_core._queue": "SchedulingQueue",
    "_core._quorum": "MatchPolicy",
    "_core._registry": "PodGroupInfo PodGroupRegistry",
    "_core._waiting": "WaitingMap WaitingPod",
    "coscheduling": "Coscheduling WhenBindFails WhenBlocked",
    "errors": (
        "ClusterStateError DecisionLogError GangRejectedError GangschedError InternalError "
        "InvalidPodGroupError InvalidValueError ManifestError PluginError ProfileError "
        "ReentrantCallError TraceError UnknownPodError"
    ),
    "events": (
        "Bind BindFailed Bound Effect Event Evict GroupIncomplete GroupRejected "
        "GroupScheduled NodeAdded NodeDeleted NodeUpdated Nominated NominationLapsed Notice "
        "PodAdded PodDeleted PodGroupAdded PodGroupDeleted PodGroupUpdated PodNotAdmitted "
        "PodRefused PodRejected PodScheduled PodUnschedulable PodUpdated PodWaiting Release"
    ),
    "explain": "Why",
    "framework": (
        "Backfill CycleState PlacementStrategy Preemption Profile Reservation Scheduler "
        "SchedulingUnit"
    ),
    "membership": "Membership membership ungrouped",
    "memory": "InMemoryCluster",
    "model": (
        "GroupKey Node NodeName NodeSelectorRequirement NodeSelectorTerm Pod PodGroup "
        "PodPhase PodUID PreemptionPolicy QOSClass Resources Taint TaintEffect Toleration "
        "Topology group_key"
    ),
    "outcomes": "EvictGroup HoldGroup Outcome RejectGroup Skip Success Unschedulable Verdict Wait",
    "overlay": "OverlayCluster",
    "protocols": "ClusterState StateKey",
    "run_times": "AnnotatedRunTimes RunTimes",
    "status": "PodGroupPhase PodGroupStatus pod_group_status",
    "what_if": "Insufficient SmallestChange Sufficient WhatIf",
}
"""Module to the names that the facade takes from it."""

MODULES: Final = (
    "constraints",
    "coscheduling",
    "errors",
    "events",
    "explain",
    "framework",
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
"""Public modules that are names of the facade themselves."""

_ORIGIN: Final = {name: module for module, names in ORIGINS.items() for name in names.split()}


class Facade(ModuleType):
    """A module that loads its names when they are asked for."""

    def __getattr__(self, name: str) -> object:
        """Load a name, and keep it."""
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
        """Set a name; but a module that is loaded does not take the place of what is no module."""
        if not (name in _ORIGIN and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        """Return all names, loaded or not."""
        return sorted({*super().__dir__(), *_ORIGIN, *MODULES})


def open_facade(name: str) -> None:
    """Let a module, by its name, load what it has when it is asked for."""
    sys.modules[name].__class__ = Facade
