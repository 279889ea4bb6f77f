"""How the free capacity lies in the racks and blocks of a cluster.

These are of one level, such as ``rack``, at one instant.

Rules:
  R1  a domain has the nodes with equal values of the level and of the levels above it. A node that
      lacks one of these labels is in none. Of ``kubernetes.io/hostname`` each node is one;
  R2  of a node is free what it offers less what is requested by the pods that hold it, whether they
      run or were assigned to it. Of a node that takes no pods, nothing is;
  R3  ``largest_free`` is, for each resource, the largest amount that is free in one domain: a gang
      that needs one domain and requests more in all cannot start;
  R4  a domain is whole if no pod holds any of its nodes;
  R5  ``whole_share`` is, for each resource, the amount that is free in whole domains, divided by
      the amount that is free in all domains. It is 1 if each domain that has something left is
      empty, and 0 if every domain has a pod. It is not defined where nothing is free.

A picture shows one resource: that of which running jobs used the largest share, over the whole run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

from attrs import Factory, field, frozen

from gangsched.model import Node, NodeName
from gangsched.options.levels import Levels
from gangsched.primitives.gang_tree import HOST
from gangsched.quantity import MILLI
from gangsched.resources import Resources
from gangsched.simulation.jobs import JobRow
from gangsched.simulation.metrics import Distribution
from gangsched.simulation.places import Places

__all__ = [
    "DomainTracker",
    "Fragmentation",
    "FreeAreas",
    "LevelFigures",
    "domain_of",
    "figures_of_levels",
    "levels_of",
]

_Path = tuple[str, ...]


def _shares(parts: Mapping[str, int], wholes: Mapping[str, int]) -> dict[str, float]:
    return {name: parts.get(name, 0) / all_ for name, all_ in wholes.items() if all_}


@final
@frozen(kw_only=True)
class Fragmentation:
    """How the free capacity lies in the domains of one level, at an instant.

    Attributes:
        level: The label of the level.
        domains: How many domains there are.
        whole: How many of them are whole: without a pod.
        free: What is free in all of them.
        largest_free: For each resource, the largest amount that is free in one of them.
        free_in_whole: What is free in those that are whole.
        whole_share: For each resource of which something is free, which share of it is free in
            domains that are whole: from 0 to 1.
    """

    level: str
    domains: int
    whole: int
    free: Resources
    largest_free: Resources
    free_in_whole: Resources
    whole_share: dict[str, float] = field(
        init=False,
        eq=False,
        default=Factory(lambda self: _shares(self.free_in_whole, self.free), takes_self=True),
    )


@final
@frozen
class LevelFigures:
    """The figures of one level over a whole run.

    Attributes:
        domains_of_gangs: In how many domains the pods of a gang were, of gangs of several pods that
            started and have their nodes in domains. All nodes count to which pods were ever bound.
        largest_free: The mean over time of ``Fragmentation.largest_free``, in units.
        whole_share: What was free in whole domains over time, divided by what was free.
    """

    domains_of_gangs: Distribution
    largest_free: dict[str, float] = field(factory=dict[str, float])
    whole_share: dict[str, float] = field(factory=dict[str, float])


def levels_of(levels: Levels) -> tuple[str, ...]:
    """Return the labels of all levels, those of a topology from the coarsest to the finest."""
    return tuple(key for keys in levels.topologies for key in keys)


def domain_of(node: Node, level: str, levels: Levels) -> _Path | None:
    """Return the values of a level and of those above it, such as ``("b1", "r7")``.

    Returns:
        None for a node that lacks one of the labels.
    """
    if level == HOST:
        return (str(node.name),)
    values = [node.labels.get(key) for key in levels.chain(level)]
    found = tuple(value for value in values if value is not None)
    return found if len(found) == len(values) else None


@final
class DomainTracker:
    """Keeps what is free in each domain of each level, and computes the rows from that.

    A change of a node costs O(levels x resources); rows cost O(domains x resources) if something
    has changed.

    Args:
        places: What pods hold.
        levels: The levels.
    """

    def __init__(self, places: Places, levels: Levels) -> None:
        self._places = places
        self._levels = levels
        self._known: dict[NodeName, tuple[Node, dict[str, int], bool]] = {}
        self._of: dict[str, dict[_Path, _Domain]] = {level: {} for level in levels_of(levels)}
        self._dirty: dict[NodeName, None] = dict.fromkeys(places.nodes)
        self._rows: tuple[Fragmentation, ...] = ()

    def touch(self, name: NodeName) -> None:
        """Note that a node has changed. O(1)."""
        self._dirty[name] = None

    def rows(self) -> tuple[Fragmentation, ...]:
        """Return a row for each level; the same object as before if nothing has changed."""
        if not self._dirty:
            return self._rows
        for name in self._dirty:
            before = self._known.pop(name, None)
            if before is not None:
                self._add(*before, times=-1)
            node = self._places.nodes.get(name)
            if node is not None:
                after = node, self._places.free_on(name), self._places.pods_on(name) > 0
                self._known[name] = after
                self._add(*after, times=1)
        self._dirty.clear()
        found = tuple(_row(level, domains.values()) for level, domains in self._of.items())
        if found != self._rows:
            self._rows = found
        return self._rows

    def _add(self, node: Node, free: Mapping[str, int], is_held: bool, *, times: int) -> None:
        for level, domains in self._of.items():
            path = domain_of(node, level, self._levels)
            if path is None:
                continue
            domain = domains.get(path)
            if domain is None:
                domain = domains[path] = _Domain()
            domain.nodes += times
            domain.held += times * is_held
            for name, amount in free.items():
                domain.free[name] = domain.free.get(name, 0) + times * amount
            if not domain.nodes:
                del domains[path]


@final
class _Domain:
    """What is free in a domain, and how many of its nodes are held."""

    __slots__ = ("free", "held", "nodes")

    def __init__(self) -> None:
        self.nodes = 0
        self.held = 0
        self.free: dict[str, int] = {}


def _row(level: str, domains: Iterable[_Domain]) -> Fragmentation:
    count = whole = 0
    free: dict[str, int] = {}
    largest: dict[str, int] = {}
    in_whole: dict[str, int] = {}
    for domain in domains:
        count += 1
        whole += not domain.held
        for name, amount in domain.free.items():
            free[name] = free.get(name, 0) + amount
            largest[name] = max(largest.get(name, 0), amount)
            if not domain.held:
                in_whole[name] = in_whole.get(name, 0) + amount
    return Fragmentation(
        level=level,
        domains=count,
        whole=whole,
        free=Resources.from_milli(free),
        largest_free=Resources.from_milli(largest),
        free_in_whole=Resources.from_milli(in_whole),
    )


@final
class FreeAreas:
    """What was free in the domains of each level, integrated over time.

    As in ``metrics``, nothing is sampled: rows hold from their instant to the next.
    """

    def __init__(self) -> None:
        self._areas: dict[str, tuple[dict[str, float], ...]] = {}
        self._rows: tuple[Fragmentation, ...] = ()
        self._at = 0.0

    def advance(self, rows: tuple[Fragmentation, ...], *, now: float, begin: float | None) -> None:
        """Integrate up to now, and take the rows that hold from now on. O(levels x resources).

        Args:
            rows: A row for each level.
            now: The instant in seconds.
            begin: The instant from which the time counts; None if it has not come.
        """
        if begin is not None:
            self._integrate(self._areas, now - max(self._at, begin))
        self._rows, self._at = rows, now

    def means(
        self, *, now: float, begin: float
    ) -> dict[str, tuple[dict[str, float], dict[str, float]]]:
        """Return by level the means of ``largest_free`` and of ``whole_share`` up to now."""
        areas = {level: tuple(map(dict, of)) for level, of in self._areas.items()}
        self._integrate(areas, now - max(self._at, begin))
        found: dict[str, tuple[dict[str, float], dict[str, float]]] = {}
        for level, (largest, in_whole, free) in areas.items():
            mean = {name: area / (now - begin) / MILLI for name, area in sorted(largest.items())}
            shares = {n: in_whole.get(n, 0.0) / area for n, area in sorted(free.items()) if area}
            found[level] = mean, shares
        return found

    def _integrate(self, areas: dict[str, tuple[dict[str, float], ...]], seconds: float) -> None:
        for row in self._rows if seconds > 0 else ():
            of = areas.setdefault(row.level, ({}, {}, {}))
            amounts = (row.largest_free, row.free_in_whole, row.free)
            for total, each in zip(of, amounts, strict=True):
                for name, amount in each.items():
                    total[name] = total.get(name, 0.0) + amount * seconds


def figures_of_levels(
    levels: Levels,
    jobs: Iterable[JobRow],
    nodes: Mapping[NodeName, Node],
    means: Mapping[str, tuple[dict[str, float], dict[str, float]]],
) -> dict[str, LevelFigures]:
    """Return the figures of each level over a run.

    Runtime complexity: O(levels x nodes of jobs).

    Args:
        levels: The levels.
        jobs: The jobs.
        nodes: The nodes, also those that are gone.
        means: Those of ``FreeAreas``; empty if nothing watched what is free.
    """
    gangs = [job for job in jobs if job.size > 1 and job.started_at is not None]
    found: dict[str, LevelFigures] = {}
    for level in levels_of(levels):
        of = {name: domain_of(node, level, levels) for name, node in nodes.items()}
        within = [{of.get(name) for name in job.nodes} for job in gangs]
        counts = [float(len(paths)) for paths in within if None not in paths]
        found[level] = LevelFigures(Distribution.of(counts), *means.get(level, ({}, {})))
    return found
