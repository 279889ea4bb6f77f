"""How large are the core and what goes with it, how much has a plugin to know, what is kept?

Rules:
  R1  lines are counted by ``shape.py``;
  R2  the protocols are those that a plugin may implement: points and extensions;
  R3  the attributes of a profile are those that its plugins make, without methods;
  R4  what a scheduler keeps is what it allocated to read a cluster, beside the cluster itself.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator, Mapping
from typing import Final

from attrs import evolve

from gangsched import InMemoryCluster, NodeAdded, PodAdded, Profile, presets, protocols
from gangsched.plugins import DefaultBinder, PrioritySort
from gangsched.testing import make_pod
from life_of_gangs import nodes_of
from shape import library_lines

__all__ = ["lines", "sizes"]

_KEPT: Final = "MB that a scheduler keeps of 5,000 nodes and 50,000 pods"
GATES: Final = {
    "lines without `kubernetes`, `simulation` and `cli`": 30_000,
    "protocols for plugins": 20,
    "attributes of a profile": 20,
}


def sizes() -> dict[str, float]:
    """Return what is counted, by name."""
    named = [name for name in protocols.__all__ if name.endswith(("Plugin", "Extensions"))]
    profile = Profile(PrioritySort(), DefaultBinder())
    public = [getattr(profile, name) for name in dir(profile) if not name.startswith("_")]
    made = sum(not callable(each) for each in public)
    counted = dict(zip(GATES, (library_lines(), len(named), made), strict=True))
    return {**counted, _KEPT: kept()}


def kept() -> float:
    """Return how many MB a scheduler keeps."""
    cluster = InMemoryCluster()
    for node in nodes_of(5_000):
        cluster.apply(NodeAdded(node))
        for n in range(10):
            asks = {"cpu": f"{10 + n}m", "memory": "16Mi"}
            pod = make_pod(f"{node.name}-{n}", group=f"{node.name}", min_available=1, requests=asks)
            cluster.apply(PodAdded(evolve(pod, node_name=node.name)))
    scheduler = presets.gang(cluster)
    gc.collect()
    tracemalloc.start()
    scheduler.rebuild(now=0.0)
    gc.collect()
    held, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round(held / 1e6, 1)


def lines(this: Mapping[str, float], other: Mapping[str, float]) -> Iterator[str]:
    """Yield the lines of a table of the sizes of this version, and of another one if given."""
    yield "| size | this | other | gate | |"
    yield "|---|---:|---:|---:|---|"
    for name, found in this.items():
        before = other.get(name)
        gate = GATES.get(name, before)
        shown = ["" if each is None else f"{each:,}" for each in (found, before, gate)]
        missed = gate is not None and found > gate
        yield f"| {name} | {' | '.join(shown)} | {'missed' * missed} |"
