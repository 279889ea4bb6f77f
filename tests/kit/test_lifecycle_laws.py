"""The laws of restarts and quotas hold, and each finds a fault that is planted against it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from attrs import evolve, frozen

from gangsched import (
    Bind,
    Bound,
    ClusterState,
    Effect,
    Event,
    Evict,
    GroupKey,
    GroupRestarted,
    InMemoryCluster,
    InvalidValueError,
    NodeAdded,
    NodeDeleted,
    NodeName,
    PodAdded,
    PodDeleted,
    PodGroup,
    PodGroupAdded,
    PodUID,
    PodUpdated,
    Quota,
    RestartPolicy,
    Scheduler,
    presets,
)
from gangsched.simulation import (
    FAIL_SECONDS,
    RUN_SECONDS,
    Arrival,
    OwnerDeleted,
    Simulator,
    Workload,
)
from gangsched.simulation.faults import BindFails, FaultPlan, SchedulerRestarts
from gangsched.testing import QuotaLaw, RestartLaw, make_node, make_pod
from support.faults import (
    CountsRestartsTwice,
    EvictsNone,
    LosesEnds,
    Make,
    NoRestartBackoff,
    NoRestartLimit,
    SeesNoTerminatingPods,
    SeesTerminatingPodsOnNodes,
    faulty,
)

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

LIMITS = (
    Quota(name="team", namespaces=["default"], hard={"cpu": 4}),
    Quota(name="roomy", namespaces=["default"], hard={"cpu": 40, "gpu": 1}),
    Quota(name="org", hard={"cpu": 3}),
    Quota(name="lab", parent="org"),
    Quota(name="desk", parent="org", nominal={"cpu": 1}),
)


def make(cluster: ClusterState) -> Scheduler:
    return presets.gang(cluster, quotas=LIMITS)


def gang(
    name: str,
    at: float = 0.0,
    *,
    size: int = 2,
    least: int | None = None,
    fails_after: str = "",
    stated: bool = True,
    reserves: int = 0,
    limit: int = 2,
) -> list[Arrival]:
    """Return a gang that is restarted, with pods of one CPU."""
    group = PodGroup(
        name=name,
        min_available=size if least is None else least,
        restart=RestartPolicy(max_restarts=limit, backoff=10.0),
        min_resources={"cpu": reserves or size} if stated else {},
    )
    arrivals = [Arrival(at, PodGroupAdded(group))]
    for n in range(size):
        notes = {RUN_SECONDS: "60"}
        if fails_after and n == 0:
            notes[FAIL_SECONDS] = fails_after
        pod = evolve(make_pod(f"{name}-{n}", group=name, cpu=1), annotations=notes)
        arrivals.append(Arrival(at, PodAdded(pod)))
    return arrivals


def singles(name: str, count: int, at: float = 0.0, queue: str | None = None) -> list[Arrival]:
    """Return regular pods of one CPU, each of which runs for 30 s."""
    own: dict[str, Any] = {"annotations": {RUN_SECONDS: "30"}, "queue": queue}
    pods = (evolve(make_pod(f"{name}-{n}", cpu=1), **own) for n in range(count))
    return [Arrival(at, PodAdded(pod)) for pod in pods]


def workload(seed: int, *, stated: float = 0.5) -> Workload:
    """Return gangs that share a quota, some of which fail, and a node that is lost.

    Args:
        seed: What they are drawn from.
        stated: The share of the gangs that state their resources.
    """
    draw = random.Random(seed)
    arrivals = [Arrival(0.0, NodeAdded(make_node(f"n{n}", cpu=4))) for n in range(3)]
    arrivals.append(Arrival(float(draw.randint(5, 40)), NodeDeleted(NodeName("n0"))))
    for number in range(4):
        arrivals += gang(
            f"g{number}",
            float(draw.choice([0, 0, 3, 30])),
            size=draw.randint(1, 3),
            fails_after=draw.choice(["", "", "20"]),
            stated=draw.random() < stated,
        )
    for number, queue in enumerate((None, "lab", "desk")):
        at = float(draw.choice([0, 2, 20]))
        arrivals += singles(f"s{number}", draw.randint(0, 3), at, queue)
    return Workload(tuple(arrivals))


def unlimited(cluster: ClusterState) -> Scheduler:
    """Return a scheduler that knows no quota."""
    return presets.gang(cluster)


def limited(cluster: ClusterState) -> Scheduler:
    """Return a scheduler whose quota has half of what it should have."""
    return presets.gang(cluster, quotas=[evolve(LIMITS[0], hard={"cpu": 2}), *LIMITS[1:]])


def run(
    given: Workload,
    plan: FaultPlan | None = None,
    *,
    make: Make = make,
    is_late: bool = False,
) -> None:
    """Run a workload under the laws; *is_late* says whether events or answers may be late."""
    restarts, quotas = RestartLaw(with_faults=is_late), QuotaLaw(LIMITS)
    laws = (restarts,) if is_late else (restarts, quotas)
    simulator = Simulator(given, make, faults=plan, observers=laws)
    for law in laws:
        law.watch(simulator)
    simulator.run(until=600.0)


@pytest.mark.parametrize("seed", range(30))
def test_laws_hold(seed: int) -> None:
    run(workload(seed))
    run(workload(seed), FaultPlan.drawn(seed), is_late=True)
    # a scheduler that is replaced before the host has kept what it said is under no law
    faults = FaultPlan([SchedulerRestarts(seed + 5), BindFails(1 + seed % 5)])
    run(workload(seed, stated=1.0), faults)


@frozen
class Planted:
    """A faulty scheduler, and what the law says that finds it.

    Attributes:
        make: Makes the scheduler.
        said: What the violation says.
    """

    make: Make
    said: str


FAULTS = {
    "R2 no backoff": Planted(
        faulty(NoRestartBackoff, make), "and group default/g0 backs off until"
    ),
    "R3 counted twice": Planted(faulty(CountsRestartsTwice, make), "follows restart 1"),
    "R3 no limit": Planted(faulty(NoRestartLimit, make), "is not between 1 and its limit of 2"),
    "R4 nothing is evicted": Planted(faulty(EvictsNone, make), "is restarted, and default/g0"),
    "Q1 nothing is refused": Planted(
        unlimited, "quota team is exceeded: default/g0, default/g1 have cpu=6 of 4"
    ),
    "Q2 nothing is returned": Planted(faulty(LosesEnds, make), "for a quota that has enough left"),
    "Q2 a limit is too low": Planted(limited, "for a quota that has enough left"),
    "Q2 a terminating pod without a node counts as one that runs": Planted(
        faulty(SeesTerminatingPodsOnNodes, make),
        "group default/g1 waits at 60 for a quota that has enough left",
    ),
    "Q3 elastic members are not counted": Planted(
        unlimited, "quota team is exceeded by the bind of"
    ),
    "Q3 regular pods are not counted": Planted(
        unlimited, "quota team is exceeded by the bind of default/s-"
    ),
    "Q3 a quota does not count what is below it": Planted(
        unlimited, "quota org is exceeded by the bind of default/t-"
    ),
    "Q2 a limit is too low for a regular pod": Planted(limited, "pod:default/s-2 waits at"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_planted_fault_is_found(fault: Planted) -> None:
    nodes = [Arrival(0.0, NodeAdded(make_node(f"n{n}", cpu=4))) for n in range(3)]
    waiting = make_pod("g1-0", group="g1", cpu=1)
    stories = [
        Workload((*nodes, *gang("g0", size=6, least=2, stated=False))),
        Workload((*nodes, *gang("g0", reserves=3), *gang("g1", reserves=3))),
        Workload(
            (
                *nodes,
                *gang("g0", size=2),
                *gang("g1", 1.0, size=4, least=3, stated=False),
                Arrival(2.0, PodUpdated(evolve(waiting, deleted_at=2.0))),
            )
        ),
        Workload((*nodes, *gang("g0", size=3, fails_after="20"))),
        Workload((*nodes, *gang("g0", size=3), *gang("g1", 1.0, size=3))),
        Workload((*nodes, *gang("g0", size=3, stated=False), *gang("g1", size=3, stated=False))),
        Workload((*nodes, *singles("s", 6), *gang("g0", 40.0, size=3))),
        Workload((*nodes, *singles("t", 2, 0.0, "lab"), *singles("u", 2, 1.0, "desk"))),
        Workload((*nodes, *singles("u", 2, 0.0, "desk"), *singles("t", 2, 1.0, "lab"))),
    ]
    for story in stories:
        run(story)
    said: list[str] = []
    for story in stories:
        try:
            run(story, make=fault.make)
        except AssertionError as violation:
            said.append(str(violation))
    assert any(fault.said in each for each in said), said


class SlowEvictions:
    """A host whose evicted pods end when it is told so."""

    def __init__(self, make: Make = make) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler = make(self.cluster)
        self.scheduler.allow_evictions()
        self.law = RestartLaw()
        self.law.watch(self)
        self.evicted: list[PodUID] = []

    def tell(self, event: Event, now: float) -> None:
        self.law.event(event, now)
        self.took(self.scheduler.handle(self.cluster.apply(event), now=now), now)

    def took(self, effects: tuple[Effect, ...], now: float) -> None:
        self.law.effects(effects, now)
        for effect in effects:
            if isinstance(effect, Bind):
                self.tell(Bound(effect.uid, effect.node, effect.attempt), now)
            elif isinstance(effect, Evict):
                self.evicted.append(effect.uid)
                pod = self.cluster.pod(effect.uid)
                assert pod is not None
                self.tell(PodUpdated(evolve(pod, deleted_at=now)), now)

    def decide(self, now: float) -> None:
        self.took(self.scheduler.advance(now=now), now)
        while (effects := self.scheduler.schedule_one(now=now)) is not None:
            self.took(effects, now)
        self.law.settled(now)

    def on_nodes(self) -> set[str]:
        return {pod.name for pod in self.cluster.pods() if pod.node_name is not None}


def restart_with_old_pods(make: Make = make) -> SlowEvictions:
    """Return a host with a gang that is restarted, and whose old pods are still there."""
    host = SlowEvictions(make)
    host.tell(NodeAdded(make_node("n", cpu=9)), 0.0)
    for arrival in gang("g0", size=3):
        assert not isinstance(arrival.event, OwnerDeleted)
        host.tell(arrival.event, 0.0)
    host.decide(0.0)
    host.tell(PodDeleted(PodUID("default/g0-0")), 5.0)
    for n in range(3):
        host.tell(PodAdded(make_pod(f"new-{n}", group="g0", cpu=1)), 6.0)
    host.decide(30.0)
    return host


def test_pods_of_a_restarted_gang_wait_for_the_old_ones_under_the_law() -> None:
    host = restart_with_old_pods()
    assert host.on_nodes() == {"g0-1", "g0-2"}
    for uid in host.evicted:
        host.tell(PodDeleted(uid), 40.0)
    host.decide(50.0)
    assert host.on_nodes() == {"new-0", "new-1", "new-2"}


def test_member_that_is_bound_beside_old_pods_is_found() -> None:
    expected = "is bound beside default/g0-1, which was there before group default/g0 was restarted"
    with pytest.raises(AssertionError, match=expected):
        restart_with_old_pods(faulty(SeesNoTerminatingPods, make))


def test_law_of_restarts_that_watches_no_run_says_so() -> None:
    with pytest.raises(InvalidValueError, match="call watch"):
        RestartLaw().effects((GroupRestarted(GroupKey("default/g"), 1, 2, 0.0),), 0.0)


def test_law_of_quotas_that_watches_no_run_says_so() -> None:
    with pytest.raises(InvalidValueError, match="call watch"):
        QuotaLaw(LIMITS).settled(0.0)
