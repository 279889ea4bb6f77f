"""Which nodes like pods go to: the best one after another, or the fewest.

Each function takes capacity in a trial of the table, and returns one slot for each pod that fits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any

from gangsched.core.domains import EVERYWHERE, Domain, Path
from gangsched.core.gang_tree import HOST, Slices
from gangsched.core.node_table import NodeState
from gangsched.core.pod_class import PodClass

__all__ = ["best_nodes", "capacity", "fewest_nodes", "is_level"]


def best_nodes(pod_class: PodClass, number: int, domain: Domain) -> list[int]:
    """Take the best node, look at the state that it is in then, and so on.

    Of the nodes in one state, the one whose name is the first is taken.
    """
    table, needs = pod_class.table, pod_class.needs
    pod_class.refresh()
    if isinstance(domain, int):
        count = min(number, pod_class.within(domain))
        table.take(domain, needs, count)
        return [domain] * count
    if domain != EVERYWHERE:
        return _best_in(pod_class, number, domain)
    upcoming = pod_class.in_order()
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
        if len(found) < number and after not in met and pod_class.fits(after):
            met.add(after)
            heappush(again, (pod_class.rank(after), after.order, after.number, after))
    return found


def _best_in(pod_class: PodClass, number: int, domain: Path) -> list[int]:
    """Do what ``best_nodes`` does within a domain. O(nodes there)."""
    table, needs = pod_class.table, pod_class.needs
    heap = [
        (pod_class.rank(table.state_of[slot]), table.names[slot], slot)
        for slot in table.domains.slots(domain)
        if pod_class.fits(table.state_of[slot])
    ]
    heapify(heap)
    found: list[int] = []
    while heap and len(found) < number:
        _rank, name, slot = heappop(heap)
        found.append(slot)
        after = table.take(slot, needs)
        if pod_class.fits(after):
            heappush(heap, (pod_class.rank(after), name, slot))
    return found


def fewest_nodes(pod_class: PodClass, number: int, domain: Domain, slices: Slices) -> list[int]:
    """Take the fewest domains on each level down, nodes last; the tightest one for the rest."""
    found: list[int] = []
    for slot, count in _spread_out(pod_class, number, domain, slices):
        if count:
            pod_class.table.take(slot, pod_class.needs, count)
            found += [slot] * count
    return found


def capacity(pod_class: PodClass, domain: Domain, slices: Slices) -> int:
    """Return how many pods of a class a domain takes, in whole slices. Exact."""
    if not slices:
        return pod_class.within(domain)
    level, size = slices[0]
    if is_level(domain, level):
        return capacity(pod_class, domain, slices[1:]) // size * size
    if isinstance(domain, int):
        return 0  # a node is in no domain that a slice has to be in
    below = pod_class.table.domains.at(level, domain)
    return sum(capacity(pod_class, each, slices) for each in below)


def is_level(domain: Domain, level: str) -> bool:
    """Return whether a domain is one of a level."""
    if isinstance(domain, int):
        return level == HOST
    return level != HOST and bool(domain) and domain[-1][0] == level


def _spread_out(
    pod_class: PodClass, number: int, domain: Domain, slices: Slices
) -> Iterator[tuple[int, int]]:
    """Yield nodes, each with a number of pods. Pods beyond the last whole slice are left out."""
    if slices and is_level(domain, slices[0][0]):
        number -= number % slices[0][1]
        slices = slices[1:]
    if isinstance(domain, int):
        yield domain, min(number, pod_class.refresh().within(domain))
        return
    if slices:
        number -= number % slices[0][1]
        below: Iterable[Domain] = pod_class.table.domains.at(slices[0][0], domain)
    elif domain == EVERYWHERE:
        yield from _fewest_of_all(pod_class, number)
        return
    else:
        below = pod_class.table.domains.slots(domain)
    pod_class.refresh()
    table = pod_class.table
    sized = [
        (capacity(pod_class, d, slices), table.names[d] if isinstance(d, int) else d, d)
        for d in below
    ]
    groups: dict[int, list[tuple[int, object, Domain]]] = {}
    for entry in sized:
        if entry[0]:
            groups.setdefault(_score_of(pod_class, entry[2]), []).append(entry)
    for _score, entries in sorted(groups.items(), key=lambda item: item[0]):
        for each, count in _fewest(sorted(entries, key=lambda e: (e[0], e[1])), number):
            number -= count
            yield from _spread_out(pod_class, count, each, slices)


def _score_of(pod_class: PodClass, domain: Domain) -> int:
    """Return what orders a node before its capacity does; 0 for a domain of several nodes."""
    if not isinstance(domain, int):
        return 0
    return -pod_class.score(pod_class.table.state_of[domain])


def _fewest(sized: list[tuple[int, object, Domain]], number: int) -> Iterator[tuple[Domain, int]]:
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
    """Do what ``_fewest`` does with all nodes, which are in order already."""
    picks: list[tuple[int, int]] = []
    table = pod_class.table
    for states in _by_score(pod_class):
        sized: list[tuple[int, list[int]]] = []
        for fits, slots in states:
            sized.append((fits, slots))
        last = len(sized) - 1
        sizes = [fits for fits, _slots in sized]
        while number > 0 and last >= 0:
            index = bisect_left(sizes, number)
            if index <= last and sized[index][1]:
                picks.append((sized[index][1].pop(0), number))
                number = 0
                break
            if index <= last:  # all of these nodes are used
                del sized[index], sizes[index]
                last -= 1
                continue
            fits, slots = sized[last]
            while slots and number >= fits:
                picks.append((slots.pop(0), fits))
                number -= fits
            if not slots:
                del sized[last], sizes[last]
                last -= 1
        if not number:
            break
    assert len({slot for slot, _count in picks}) == len(picks), table
    return picks


def _by_score(pod_class: PodClass) -> Iterator[list[tuple[int, list[int]]]]:
    """Yield the capacities of nodes with their slots, ascending, for one score after another."""
    table = pod_class.refresh().table
    current: int | None = None
    sized: list[tuple[int, list[int]]] = []
    for rank, state in list(pod_class.in_order()):
        score, fits = pod_class.score(state), pod_class.bound(rank)
        if score != current and sized:
            yield sized
            sized = []
        current = score
        slots = table.slots_in(state)
        if sized and sized[-1][0] == fits:
            sized[-1] = (fits, sorted(sized[-1][1] + slots, key=table.names.__getitem__))
        else:
            sized.append((fits, slots))
    if sized:
        yield sized
