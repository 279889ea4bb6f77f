"""Whatever fails, no part of a restarted gang runs beside its old pods, and the limit holds."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    GroupRestarted,
    NodeAdded,
    NodeDeleted,
    NodeName,
    Pod,
    PodAdded,
    PodGroup,
    PodGroupAdded,
    RestartPolicy,
)
from gangsched.simulation import FAIL_SECONDS, RUN_SECONDS, Arrival, Simulator, Workload
from gangsched.simulation.faults import FaultPlan
from gangsched.testing import make_node, make_pod
from support.examples import one_in
from support.restart_law import RecordedRestarts
from support.units import coscheduling

_seconds = st.sampled_from(["3", "7", "20", "40"])


@st.composite
def gangs(draw: st.DrawFn, number: int) -> list[Arrival]:
    """Return a gang with a policy, some of whose members fail."""
    name, minimum = f"g{number}", draw(st.integers(1, 3))
    limit = draw(st.integers(1, 3))
    policy = RestartPolicy(max_restarts=limit, backoff=draw(st.sampled_from([1.0, 5.0])))
    roles: dict[str, int] = draw(st.sampled_from([{}, {"ps": 1}]))
    group = PodGroup(name=name, min_available=minimum, restart=policy, roles=roles)
    at = draw(st.sampled_from([0.0, 0.0, 2.0, 9.0]))
    arrivals = [Arrival(at, PodGroupAdded(group))]
    for n in range(minimum + draw(st.integers(0, 1))):
        role = "ps" if roles and n == 0 else None
        pod = make_pod(f"{name}-{n}", group=name, role=role, cpu=draw(st.integers(1, 2)))
        arrivals.append(Arrival(at, PodAdded(_timed(draw, pod))))
    return arrivals


def _timed(draw: Any, pod: Pod) -> Pod:
    notes = {RUN_SECONDS: draw(_seconds)}
    if draw(st.booleans()):
        notes[FAIL_SECONDS] = draw(_seconds)
    return evolve(pod, annotations=notes)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Return gangs with policies on a few nodes, some of which go."""
    arrivals: list[Arrival] = []
    for n in range(draw(st.integers(1, 3))):
        arrivals.append(Arrival(0.0, NodeAdded(make_node(f"n{n}", cpu=draw(st.integers(2, 6))))))
        if draw(st.integers(0, 3)) == 0:
            arrivals.append(
                Arrival(draw(st.sampled_from([4.0, 11.0])), NodeDeleted(NodeName(f"n{n}")))
            )
    for number in range(draw(st.integers(1, 3))):
        arrivals += draw(gangs(number))
    return Workload(tuple(arrivals))


@one_in(4)
@given(workloads(), st.none() | st.integers(0, 99).map(FaultPlan.drawn))
def test_restarted_gang_is_never_mixed_and_restarted_at_most_as_often_as_its_limit(
    workload: Workload, faults: FaultPlan | None
) -> None:
    law = RecordedRestarts(with_faults=faults is not None)
    simulator = Simulator(workload, coscheduling, faults=faults, observers=[law])
    law.watch(simulator)
    for _instant in range(400):
        if simulator.step() is None:
            break
        simulator.scheduler._check()
    for _at, notice in law.of(GroupRestarted):
        assert notice.restarts <= notice.limit
