"""The oracle of packing: it tries every placement of single pods on single nodes.

Rules:
  R1  it shares only the arguments with the tested module: no kinds, counts, bounds or orders;
  R2  its nodes are fair, and have filters besides resources: a maximum number of pods, kinds that
      exclude one another, and kinds that are banned from a node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from itertools import pairwise
from random import Random
from typing import TypeAlias, final

from attrs import evolve, frozen

from gangsched.primitives.packing.pack import (
    BudgetExhausted,
    Impossible,
    Packed,
    PackingDemand,
    PackingQuota,
    pack,
)

__all__ = [
    "ODD_NODES",
    "ODD_SIZES",
    "Answer",
    "Box",
    "Case",
    "Oracle",
    "Shelf",
    "box",
    "random_case",
    "solve",
]


@frozen(cache_hash=True)
class Box:
    """A node: its label, its free capacity, and its pods.

    Attributes:
        label: The label that filters read.
        free: Its free capacity, by resource, in name order.
        pods: Its pods, in name order.
        most: Its maximum number of pods.
    """

    label: str
    free: tuple[tuple[str, int], ...]
    pods: tuple[str, ...] = ()
    most: int = 99


def box(label: str = "n", *, gpu: int = 0, cpu: int = 0, most: int = 99) -> Box:
    """Return an empty node."""
    return Box(label, (("cpu", cpu), ("gpu", gpu)), most=most)


_SIZES: Mapping[str, int] = {"a": 3, "b": 5, "c": 2, "d": 7}
ODD_SIZES: Mapping[str, Mapping[str, int]] = {
    kind: {"gpu": size, "cpu": 9 - size} for kind, size in _SIZES.items()
}
"""The requests of four kinds of pods that leave gaps beside each other."""

ODD_NODES = [(box(gpu=gpu, cpu=31 - gpu), 2) for gpu in range(11, 20)]
"""Nodes that 13 pods of each kind fill, by search only; of 14 of each, two are left over."""


@frozen(eq=False)
class Shelf:
    """A set of nodes.

    Attributes:
        requests: The requests of each kind of pod.
        rivals: Pairs of kinds that are never on one node.
        banned: Pairs of kind and label.
        boundless: The resource that is not counted.
        counted: The resources that bounds may rely on.
    """

    requests: Mapping[str, Mapping[str, int]]
    rivals: frozenset[frozenset[str]] = frozenset()
    banned: frozenset[tuple[str, str]] = frozenset()
    boundless: str = ""
    counted: frozenset[str] = frozenset({"cpu", "gpu"})

    @property
    def binding(self) -> frozenset[str]:
        return self.counted - {self.boundless}

    def after(self, node: Box, pod: str) -> Box | None:
        if (pod, node.label) in self.banned or len(node.pods) >= node.most:
            return None
        if any(frozenset({pod, other}) in self.rivals for other in node.pods):
            return None
        free = dict(node.free)
        for name, amount in self.requests[pod].items():
            if name != self.boundless and amount:
                if amount > free.get(name, 0):
                    return None
                free[name] -= amount
        return evolve(node, free=tuple(sorted(free.items())), pods=tuple(sorted([*node.pods, pod])))

    def free(self, node: Box) -> Mapping[str, int]:
        return dict(node.free)

    def without(self, resource: str) -> Shelf:
        return evolve(self, boundless=resource)


Answer: TypeAlias = Packed[Box, str] | Impossible[str] | BudgetExhausted


@frozen
class Case:
    """Arguments of ``pack``."""

    counts: Mapping[str, int]
    quotas: tuple[PackingQuota[str], ...]
    nodes: tuple[tuple[Box, int], ...]
    room: Shelf
    budget: int = 1_000_000


def solve(case: Case) -> Answer:
    """Call the tested module."""
    demands = [
        PackingDemand(kind, count, case.room.requests[kind]) for kind, count in case.counts.items()
    ]
    return pack(demands, case.quotas, case.nodes, case.room, budget=case.budget)


@final
class Oracle:
    """Every set of pods that can be placed at once.

    Runtime complexity: exponential in the number of pods.
    """

    def __init__(self, case: Case) -> None:
        self.case = case
        self._without: dict[str, set[tuple[str, ...]]] = {}
        self.quotas = tuple(quota for quota in case.quotas if quota.at_least)

    @cached_property
    def ways(self) -> set[tuple[str, ...]]:
        """Every set of pods that can be placed, each in order of the demands."""
        return self._reach(self.case.room)

    def possible(self) -> bool:
        """Return whether all quotas can be met at once."""
        return any(_met(way, self.quotas) for way in self.ways)

    def meeting(self, quotas: tuple[PackingQuota[str], ...]) -> Iterator[tuple[str, ...]]:
        """Return the placements that meet some quotas."""
        return (way for way in self.ways if _met(way, quotas))

    def count(self, way: tuple[str, ...], quota: PackingQuota[str]) -> int:
        """Return how many pods of one placement count for a quota."""
        return _count(way, quota)

    def judge(self, answer: Answer) -> None:
        """Compare an answer with all possible placements.

        Raises:
            AssertionError: The answer is wrong or missing.
        """
        if isinstance(answer, BudgetExhausted):
            raise AssertionError(f"{self.case} was not decided")
        if isinstance(answer, Packed):
            self._replay(answer)
        else:
            self._confirm(answer)

    def _lifted(self, name: str) -> set[tuple[str, ...]]:
        if name not in self._without:
            self._without[name] = self._reach(self.case.room.without(name))
        return self._without[name]

    def _reach(self, room: Shelf) -> set[tuple[str, ...]]:
        nodes = tuple(box for box, count in self.case.nodes for _ in range(count))
        after = cache(room.after)
        ways: set[tuple[tuple[str, ...], tuple[Box, ...]]] = {((), nodes)}
        for pod in (kind for kind, count in self.case.counts.items() for _ in range(count)):
            ways |= {
                ((*placed, pod), (*boxes[:index], then, *boxes[index + 1 :]))
                for placed, boxes in ways
                for index, box in enumerate(boxes)
                if (then := after(box, pod)) is not None
            }
        return {placed for placed, _boxes in ways}

    def _replay(self, answer: Packed[Box, str]) -> None:
        case = self.case
        left = [box for box, count in case.nodes for _ in range(count)]
        placed: list[str] = []
        for box, taken in answer.nodes:
            left.remove(box)
            assert taken, f"{case}: {box} is not used"
            assert all(one[0] != two[0] for one, two in pairwise(taken)), f"{case}: {taken}"
            state: Box | None = box
            for pod in (pod for pod, number in taken for _ in range(number)):
                assert state is not None
                state = case.room.after(state, pod)
                assert state is not None, f"{case}: {box} cannot take {taken}"
                placed.append(pod)
        assert all(placed.count(pod) <= case.counts[pod] for pod in placed), f"{case}: too many"
        assert _met(tuple(placed), case.quotas), f"{case}: {placed} is not enough"
        for pod in set(placed):
            fewer = placed.copy()
            fewer.remove(pod)
            assert not _met(tuple(fewer), case.quotas), f"{case}: {pod} is not needed"

    def _confirm(self, answer: Impossible[str]) -> None:
        case, quotas = self.case, self.quotas
        assert not self.possible(), f"{case}: there is a way"
        alone = [q for q in quotas if not any(_met(way, (q,)) for way in self.ways)]
        few = range(1, len(quotas) + 1)
        number = next(n for n in few if not any(_met(way, quotas[:n]) for way in self.ways))
        earlier, quota = ((), alone[0]) if alone else (quotas[: number - 1], quotas[number - 1])
        assert (quota, bool(alone)) == (answer.quota, answer.alone), case
        fits = max(_count(way, quota) for way in self.ways if _met(way, earlier))
        assert (fits, True) == (answer.fits, answer.exact), case
        pending = sum(n for kind, n in case.counts.items() if kind in quota.kinds)
        assert pending == answer.pending, case
        self._confirm_resource(answer, (*earlier, quota))

    def _confirm_resource(
        self, answer: Impossible[str], quotas: tuple[PackingQuota[str], ...]
    ) -> None:
        case = self.case
        lifted = {
            name: [way for way in self._lifted(name) if _met(way, quotas)]
            for name in ("cpu", "gpu")
        }
        short = {name for name, ways in lifted.items() if ways}
        expected: set[str | None] = {*short} or {None}
        assert answer.resource in expected, case
        if answer.resource is not None:
            name = answer.resource
            # what is free on a node that takes none of the pods, as on a cordoned one, is of no use
            asked = {pod for quota in quotas for pod in quota.kinds if case.counts.get(pod)}
            room = case.room.without(name)
            free = sum(
                max(0, dict(node.free)[name]) * count
                for node, count in case.nodes
                if any(room.after(node, pod) is not None for pod in asked)
            )
            taken = [
                sum(case.room.requests[pod].get(name, 0) for pod in way) for way in lifted[name]
            ]
            assert (min(taken) <= free) if answer.in_pieces else (max(taken) > free), case


def _count(placed: tuple[str, ...], quota: PackingQuota[str]) -> int:
    return sum(pod in quota.kinds for pod in placed)


def _met(placed: tuple[str, ...], quotas: tuple[PackingQuota[str], ...]) -> bool:
    return all(_count(placed, quota) >= quota.at_least for quota in quotas)


def random_case(random: Random) -> Case:
    """Make a small case, near the border between possible and impossible."""
    kinds = "abcd"[: random.randint(1, 4)]
    both = random.random() < 0.6
    requests = {
        kind: {"gpu": random.randint(0, 6), "cpu": random.randint(0, 5) if both else 0}
        for kind in kinds
    }
    counts = {kind: random.randint(1, (6, 3, 2, 2)[len(kinds) - 1]) for kind in kinds}
    nodes = tuple(
        (
            Box(
                label,
                (("cpu", random.randint(-1, 9)), ("gpu", random.randint(0, 11))),
                most=random.choice([99, 99, 2, 3]),
            ),
            random.choice([1, 1, 2]),
        )
        for label in "xyz"[: random.randint(1, 3)]
    )
    rivals = frozenset(
        frozenset(random.choices(kinds, k=2)) for _ in range(random.choice([0, 0, 0, 1]))
    )
    banned = frozenset(
        (random.choice(kinds), random.choice("xyz")) for _ in range(random.choice([0, 0, 1, 2]))
    )
    counted = random.choice([("cpu", "gpu"), ("gpu",), ()])
    room = Shelf(requests, rivals, banned, counted=frozenset(counted))
    return Case(counts, _random_quotas(random, counts), nodes, room)


def _random_quotas(random: Random, counts: Mapping[str, int]) -> tuple[PackingQuota[str], ...]:
    kinds = list(counts)
    shape = random.choice(["whole", "whole", "roles", "roles", "bundle", "any"])
    parts: list[list[str]] = [kinds] if shape in ("whole", "roles") else []
    if shape == "roles":
        parts += [[kind] for kind in kinds if random.random() < 0.5]
    elif shape == "bundle":
        cut = random.randint(0, len(kinds))
        parts += [part for part in (kinds[:cut], kinds[cut:]) if part]
    elif shape == "any":
        parts += [random.sample(kinds, random.randint(1, len(kinds))) for _ in range(2)]
    random.shuffle(parts)
    quotas: list[PackingQuota[str]] = []
    for part in parts:
        pending = sum(counts[kind] for kind in part)
        slack = random.choice([0, 0, 0, 1, 2, -1 if random.random() < 0.1 else 0])
        quotas.append(PackingQuota(frozenset(part), max(0, pending - slack)))
    return tuple(quotas)
