"""Five gangs on four racks in two blocks, without levels and with them.

Rules:
  R1  the nodes and the jobs are those of the page, and so is the topology.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from gangsched import NodeAdded, Topology, presets
from gangsched.simulation import Arrival, Workload, load_nodes, load_trace
from pictures.gantt import gantt
from pictures.runs import Run, file_of

__all__ = ["levels", "runs"]

PAGE: Final = Path(__file__).parents[1] / "how-to" / "place-gangs-in-levels.md"
_NEAR: Final = Topology("rack", required=False)
_UNTIL: Final = 160.0


def runs() -> dict[str, Run]:
    """Return the runs, by their captions."""
    nodes = load_nodes(file_of(PAGE, "fleet.csv").splitlines(), file="fleet.csv")
    jobs = load_trace(file_of(PAGE, "jobs.csv").splitlines(), file="jobs.csv", topology=_NEAR)
    work = Workload(tuple(Arrival(0.0, NodeAdded(node)) for node in nodes)) + jobs
    with_levels = partial(presets.gang, levels=["block", "rack"])
    return {
        "Without levels, r1 of b1 and r1 of b2 are one rack: A and C are in two blocks": (
            Run.of_workload(work, presets.gang, _UNTIL)
        ),
        "With levels: each gang is in one block": Run.of_workload(work, with_levels, _UNTIL),
    }


def levels() -> str:
    """Return the picture."""
    return gantt(runs(), title="Five gangs that prefer one rack, on two blocks of two racks")
