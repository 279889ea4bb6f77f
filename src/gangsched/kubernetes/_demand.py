"""Pending demand: how many nodes of which kind would start which gangs.

Theory of operation. Gangs are asked about one after the other, in the order of the queue. For each,
``smallest_change`` gives the least number of nodes of each kind. The kind that needs the fewest is
chosen; of equal ones, the most frequent in the cluster. Each gang is asked about alone, so two
gangs may count the same free capacity. Then a second round asks for what the first one left out.
A loop that adds what is asked for ends when all gangs run.

Rules:
  R1  a gang that lacks members has no demand: nodes create no members;
  R2  a gang that fits now has no demand either;
  R3  the work is bounded: by the number of gangs, kinds and nodes that are tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, final

from attrs import frozen

from gangsched._node_kinds import kinds_of_nodes
from gangsched.explain import NotEnoughMembers
from gangsched.framework import Scheduler
from gangsched.model import GroupKey, Node
from gangsched.what_if import Sufficient

__all__ = ["MOST_GANGS", "MOST_KINDS", "MOST_NODES", "Demand", "pending_demand"]

MOST_GANGS: Final = 16
MOST_KINDS: Final = 4
MOST_NODES: Final = 16


@final
@frozen
class Demand:
    """Nodes of one kind that would start gangs.

    Attributes:
        like: One more node of this kind; its name begins with that of a node of the cluster.
        nodes: How many of them.
        groups: The gangs that would start.
    """

    like: Node
    nodes: int
    groups: tuple[GroupKey, ...]

    @property
    def shape(self) -> str:
        """The allocatable resources, such as ``cpu=8,nvidia.com/gpu=2``."""
        amounts = self.like.allocatable
        return ",".join(f"{name}={amounts.quantity(name)}" for name in sorted(amounts))

    def to_dict(self) -> dict[str, Any]:
        """Return the demand as plain data."""
        amounts = self.like.allocatable
        return {
            "like": self.like.name.removesuffix("-more"),
            "allocatable": {name: amounts.quantity(name) for name in sorted(amounts)},
            "labels": dict(self.like.labels),
            "nodes": self.nodes,
            "groups": list(self.groups),
        }


def pending_demand(
    scheduler: Scheduler,
    nodes: Iterable[Node],
    *,
    now: float,
    groups: int = MOST_GANGS,
    kinds: int = MOST_KINDS,
    most: int = MOST_NODES,
) -> list[Demand]:
    """Return what would start the pending gangs, by kind of node, the largest demand first.

    Args:
        scheduler: The scheduler; it is not changed.
        nodes: The nodes of the cluster; more of these kinds are tried.
        now: The current instant.
        groups: How many pending gangs are asked about, in the order of the queue.
        kinds: How many kinds of nodes are tried, the most frequent first.
        most: How many nodes are tried for one gang.
    """
    shapes = kinds_of_nodes(nodes)[:kinds]
    asked = [
        row.group
        for row in scheduler.pending()
        if row.group is not None and not isinstance(row.why, NotEnoughMembers)
    ]
    found: dict[Node, tuple[int, list[GroupKey]]] = {}
    for key in asked[:groups]:
        best = _fewest(scheduler, key, shapes, most=most, now=now)
        if best is not None and best.nodes:
            number, keys = found.setdefault(best.shape, (0, []))
            found[best.shape] = (number + best.nodes, [*keys, key])
    demands = [Demand(like, number, tuple(keys)) for like, (number, keys) in found.items()]
    return sorted(demands, key=lambda demand: -demand.nodes)


def _fewest(
    scheduler: Scheduler, key: GroupKey, shapes: Iterable[Node], *, most: int, now: float
) -> Sufficient | None:
    """Return the answer with the fewest nodes; None if no kind of node helps."""
    best: Sufficient | None = None
    for shape in shapes:
        limit = most if best is None else best.nodes - 1
        answer = scheduler.smallest_change(key, shape, most=limit, now=now)
        if isinstance(answer, Sufficient):
            best = answer
            if not best.nodes:
                return best
    return best
