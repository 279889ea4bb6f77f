"""The gang tree: what starts together, and within which domain.

A ``SubGroup`` is a node of the tree. A leaf stands for pods: those of one group, or those of one
role of it. A sub group states a minimum over the members below it, over its children (k of n), or
both. Whatever is a special case elsewhere is a shape of tree here:

- a regular pod: ``SubGroup("", 1)``;
- ``min_available``: ``SubGroup("", m)``;
- roles: ``SubGroup("", m, (SubGroup("ps", 1), ..., SubGroup(OTHERS)))``;
- a bundle of groups: ``SubGroup(key, children=(group, group, ...))``;
- any 3 of 4 replicas: ``SubGroup(key, children=(replica,) * 4, wanted=3)``.

Source: CompositePodGroup of KEP-6012, sub groups of KAI, ``subGroupPolicy`` of Volcano, gang groups
of Koordinator.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, final

from attrs import evolve, field, frozen

from gangsched.model import GroupKey, PodGroup, RestartPolicy, Role, Topology

__all__ = [
    "HOST",
    "OTHERS",
    "REGULAR",
    "Slices",
    "SubGroup",
    "Within",
    "group_tree",
    "tree_of",
    "under",
    "within",
]

HOST: Final = "kubernetes.io/hostname"
"""The level below all labels: a single node."""

OTHERS: Final = "/"
"""The key of the leaf of members without a role that is stated; no role is called so."""

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
        prefer: A finer level, of which they share one domain if they can; None for none.
    """

    level: str
    required: bool = True
    prefer: str | None = None


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
        group: The group of its pods; None for a regular pod, and for a group of groups.
        role: Of a leaf, the role of its pods; None for every role that no other leaf of the group
            has.
        is_copy: Whether it is a copy of a role, or a child of a group of groups; each of them
            starts as a whole, and preemption takes it as a whole.
        evicted_whole: Whether preemption may only evict all of its pods, and never a part of them.
        restart: Its policy if it is restarted alone when it falls below its minimum.
        slices: What its members are cut into by their numbers: of the first, a child for each, and
            a last one for the members that are in no slice. Empty for no slices.
        shape: Equal for sub groups that ask for the same, whatever their keys are.
        is_bound: Whether some of its members are bound to domains, not only preferably together.
        is_optional: Whether some of its children need not start.
        has_copies: Whether it is a copy of a role, or has one below it.
        restarted: What is restarted alone at or below it, parents first, by path.
    """

    key: str
    least: int = 0
    children: tuple[SubGroup, ...] = ()
    wanted: int = -1
    within: Within | None = None
    group: GroupKey | None = None
    role: str | None = None
    is_copy: bool = False
    evicted_whole: bool = False
    restart: RestartPolicy | None = None
    slices: Slices = ()
    shape: tuple[Any, ...] = field(init=False, eq=False, repr=False)
    _below: tuple[SubGroup, ...] = field(init=False, eq=False, repr=False)
    _constrained_below: tuple[SubGroup, ...] = field(init=False, eq=False, repr=False)
    is_bound: bool = field(init=False, eq=False, repr=False)
    is_optional: bool = field(init=False, eq=False, repr=False)
    has_copies: bool = field(init=False, eq=False, repr=False)
    restarted: Mapping[str, RestartPolicy] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        children, within = self.children, self.within
        wanted = len(children) if self.wanted < 0 else self.wanted
        below = tuple(child.shape for child in children)
        leaves = tuple(leaf for child in children for leaf in child.leaves)
        constrained = tuple(each for child in children for each in child.constrained)
        is_bound = within is not None and within.required
        restarted = {} if self.restart is None else {self.key: self.restart}
        for child in children:
            restarted |= child.restarted
        for name, value in (
            ("wanted", wanted),
            ("shape", (self.least, wanted, within, below)),
            ("_below", leaves),
            # not with itself, or it would refer to itself
            ("_constrained_below", constrained),
            ("is_bound", is_bound or any(child.is_bound for child in children)),
            ("is_optional", wanted < len(children)),
            ("has_copies", self.is_copy or any(child.has_copies for child in children)),
            ("restarted", restarted),
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

    @property
    def is_of_copies(self) -> bool:
        """Whether its children are copies, so that one that has started goes on without another."""
        return bool(self.children) and self.children[0].is_copy

    @property
    def cuts(self) -> tuple[SubGroup, ...]:
        """The slices that it is cut into; none for most."""
        return tuple([c for c in self.children if c.within is not None]) if self.slices else ()

    def is_in(self, leaves: Container[str]) -> bool:
        """Return whether a leaf of it is among some, by key."""
        return any(leaf.key in leaves for leaf in self.leaves)

    def find(self, key: str) -> SubGroup | None:
        """Return the sub group of a key, itself included; None if there is none."""
        return next((sub for sub in self.sub_groups() if sub.key == key), None)

    def copies(self) -> Iterator[SubGroup]:
        """Yield the copies of roles below it, the outer ones first."""
        for sub in self.sub_groups():
            if sub.is_copy:
                yield sub

    def paths(self) -> Iterator[tuple[SubGroup, tuple[SubGroup, ...]]]:
        """Yield each leaf, with what it is part of: the tree first, the leaf itself last."""
        if not self.children:
            yield self, (self,)
        for child in self.children:
            for leaf, above in child.paths():
                yield leaf, (self, *above)

    def certain(self) -> Iterator[SubGroup]:
        """Yield it and those below that start whichever children are chosen, parents first."""
        yield self
        for child in () if self.is_optional else self.children:
            yield from child.certain()

    def sub_groups(self) -> Iterator[SubGroup]:
        """Yield it and all sub groups below, parents first."""
        yield self
        for child in self.children:
            yield from child.sub_groups()


REGULAR: Final = SubGroup("", 1)
"""The tree of a regular pod."""


def group_tree(key: GroupKey, spec: PodGroup | None, minimum: int | None) -> SubGroup:
    """Return the tree of one group. If nothing states its minimum, only the gang policy decides.

    Its root has the key ``""``, and any other sub group that of its path in the group.

    Args:
        key: The key of the group.
        spec: The specification; None if only the labels of members define the group.
        minimum: The minimum that members claim; used without a specification.
    """
    if spec is None:
        return SubGroup("", minimum or 0, group=key)
    tree = tree_of(spec.min_available, spec.roles, key, spec.topology)
    return evolve(tree, evicted_whole=True) if spec.evicted_whole else tree


def tree_of(
    minimum: int,
    roles: Mapping[str, int | Role],
    group: GroupKey | None = None,
    topology: Topology | None = None,
) -> SubGroup:
    """Return the tree of a group by its minimum and its roles; see ``group_tree``."""
    where, slices = within(topology), () if topology is None else topology.slices
    children = [_of_role(name, role, group) for name, role in roles.items()]
    children += _slices("", minimum, slices, group)
    if not children:
        return SubGroup("", minimum, within=where, group=group)
    others = SubGroup(OTHERS, group=group)
    return SubGroup("", minimum, (*children, others), within=where, group=group, slices=slices)


def _slices(
    above: str, number: int, slices: Slices, group: GroupKey | None
) -> tuple[SubGroup, ...]:
    """Return the slices of so many members, given the beginning of their paths."""
    if not slices:
        return ()
    found: list[SubGroup] = []
    (level, size), inner = slices[0], slices[1:]
    for first in range(0, number, size):
        path, least = f"{above}slice-{first // size}", min(size, number - first)
        below = _slices(f"{path}/", least, inner, group)
        made = partial(SubGroup, path, within=Within(level), group=group)
        # of one that is cut again, the slices have the minima
        found.append(made(0, below, slices=inner) if below else made(least, role=path))
    return tuple(found)


def _of_role(path: str, role: int | Role, group: GroupKey | None) -> SubGroup:
    if isinstance(role, int):
        return SubGroup(path, role, group=group, role=path)
    made = partial(
        SubGroup,
        within=within(role.topology),
        group=group,
        evicted_whole=role.evicted_whole,
        restart=role.restart,
    )
    if not role.roles:
        slices = () if role.topology is None else role.topology.slices
        children = _slices(f"{path}/", role.needed, slices, group)
        if not children:
            return made(path, role.needed, role=path)
        others = SubGroup(f"{path}/{OTHERS}", group=group, role=path)
        return made(path, 0, (*children, others), slices=slices)
    copies = [f"{path}/{number}" for number in range(role.count)]
    children = tuple([made(copy, 0, _in_copy(copy, role, group), is_copy=True) for copy in copies])
    return SubGroup(path, children=children, wanted=role.needed, group=group)


def _in_copy(copy: str, role: Role, group: GroupKey | None) -> tuple[SubGroup, ...]:
    return tuple([_of_role(f"{copy}/{name}", each, group) for name, each in role.roles.items()])


def within(topology: Topology | None) -> Within | None:
    """Return where members may be by a topology constraint; None for none."""
    if topology is None or topology.key is None:
        return None
    return Within(topology.key, topology.required, prefer=topology.prefer)


def under(tree: SubGroup, key: str) -> SubGroup:
    """Return the tree of a group as a child of another one: its keys begin with *key*."""
    children = tuple([_below(child, key) for child in tree.children])
    return evolve(tree, key=key, children=children)


def _below(sub: SubGroup, key: str) -> SubGroup:
    """Return a sub group whose keys, which are whole paths, begin with the key of its group."""
    children = tuple([_below(child, key) for child in sub.children])
    return evolve(sub, key=f"{key}/{sub.key}", children=children)
