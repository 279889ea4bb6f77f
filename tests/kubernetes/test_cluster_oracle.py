"""The oracle sees what breaks a rule, and accepts kube-scheduler's own gang scheduling."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from support.cluster_oracle import ClusterOracle
from support.control_plane import Client, ControlPlane
from support.fault_proxy import Fault, FaultProxy, Order
from support.patience import HANG, until

GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups"


@pytest.fixture
def nodes(control_plane: ControlPlane) -> Iterator[Client]:
    """Two nodes of 2 CPUs and no others, and a client."""
    admin = control_plane.admin
    admin.delete("/api/v1/nodes")
    offers = {"cpu": "2", "memory": "1Gi", "pods": "10"}
    for name in ("one", "two"):
        admin.create(
            "/api/v1/nodes", {"metadata": {"name": name}, "status": {"allocatable": offers}}
        )
    yield admin
    admin.delete("/api/v1/nodes")


def create_gang(admin: Client, namespace: str, name: str, members: int, scheduler: str) -> None:
    """Create a gang whose members request 1 CPU each."""
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": members}}}
    admin.create(GROUPS.format(namespace), {"metadata": {"name": name}, "spec": spec})
    for number in range(members):
        pod: dict[str, Any] = {
            "schedulerName": scheduler,
            "schedulingGroup": {"podGroupName": name},
            "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}},
            ],
        }
        metadata = {"name": f"{name}-{number}"}
        admin.create(f"/api/v1/namespaces/{namespace}/pods", {"metadata": metadata, "spec": pod})


def bind(admin: Client, namespace: str, pod: str, node: str) -> None:
    """Bind a pod by hand."""
    body = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
    admin.create(f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", body)


def sees(oracle: ClusterOracle, violation: str) -> None:
    """Check that the oracle sees a violation, perhaps after others, and let it forget that."""
    until(lambda: any(re.search(violation, each) for each in oracle.violations))
    with pytest.raises(AssertionError):
        oracle.check()
    oracle.stop()
    oracle.violations.clear()


def test_partial_gang_is_seen_once_it_is_older_than_the_bound(
    nodes: Client, namespace: str
) -> None:
    with ClusterOracle(nodes, bound=0.3) as oracle, ClusterOracle(nodes, bound=HANG) as patient:
        create_gang(nodes, namespace, "g", 2, "none")
        bind(nodes, namespace, "g-0", "one")
        sees(oracle, r"gang .*/g is partial: 1 of 2 members")
        until(lambda: patient.is_partial(f"{namespace}/g"))
        assert not patient.violations


def test_gang_that_was_whole_may_lose_members(nodes: Client, namespace: str) -> None:
    # whole before the oracle begins, since the time between the two binds has no bound
    create_gang(nodes, namespace, "g", 2, "none")
    for number in range(2):
        bind(nodes, namespace, f"g-{number}", "one")
    with ClusterOracle(nodes, bound=0.3) as oracle:
        oracle.wait_until([f"{namespace}/g"])
        nodes.delete(f"/api/v1/namespaces/{namespace}/pods/g-0", {"gracePeriodSeconds": 0})
        until(lambda: oracle.bound_members(f"{namespace}/g") == 1)
        assert not oracle.is_partial(f"{namespace}/g")
        time.sleep(1.0)


def test_oversubscribed_node_is_seen(nodes: Client, namespace: str) -> None:
    with ClusterOracle(nodes, bound=60) as oracle:
        create_gang(nodes, namespace, "g", 3, "none")
        for number in range(3):
            bind(nodes, namespace, f"g-{number}", "one")
        sees(oracle, "cpu of node one is oversubscribed by 1")


def test_gang_that_fits_and_waits_is_named(nodes: Client, namespace: str) -> None:
    with ClusterOracle(nodes, bound=60) as oracle:
        create_gang(nodes, namespace, "fits", 4, "none")
        create_gang(nodes, namespace, "large", 5, "none")
        until(lambda: oracle.unstarted() == [f"{namespace}/fits"])
        nodes.patch("/api/v1/nodes/one", {"spec": {"unschedulable": True}})
        until(lambda: oracle.unstarted() == [])


def test_member_of_a_whole_gang_waits_only_as_long_as_it_does_not_fit(
    nodes: Client, namespace: str
) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    with ClusterOracle(nodes, bound=60) as oracle:
        create_gang(nodes, namespace, "g", 4, "none")
        for number in range(4):
            bind(nodes, namespace, f"g-{number}", ("one", "two")[number % 2])
        oracle.wait_until([f"{namespace}/g"])
        again = nodes.get(f"{pods}/g-0")
        nodes.delete(f"{pods}/g-0", {"gracePeriodSeconds": 0})
        keys = ("schedulerName", "schedulingGroup", "containers")
        spec = {key: again["spec"][key] for key in keys}
        nodes.create(pods, {"metadata": {"name": "g-0"}, "spec": spec})
        until(lambda: oracle.unstarted() == [f"{namespace}/g"])
        assert not oracle.is_partial(f"{namespace}/g")
        create_gang(nodes, namespace, "other", 1, "none")
        bind(nodes, namespace, "other-0", "one")
        until(lambda: oracle.unstarted() == [])


def test_in_tree_gang_scheduling_is_accepted_behind_a_proxy(
    control_plane: ControlPlane, nodes: Client, namespace: str
) -> None:
    with (
        FaultProxy(control_plane.url, control_plane.ca, key=control_plane.key) as proxy,
        ClusterOracle(nodes, bound=HANG) as oracle,
    ):
        proxy.order(Order(lambda request: request.is_binding, Fault.DELAY, 2))
        kubeconfig = str(control_plane.kubeconfig("in-tree", url=proxy.url))
        scheduler = control_plane.start_scheduler(
            {
                "clientConnection": {"kubeconfig": kubeconfig, "contentType": "application/json"},
                "profiles": [{"schedulerName": "in-tree"}],
            }
        )
        create_gang(nodes, namespace, "large", 5, "in-tree")
        create_gang(nodes, namespace, "g", 3, "in-tree")
        oracle.wait_until([f"{namespace}/g"])
        assert proxy.plan.happened[Fault.DELAY] == 2
        assert not oracle.unstarted()
        scheduler.stop()


def test_scheduler_without_gangs_is_caught(
    control_plane: ControlPlane, nodes: Client, namespace: str
) -> None:
    profiles = [{"schedulerName": "without-gangs"}]
    scheduler = control_plane.start_scheduler({"profiles": profiles}, features={})
    with ClusterOracle(nodes, bound=0.5) as oracle:
        create_gang(nodes, namespace, "large", 5, "without-gangs")
        sees(oracle, r"gang .*/large is partial: 4 of 5 members")
    scheduler.stop()
