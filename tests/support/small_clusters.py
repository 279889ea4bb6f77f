"""Small clusters and gangs of unlike members, and every way to place them.

Rules:
  R1  these classes alone decide what fits, one pod on one node, without plugins, classes or orders
      of the library;
  R2  the oracle knows resources, the maximum number of pods, a taint, a cordon and a label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TypeAlias, final

from attrs import evolve, frozen
from hypothesis import strategies as st

from gangsched import Node, NodeAdded, NodeName, Pod, Taint, Toleration
from gangsched.testing import make_pod
from support.gangs import GPU

__all__ = ["SmallCluster", "NodeKind", "MemberKind", "small_clusters"]

_Free: TypeAlias = tuple[tuple[int, int, int], ...]
"""For each node: free processors, accelerators, and number of pods."""

_ENDLESS = 1000


@frozen
class NodeKind:
    """A node."""

    cpu: int
    gpu: int = 0
    pods: int | None = None
    zone: str = "a"
    tainted: bool = False
    cordoned: bool = False


@frozen
class MemberKind:
    """Equal members of the gang."""

    count: int
    cpu: int = 1
    gpu: int = 0
    zone: str | None = None
    tolerant: bool = False
    role: str | None = None

    def may_use(self, seat: NodeKind) -> bool:
        """Return whether the members may use a node at all."""
        if seat.cordoned or (seat.tainted and not self.tolerant):
            return False
        return self.zone in (None, seat.zone)


@final
@frozen
class SmallCluster:
    """A cluster, a gang, and its minimum."""

    seats: tuple[NodeKind, ...]
    sorts: tuple[MemberKind, ...]
    needed: int
    boundless: str = ""
    roles: tuple[tuple[str, int], ...] = ()

    @property
    def nodes(self) -> list[NodeAdded]:
        """The nodes, as events."""
        return [NodeAdded(_node(number, seat)) for number, seat in enumerate(self.seats)]

    @property
    def pods(self) -> list[Pod]:
        """The members, kind by kind."""
        return [
            _member(f"{kind}-{number}", sort, self.needed)
            for kind, sort in enumerate(self.sorts)
            for number in range(sort.count)
        ]

    def most(self) -> int:
        """Return the maximum number of members that fit. Exponential in their number."""
        return max(sum(counts) for _free, counts in self._ways())

    def possible(self) -> bool:
        """Return whether a quorum fits, with the minimum of each role."""
        return any(self._is_enough(counts) for _free, counts in self._ways())

    def without_bound(self, resource: str) -> SmallCluster:
        """Return an equivalent node or pod without counting a resource."""
        return evolve(self, boundless=resource)

    def replay(self, placed: Mapping[str, str]) -> _Free:
        """Place members on given nodes; return the free capacity.

        Raises:
            AssertionError: A pod does not fit.
        """
        free = self._free
        for name, node in placed.items():
            then = self._put(free, self._sort_of(name), int(node.removeprefix("n")))
            assert then is not None, f"{name} does not fit on {node}"
            free = then
        return free

    def could_join(self, placed: Mapping[str, str]) -> list[str]:
        """Return which of the others fit beside some that are placed."""
        free, seats = self.replay(placed), range(len(self.seats))
        others = [pod.name for pod in self.pods if pod.name not in placed]
        return [
            name
            for name in others
            if any(self._put(free, self._sort_of(name), seat) is not None for seat in seats)
        ]

    @cached_property
    def _free(self) -> _Free:
        return tuple(
            (seat.cpu, seat.gpu, _ENDLESS if seat.pods is None else seat.pods)
            for seat in self.seats
        )

    def _sort_of(self, name: str) -> MemberKind:
        return self.sorts[int(name.partition("-")[0])]

    def _put(self, free: _Free, sort: MemberKind, number: int) -> _Free | None:
        if not sort.may_use(self.seats[number]):
            return None
        cpu, gpu, pods = free[number]
        asks_cpu = 0 if self.boundless == "cpu" else sort.cpu
        asks_gpu = 0 if self.boundless == GPU else sort.gpu
        if not pods or asks_cpu > cpu or asks_gpu > gpu:
            return None
        return (*free[:number], (cpu - asks_cpu, gpu - asks_gpu, pods - 1), *free[number + 1 :])

    def _is_enough(self, counts: tuple[int, ...]) -> bool:
        of_role: Counter[str | None] = Counter()
        for sort, count in zip(self.sorts, counts, strict=True):
            of_role[sort.role] += count
        return sum(counts) >= self.needed and all(of_role[r] >= n for r, n in self.roles)

    def _ways(self) -> Iterable[tuple[_Free, tuple[int, ...]]]:
        """Return the reachable free capacities, by number of placed members of each kind."""
        ways: set[tuple[_Free, tuple[int, ...]]] = {(self._free, (0,) * len(self.sorts))}
        for kind, sort in enumerate(self.sorts):
            for _ in range(sort.count):
                ways |= {
                    (then, (*counts[:kind], counts[kind] + 1, *counts[kind + 1 :]))
                    for free, counts in ways
                    for number in range(len(self.seats))
                    if (then := self._put(free, sort, number)) is not None
                }
        return ways

    def counts(self, placed: Mapping[str, str]) -> Counter[str]:
        """Return the number of members on each node."""
        return Counter(placed.values())


def _node(number: int, seat: NodeKind) -> Node:
    offers = {"cpu": seat.cpu, GPU: seat.gpu}
    if seat.pods is not None:
        offers["pods"] = seat.pods
    return Node(
        name=NodeName(f"n{number}"),
        allocatable=offers,
        labels={"zone": seat.zone, "host": f"n{number}"},
        taints=(Taint("reserved"),) if seat.tainted else (),
        unschedulable=seat.cordoned,
    )


def _member(name: str, sort: MemberKind, needed: int) -> Pod:
    pod = make_pod(
        name, group="g", min_available=needed, role=sort.role, cpu=sort.cpu, gpu=sort.gpu
    )
    return evolve(
        pod,
        node_selector={} if sort.zone is None else {"zone": sort.zone},
        tolerations=(Toleration("reserved", exists=True),) if sort.tolerant else (),
    )


_seats = st.builds(
    NodeKind,
    cpu=st.integers(0, 6),
    gpu=st.sampled_from([0, 0, 1, 2, 4]),
    pods=st.sampled_from([None, None, None, 1, 2]),
    zone=st.sampled_from("ab"),
    tainted=st.sampled_from([False, False, False, True]),
    cordoned=st.sampled_from([False] * 7 + [True]),
)
_sorts = st.builds(
    MemberKind,
    count=st.integers(1, 3),
    cpu=st.integers(0, 3),
    gpu=st.sampled_from([0, 0, 1, 2]),
    zone=st.sampled_from([None, None, None, "a", "b"]),
    tolerant=st.booleans(),
)


@st.composite
def small_clusters(draw: st.DrawFn) -> SmallCluster:
    """Return a small cluster and a gang, near the border between what fits and what does not."""
    seats = tuple(draw(st.lists(_seats, min_size=1, max_size=3)))
    sorts = tuple(draw(st.lists(_sorts, min_size=1, max_size=3)))
    size = min(sum(sort.count for sort in sorts), 6)
    small = SmallCluster(seats, sorts, 1)
    near = draw(st.sampled_from([0, 0, 1])) + small.most()
    return evolve(small, needed=max(1, min(near, size)))
