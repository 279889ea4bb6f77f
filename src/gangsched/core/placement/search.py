"""The complete search: when placing one after the other fails, decide whether there is a placement.

It chooses children where a sub group wants k of n, and a domain for each sub group with a
constraint. How many pods of each class a domain takes bounds the choice. What is left are numbers
of pods and free amounts of nodes: the packing search answers that, with a placement or a proof.
Where members read where the others are, that is a bound, and every order of them is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, final

from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.domains import EVERYWHERE, Domain
from gangsched.core.nodes.node_table import GONE, NodeTable
from gangsched.core.placement.orders import explore
from gangsched.core.placement.task import Task
from gangsched.core.placement.tree_walk import lacks, options
from gangsched.primitives.gang_tree import SubGroup
from gangsched.primitives.packing.pack import (
    BudgetExhausted,
    Impossible,
    Packed,
    PackingDemand,
    PackingQuota,
    pack,
)
from gangsched.primitives.standing import can_be_met, least_needed

__all__ = ["certain_minima", "explain", "search"]

_MOST_PARTS: Final = 250
"""The most sub groups of a tree that is searched: each is a call within that of the one before."""


def search(
    task: Task, budget: int, tree: SubGroup | None = None, under: Domain = EVERYWHERE
) -> bool:
    """Place the minima of a task; return False, with nothing placed, if none was found.

    Args:
        task: The members.
        budget: The steps of the search.
        tree: The sub group of which the minima are placed; None for the gang.
        under: The domain that was chosen for the sub group above it.
    """
    tree = tree or task.gang.tree
    is_apart = any(leaf.apart is not None for leaf in tree.leaves)
    is_like = not tree.children and len(task.pools.get(tree.key, {})) < 2
    asks_late = task.asks_some_late
    if is_like and (tree.within is None or is_apart) and not asks_late:
        return False  # of like members, counting was exact
    # where the others are matters to members that are apart, too: every order is tried
    asks_late |= is_apart
    if budget <= 0:
        task.gave_up = True
        return False
    if sum(1 for _ in tree.sub_groups()) > _MOST_PARTS:
        task.gave_up = True
        return False
    left, is_placed = budget, False
    for keys, domains in _ways(task, tree, under):
        if left <= 0:
            break
        if domains is None:
            left -= 1
            continue
        left, is_placed = _try(task, keys, domains, left, is_like=is_like, asks_late=asks_late)
        if is_placed:
            task.chosen.update(domains)
            break
    task.steps += budget - left
    task.gave_up |= not is_placed and left <= 0
    return is_placed


def _try(
    task: Task,
    keys: frozenset[str],
    domains: dict[str, Domain],
    left: int,
    *,
    is_like: bool,
    asks_late: bool,
) -> tuple[int, bool]:
    """Place the minima of some sub groups in given domains.

    Returns:
        The steps that are left of *left*, and whether the minima are placed.
    """
    point, steps, is_placed = task.save(), 0, True
    if not (asks_late and is_like):  # of like members, counting was exact
        steps, is_placed = _Problem(task, keys, domains).solve(left)
        task.is_most_exact &= is_placed
    left = max(left - steps - 1, 0)
    if is_placed and asks_late:
        task.restore(point)
        steps, is_placed = explore(task, keys, domains, left)
        left -= steps
    return left, is_placed


def explain(
    task: Task, budget: int, domain: Domain = EVERYWHERE
) -> Packed[Any, Any] | Impossible[Any] | BudgetExhausted:
    """Return why the minima of a tree are not met in a domain; nothing is placed.

    The quota of an answer is named by the key of its sub group. If some children are chosen, they
    are counted together: what is packed may be no placement, and what is impossible is.
    """
    keys = frozenset(each.key for each in task.gang.tree.sub_groups())
    problem = _Problem(task, keys, dict.fromkeys(keys, domain), is_certain=True)
    found: Packed[Any, Any] | Impossible[Any] | BudgetExhausted
    found = problem.answer(budget, explains=True)
    return found


def _ways(
    task: Task, tree: SubGroup, under: Domain
) -> Iterator[tuple[frozenset[str], dict[str, Domain] | None]]:
    """Yield every choice of sub groups, each with every choice of their domains.

    Of choices that differ only in which of like sub groups is where, one is yielded. A choice that
    has no domains at all is yielded with None: to find that out is a step, too.
    """
    for keys in _choices(task, tree, more=_needs_more(task)):
        is_found = False
        for domains, _number in _assignments(task, tree, keys, under, {}):
            is_found = True
            yield keys, domains
        if not is_found:
            yield keys, None


def _choices(task: Task, tree: SubGroup, *, more: bool) -> Iterator[frozenset[str]]:
    """Yield sets of sub groups, by key, that meet what each wants of its children.

    Args:
        task: The members.
        tree: A sub group.
        more: Whether more children may be needed than are wanted.
    """
    certain = {each.key for each in tree.certain()}
    for chosen in _chosen(task, tree, more=more) if tree.is_optional else [tree.children]:
        open_ones = [child for child in chosen if any(s.is_optional for s in child.sub_groups())]
        keys = certain.union(*({s.key for s in child.certain()} for child in chosen))
        yield from _of_each(task, open_ones, frozenset(keys), more=more)


def _of_each(
    task: Task, trees: Sequence[SubGroup], found: frozenset[str], *, more: bool
) -> Iterator[frozenset[str]]:
    """Yield sets of sub groups with each way to choose below some of them. Lazy: they are many."""
    if not trees:
        yield found
        return
    for below in _choices(task, trees[0], more=more):
        yield from _of_each(task, trees[1:], found | below, more=more)


def _chosen(task: Task, tree: SubGroup, *, more: bool) -> Iterator[list[SubGroup]]:
    """Yield which children may be the ones that a sub group wants; of like ones, the first.

    Those that lack no member cost nothing, and those that lack members that do not exist are out.
    There are more than it wants if the minimum of the gang may need them.
    """
    there = task.numbers
    free = [child for child in tree.children if not lacks(task, child)]
    free = free if more else free[: tree.wanted]
    others = [c for c in tree.children if lacks(task, c) and can_be_met(c, task.lacking, there)]
    like: dict[object, list[SubGroup]] = {}
    for child in others:
        like.setdefault(_signature(task, child), []).append(child)
    least = max(tree.wanted - len(free), 0)
    most = len(others) if more else least
    for total in range(least, most + 1):
        for numbers in _sums(total, [len(some) for some in like.values()]):
            some = zip(like.values(), numbers, strict=True)
            yield [*free, *(child for group, number in some for child in group[:number])]


def _needs_more(task: Task) -> bool:
    """Return whether a sub group lacks more members than the least that its children have to."""
    for tree in task.gang.tree.sub_groups():
        below = sorted(max(least_needed(child, task.lacking), 0) for child in tree.children)
        if tree.children and task.lacking(tree) > sum(below[: tree.wanted]):
            return True
    return False


def _sums(total: int, most: list[int]) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write a number as a sum of numbers up to *most* each."""
    if not most:
        if total == 0:
            yield ()
        return
    for first in range(min(total, most[0]), -1, -1):
        for others in _sums(total - first, most[1:]):
            yield (first, *others)


