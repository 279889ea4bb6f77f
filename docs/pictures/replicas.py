"""Three of four replicas of a leader and three workers: one loses a worker and gets it back.

Rules:
  R1  the run is that of the page on k of n replicas: its racks, its job, and its lost worker.
"""

from __future__ import annotations

from typing import Final

from attrs import evolve

from gangsched import (
    Event,
    Node,
    NodeAdded,
    NodeName,
    PodAdded,
    PodDeleted,
    Role,
    Topology,
    gang,
    presets,
)
from gangsched.simulation import Arrival, Workload
from pictures.gantt import gantt
from pictures.runs import GPU, Run

__all__ = ["LOST", "REPLACED", "replicas", "run"]

LOST: Final = 60.0
"""When a worker of decode/0 is killed."""
REPLACED: Final = 90.0
"""When its controller creates it again."""
_ROOM: Final = 150.0
"""When rack r3 gets the GPU that the fourth replica lacks."""
_UNTIL: Final = 240.0
_NODES: Final = (("r1", 4), ("r2", 8), ("r3", 3))


def run() -> Run:
    """Return the run."""
    replica = Role(4, minimum=3, roles={"leader": 1, "worker": 3}, topology=Topology("rack"))
    job = gang("serve", roles={"decode": replica}, gpu=1)
    lost = next(pod for pod in job.pods if pod.name == "serve-decode-0-worker-1")
    timed: list[tuple[float, Event]] = [
        *((0.0, _node(*node)) for node in _NODES),
        *((1.0, event) for event in job.events()),
        (LOST, PodDeleted(lost.uid)),
        (REPLACED, PodAdded(evolve(lost, uid=f"{lost.uid}-again", created_at=REPLACED))),
        (_ROOM, _node("r3", 1, "r3-new")),
    ]
    work = Workload(tuple(Arrival(at, event) for at, event in timed))
    return Run.of_workload(work, presets.gang, _UNTIL)


def replicas() -> str:
    """Return the picture."""
    caption = "decode/0 loses a worker at 60 s; rack r3 has room for decode/3 from 150 s on"
    return gantt({caption: run()}, title="Three of four replicas in racks r1, r2 and r3")


def _node(rack: str, gpus: int, name: str = "") -> NodeAdded:
    labels = {"rack": rack}
    return NodeAdded(Node(name=NodeName(name or rack), labels=labels, allocatable={GPU: gpus}))
