"""Backfill and reservations honour the constraints between pods.

Gangs keep their members apart, spread them over zones, or take host ports; run times are exact.

- A pod is bound only where every constraint holds, by rules that share no code with the plugins,
  whether or not capacity is reserved at the time.
- A reserved gang starts at its expected start or before, whatever the constraints of the others
  are: a pod that would be in its way is backfilled only if it ends in time.
- Every gang starts, whatever the constraints of the others are.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import pytest
from attrs import evolve
from hypothesis import event as note_event
from hypothesis import given
from hypothesis import strategies as st

from gangsched import (
    AnnotatedRunTimes,
    Backfill,
    Bind,
    Effect,
    Event,
    GroupKey,
    HostPort,
    LabelSelector,
    Node,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodAffinityTerm,
    PodUID,
    TopologySpreadConstraint,
    presets,
)
from gangsched.simulation import RUN_SECONDS, Arrival, Simulator, Workload
from gangsched.testing import make_pod
from support import kube_rules
from support.account import claim_of
from support.backfill_host import Host, running
from support.checked_scheduler import checked_by, run_to_end, watched
from support.constrained_worlds import HOST, ZONE

pytestmark = pytest.mark.once("capacity is reserved with the unit group only")

Keeps = Literal["", "apart by host", "apart by zone", "spread", "a port"]
_KEEPS: Final[tuple[Keeps, ...]] = ("", "apart by host", "apart by zone", "spread", "a port")
_SECONDS: Final = ("1", "2", "5", "10", "20", "40")
_ZONES: Final = ("a", "b", "c")


def _constrained(pod: Pod, keeps: Keeps, label: str, port: int) -> Pod:
    """Return a pod with a label, and a constraint about pods with this label, or with this port."""
    labels = {**pod.labels, "app": label}
    alike = LabelSelector({"app": label})
    more: dict[str, Any] = {}
    if keeps.startswith("apart"):
        key = HOST if keeps == "apart by host" else ZONE
        more["pod_anti_affinity"] = [PodAffinityTerm(topology_key=key, label_selector=alike)]
    elif keeps == "spread":
        more["topology_spread_constraints"] = [
            TopologySpreadConstraint(max_skew=1, topology_key=ZONE, label_selector=alike)
        ]
    elif keeps == "a port":
        more["host_ports"] = [HostPort(port)]
    return evolve(pod, labels=labels, **more)


@st.composite
def _workloads(draw: st.DrawFn, *, shares: bool) -> Workload:
    """Draw gangs and pods, of which each fits on the empty cluster.

    Args:
        draw: Given by hypothesis.
        shares: Whether the constraints of some are about others: these have one label and port.
    """
    zones = [*_ZONES[: draw(st.integers(2, 3))], *draw(st.lists(st.sampled_from("ab"), max_size=1))]
    sizes = [draw(st.integers(2, 4)) for _zone in zones]
    arrivals = [
        Arrival(0.0, NodeAdded(_node(f"n{n}", zone, size)))
        for n, (zone, size) in enumerate(zip(zones, sizes, strict=True))
    ]
    most = len(set(zones))
    for number in range(draw(st.integers(4, 10))):
        keeps = draw(st.sampled_from(_KEEPS))
        count = draw(st.sampled_from((1, 1, 2, 3)))
        cpu = draw(st.integers(1, 2))
        count = min(count, most if keeps else sum(size // cpu for size in sizes))
        at = float(draw(st.integers(0, 12)))
        options: dict[str, Any] = {"cpu": cpu}
        if count > 1:
            options |= {"group": f"g{number}", "min_available": count}
        label = "shared" if shares and draw(st.booleans()) else f"own-{number}"
        port = 80 if label == "shared" else 8000 + number
        seconds = draw(st.sampled_from(_SECONDS))
        for n in range(count):
            pod = make_pod(f"p{number}-{n}", created_at=at, **options)
            pod = _constrained(pod, keeps, label, port)
            arrivals.append(Arrival(at, PodAdded(evolve(pod, annotations={RUN_SECONDS: seconds}))))
    return Workload(tuple(arrivals))


def _node(name: str, zone: str, cpu: int) -> Node:
    return Node(
        name=NodeName(name), allocatable={"cpu": cpu, "pods": 20}, labels={HOST: name, ZONE: zone}
    )


class _Watch:
    """Checks each bind against the rules of Kubernetes, and notes what was reserved."""

    def __init__(self) -> None:
        self.simulator: Any = None
        self.promised: dict[GroupKey, float] = {}
        self.started: dict[GroupKey, float] = {}
        self.backfilled = 0

    def event(self, event: Event, now: float) -> None: ...

    def effects(self, effects: tuple[Effect, ...], now: float) -> None:
        cluster = self.simulator.cluster
        nodes = {node.name: node for node in cluster.nodes()}
        binds = {PodUID(e.uid): e.node for e in effects if isinstance(e, Bind)}
        placed: list[tuple[Pod, Node]] = []
        for pod in cluster.pods():
            where = binds.get(pod.uid, pod.node_name)
            if where is not None and not pod.is_finished:
                placed.append((pod, nodes[where]))
        for pod, node in placed:
            if pod.uid in binds:
                others = [each for each in placed if each[0].uid != pod.uid]
                why = kube_rules.refusal(list(nodes.values()), others, pod, node, {})
                assert why is None, f"{pod.name} is bound to {node.name} at {now:g}: {why}"
                claim = claim_of(pod)
                if claim is not None:
                    self.started.setdefault(claim[0], now)
                held = checked_by(self.simulator).reservation
                self.backfilled += held is not None and (claim is None or claim[0] != held.group)

    def settled(self, now: float) -> None:
        held = checked_by(self.simulator).reservation
        if held is not None and held.starts_at is not None and held.group not in self.started:
            self.promised.setdefault(held.group, held.starts_at)


def _run(workload: Workload) -> _Watch:
    watch = _Watch()
    policy = Backfill(AnnotatedRunTimes(RUN_SECONDS))
    make = watched(lambda cluster: presets.gang(cluster, backfill=policy))
    watch.simulator = Simulator(workload, make, observers=(watch,))
    run_to_end(watch.simulator)
    assert all(job.is_finished for job in watch.simulator.jobs)
    note_event(f"pods bound beside a reservation: {min(watch.backfilled, 3)}")
    return watch


@given(_workloads(shares=True))
def test_pods_in_the_way_of_constraints_delay_no_reserved_gang(workload: Workload) -> None:
    _check_promises(_run(workload))


@given(_workloads(shares=False))
def test_pods_of_other_constraints_delay_no_reserved_gang(workload: Workload) -> None:
    _check_promises(_run(workload))


def _check_promises(watch: _Watch) -> None:
    for group, promised in watch.promised.items():
        assert watch.started[group] <= promised, f"{group} was promised {promised:g}"


# one reservation --------------------------------------------------------------------------------


def _reserving(keeps: Keeps) -> Host:
    """Return two nodes of size 3 with 1 free until 100, and a gang of 2 that is reserved both."""
    host = Host()
    for name, zone in (("a", "a"), ("b", "b")):
        host.tell(NodeAdded(_node(name, zone, 3)))
        old = evolve(make_pod(f"old-{name}", cpu=2), node_selector={HOST: name})
        host.tell(PodAdded(running(old, "100")))
    host.decide()
    for n in range(2):
        pod = running(make_pod(f"big-{n}", cpu=1, group="big", min_available=2), "10")
        # one node would take both but for the constraint, so the nodes show that it was honoured
        host.tell(PodAdded(evolve(_constrained(pod, keeps, "big", 80), requests={"cpu": 2})))
    host.decide()
    return host


def _nodes_of(host: Host, *names: str) -> list[str | None]:
    by_name = {pod.name: pod.node_name for pod in host.cluster.pods()}
    return [by_name[name] for name in names]


@pytest.mark.parametrize("keeps", _KEEPS)
def test_reserved_nodes_satisfy_the_constraints_of_the_gang(keeps: Keeps) -> None:
    host = _reserving(keeps)
    assert host.reservation.starts_at == 100
    assert sorted(host.reservation.nodes) == ["a", "b"]


@pytest.mark.parametrize("keeps", _KEEPS)
def test_short_pod_runs_on_a_reserved_node_and_constraints_hold(keeps: Keeps) -> None:
    host = _reserving(keeps)
    host.pod("short", 50)
    host.decide()
    assert _nodes_of(host, "short") != [None]
    assert host.reservation.starts_at == 100


def test_gang_apart_is_reserved_two_nodes_where_one_would_be_free_earlier() -> None:
    starts: dict[Keeps, tuple[float | None, list[str]]] = {}
    for keeps in ("", "apart by host"):
        host = Host()
        for name, seconds in (("a", "50"), ("b", "100")):
            host.tell(NodeAdded(_node(name, name, 2)))
            old = evolve(make_pod(f"old-{name}", cpu=2), node_selector={HOST: name})
            host.tell(PodAdded(running(old, seconds)))
        host.decide()
        for n in range(2):
            pod = running(make_pod(f"big-{n}", cpu=1, group="big", min_available=2), "10")
            host.tell(PodAdded(_constrained(pod, keeps, "big", 80)))
        host.decide()
        starts[keeps] = (host.reservation.starts_at, sorted(host.reservation.nodes))
    assert starts == {"": (50, ["a"]), "apart by host": (100, ["a", "b"])}


def test_pod_in_the_way_of_the_constraints_of_a_reserved_gang_waits_for_it() -> None:
    host = _reserving("a port")
    long = running(make_pod("long", cpu=1), "1000")
    host.tell(PodAdded(_constrained(long, "a port", "other", 80)))
    host.decide()
    assert _nodes_of(host, "long") == [None]
