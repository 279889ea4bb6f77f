"""Checks and builders for the tests of others; free of any test runner.

Rules:
  R1  a check raises ``AssertionError`` with a sentence, or returns;
  R2  what is checked need not come from here: it only has to keep the contract;
  R3  only ``check_scheduler`` and ``GangSchedulingMachine`` need hypothesis, and only when they
      are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gangsched.testing._adapt import Adapted, adapt
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
    CountsItsWork,
    DecidesOneByOne,
    HasFeatures,
    HearsLate,
    HoldsNodes,
    PlainPod,
    Restarts,
    SchedulerUnderTest,
    TakesReports,
    Terms,
)
from gangsched.testing._order import check_less
from gangsched.testing._plugin import check_plugin
from gangsched.testing._steps import (
    AddNode,
    Arrive,
    BindFails,
    BindSucceeds,
    CatchUp,
    DecideOnce,
    Leave,
    RemoveNode,
    Rest,
    Restart,
    RunLate,
    Step,
    Tick,
)
from gangsched.testing._story import LawViolation, check_story
from gangsched.testing._views import FakeEntity, FakeGroup, FakeNode, cycle, node_view

if TYPE_CHECKING:
    from gangsched.testing._machine import GangSchedulingMachine

__all__ = [
    "Adapted",
    "AddNode",
    "Arrive",
    "BindFails",
    "BindSucceeds",
    "CatchUp",
    "CountsItsWork",
    "DecideOnce",
    "DecidesOneByOne",
    "FakeClock",
    "FakeEntity",
    "FakeGroup",
    "FakeNode",
    "GangSchedulingMachine",
    "HasFeatures",
    "HearsLate",
    "HoldsNodes",
    "LawViolation",
    "Leave",
    "PlainPod",
    "RemoveNode",
    "Rest",
    "Restart",
    "Restarts",
    "RunLate",
    "SchedulerUnderTest",
    "Step",
    "TakesReports",
    "Terms",
    "Tick",
    "WritableClusterState",
    "adapt",
    "assert_effects",
    "check_cluster_state",
    "check_less",
    "check_plugin",
    "check_scheduler",
    "check_story",
    "cycle",
    "make_group",
    "make_node",
    "make_pod",
    "node_view",
]


def __getattr__(name: str) -> Any:
    """Load what needs hypothesis when it is asked for."""
    if name == "GangSchedulingMachine":
        from gangsched.testing._machine import GangSchedulingMachine

        return GangSchedulingMachine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
