"""Checks and builders for tests of schedulers, plugins, queue orders and cluster states.

Rules:
  R1  a check returns None, or raises ``AssertionError`` with a message. No test runner is needed;
  R2  the checked object need not come from this library: it only has to keep the contract;
  R3  only ``check_scheduler`` and ``GangSchedulingMachine`` import Hypothesis, and only on use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gangsched.testing._adapt import GangschedAdapter, adapt
from gangsched.testing._builders import (
    FakeClock,
    assert_effects,
    make_group,
    make_node,
    make_pod,
)
from gangsched.testing._check import check_scheduler
from gangsched.testing._cluster_state import WritableClusterState, check_cluster_state
from gangsched.testing._contract import (
    PlainParent,
    PlainPod,
    SchedulerSpec,
    SchedulerUnderTest,
    SupportsBindReports,
    SupportsDecisionCount,
    SupportsDelayedEvents,
    SupportsFamilies,
    SupportsFeatures,
    SupportsRestart,
    SupportsSingleDecisions,
    SupportsStop,
    SupportsWaitingPods,
)
from gangsched.testing._lifecycle import QuotaLaw, RestartLaw
from gangsched.testing._order import check_less
from gangsched.testing._plugin import check_plugin
from gangsched.testing._runner import check_steps
from gangsched.testing._steps import (
    AddNode,
    BindFails,
    BindSucceeds,
    CancelPods,
    DelayEvents,
    DeliverEvents,
    PutParent,
    RemoveNode,
    RemoveParent,
    Restart,
    ScheduleOne,
    Settle,
    Start,
    Step,
    Stop,
    SubmitPods,
    Tick,
)
from gangsched.testing._views import FakeEntity, FakeGroup, FakeNode, cycle, node_view
from gangsched.testing._violation import LawViolation

if TYPE_CHECKING:
    from gangsched.testing._machine import GangSchedulingMachine

__all__ = [
    "AddNode",
    "BindFails",
    "BindSucceeds",
    "CancelPods",
    "DelayEvents",
    "DeliverEvents",
    "FakeClock",
    "FakeEntity",
    "FakeGroup",
    "FakeNode",
    "GangSchedulingMachine",
    "GangschedAdapter",
    "LawViolation",
    "PlainParent",
    "PlainPod",
    "PutParent",
    "QuotaLaw",
    "RemoveNode",
    "RemoveParent",
    "Restart",
    "RestartLaw",
    "ScheduleOne",
    "SchedulerSpec",
    "SchedulerUnderTest",
    "Settle",
    "Start",
    "Step",
    "Stop",
    "SubmitPods",
    "SupportsBindReports",
    "SupportsDecisionCount",
    "SupportsDelayedEvents",
    "SupportsFamilies",
    "SupportsFeatures",
    "SupportsRestart",
    "SupportsSingleDecisions",
    "SupportsStop",
    "SupportsWaitingPods",
    "Tick",
    "WritableClusterState",
    "adapt",
    "assert_effects",
    "check_cluster_state",
    "check_less",
    "check_plugin",
    "check_scheduler",
    "check_steps",
    "cycle",
    "make_group",
    "make_node",
    "make_pod",
    "node_view",
]


def __getattr__(name: str) -> Any:
    """Import ``GangSchedulingMachine``, which needs Hypothesis, on first use."""
    if name == "GangSchedulingMachine":
        from gangsched.testing._machine import GangSchedulingMachine

        return GangSchedulingMachine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
