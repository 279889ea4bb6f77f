"""The gang tree: what starts together, and within which domain.

A ``SubGroup`` is a node of the tree. A leaf stands for pods: those of one group, or those of one
role of it. A sub group states a minimum over the members below it, over its children (k of n), or
both. Whatever is a special case elsewhere is a shape of tree here:

- a regular pod: ``SubGroup("", 1)``;
- ``min_available``: ``SubGroup(key, m)``;
- roles: ``SubGroup(key, m, (SubGroup(key/ps, 1), ..., SubGroup(key/)))``;
- a bundle of groups: ``SubGroup(key, children=(group, group, ...))``;
- any 3 of 4 replicas: ``SubGroup(key, children=(replica,) * 4, wanted=3)``.

Source: CompositePodGroup of KEP-6012, sub groups of KAI, ``subGroupPolicy`` of Volcano, gang groups
of Koordinator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias, final

from attrs import field, frozen

from gangsched.model import GroupKey, PodGroup

__all__ = [
    "HOST",
    "REGULAR",
    "Slices",
    "SubGroup",
    "Within",
    "group_tree",
]

HOST: Final = "kubernetes.io/hostname"
"""The level below all labels: a single node."""

Slices: TypeAlias = tuple[tuple[str, int], ...]
"""Pairs of level and size, outermost first; each size divides the one before it."""


@final
@frozen
class Within:
    """Where the members of a sub group may be.

    Attributes:
        level: The members share one domain of this level: one value of this node label.
        required: Whether a sub group that fits into no such domain waits. If not, the levels above
            are tried, up to the whole cluster.
        slices: The members are cut into slices, and each slice shares a domain of its level.
    """

    level: str
    required: bool = True
    slices: Slices = ()


@final
@frozen
class SubGroup:
    """A node of a gang tree; its root is the gang.

    Attributes:
        key: Unique in the tree.
        least: The number of members below it that start together, at least.
        children: What it consists of; empty for a leaf.
        wanted: How many of the children must meet their own minima.
        within: Where its members may be; None for anywhere.
        group: Of a leaf, the group of its pods; None for a regular pod.
        role: Of a leaf, the role of its pods; None for every role that no other leaf of the group
            has.
        shape: Equal for sub groups that ask for the same, whatever their keys are.
        is_bound: Whether some of its members are bound to domains, not only preferably together.
        is_optional: Whether some of its children need not start.
    """

    key: str
    least: int = 0
    children: tuple[SubGroup, ...] = ()
    wanted: int = -1
    within: Within | None = None
    group: GroupKey | None = None
    role: str | None = None
    shape: tuple[Any, ...] = field(init=False, eq=False, repr=False)
    _below: tuple[SubGroup, ...] = field(init=False, eq=False, repr=False)
    _constrained_below: tuple[SubGroup, ...] = field(init=False, eq=False, repr=False)
    is_bound: bool = field(init=False, eq=False, repr=False)
    is_optional: bool = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        children, within = self.children, self.within
        wanted = len(children) if self.wanted < 0 else self.wanted
        below = tuple(child.shape for child in children)
        leaves = tuple(leaf for child in children for leaf in child.leaves)
        constrained = tuple(each for child in children for each in child.constrained)
        is_bound = within is not None and (within.required or bool(within.slices))
        for name, value in (
            ("wanted", wanted),
            ("shape", (self.least, wanted, within, below)),
            ("_below", leaves),
            # not with itself, or it would refer to itself
            ("_constrained_below", constrained),
            ("is_bound", is_bound or any(child.is_bound for child in children)),
            ("is_optional", wanted < len(children)),
        ):
            object.__setattr__(self, name, value)

    @property
    def leaves(self) -> tuple[SubGroup, ...]:
        """The leaves below it; of a leaf, itself."""
        return self._below or (self,)

    @property
    def constrained(self) -> tuple[SubGroup, ...]:
        """The sub groups with a domain constraint, itself included, parents first."""
        below = self._constrained_below
        return below if self.within is None else (self, *below)

    def sub_groups(self) -> Iterator[SubGroup]:
        """Yield it and all sub groups below, parents first."""
        yield self
        for child in self.children:
            yield from child.sub_groups()


REGULAR: Final = SubGroup("", 1)
"""The tree of a regular pod."""


def group_tree(key: GroupKey, spec: PodGroup | None, minimum: int | None) -> SubGroup:
    """Return the tree of one group. If nothing states its minimum, only the gang policy decides.

    Args:
        key: The key of the group.
        spec: The specification; None if only the labels of members define the group.
        minimum: The minimum that members claim; used without a specification.
    """
    if spec is None:
        return SubGroup(key, minimum or 0, group=key)
    topology = spec.topology
    within = None if topology is None else Within(topology.key, topology.required)
    if not spec.roles:
        return SubGroup(key, spec.min_available, within=within, group=key)
    roles = [SubGroup(f"{key}/{r}", n, group=key, role=r) for r, n in spec.roles.items()]
    others = SubGroup(f"{key}/", group=key)
    return SubGroup(key, spec.min_available, (*roles, others), within=within)
