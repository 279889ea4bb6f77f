"""The list of pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gangsched import presets
from pictures.extension_points import extension_points
from pictures.gantt import gantt
from pictures.levels import levels
from pictures.permit_barrier import permit_barrier
from pictures.queue_order import queue_order
from pictures.replicas import replicas
from pictures.runs import Run, file_of
from pictures.states import member_states, queue_places

__all__ = ["SHAPE", "STATIC", "UNTIL", "drawn", "runs"]

DOCS: Final = Path(__file__).parents[1]
STATIC: Final = DOCS / "_static"
PAGE: Final = DOCS / "explanation" / "with-and-without.md"
SHAPE: Final = "4x4"
UNTIL: Final = 240.0
_CAPTIONS: Final = {
    "pod_by_pod": "Pod by pod: from 100 s on, E and G block each other for ever",
    "coscheduling": "With gangs: all eight jobs have run by 160 s",
    "gang": "A gang in one decision: no GPU is held without use",
}
"""The caption of each run. A test compares it with the run."""


def runs() -> dict[str, Run]:
    """Return the workload of the page, run by each preset."""
    trace = file_of(PAGE, "jobs.csv")
    return {name: Run.of(trace, SHAPE, getattr(presets, name), until=UNTIL) for name in _CAPTIONS}


def drawn() -> dict[str, str]:
    """Return every picture by the name of its file."""
    ran = runs()
    title = "Eight jobs on four nodes with four GPUs each"
    both = {_CAPTIONS[name]: ran[name] for name in ("pod_by_pod", "coscheduling")}
    whole = {_CAPTIONS["gang"]: ran["gang"]}
    return {
        "levels.svg": levels(),
        "replicas.svg": replicas(),
        "with-and-without.svg": gantt(both, title=title),
        "whole-gangs.svg": gantt(whole, title=title),
        "member-states.svg": member_states(),
        "queue-places.svg": queue_places(),
        "queue-order.svg": queue_order(),
        "extension-points.svg": extension_points(),
        "permit-barrier.svg": permit_barrier(),
    }
