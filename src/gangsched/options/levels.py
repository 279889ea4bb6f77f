"""Levels: which node labels nest, such as racks in blocks.

Without levels a label stands alone: racks of one name are one rack. With levels a domain is a path,
so rack r1 of block b1 is not rack r1 of block b2, and a constraint knows what is coarser than it.

Source: the levels of Kueue's and KAI Scheduler's ``Topology``, the tiers of Volcano's HyperNodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, TypeAlias, final

from attrs import field, frozen

from gangsched.errors import InvalidValueError
from gangsched.model import PodGroup, Role, Topology

__all__ = ["NO_LEVELS", "Levels", "LevelsGiven", "as_levels"]

_EXPECTED: Final = "label keys from the coarsest level to the finest, or a list of such lists"


@final
@frozen
class Levels:
    """The topologies of a cluster, each as label keys from the coarsest level to the finest."""

    topologies: tuple[tuple[str, ...], ...] = ()
    _chains: dict[str, tuple[str, ...]] = field(
        init=False, factory=dict[str, tuple[str, ...]], eq=False, repr=False
    )

    def __attrs_post_init__(self) -> None:
        for keys in self.topologies:
            for number, key in enumerate(keys, 1):
                self._chains[key] = keys[:number]

    def chain(self, key: str) -> tuple[str, ...]:
        """Return the levels down to one, itself last; only itself if it stands alone. O(1)."""
        return self._chains.get(key, (key,))

    def topology(self, key: str) -> tuple[str, ...]:
        """Return the levels of the topology that has a level; only itself if it stands alone."""
        return next((keys for keys in self.topologies if key in keys), (key,))

    def upwards(self, fine: str, coarse: str | None) -> tuple[str, ...]:
        """Return the levels from a fine one up to a coarse one; None for the coarsest.

        Only the coarse one if the other is not finer: parts that are apart may prefer less.
        """
        chain = self.chain(fine)
        if coarse is not None and coarse not in chain:
            return (coarse,)
        first = 0 if coarse is None else chain.index(coarse)
        return chain[: first - 1 : -1] if first else chain[::-1]

    def problem(self, group: PodGroup) -> str:
        """Return why a constraint of a group or a role has no meaning here; or ``""``. O(roles)."""
        whose = "pods" if group.min_groups is None else "children"
        found = (self._problem(*each) for each in _topologies(group.topology, group.roles, whose))
        return next(filter(None, found), "")

    def problem_below(self, parent: PodGroup, child: PodGroup) -> str:
        """Return why a child cannot be apart from its siblings; or ``""``. O(levels)."""
        apart = None if parent.topology is None else parent.topology.apart
        own = child.topology
        if apart is None or own is None or own.key is None or not own.required:
            return ""
        if apart in self.chain(own.key):
            return ""
        return f"{own.key} is no {apart} nor a finer level, by which {parent.key} keeps it apart"

    def _problem(self, topology: Topology, whose: str) -> str:
        key, apart = topology.key, topology.apart
        pairs = [(key, topology.prefer, "is preferred", "")]
        cuts = [level for level, _size in topology.slices]
        pairs += [(coarse, fine, "is of slices", "") for coarse, fine in pairwise([key, *cuts])]
        if whose == "copies":
            pairs.append((apart, key, "is of copies that are apart", apart or ""))
        else:
            pairs.append((key, apart, f"is of {'slices' if cuts else whose} that are apart", ""))
            finest = cuts[0] if cuts else None
            pairs.append((apart, finest, "is of slices that are apart", apart or ""))
        if topology.exclusive is not None:
            pairs.append((topology.exclusive, None, "", ""))
        for coarse, fine, what, same in pairs:
            for each in (coarse, fine):
                if self.topologies and each is not None and each not in self._chains:
                    known = ", ".join(self._chains)
                    return f"{each} is none of the levels of the scheduler: {known}"
            if coarse is None or fine is None or fine == same:
                continue
            if not self.topologies:
                return f"{fine} {what} within {coarse}, and the scheduler was given no levels"
            if coarse == fine or coarse not in self.chain(fine):
                return f"{fine} {what}, and is no finer level than {coarse}"
        return ""


LevelsGiven: TypeAlias = Levels | Iterable[str] | Iterable[Iterable[str]]
"""Label keys from the coarsest level to the finest; or several such topologies."""
NO_LEVELS: Final = Levels()


def _topologies(
    own: Topology | None, roles: Mapping[str, int | Role], whose: str
) -> Iterator[tuple[Topology, str]]:
    """Yield each constraint, with what its ``apart`` is about."""
    if own is not None:
        yield own, whose
    for role in roles.values():
        if isinstance(role, Role):
            below = "copies" if role.roles else "pods"
            yield from _topologies(role.topology, role.roles, below)


def as_levels(given: LevelsGiven) -> Levels:
    """Return levels as an option has them.

    Raises:
        InvalidValueError: They are malformed, or a label is in two places.
    """
    value: Any = given
    if isinstance(value, Levels):
        return value
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidValueError("levels", value, _EXPECTED)
    items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
    topologies = [items] if items and all(isinstance(each, str) for each in items) else items
    found: list[tuple[str, ...]] = []
    seen: set[str] = set()
    for each in topologies:
        if isinstance(each, str) or not isinstance(each, Iterable):
            raise InvalidValueError("levels", given, _EXPECTED)
        keys: list[Any] = list(each)  # pyright: ignore[reportUnknownArgumentType]
        if not keys or not all(isinstance(key, str) and key for key in keys):
            raise InvalidValueError("levels", given, _EXPECTED)
        for key in keys:
            if key in seen:
                raise InvalidValueError("levels", given, f"each label once, not {key} twice")
            seen.add(key)
        found.append(tuple(keys))
    return Levels(tuple(found))
