"""Domains: the nodes with equal values of some labels, and what is below and above them.

A domain is a path of pairs of label and value, outermost first; the empty path is the whole
cluster. A single node is a domain too, written as its slot. The path of a level begins with the
levels above it; labels that are no levels are nested in the order in which a gang does it.

Invariants (``check``): each index lists exactly the nodes that have all labels of its chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, final

from gangsched.errors import InternalError
from gangsched.model import Node
from gangsched.options.levels import NO_LEVELS, Levels
from gangsched.primitives.gang_tree import HOST

__all__ = ["Chain", "Domain", "Domains", "EVERYWHERE", "Path"]

Chain: TypeAlias = tuple[str, ...]
"""Label keys, outermost first."""
Path: TypeAlias = tuple[tuple[str, str], ...]
Domain: TypeAlias = Path | int

EVERYWHERE: Path = ()


@final
class Domains:
    """The nodes by domain, for the chains of labels that gangs ask for.

    Args:
        nodes: The nodes by slot; None for a slot whose node is gone.
        levels: Which labels nest.
    """

    __slots__ = ("_below", "_nodes", "_slots", "levels")

    def __init__(self, nodes: Sequence[Node | None], levels: Levels = NO_LEVELS) -> None:
        self._nodes = nodes
        self.levels: Levels = levels
        self._slots: dict[Chain, dict[Path, dict[int, None]]] = {}
        self._below: dict[Chain, dict[Path, dict[Path, None]]] = {}

    def index(self, chain: Chain) -> None:
        """Keep an index of a chain and of its prefixes. O(nodes) for a new one."""
        for length in range(1, len(chain) + 1):
            prefix = chain[:length]
            if prefix not in self._slots:
                self._slots[prefix], self._below[prefix] = {}, {}
                for slot, node in enumerate(self._nodes):
                    if node is not None:
                        self._add(prefix, slot, node)

    def put(self, slot: int, node: Node) -> None:
        """Add a node, after it is among the nodes. O(chains)."""
        for chain in self._slots:
            self._add(chain, slot, node)

    def remove(self, slot: int, node: Node) -> None:
        """Take a node out, as it was when it was added. O(chains)."""
        for chain, domains in self._slots.items():
            path = _path(node, chain)
            if path is None:
                continue
            del domains[path][slot]
            if not domains[path]:
                del domains[path]
                below = self._below[chain]
                del below[path[:-1]][path]
                if not below[path[:-1]]:
                    del below[path[:-1]]

    def at(self, level: str, under: Domain = EVERYWHERE) -> Sequence[Domain]:
        """Return the domains of a level within a domain, in the order of creation."""
        if level == HOST:
            return self.slots(under)
        if isinstance(under, int):
            return [under] if self.of(under, self.levels.chain(level)) is not None else []
        chain = self._chain(level, under)
        if len(chain) == len(under):
            return [under]
        self.index(chain)
        found = [under]
        for length in range(len(under) + 1, len(chain) + 1):
            below = self._below[chain[:length]]
            found = [each for above in found for each in below.get(above, ())]
        return found

    def slots(self, domain: Domain) -> list[int]:
        """Return the nodes in a domain. O(nodes there)."""
        if isinstance(domain, int):
            return [domain]
        if not domain:
            return [slot for slot, node in enumerate(self._nodes) if node is not None]
        chain = tuple([key for key, _value in domain])
        self.index(chain)
        return list(self._slots[chain].get(domain, ()))

    def of(self, slot: int, chain: Chain) -> Path | None:
        """Return the domain of a node; None if it lacks a label of the chain."""
        node = self._nodes[slot]
        return None if node is None else _path(node, chain)

    def around(self, slot: int, level: str, under: Domain = EVERYWHERE) -> Domain | None:
        """Return the domain of a level within another one that has a node; None if none does."""
        if isinstance(under, int):
            has_level = level == HOST or self.of(slot, self.levels.chain(level)) is not None
            return under if slot == under and has_level else None
        path = self.of(slot, self._chain(level, under))
        if path is None or path[: len(under)] != under:
            return None
        return slot if level == HOST else path

    def across(self, domain: Domain, level: str) -> frozenset[Domain]:
        """Return the domains of a level, each by itself, that have a node in common with a domain.

        Runtime complexity: O(levels), and O(nodes there) if the domain is of a coarser level.
        """
        chain = self.levels.chain(level)
        if not isinstance(domain, int) and level != HOST:
            path = tuple([pair for pair in domain if pair[0] in chain])
            if len(path) == len(chain):
                return frozenset((path,))
        if level == HOST:
            return frozenset(self.slots(domain))
        paths = (self.of(slot, chain) for slot in self.slots(domain))
        return frozenset([path for path in paths if path is not None])

    def finer(self, level: str, domain: Domain) -> Chain:
        """Return the levels below a domain, the coarsest first; *level* is one of its topology."""
        if isinstance(domain, int):
            return ()
        above = {key for key, _value in domain}
        keys = dict.fromkeys((*self.levels.topology(level), HOST))
        return tuple([key for key in keys if key not in above])

    def name(self, path: Path) -> str:
        """Return the value of a domain, after those of the levels above it: ``b1/r7``."""
        chain = self.levels.chain(path[-1][0])
        return "/".join([value for key, value in path if key in chain])

    def _chain(self, level: str, under: Path) -> Chain:
        """Return the labels of a domain, and those of a level below it. O(levels)."""
        keys = tuple([key for key, _value in under])
        if level == HOST or level in keys:
            return keys
        return (*keys, *[key for key in self.levels.chain(level) if key not in keys])

    def _add(self, chain: Chain, slot: int, node: Node) -> None:
        path = _path(node, chain)
        if path is not None:
            self._slots[chain].setdefault(path, {})[slot] = None
            self._below[chain].setdefault(path[:-1], {}).setdefault(path)

    def check(self) -> None:
        """Compare each index with the nodes. O(nodes x chains)."""
        for chain, domains in self._slots.items():
            fresh: dict[Path, set[int]] = {}
            for slot, path in self._paths(chain):
                fresh.setdefault(path, set()).add(slot)
            if fresh != {path: set(slots) for path, slots in domains.items()}:
                raise InternalError(f"the index of {chain} differs from the nodes")
            listed = {path for below in self._below[chain].values() for path in below}
            if listed != fresh.keys():
                raise InternalError(f"the domains below of {chain} differ from the nodes")

    def _paths(self, chain: Chain) -> Iterator[tuple[int, Path]]:
        for slot in range(len(self._nodes)):
            path = self.of(slot, chain)
            if path is not None:
                yield slot, path


def _path(node: Node, chain: Chain) -> Path | None:
    labels = node.labels
    try:
        return tuple([(key, labels[key]) for key in chain])
    except KeyError:
        return None
