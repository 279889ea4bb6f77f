"""Whether pods fit in any order, so that even a scheduler without search must place them.

Rules:
  R1  pods *fit in any order* if enough of them find a node in every order of the pods, and with
      every choice of a node with enough free capacity;
  R2  for pods with equal requests, this is the same as to fit at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

__all__ = ["fit_in_any_order"]

Amounts = tuple[tuple[str, int], ...]
_MAX_STATES = 20_000


def fit_in_any_order(
    requests: Collection[Mapping[str, int]], free: Mapping[str, Mapping[str, int]], needed: int
) -> bool:
    """Return whether *needed* of the pods find nodes in any order.

    Runtime complexity: exponential in the number of distinct requests and distinct nodes. After
    20,000 states the search ends, and the answer is False.

    Args:
        requests: The requests of each pod.
        free: The free capacity of each node.
        needed: The number of pods that must find a node.
    """
    pods = tuple(sorted(_key(each) for each in requests))
    nodes = tuple(sorted(_key(each) for each in free.values()))
    if not 0 < needed <= len(pods):
        return needed <= 0
    if len(set(pods)) == 1:
        return sum(_times(pods[0], dict(node)) for node in nodes) >= needed
    seen: set[tuple[tuple[Amounts, ...], tuple[Amounts, ...], int]] = set()
    stack = [(pods, nodes, needed)]
    while stack:
        left, capacities, lacking = state = stack.pop()
        if lacking == 0 or state in seen:
            continue
        seen.add(state)
        if len(left) < lacking or len(seen) > _MAX_STATES:
            return False
        for pod in set(left):
            others = _without(left, pod)
            feasible = [capacity for capacity in set(capacities) if _times(pod, dict(capacity))]
            if not feasible:
                stack.append((others, capacities, lacking))
            for capacity in feasible:
                after = tuple(sorted((*_without(capacities, capacity), _less(capacity, pod))))
                stack.append((others, after, lacking - 1))
    return True


def _key(amounts: Mapping[str, int]) -> Amounts:
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))


def _times(pod: Amounts, capacity: Mapping[str, int]) -> int:
    return min((capacity.get(name, 0) // amount for name, amount in pod), default=1_000_000)


def _less(capacity: Amounts, pod: Amounts) -> Amounts:
    requested = dict(pod)
    return _key({name: amount - requested.get(name, 0) for name, amount in capacity})


def _without(items: tuple[Amounts, ...], item: Amounts) -> tuple[Amounts, ...]:
    at = items.index(item)
    return items[:at] + items[at + 1 :]
