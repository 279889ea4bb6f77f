"""The laws of restarts and quotas hold, and each finds a fault that is planted against it."""

from __future__ import annotations

import random
from types import ModuleType

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
from gangsched._core._quotas import QuotaLedger
from gangsched._core._restarts import Restarts
from gangsched.core import accounts, restarts
from gangsched.core.records import Records
from gangsched.framework.events import restart
from gangsched.framework.lifecycle import group_life
from gangsched.framework.queueing import quotas as admission
from gangsched.framework.state.pods import Pods
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
from support.planted_faults import ON_THE_CORE, plant

pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

LIMITS = (
    Quota(name="team", namespaces=["default"], hard={"cpu": 4}),
    Quota(name="roomy", namespaces=["default"], hard={"cpu": 40, "gpu": 1}),
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
    return Workload(tuple(arrivals))


def run(given: Workload, plan: FaultPlan | None = None, *, is_late: bool = False) -> None:
    """Run a workload under the laws; *is_late* says whether events or answers may be late."""
    of_restarts, of_quotas = RestartLaw(with_faults=is_late), QuotaLaw(LIMITS)
    laws = (of_restarts,) if is_late else (of_restarts, of_quotas)
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
    """A fault, and what the law says that finds it.

    Attributes:
        owner: The module or class of the changed function.
        name: The function.
        old: The replaced source.
        new: The source of the fault.
        said: What the violation says.
    """

    owner: ModuleType | type
    name: str
    old: str
    new: str
    said: str


FAULTS = {
    "R2 no backoff": Planted(
        *(Restarts, "try_start", "starts_at = life.until", "starts_at = -math.inf"),
        said="and group default/g0 backs off until",
    ),
    "R3 counted twice": Planted(
        *(Restarts, "observe", "life.restarts += 1", "life.restarts += 1 + (life.restarts > 0)"),
        said="follows restart 1",
    ),
    "R3 no limit": Planted(
        *(Restarts, "observe", "if life.restarts >= policy.max_restarts", "if False"),
        said="is not between 1 and its limit of 2",
    ),
    "R4 nothing is evicted": Planted(
        *(restart, "settle", "apply_verdict(state, EvictGroup(key, reason), now=now)", "pass"),
        said="is restarted, and default/g0",
    ),
    "Q1 nothing is refused": Planted(
        *(QuotaLedger, "charge", "if problem:", "if False:"),
        said="quota team is exceeded: default/g0, default/g1 have cpu=6 of 4",
    ),
    "Q2 nothing is returned": Planted(
        *(admission, "give_back", "ledger.release(info.key)", "pass"),
        said="for a quota that has enough left",
    ),
    "Q3 elastic members are not counted": Planted(
        *(Pods, "hold", "after is not member.held", "False"),
        said="quota team is exceeded by the bind of",
    ),
    "Q2 a terminating pod without a node counts as one that runs": Planted(
        *(
            admission,
            "_on_nodes",
            "each.pod.node_name is not None or each.node is not None",
            "True",
        ),
        said="group default/g1 waits at 60 for a quota that has enough left",
    ),
    "Q2 no group is asked again": Planted(
        *(restart, "settle", "quotas.that_fit(pods)", "()"),
        said="for a quota that has enough left",
    ),
}

if ON_THE_CORE:
    FAULTS.update(
        {
            "Q1 nothing is refused": Planted(
                *(accounts, "denial", "if problem:", "if False:"),
                said="quota team is exceeded: default/g0, default/g1 have cpu=6 of 4",
            ),
            "R4 nothing is evicted": Planted(
                *(
                    restarts,
                    "_judge_group",
                    "attempt.reject(state, gang, reason, evicts=True)",
                    "pass",
                ),
                said="is restarted, and default/g0",
            ),
            "Q2 nothing is returned": Planted(
                *(accounts, "charge", "ledger.release(info.key)", "pass"),
                said="for a quota that has enough left",
            ),
            "Q3 elastic members are not counted": Planted(
                *(Records, "_use", "self.quotas.hold(record.info.key, before, after)", "pass"),
                said="quota team is exceeded by the bind of",
            ),
            "Q2 a terminating pod without a node counts as one that runs": Planted(
                *(accounts, "_on_nodes", "record.slot >= 0 for", "True for"),
                said="quota team is exceeded by the bind of default/g1-1",
            ),
            "Q2 no group is asked again": Planted(
                *(accounts, "ask_waiting", "if not ledger.take_returned():", "if True:"),
                said="for a quota that has enough left",
            ),
        }
    )


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_planted_fault_is_found(fault: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
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
    ]
    for story in stories:
        run(story)
    plant(monkeypatch, fault.owner, fault.name, fault.old, fault.new)
    said: list[str] = []
    for story in stories:
        try:
            run(story)
        except AssertionError as violation:
            said.append(str(violation))
    assert any(fault.said in each for each in said), said


class SlowEvictions:
    """A host whose evicted pods end when it is told so."""

    def __init__(self) -> None:
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


def restart_with_old_pods() -> SlowEvictions:
    """Return a host with a gang that is restarted, and whose old pods are still there."""
    host = SlowEvictions()
    host.tell(NodeAdded(make_node("n", cpu=9)), 0.0)
    for arrival in gang("g0"):
        assert not isinstance(arrival.event, OwnerDeleted)
        host.tell(arrival.event, 0.0)
    host.decide(0.0)
    host.tell(PodDeleted(PodUID("default/g0-0")), 5.0)
    for n in range(2):
        host.tell(PodAdded(make_pod(f"new-{n}", group="g0", cpu=1)), 6.0)
    host.decide(30.0)
    return host


def test_pods_of_a_restarted_gang_wait_for_the_old_ones_under_the_law() -> None:
    host = restart_with_old_pods()
    assert host.on_nodes() == {"g0-1"}
    for uid in host.evicted:
        host.tell(PodDeleted(uid), 40.0)
    host.decide(50.0)
    assert host.on_nodes() == {"new-0", "new-1"}


def test_member_that_is_bound_beside_old_pods_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = restarts if ON_THE_CORE else group_life
    plant(monkeypatch, owner, "_gone_at", "policy.longest_backoff + max(", "max(")
    expected = "is bound beside default/g0-1, which was there before group default/g0 was restarted"
    with pytest.raises(AssertionError, match=expected):
        restart_with_old_pods()


def test_law_of_restarts_that_watches_no_run_says_so() -> None:
    with pytest.raises(InvalidValueError, match="call watch"):
        RestartLaw().effects((GroupRestarted(GroupKey("default/g"), 1, 2, 0.0),), 0.0)


def test_law_of_quotas_that_watches_no_run_says_so() -> None:
    with pytest.raises(InvalidValueError, match="call watch"):
        QuotaLaw(LIMITS).settled(0.0)
