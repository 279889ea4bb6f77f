"""A scheduler that the oracle checks under any driver, and small workloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from attrs import evolve
from hypothesis import note
from hypothesis import strategies as st

from gangsched import (
    ClusterState,
    Effect,
    Event,
    Node,
    NodeAdded,
    NodeDeleted,
    NodeName,
    NodeUpdated,
    Pod,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    Scheduler,
)
from gangsched.simulation import RUN_SECONDS, Arrival, Simulator, Workload
from gangsched.testing import make_pod
from support.driver import list_to
from support.oracle import LawOracle
from support.units import coscheduling

__all__ = ["CheckedScheduler", "run_to_end", "watched", "checked_by", "workloads"]


class CheckedScheduler:
    """Passes calls on to a scheduler, and checks its effects against the laws."""

    def __init__(self, scheduler: Scheduler, cluster: ClusterState) -> None:
        self.inner = scheduler
        self._cluster = cluster
        self._oracle = LawOracle(cluster=cluster)
        self._listed = False

    def handle(self, *events: Event, now: float) -> tuple[Effect, ...]:
        self._list(now)
        for event in events:
            self._oracle.event(event, now)
        return self._took(self.inner.handle(*events, now=now), now) or ()

    def advance(self, *, now: float) -> tuple[Effect, ...]:
        self._list(now)
        return self._took(self.inner.advance(now=now), now) or ()

    def schedule_one(self, *, now: float) -> tuple[Effect, ...] | None:
        self._list(now)
        return self._took(self.inner.schedule_one(now=now), now)

    def rebuild(self, *, now: float) -> tuple[Effect, ...]:
        self._list(now, again=True)
        return self._took(self.inner.rebuild(now=now), now) or ()

    def next_deadline(self) -> float | None:
        return self.inner.next_deadline()

    def _list(self, now: float, *, again: bool = False) -> None:
        if again or not self._listed:
            list_to(self._oracle, self._cluster, now)
            self._listed = True

    def _took(self, effects: tuple[Effect, ...] | None, now: float) -> tuple[Effect, ...] | None:
        self._oracle.effects(effects or (), now)
        self.inner._check()
        return effects


def watched(
    make: Callable[[ClusterState], Scheduler] = coscheduling,
) -> Callable[[ClusterState], Scheduler]:
    """Return a factory of watched schedulers, which have the calls of a scheduler."""

    def made(cluster: ClusterState) -> Scheduler:
        return cast("Scheduler", CheckedScheduler(make(cluster), cluster))

    return made


def checked_by(simulator: Simulator) -> Scheduler:
    """Return the scheduler that is watched, of a simulator that was given what ``watched`` made."""
    return cast("CheckedScheduler", simulator.scheduler).inner


def run_to_end(simulator: Simulator, *, instants: int = 1000) -> Simulator:
    """Run until nothing is left to do, within a bounded number of instants."""
    for _ in range(instants):
        if simulator.step() is None:
            break
    else:
        raise AssertionError(f"law 5: still going on at {simulator.now:g}")
    note(f"injected: {simulator.injected_faults}")
    simulator.jobs._check()
    return simulator


_instants = st.sampled_from([0.0, 0.0, 0.0, 1.0, 2.5, 12.0])


@st.composite
def _gangs(draw: st.DrawFn, number: int) -> list[Arrival]:
    """Return the pods of a gang, sometimes with a specification, sometimes one of them too few."""
    minimum = draw(st.integers(2, 3))
    size = minimum + draw(st.sampled_from([0, 0, 0, 1, -1]))
    options: dict[str, Any] = {"group": f"g{number}", "cpu": draw(st.integers(1, 2))}
    arrivals: list[Arrival] = []
    if draw(st.booleans()):
        arrivals.append(
            Arrival(
                draw(_instants), PodGroupAdded(PodGroup(name=f"g{number}", min_available=minimum))
            )
        )
    at, seconds = draw(_instants), draw(st.sampled_from([None, "4", "20"]))
    for n in range(size):
        pod = make_pod(f"g{number}-{n}", min_available=minimum, **options)
        arrivals.append(
            Arrival(at + n * draw(st.sampled_from([0, 0, 1])), PodAdded(_run(pod, seconds)))
        )
    return arrivals


def _run(pod: Pod, seconds: str | None) -> Pod:
    return pod if seconds is None else evolve(pod, annotations={RUN_SECONDS: seconds})


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Return small workloads: nodes that come, change and go, gangs, and regular pods."""
    arrivals: list[Arrival] = []
    for n in range(draw(st.integers(1, 3))):
        node = Node(name=NodeName(f"n{n}"), allocatable={"cpu": draw(st.integers(1, 4))})
        arrivals.append(Arrival(0.0, NodeAdded(node)))
        change = draw(st.sampled_from([None, None, "cordon", "grow", "go"]))
        later = draw(st.sampled_from([3.0, 15.0]))
        if change == "go":
            arrivals.append(Arrival(later, NodeDeleted(node.name)))
        elif change == "grow":
            arrivals.append(Arrival(later, NodeUpdated(evolve(node, allocatable={"cpu": 6}))))
        elif change == "cordon":
            arrivals.append(Arrival(later, NodeUpdated(evolve(node, unschedulable=True))))
    for number in range(draw(st.integers(1, 3))):
        arrivals += draw(_gangs(number))
    for n in range(draw(st.integers(0, 2))):
        pod = _run(make_pod(f"s{n}", cpu=1), draw(st.sampled_from([None, "5"])))
        arrivals.append(Arrival(draw(_instants), PodAdded(pod)))
    pods = [a.event.pod.uid for a in arrivals if isinstance(a.event, PodAdded)]
    for index in draw(st.lists(st.integers(0, len(pods) - 1), max_size=2)) if pods else ():
        arrivals.append(Arrival(14.0, PodDeleted(PodUID(pods[index]))))
    return Workload(tuple(arrivals))