def _signature(task: Task, tree: SubGroup) -> object:
    """Return what is equal for sub groups of which no member runs, and that ask for the same."""
    if any(leaf.key in task.holding for leaf in tree.leaves):
        return tree.key
    pools = [
        tuple(sorted((c.number, len(records)) for c, records in task.pools.get(key, {}).items()))
        for key in [leaf.key for leaf in tree.leaves]
    ]
    lacking = tuple([task.lacking(sub) for sub in tree.sub_groups()])
    return tree.shape, tuple(pools), lacking


def _assignments(
    task: Task,
    tree: SubGroup,
    keys: frozenset[str],
    under: Domain,
    given: Mapping[str, Domain],
    first: int = 0,
) -> Iterator[tuple[dict[str, Domain], int]]:
    """Yield domains of the chosen sub groups: each below that of its parent, large enough alone.

    Args:
        task: The members.
        tree: A sub group.
        keys: The chosen sub groups.
        under: The domain of its parent.
        given: The domains that are chosen already.
        first: The first of its domains that may be chosen; its number is yielded, too.
    """
    domains = [under]
    if tree.within is not None:
        domains = list(dict.fromkeys([each for each, _cut in options(task, tree, under)]))
        if not domains and not lacks(task, tree):
            yield dict(given), 0  # its members stay away
    children = [child for child in tree.children if child.key in keys]
    for number, domain in enumerate(domains[first:], first):
        if not task.apart.is_left(tree, domain, given):
            continue
        for found in _each(task, children, keys, domain, {**given, tree.key: domain}):
            yield found, number


def _each(
    task: Task,
    children: list[SubGroup],
    keys: frozenset[str],
    domain: Domain,
    given: dict[str, Domain],
    first: int = 0,
) -> Iterator[dict[str, Domain]]:
    if not children:
        yield given
        return
    one, others = children[0], children[1:]
    is_like = bool(others) and _signature(task, one) == _signature(task, others[0])
    for found, number in _assignments(task, one, keys, domain, given, first):
        yield from _each(task, others, keys, domain, found, number if is_like else 0)


class _Node(NamedTuple):
    """What matters of a node: what it is, in which of the domains it is, and what is free."""

    kind: int
    where: frozenset[int]
    free: tuple[int, ...]


class _Kind(NamedTuple):
    """Interchangeable members: a class of pods, in a leaf."""

    leaf: str
    number: int


