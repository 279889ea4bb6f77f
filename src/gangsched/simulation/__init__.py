"""The same scheduler on virtual time: a workload in, a report out."""

from __future__ import annotations

from gangsched.simulation.describe import EventLog, LogEntry, PodRow
from gangsched.simulation.faults import (
    BindAnswerLost,
    BindFails,
    BindSlow,
    ClockJumps,
    EventDelayed,
    EventDropped,
    EventDuplicated,
    EventReordered,
    Fault,
    FaultPlan,
    NodeVanishes,
    SchedulerRestarts,
)
from gangsched.simulation.jobs import Job, Jobs
from gangsched.simulation.manifests import load_manifests
from gangsched.simulation.metrics import Account, Distribution
from gangsched.simulation.report import (
    SCHEMA,
    Counts,
    Deadlock,
    Report,
    Snapshot,
    Snapshots,
    Summary,
    report,
)
from gangsched.simulation.simulator import Observer, Simulator
from gangsched.simulation.traces import load_trace, parse_nodes_shape
from gangsched.simulation.workload import RUN_SECONDS, Arrival, Workload

__all__ = [
    "RUN_SECONDS",
    "SCHEMA",
    "Account",
    "Arrival",
    "BindAnswerLost",
    "BindFails",
    "BindSlow",
    "ClockJumps",
    "Counts",
    "Deadlock",
    "Distribution",
    "EventDelayed",
    "EventDropped",
    "EventDuplicated",
    "EventLog",
    "EventReordered",
    "Fault",
    "FaultPlan",
    "Job",
    "Jobs",
    "LogEntry",
    "NodeVanishes",
    "Observer",
    "PodRow",
    "Report",
    "SchedulerRestarts",
    "Simulator",
    "Snapshot",
    "Snapshots",
    "Summary",
    "Workload",
    "load_manifests",
    "load_trace",
    "parse_nodes_shape",
    "report",
]
