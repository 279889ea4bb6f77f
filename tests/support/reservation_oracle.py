"""Check reservations: is the expected start of a gang the earliest one, and is it kept?

The expected start is compared with an independent computation, from the nodes, the bind time and
the run time of each pod. It knows one resource and gangs of equal members, and shares no code
with the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from attrs import define, evolve, field
from hypothesis import strategies as st

from gangsched import (
    AnnotatedRunTimes,
    Backfill,
    Bind,
    ClusterState,
    Effect,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodUID,
    Reservation,
    Scheduler,
    presets,
)
from gangsched.simulation import RUN_SECONDS, Arrival, Workload
from gangsched.testing import make_pod
from support.account import claim_of
from support.checked_scheduler import CheckedScheduler

__all__ = ["EXACT", "ReservationOracle", "holder", "judged", "workloads"]

EXACT = AnnotatedRunTimes(RUN_SECONDS)
_ROUNDING = 1e-9


@st.composite
def workloads(draw: st.DrawFn, *, priorities: bool = False) -> Workload:
    """Return gangs and pods of many sizes and lengths on a small cluster; each fits if it is empty.

    Gangs come with all their members, and there are no faults.
    """
    sizes = draw(st.lists(st.integers(2, 5), min_size=2, max_size=4))
    arrivals = [
        Arrival(0.0, NodeAdded(Node(name=NodeName(f"n{n}"), allocatable={"cpu": cpu})))
        for n, cpu in enumerate(sizes)
    ]
    for number in range(draw(st.integers(3, 12))):
        cpu = draw(st.sampled_from([1, 1, 1, 2]))
        room = sum(size // cpu for size in sizes)
        count = min(draw(st.sampled_from([1, 1, 1, 2, 3, 5, 8, 13])), room)
        at = float(draw(st.integers(0, 40)))
        seconds = draw(st.sampled_from(["1", "2", "5", "5.5", "10", "20", "33", "40"]))
        options: dict[str, Any] = {"cpu": cpu}
        if count > 1:
            options |= {"group": f"g{number}", "min_available": count}
        priority = draw(st.integers(0, 1)) if priorities else 0
        for n in range(count):
            pod = make_pod(f"p{number}-{n}", priority=priority, created_at=at, **options)
            arrivals.append(Arrival(at, PodAdded(evolve(pod, annotations={RUN_SECONDS: seconds}))))
    return Workload(tuple(arrivals))


@define(eq=False)
class ReservationOracle:
    """The observed reservations.

    Attributes:
        bound_at: When each pod was bound.
        promised: The earliest expected start of each gang or pod with a reservation, by its key.
        started: When each of these started.
        reservations: Every distinct reservation, in order.
    """

    bound_at: dict[PodUID, float] = field(factory=dict)
    promised: dict[str, float] = field(factory=dict)
    started: dict[str, float] = field(factory=dict)
    reservations: list[Reservation] = field(factory=list)

    def earliest(self, cluster: ClusterState, key: str, now: float) -> float:
        """Return when a gang or a pod fits if running pods end on time, and no others come."""
        waiting = [p for p in cluster.pods() if _key(p) == key and p.node_name is None]
        each = waiting[0].requests.amount("cpu")
        ends = {now: now}
        for pod in self._running(cluster):
            ends.setdefault(self.end(pod), self.end(pod))
        for instant in sorted(ends):
            if instant >= now and self._room(cluster, each, instant) >= len(waiting):
                return instant
        raise AssertionError(f"{key} does not fit on the empty cluster")

    def end(self, pod: Pod) -> float:
        """Return when a running pod ends."""
        return self.bound_at[pod.uid] + float(pod.annotations[RUN_SECONDS])

    def _running(self, cluster: ClusterState) -> list[Pod]:
        return [pod for pod in cluster.pods() if pod.node_name and not pod.is_finished]

    def _room(self, cluster: ClusterState, each: int, instant: float) -> int:
        free = {node.name: node.allocatable.amount("cpu") for node in cluster.nodes()}
        for pod in self._running(cluster):
            if self.end(pod) > instant and pod.node_name is not None:
                free[pod.node_name] -= pod.requests.amount("cpu")
        return sum(amount // each for amount in free.values())


def holder(reservation: Reservation) -> str:
    """Return the key of the gang, or of the pod, that has a reservation."""
    return str(reservation.group or reservation.pod)


def _key(pod: Pod) -> str:
    claim = claim_of(pod)
    return pod.key if claim is None else str(claim[0])


class _CheckedByOracle(CheckedScheduler):
    """Passes calls on to a scheduler, and checks its reservations."""

    def __init__(
        self, scheduler: Scheduler, cluster: ClusterState, reservations: ReservationOracle
    ) -> None:
        super().__init__(scheduler, cluster)
        self._jury = reservations

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        effects = super().schedule_one(now=now)
        cluster, reservations = self._cluster, self._jury
        for effect in effects or ():
            if isinstance(effect, Bind):
                reservations.bound_at[effect.uid] = now
                pod = cluster.pod(effect.uid)
                if pod is not None:
                    reservations.started.setdefault(_key(pod), now)
        reservation = self.inner.reservation
        if reservation is None or holder(reservation) in reservations.started:
            return effects
        if not reservations.reservations or reservations.reservations[-1] != reservation:
            reservations.reservations.append(reservation)
        if reservation.starts_at is not None:
            reservations.promised.setdefault(holder(reservation), reservation.starts_at)
            self._is_the_earliest(reservation, effects or (), now)
        return effects

    def _is_the_earliest(
        self, reservation: Reservation, effects: tuple[Effect, ...], now: float
    ) -> None:
        """Check that an expected start is the earliest, also after this decision."""
        assert reservation.starts_at is not None
        shown = _AsDecided(self._cluster, effects)
        earliest = self._jury.earliest(cast("ClusterState", shown), holder(reservation), now)
        assert abs(earliest - reservation.starts_at) <= _ROUNDING, (
            f"{reservation}, and it could start at {earliest:g}"
        )


class _AsDecided:
    """The cluster after the effects of a call are performed."""

    def __init__(self, cluster: ClusterState, effects: tuple[Effect, ...]) -> None:
        self._cluster = cluster
        self._nodes = {e.uid: e.node for e in effects if isinstance(e, Bind)}

    def nodes(self) -> list[Node]:
        return list(self._cluster.nodes())

    def pods(self) -> list[Pod]:
        return [
            evolve(pod, node_name=self._nodes[pod.uid]) if pod.uid in self._nodes else pod
            for pod in self._cluster.pods()
        ]


def judged(
    reservations: ReservationOracle, policy: Backfill
) -> Callable[[ClusterState], Scheduler]:
    """Return a factory of schedulers that the reservation oracle and the oracle check."""

    def made(cluster: ClusterState) -> Scheduler:
        return cast(
            "Scheduler",
            _CheckedByOracle(presets.gang(cluster, backfill=policy), cluster, reservations),
        )

    return made
