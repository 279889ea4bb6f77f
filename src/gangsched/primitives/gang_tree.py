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
    "kept_apart",
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
        balanced: Whether the domains below that are used take as equal numbers as they can.
    """

    level: str
    required: bool = True
    prefer: str | None = None
    balanced: bool = False


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
        is_copy: Whether it is a copy of a role, a slice, or a child of a group of groups; each of
            them starts as a whole, and preemption takes it as a whole.
        evicted_whole: Whether preemption may only evict all of its pods, and never a part of them.
        restart: Its policy if it is restarted alone when it falls below its minimum.
        slices: What its members are cut into by their numbers: of the first, a child for each, and
            a last one for the members that are in no slice. Empty for no slices.
        apart: The level of which no two of its children share a domain; of a leaf, no two members.
            None for no matter.
        exclusive: The level of which nobody else's pods are in a domain that its members are in.
        shape: Equal for sub groups that ask for the same, whatever their keys are.
        is_bound: Whether some of its members are bound to domains, not only preferably together.
        is_optional: Whether some of its children need not start.
        has_parts: Whether it, or something below it, starts as a whole: see ``copies``.
        exclusive_leaves: By the key of a leaf, the levels of which nobody else's pods are in a
            domain of its members; empty for most.
        has_apart: Whether it states ``apart``, or one below it does.
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
    apart: str | None = None
    exclusive: str | None = None
    shape: tuple[Any, ...] = field(init=False, eq=False, repr=False)
    _below: tuple[SubGroup, ...] = field(init=False, eq=False, repr=False)
    _constrained_below: tuple[SubGroup, ...] = field(init=False, eq=False, repr=False)
    is_bound: bool = field(init=False, eq=False, repr=False)
    is_optional: bool = field(init=False, eq=False, repr=False)
    has_parts: bool = field(init=False, eq=False, repr=False)
    exclusive_leaves: Mapping[str, tuple[str, ...]] = field(init=False, eq=False, repr=False)
    has_apart: bool = field(init=False, eq=False, repr=False)
    restarted: Mapping[str, RestartPolicy] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        children, within = self.children, self.within
        wanted = len(children) if self.wanted < 0 else self.wanted
        below = tuple(child.shape for child in children)
        leaves = tuple(leaf for child in children for leaf in child.leaves)
        constrained = tuple(each for child in children for each in child.constrained)
        is_bound = within is not None and within.required
        exclusive: dict[str, tuple[str, ...]] = {}
        for child in children:
            exclusive |= child.exclusive_leaves
        if self.exclusive is not None:
            for key in [leaf.key for leaf in leaves] or [self.key]:
                exclusive[key] = (*exclusive.get(key, ()), self.exclusive)
        restarted = {} if self.restart is None else {self.key: self.restart}
        starts_whole = self.is_copy or self.moves_alone
        for child in children:
            restarted |= child.restarted
        for name, value in (
            ("wanted", wanted),
            ("shape", (self.least, wanted, within, self.apart, self.exclusive, below)),
            ("_below", leaves),
            # not with itself, or it would refer to itself
            ("_constrained_below", constrained),
            ("is_bound", is_bound or any(child.is_bound for child in children)),
            ("is_optional", wanted < len(children)),
            ("has_parts", starts_whole or any(child.has_parts for child in children)),
            ("exclusive_leaves", exclusive),
            ("has_apart", self.apart is not None or any(child.has_apart for child in children)),
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
    def moves_alone(self) -> bool:
        """Whether its policy lets it move without the others: it starts as a whole, like a copy."""
        return self.restart is not None and self.restart.repair

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
        """Yield what starts as a whole at or below it, the outer ones first."""
        for sub in self.sub_groups():
            if sub.is_copy or sub.moves_alone:
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
    tree = _repaired(tree, spec.restart)
    return evolve(tree, evicted_whole=True) if spec.evicted_whole else tree


def _repaired(tree: SubGroup, policy: RestartPolicy | None) -> SubGroup:
    """Return a tree of which each part with a required domain is restarted alone, if repaired."""
    policy = tree.restart or policy
    children = tuple([_repaired(child, policy) for child in tree.children])
    if any(new is not old for new, old in zip(children, tree.children, strict=True)):
        tree = evolve(tree, children=children)
    is_bound = tree.key and tree.within is not None and tree.within.required
    if policy is None or not policy.repair or not is_bound or tree.restart is not None:
        return tree
    return evolve(tree, restart=policy)


def tree_of(
    minimum: int,
    roles: Mapping[str, int | Role],
    group: GroupKey | None = None,
    topology: Topology | None = None,
) -> SubGroup:
    """Return the tree of a group by its minimum and its roles; see ``group_tree``."""
    if not roles:
        return _of_pods("", minimum, topology, group=group)
    children = [_of_role(name, role, group) for name, role in roles.items()]
    others = SubGroup(OTHERS, group=group)
    return SubGroup("", minimum, (*children, others), group=group, **_where(topology))


def _where(topology: Topology | None) -> dict[str, Any]:
    """Return what a constraint says of all members together."""
    exclusive = None if topology is None else topology.exclusive
    return {"within": within(topology), "exclusive": exclusive}


def _of_pods(
    path: str, least: int, topology: Topology | None, *, role: str | None = None, **more: Any
) -> SubGroup:
    """Return a leaf; or what its members are cut into, and a leaf for those beyond the minimum."""
    made = partial(SubGroup, path, apart=topology and topology.apart, **_where(topology), **more)
    if topology is None or not topology.slices:
        return made(least=least, role=role)
    group, above = more["group"], f"{path}/" if path else ""
    others = SubGroup(f"{above}{OTHERS}", group=group, role=role)
    children = (*_slices(above, least, topology.slices, group), others)
    # the slices of a role have its minimum
    return made(least=0 if path else least, children=children, slices=topology.slices)


def _slices(
    above: str, number: int, slices: Slices, group: GroupKey | None
) -> tuple[SubGroup, ...]:
    """Return the slices of so many members, given the beginning of their paths."""
    found: list[SubGroup] = []
    (level, size), inner = slices[0], slices[1:]
    for first in range(0, number, size):
        path, least = f"{above}slice-{first // size}", min(size, number - first)
        made = partial(SubGroup, path, within=Within(level), group=group, is_copy=True)
        # of one that is cut again, the slices have the minima
        below = _slices(f"{path}/", least, inner, group) if inner else ()
        found.append(made(children=below, slices=inner) if below else made(least=least, role=path))
    return tuple(found)


def _of_role(path: str, role: int | Role, group: GroupKey | None) -> SubGroup:
    if isinstance(role, int):
        return SubGroup(path, role, group=group, role=path)
    of, where = role.topology, _where(role.topology)
    more: dict[str, Any] = {
        "group": group,
        "evicted_whole": role.evicted_whole,
        "restart": role.restart,
    }
    if not role.roles:
        return _of_pods(path, role.needed, of, role=path, **more)
    copies = {f"{path}/{n}": _in_copy(f"{path}/{n}", role, group) for n in range(role.count)}
    more = {**more, **where, "is_copy": True}
    children = tuple([SubGroup(key, children=some, **more) for key, some in copies.items()])
    tree = SubGroup(path, children=children, wanted=role.needed, group=group)
    return tree if of is None or of.apart is None else kept_apart(tree, of.apart)


def kept_apart(tree: SubGroup, level: str) -> SubGroup:
    """Return a tree whose children are each in a domain of a level that no other one is in."""
    return evolve(tree, children=tuple([_by_itself(c, level) for c in tree.children]), apart=level)


def _by_itself(child: SubGroup, level: str) -> SubGroup:
    where = child.within
    if where is None:
        return evolve(child, within=Within(level))
    if where.required:
        return child  # it is of that level or of a finer one, or the family is held
    return evolve(child, within=evolve(where, level=level, required=True, prefer=where.level))


def _in_copy(copy: str, role: Role, group: GroupKey | None) -> tuple[SubGroup, ...]:
    return tuple([_of_role(f"{copy}/{name}", each, group) for name, each in role.roles.items()])


def within(topology: Topology | None) -> Within | None:
    """Return where members may be by a topology constraint; None for none."""
    if topology is None or topology.key is None:
        return None
    return Within(topology.key, topology.required, topology.prefer, topology.balanced)


def under(tree: SubGroup, key: str) -> SubGroup:
    """Return the tree of a group as a child of another one: its keys begin with *key*."""
    children = tuple([_below(child, key) for child in tree.children])
    return evolve(tree, key=key, children=children)


def _below(sub: SubGroup, key: str) -> SubGroup:
    """Return a sub group whose keys, which are whole paths, begin with the key of its group."""
    children = tuple([_below(child, key) for child in sub.children])
    return evolve(sub, key=f"{key}/{sub.key}", children=children)
