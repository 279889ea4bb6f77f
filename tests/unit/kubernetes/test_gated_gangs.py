"""A gang of which the members have scheduling gates is reported as gated, not as incomplete."""

from __future__ import annotations

from typing import Any, Final

import pytest
from attrs import evolve

from gangsched import InMemoryCluster, NodeAdded, PodAdded, PodGroupAdded, PodUpdated, presets
from gangsched.cli import _kubectl
from gangsched.explain import NotEnoughMembers
from gangsched.kubernetes import _client
from gangsched.metrics import Metrics
from gangsched.model import Node, NodeName, Pod, PodGroup
from support.cluster_objects import NODES, PODS, node_json, pod_json
from support.memory_api import MemoryApi

prometheus_client = pytest.importorskip("prometheus_client")
pytestmark = pytest.mark.once("makes schedulers that decide about whole gangs")

GATE: Final = "kueue.x-k8s.io/admission"
SENTENCE: Final = f"2 of 2 members are gated: {GATE}"


class Server(MemoryApi):
    """An API server whose clients have a namespace."""

    namespace = "default"


def sample(registry: Any, name: str, **labels: str) -> float:
    found: float = registry.get_sample_value(name, {"profile": "gangsched", **labels})
    return found


class Run:
    """A measured scheduler with one node."""

    def __init__(self) -> None:
        self.registry: Any = prometheus_client.CollectorRegistry()
        self.cluster = InMemoryCluster()
        self.scheduler = Metrics(self.registry).watch(presets.gang(self.cluster))
        self.tell(NodeAdded(Node(name=NodeName("n"), allocatable={"cpu": 9})))

    def tell(self, event: Any) -> None:
        self.scheduler.handle(self.cluster.apply(event), now=0.0)

    def groups(self, state: str) -> float:
        return sample(self.registry, "gangsched_groups", state=state)

    def pending(self, queue: str) -> float:
        return sample(self.registry, "scheduler_pending_pods", queue=queue)

    def why(self) -> NotEnoughMembers:
        found = self.scheduler.scheduler.why("default/g")
        assert isinstance(found, NotEnoughMembers)
        return found


def member(name: str, minimum: int | None = 2, *gates: str, role: str | None = None) -> Pod:
    return Pod(name=name, pod_group="g", min_available=minimum, role=role, scheduling_gates=gates)


def test_gang_whose_members_are_gated_is_counted_as_gated() -> None:
    run = Run()
    pods = [member(name, 2, GATE) for name in ("a", "b")]
    for pod in pods:
        run.tell(PodAdded(pod))
    assert (run.groups("gated"), run.groups("incomplete")) == (1, 0)
    assert run.pending("gated") == 2
    run.tell(PodUpdated(evolve(pods[0], scheduling_gates=())))
    assert (run.groups("gated"), run.groups("incomplete")) == (1, 0)
    assert run.pending("gated") == 2, "a is not admitted, b has a gate"
    run.tell(PodUpdated(evolve(pods[1], scheduling_gates=())))
    assert (run.groups("gated"), run.groups("pending")) == (0, 1)
    assert run.pending("gated") == 0


def test_gang_that_lacks_members_beside_gated_ones_is_counted_as_incomplete() -> None:
    run = Run()
    run.tell(PodAdded(member("a", 2, GATE)))
    assert (run.groups("gated"), run.groups("incomplete")) == (0, 1)
    assert str(run.why()) == "waiting for 2 more members: 0 of 2 exist, 1 more gated"


def test_regular_pod_with_a_gate_is_counted_as_gated() -> None:
    run = Run()
    run.tell(PodAdded(Pod(name="p", scheduling_gates=(GATE,))))
    assert run.pending("gated") == 1


@pytest.mark.parametrize(("role", "state"), [("ps", "gated"), ("worker", "incomplete")])
def test_gated_members_count_for_the_minimum_of_their_role(role: str, state: str) -> None:
    run = Run()
    run.tell(PodGroupAdded(PodGroup(name="g", min_available=2, roles={"ps": 1})))
    run.tell(PodAdded(member("a", None, role="worker")))
    run.tell(PodAdded(member("b", None, GATE, role=role)))
    assert run.groups(state) == 1
    assert bool(run.why().gates) is (state == "gated")


def test_why_names_each_gate_once_and_counts_the_members_that_have_none() -> None:
    run = Run()
    run.tell(PodAdded(member("a", 3)))
    run.tell(PodAdded(member("b", 3, GATE)))
    run.tell(PodAdded(member("c", 3, GATE, "quota")))
    assert run.why().gates == (GATE, "quota")
    assert str(run.why()) == f"2 of 3 members are gated: {GATE}, quota"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()

    async def connect_client(**_named: Any) -> Server:
        return found

    monkeypatch.setattr(_client, "connect_client", connect_client)
    found.put(NODES, node_json("a", gpu=4))
    for n in range(2):
        pod = pod_json(f"kq-{n}")
        pod["metadata"]["labels"] = {"kueue.x-k8s.io/pod-group-name": "kq"}
        pod["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "2"}
        pod["spec"]["schedulingGates"] = [{"name": GATE}]
        found.put(PODS, pod)
    return found


def test_kubectl_gang_names_the_gate_and_no_number_of_nodes(
    api: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _kubectl.main(["why", "kq", "--request-timeout", "5s"]) == 0
    said = capsys.readouterr().out
    assert "pod group default/kq: Gated: 2 of 2 members are there" in said
    assert f"why: {SENTENCE}\n" in said
    assert "what would help: pod group default/kq is tried once the gate of its members" in said
    assert "no number of nodes" not in said
    assert "more members" not in said
    assert _kubectl.main(["get", "--request-timeout", "5s"]) == 0
    said = capsys.readouterr().out
    assert "Gated" in said
    assert SENTENCE in said