@final
class _Model:
    """The nodes as the packing search sees them; *unlimited* is a resource that is never short."""

    def __init__(
        self,
        task: Task,
        classes: Mapping[_Kind, PodClass],
        names: list[str],
        where: Mapping[_Kind, int],
        unlimited: str = "",
    ) -> None:
        self._task = task
        self._unlimited = unlimited
        self._classes = classes
        self._names = names
        self._where = where
        resources = task.table.resources
        places = {resources[n]: place for place, n in enumerate(names) if n != unlimited}
        self._compared = {
            kind: [(places[n], amount) for n, amount in pod_class.compared if n in places]
            for kind, pod_class in classes.items()
        }
        self._accepts: dict[tuple[int, int], bool] = {}
        self._states = {s.kind: s for s in task.table.states.values()}

    @property
    def binding(self) -> list[str]:
        """The resources that may be short."""
        return [name for name in self._names if name not in ("pods", self._unlimited)]

    def after(self, node: _Node, kind: _Kind) -> _Node | None:
        """Return the node with one more member; None if it does not take one."""
        domain = self._where[kind]
        if domain >= 0 and domain not in node.where:
            return None
        key = (kind.number, node.kind)
        accepts = self._accepts.get(key)
        if accepts is None:
            accepts = self._classes[kind].memo.accepts(self._states[node.kind])
            self._accepts[key] = accepts
        if not accepts:
            return None
        free = list(node.free)
        for place, need in self._compared[kind]:
            free[place] -= need
            if free[place] < 0:
                return None
        return node._replace(free=tuple(free))

    def free(self, node: _Node) -> Mapping[str, int]:
        """Return what is free on a node."""
        return dict(zip(self._names, node.free, strict=True))

    def without(self, resource: str) -> Any:
        """Return the nodes with a resource that is never short."""
        return _Model(self._task, self._classes, self._names, self._where, resource)


@final
class _Problem:
    """One choice of sub groups and domains, as demands, quotas and nodes."""

    def __init__(
        self,
        task: Task,
        keys: frozenset[str],
        domains: dict[str, Domain],
        *,
        is_certain: bool = False,
    ) -> None:
        self._task = task
        self._classes: dict[_Kind, PodClass] = {}
        self._demands: list[PackingDemand[Any]] = []
        self._where: dict[_Kind, int] = {}
        table, names = task.table, {"pods": None}
        places: dict[Domain, int] = {}
        for leaf, pool in task.pools.items():
            for pod_class, records in pool.items() if leaf in keys and leaf in domains else ():
                kind = _Kind(leaf, pod_class.number)
                self._classes[kind] = pod_class
                self._demands.append(PackingDemand(kind, len(records), pod_class.sample.requests))
                domain = domains[leaf]
                self._where[kind] = -1 if domain == () else places.setdefault(domain, len(places))
                names.update(dict.fromkeys(pod_class.sample.requests))
        self._names = sorted(names)
        minima = certain_minima(task) if is_certain else _minima(task, keys)
        self._quotas = [self._quota(tree, least) for tree, least in minima if least > 0]
        self._nodes: dict[_Node, list[int]] = {}
        self._add_nodes(table, places)

    def _quota(self, tree: SubGroup, least: int) -> PackingQuota[Any]:
        below = {leaf.key for leaf in tree.leaves}
        kinds = frozenset(kind for kind in self._classes if kind.leaf in below)
        return PackingQuota(kinds, least, tree.key)

    def _add_nodes(self, table: NodeTable, places: Mapping[Domain, int]) -> None:
        """Note the nodes in some domains, numbered, or all nodes if a member may go anywhere."""
        numbers = [table.resources[name] for name in self._names]
        inside: dict[int, set[int]] = {}
        for domain, number in places.items():
            for slot in table.domains.slots(domain):
                inside.setdefault(slot, set()).add(number)
        is_anywhere = -1 in self._where.values()
        for slot in range(len(table.state_of)) if is_anywhere else sorted(inside):
            state = table.state_of[slot]
            if state.kind != GONE:
                free = tuple([state.free[number] for number in numbers])
                node = _Node(state.kind, frozenset(inside.get(slot, ())), free)
                self._nodes.setdefault(node, []).append(slot)

    def answer(self, budget: int, *, explains: bool = False) -> Any:
        """Search; nothing is placed."""
        model: Any = _Model(self._task, self._classes, self._names, self._where)
        nodes = [(node, len(slots)) for node, slots in self._nodes.items()]
        quotas = self._quotas
        return pack(self._demands, quotas, nodes, model, budget=budget, explains=explains)

    def solve(self, budget: int) -> tuple[int, bool]:
        """Search; return the steps that it took, and whether the members are placed now."""
        answer = self.answer(budget)
        if type(answer) is Packed:
            self._carry_over(answer)
            return answer.steps, True
        return answer.steps, False

    def _carry_over(self, found: Any) -> None:
        """Take the placement that was found in the trial."""
        for node, takes in found.nodes:
            slot = self._nodes[node].pop(0)
            for kind, count in takes:
                self._task.take(kind.leaf, self._classes[kind], slot, count)


def certain_minima(task: Task) -> Iterator[tuple[SubGroup, int]]:
    """Yield how many members sub groups lack at least, whichever children are chosen."""
    for tree in task.gang.tree.certain():
        yield tree, least_needed(tree, task.lacking) if tree.is_optional else task.lacking(tree)


def _minima(task: Task, keys: frozenset[str]) -> Iterator[tuple[SubGroup, int]]:
    """Yield how many members the chosen sub groups still lack for their minima."""
    for tree in task.gang.tree.sub_groups():
        if tree.key in keys:
            yield tree, task.lacking(tree)
