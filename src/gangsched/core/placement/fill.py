"""Which nodes like pods go to: the best one after another, the fewest, or as many as there are.

Each function takes capacity in a trial of the table, and returns one slot for each pod that fits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

from gangsched.core.evaluation.pod_class import PodClass
from gangsched.core.nodes.domains import EVERYWHERE, Domain, Path
from gangsched.core.nodes.node_table import NodeState
from gangsched.primitives.gang_tree import HOST, Slices

__all__ = [
    "best_nodes",
    "capacity",
    "evenly",
    "fewest",
    "fewest_domains",
    "fewest_nodes",
    "is_level",
    "most_nodes",
]

T = TypeVar("T")


def best_nodes(pod_class: PodClass, number: int, domain: Domain) -> list[int]:
    """Take the best node, look at the state that it is in then, and so on.

    Of the nodes in one state, the one whose name is the first is taken.
    """
    table, needs = pod_class.table, pod_class.needs
    pod_class.memo.refresh()
    if isinstance(domain, int):
        count = min(number, pod_class.memo.within(domain))
        table.take(domain, needs, count)
        return [domain] * count
    if domain != EVERYWHERE:
        return _best_in(pod_class, number, domain)
    upcoming = pod_class.memo.in_order()
    head = next(upcoming, None)
    again: list[tuple[int, Any, int, NodeState]] = []
    met: set[NodeState] = set()
    found: list[int] = []
    while len(found) < number:
        if again and (head is None or again[0][:2] <= (head[0], head[1].order)):
            state = again[0][3]
            if not state.count:
                heappop(again)
                met.discard(state)
                continue
        elif head is None:
            break
        else:
            state = head[1]
            if not state.count or state in met:
                head = next(upcoming, None)
                continue
        slot = table.first_in(state)
        after = table.take(slot, needs)
        found.append(slot)
        if len(found) < number and after not in met and pod_class.memo.fits(after):
            met.add(after)
            heappush(again, (pod_class.memo.rank(after), after.order, after.number, after))
    return found


def _best_in(pod_class: PodClass, number: int, domain: Path) -> list[int]:
    """Do what ``best_nodes`` does within a domain. O(nodes there)."""
    table, needs = pod_class.table, pod_class.needs
    heap = [
        (pod_class.memo.rank(table.state_of[slot]), table.names[slot], slot)
        for slot in table.domains.slots(domain)
        if pod_class.memo.fits(table.state_of[slot])
    ]
    heapify(heap)
    found: list[int] = []
    while heap and len(found) < number:
        _rank, name, slot = heappop(heap)
        found.append(slot)
        after = table.take(slot, needs)
        if pod_class.memo.fits(after):
            heappush(heap, (pod_class.memo.rank(after), name, slot))
    return found


def fewest_nodes(pod_class: PodClass, number: int, domain: Domain) -> list[int]:
    """Take the fewest nodes; the tightest one for the rest."""
    found: list[int] = []
    for slot, count in _spread_out(pod_class, number, domain):
        if count:
            pod_class.table.take(slot, pod_class.needs, count)
            found += [slot] * count
    return found


def most_nodes(
    pod_class: PodClass, number: int, domain: Domain, taken: Mapping[int, int]
) -> list[int]:
    """Take the node with the fewest siblings, and the best of those. O(nodes in the domain).

    Args:
        pod_class: The class of the pods.
        number: How many there are.
        domain: Where they may be.
        taken: How many siblings are on a node.
    """
    table = pod_class.memo.refresh().table
    heap: list[tuple[int, int, Any, str, int]] = []
    for slot in table.domains.slots(domain):
        state = table.state_of[slot]
        if pod_class.memo.fits(state):
            order = (taken.get(slot, 0), pod_class.memo.rank(state), state.order, table.names[slot])
            heap.append((*order, slot))
    heapify(heap)
    found: list[int] = []
    while heap and len(found) < number:
        siblings, _rank, _order, name, slot = heappop(heap)
        found.append(slot)
        after = table.take(slot, pod_class.needs)
        if pod_class.memo.fits(after):
            heappush(heap, (siblings + 1, pod_class.memo.rank(after), after.order, name, slot))
    return found


def fewest_domains(
    pod_class: PodClass, number: int, domains: Iterable[Domain]
) -> Iterator[tuple[Domain, int]]:
    """Yield the fewest domains that take so many pods, each with how many; nothing is taken."""
    memo, names = pod_class.memo.refresh(), pod_class.table.names
    sized = [(memo.within(d), names[d] if isinstance(d, int) else d, d) for d in domains]
    return fewest(sorted([e for e in sized if e[0]], key=lambda e: e[:2]), number)


def evenly(
    number: int, room: Mapping[T, int], held: Mapping[T, int], name: Callable[[T], Any]
) -> list[tuple[T, int]]:
    """Return the fewest domains that take so many, each with how many, as equal as can be.

    Of those that could take an equal part the smallest are chosen. O(domains log + number log).

    Args:
        number: How many there are.
        room: How many each domain takes.
        held: How many are in a domain already; such a domain is one of them in any case.
        name: Returns what orders equal domains.
    """
    sized = sorted([d for d, size in room.items() if size and d not in held], key=name)
    sized.sort(key=lambda domain: -room[domain])
    total, count = sum(room[domain] for domain in held), 0
    while total < number and count < len(sized):
        total += room[sized[count]]
        count += 1
    part = -(-(number + sum(held.values())) // max(count + len(held), 1))
    large = [domain for domain in sized if room[domain] >= part]
    if len(large) >= count:
        large.sort(key=lambda domain: (room[domain], name(domain)))
    chosen = large[:count]
    if sum(room[domain] for domain in (*held, *chosen)) < min(number, total):
        chosen = sized[:count]
    heap = [(held.get(each, 0), name(each), each) for each in (*held, *chosen)]
    heapify(heap)
    given: dict[T, int] = {}
    while heap and number:
        has, key, domain = heappop(heap)
        if given.get(domain, 0) < room[domain]:
            given[domain] = given.get(domain, 0) + 1
            number -= 1
            heappush(heap, (has + 1, key, domain))
    return list(given.items())


def capacity(pod_class: PodClass, domain: Domain, slices: Slices) -> int:
    """Return how many pods of a class a domain takes, in whole slices. Exact."""
    if not slices:
        return pod_class.memo.within(domain)
    level, size = slices[0]
    if is_level(domain, level):
        return capacity(pod_class, domain, slices[1:]) // size * size
    if isinstance(domain, int):
        return 0  # a node is in no domain that a slice has to be in
    if level == HOST:
        return pod_class.memo.within(domain, size)
    below = pod_class.table.domains.at(level, domain)
    return sum(capacity(pod_class, each, slices) for each in below)


def is_level(domain: Domain, level: str) -> bool:
    """Return whether a domain is one of a level."""
    if isinstance(domain, int):
        return level == HOST
    return level != HOST and bool(domain) and domain[-1][0] == level


def _spread_out(pod_class: PodClass, number: int, domain: Domain) -> Iterable[tuple[int, int]]:
    """Yield nodes, each with a number of pods."""
    memo, table = pod_class.memo.refresh(), pod_class.table
    if isinstance(domain, int):
        yield domain, min(number, memo.within(domain))
        return
    if domain == EVERYWHERE:
        yield from _fewest_of_all(pod_class, number)
        return
    groups: dict[int, list[tuple[int, object, int]]] = {}
    for slot in table.domains.slots(domain):
        fits, state = memo.within(slot), table.state_of[slot]
        if fits:  # a score goes before the number, and a domain in use before an empty one
            order = (table.empties[state.kind], table.names[slot])
            groups.setdefault(-memo.score(state), []).append((fits, order, slot))
    for _score, entries in sorted(groups.items(), key=lambda item: item[0]):
        for slot, count in fewest(sorted(entries, key=lambda e: (e[0], e[1])), number):
            number -= count
            yield slot, count


def fewest(sized: list[tuple[int, object, T]], number: int) -> Iterator[tuple[T, int]]:
    """Yield domains, each with a number: the largest, then the smallest that takes the rest."""
    last = len(sized) - 1
    sizes = [entry[0] for entry in sized]
    while number > 0 and last >= 0:
        index = bisect_left(sizes, number)
        if index <= last:
            yield sized[index][2], number
            return
        first = bisect_left(sizes, sizes[last])  # of equally large ones, the first by name
        entry = sized.pop(first)
        sizes.pop(first)
        yield entry[2], entry[0]
        number -= entry[0]
        last -= 1


def _fewest_of_all(pod_class: PodClass, number: int) -> list[tuple[int, int]]:
    """Do what ``fewest`` does with all nodes. O(states), and O(nodes log) of those that tie."""
    picks: list[tuple[int, int]] = []
    table = pod_class.memo.refresh().table
    for sized in _by_score(pod_class):
        sizes = [fits for fits, _states in sized]
        while number > 0 and sizes:
            index = bisect_left(sizes, number)
            if index < len(sizes):  # one node takes the rest: the smallest of those
                picks.append((table.first_of(sized[index][1], 1)[0], number))
                return picks
            # of equally large ones those come first whose domains are in use
            last = bisect_left(sizes, sizes[-1])
            fits, states = sized[last]
            slots = table.first_of(states, number // fits + 1)
            full = slots[: number // fits]
            picks += [(slot, fits) for slot in full]
            number -= fits * len(full)
            if number and len(full) < len(slots) and number > (sizes[last - 1] if last else 0):
                picks.append((slots[-1], number))
                return picks
            del sized[last], sizes[last]
        if not number:
            break
    return picks


def _by_score(pod_class: PodClass) -> Iterator[list[tuple[int, Collection[NodeState]]]]:
    """Yield the capacities with their states, ascending, for one score after another."""
    current: int | None = None
    sized: list[tuple[int, Collection[NodeState]]] = []
    for rank, states in pod_class.memo.by_rank():
        score = pod_class.memo.score_of(rank)
        if score != current and sized:
            yield sized
            sized = []
        current = score
        sized.append((pod_class.memo.bound(rank), states))
    if sized:
        yield sized
