"""``why`` of a gang whose minimum is met while further members are pending says that it runs."""

from __future__ import annotations

import pytest
from attrs import evolve

from gangsched import Bind, Bound, Event, InMemoryCluster, NodeAdded, PodAdded, presets
from gangsched.cli._ahead import queue_ahead
from gangsched.events import PodDeleted
from gangsched.explain import NoNodeFits, NotAdmitted, PartlyRunning, Running, in_utc
from gangsched.model import GroupKey, PodUID
from gangsched.simulation import Simulator
from gangsched.simulation.workload import Arrival, Workload
from gangsched.testing import make_node, make_pod

G = GroupKey("default/g")


class Host:
    """A scheduler and its cluster of one node with four CPUs; all binds succeed."""

    def __init__(self) -> None:
        self.cluster = InMemoryCluster()
        self.scheduler = presets.gang(self.cluster)
        self.tell(NodeAdded(make_node("a", cpu=4)))

    def tell(self, *events: Event) -> None:
        for event in events:
            self.scheduler.handle(self.cluster.apply(event), now=0.0)
        while (effects := self.scheduler.schedule_one(now=0.0)) is not None:
            self.tell(*(Bound(e.uid, e.node, e.attempt) for e in effects if isinstance(e, Bind)))

    def add(self, *names: str, cpu: int = 1, gates: tuple[str, ...] = ()) -> None:
        pods = (make_pod(name, group="g", min_available=2, cpu=cpu) for name in names)
        self.tell(*(PodAdded(evolve(pod, scheduling_gates=gates)) for pod in pods))


@pytest.fixture
def host() -> Host:
    found = Host()
    found.add("w0", "w1")
    assert found.scheduler.why(G) == Running(None, 2)
    return found


def test_why_of_a_running_gang_says_how_many_members_run_and_why_others_wait(host: Host) -> None:
    host.add("w2", "w3", "w4", "w5")
    why = host.scheduler.why(G)
    assert isinstance(why, PartlyRunning)
    assert (why.members, why.pending, why.min_available) == (4, 2, 2)
    assert not why.is_below_minimum
    assert isinstance(why.rest, NoNodeFits)
    said = (
        "runs: 4 of 6 members hold nodes, and its minimum of 2 is met; 2 wait: pod default/w4 does"
        " not fit: 0/1 nodes are available: 1 Insufficient cpu."
    )
    assert str(why) == said
    assert in_utc(why) == said
    assert host.scheduler.why("default/w5") == why, "a pending member has the answer of its group"


def test_why_of_a_running_gang_with_one_pending_member_says_waits(host: Host) -> None:
    host.add("big", cpu=9)
    assert "; 1 waits: pod default/big does not fit: " in str(host.scheduler.why(G))


def test_gang_whose_last_pending_member_goes_runs_as_a_whole(host: Host) -> None:
    host.add("big", cpu=9)
    host.tell(PodDeleted(PodUID("default/big")))
    assert host.scheduler.why(G) == Running(None, 2)


def test_gate_of_a_further_member_is_the_reason_why_it_waits(host: Host) -> None:
    host.add("w2", "w3", gates=("example.com/quota",))
    why = host.scheduler.why(G)
    assert isinstance(why, PartlyRunning)
    assert isinstance(why.rest, NotAdmitted)
    assert (why.members, why.pending) == (2, 2)
    assert "runs: 2 of 4 members hold nodes" in str(why)
    assert "example.com/quota" in str(why)


def test_gang_below_its_minimum_runs_in_part(host: Host) -> None:
    host.tell(PodDeleted(PodUID("default/w1")))
    host.add("w9", cpu=9)
    why = host.scheduler.why(G)
    assert isinstance(why, PartlyRunning)
    assert why.is_below_minimum
    assert why.pending == 1
    assert str(why).startswith("runs in part: 1 of 2 members hold nodes; the rest: pod default/w9")


def test_listings_have_the_answer_of_a_running_gang(host: Host) -> None:
    host.add("big", cpu=9)
    (pending,) = host.scheduler.pending()
    (group,) = host.scheduler.groups()
    assert pending.why == group.why == host.scheduler.why(G)
    assert pending.needed == 0


def test_pending_members_of_a_running_gang_count_as_tried_before_another_gang() -> None:
    """They are queued, although their gang runs."""
    pods = [make_pod(f"w{n}", group="g", min_available=2, cpu=1) for n in range(2)]
    pods += [make_pod("big", group="g", min_available=2, cpu=9)]
    pods += [make_pod(f"x{n}", group="later", min_available=2, cpu=8) for n in range(2)]
    arrivals = [Arrival(0.0, NodeAdded(make_node("a", cpu=4)))]
    arrivals += [Arrival(float(n), PodAdded(pod)) for n, pod in enumerate(pods)]
    simulator = Simulator(Workload(tuple(arrivals)), presets.gang)
    simulator.run(until=100.0)
    assert isinstance(simulator.scheduler.why(G), PartlyRunning)
    ahead = queue_ahead(simulator, GroupKey("default/later"))
    assert ahead is not None
    assert ahead.count == 1
    assert ahead.requests.quantity("cpu") == "9"
