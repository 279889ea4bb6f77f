"""The same scheduler on virtual time: a workload in, a report out."""

from __future__ import annotations

from gangsched.simulation.describe import EventLog, LogEntry, PodRow
from gangsched.simulation.fair_share import fair_quotas
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
from gangsched.simulation.jobs import Job, JobRow, Jobs
from gangsched.simulation.manifests import load_manifests
from gangsched.simulation.metrics import Account, Distribution
from gangsched.simulation.node_tables import load_nodes
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
from gangsched.simulation.shortest_first import shortest_first
from gangsched.simulation.simulator import Observer, Simulator
from gangsched.simulation.traces import Trace, load_trace, open_trace, parse_nodes_shape
from gangsched.simulation.workload import (
    FAIL_SECONDS,
    RUN_SECONDS,
    TIME_LIMIT,
    Arrival,
    Input,
    OwnerDeleted,
    Workload,
)

__all__ = [
    "FAIL_SECONDS",
    "RUN_SECONDS",
    "SCHEMA",
    "TIME_LIMIT",
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
    "Input",
    "Job",
    "JobRow",
    "Jobs",
    "LogEntry",
    "NodeVanishes",
    "Observer",
    "OwnerDeleted",
    "PodRow",
    "Report",
    "SchedulerRestarts",
    "Simulator",
    "Snapshot",
    "Snapshots",
    "Summary",
    "Trace",
    "Workload",
    "fair_quotas",
    "load_manifests",
    "load_nodes",
    "load_trace",
    "open_trace",
    "parse_nodes_shape",
    "report",
    "shortest_first",
]
