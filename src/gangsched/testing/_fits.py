"""Whether pods surely fit: however they are placed one after the other.

Rules:
  R1  pods *surely fit* when as many as are needed find a node in every order and by every choice
      of nodes: so a scheduler needs no search to be held to it;
  R2  for pods that ask for the same that is: when they fit at all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

__all__ = ["surely_fit"]

Amounts = tuple[tuple[str, int], ...]
_ENOUGH = 20_000


def surely_fit(
    requests: Collection[Mapping[str, int]], free: Mapping[str, Mapping[str, int]], needed: int
) -> bool:
    """Say whether *needed* of the pods surely fit.

    Exponential in the number of unlike pods and unlike nodes; where there are too many of them,
    the answer is no.

    Args:
        requests: What each pod asks for.
        free: What each node has free.
        needed: How many have to find a node.
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
        left, rooms, lacking = state = stack.pop()
        if lacking == 0 or state in seen:
            continue
        seen.add(state)
        if len(left) < lacking or len(seen) > _ENOUGH:
            return False
        for pod in set(left):
            others = _without(left, pod)
            fitting = [room for room in set(rooms) if _times(pod, dict(room))]
            if not fitting:
                stack.append((others, rooms, lacking))
            for room in fitting:
                after = tuple(sorted((*_without(rooms, room), _less(room, pod))))
                stack.append((others, after, lacking - 1))
    return True


def _key(amounts: Mapping[str, int]) -> Amounts:
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))


def _times(pod: Amounts, room: Mapping[str, int]) -> int:
    return min((room.get(name, 0) // amount for name, amount in pod), default=1_000_000)


def _less(room: Amounts, pod: Amounts) -> Amounts:
    asked = dict(pod)
    return _key({name: amount - asked.get(name, 0) for name, amount in room})


def _without(items: tuple[Amounts, ...], item: Amounts) -> tuple[Amounts, ...]:
    at = items.index(item)
    return items[:at] + items[at + 1 :]
