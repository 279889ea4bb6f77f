"""A leader is asked to end while hundreds of gangs wait, on a real API server.

The lease of these replicas expires in no test. So a replica that takes over has taken a lease that
was given up.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from attrs import define, field

from support.cluster_objects import group_json, node_json, pod_json
from support.control_plane import Account, ControlPlane, Process, Rule
from support.control_plane.processes import free_ports
from support.fault_proxy import Fault, FaultProxy, Order, Request
from support.patience import HANG, until

pytestmark = pytest.mark.once("starts programs")

Object = dict[str, Any]

GANGS: Final = 150
_SIZE: Final = 2
_EVERY: Final = 10**6
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@define(eq=False)
class Replicas:
    """Two replicas, of which one leads; the requests of the leader pass a proxy.

    Attributes:
        plane: The control plane.
        namespace: The namespace of the pods, and the name of scheduler and Lease.
        leader: The replica that led first.
        proxy: The proxy of the leader.
        seen: The writes of the leader, in the order in which the proxy has let them pass.
        follower: The other one.
        holder: The identity of the leader.
    """

    plane: ControlPlane
    namespace: str
    leader: Process
    proxy: FaultProxy
    follower: Process
    holder: str
    seen: list[Request] = field(factory=list[Request])

    def lease(self) -> Object:
        spec: Object = self.plane.admin.get(f"{_LEASES}/{self.namespace}")["spec"]
        return spec

    def placed(self) -> dict[str, str | None]:
        pods = self.plane.admin.items(f"/api/v1/namespaces/{self.namespace}/pods")
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in pods}

    def records(self) -> list[Object]:
        """Return the log of the leader."""
        # the last line may be half written
        whole, _, _half = self.leader.log.read_text("utf-8").rpartition("\n")
        return [json.loads(each) for each in whole.splitlines() if each.startswith("{")]

    def stops(self) -> bool:
        """Whether the leader has logged that it stops."""
        return any(each["msg"].startswith("stopping:") for each in self.records())

    def flood(self) -> None:
        """Create gangs of distinct shape, of which every second one fits."""
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self._add_gang, range(GANGS)))

    def delete_pods(self) -> None:
        """Delete all pods at once."""
        base = f"/api/v1/namespaces/{self.namespace}/pods"

        def delete(name: str) -> None:
            self.plane.admin.delete(f"{base}/{name}", gracePeriodSeconds=0)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(delete, self.placed()))

    def _add_gang(self, number: int) -> None:
        admin, name = self.plane.admin, f"g{number}"
        groups = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{self.namespace}/podgroups"
        admin.create(groups, group_json(name, _SIZE, namespace=self.namespace))
        for member in range(_SIZE):
            pod = pod_json(
                f"{name}-{member}",
                group=name,
                namespace=self.namespace,
                scheduler=self.namespace,
                gpu=1 if number % 2 else 1000,
            )
            del pod["status"]
            requests = pod["spec"]["containers"][0]["resources"]["requests"]
            requests["memory"] = str(1000 + number)
            admin.create(f"/api/v1/namespaces/{self.namespace}/pods", pod)


def _start(plane: ControlPlane, name: str, configuration: Path, kubeconfig: Path) -> Process:
    (port,) = free_ports(1)
    command = ["-m", "gangsched", "run", f"--kubeconfig={kubeconfig}", f"--config={configuration}"]
    command += [f"--serve=127.0.0.1:{port}", "--log-json", "-v=2"]
    return Process(Path(sys.executable), command, plane.folder / f"{name}.log")


@pytest.fixture
def replicas(control_plane: ControlPlane, namespace: str) -> Iterator[Replicas]:
    plane, admin = control_plane, control_plane.admin
    admin.delete("/api/v1/nodes")
    for number in range(20):
        admin.create("/api/v1/nodes", node_json(f"{namespace}-{number}", gpu=100))
    configuration = plane.folder / f"{namespace}-stop.json"
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "drainSeconds": HANG,
        "leaderElection": {
            "leaseDuration": 3 * HANG,
            "renewDeadline": 2 * HANG,
            "resourceName": namespace,
            "resourceNamespace": "default",
        },
        "profiles": [{"schedulerName": namespace}],
    }
    configuration.write_text(json.dumps(document), encoding="utf-8")
    token = Account.create(admin, f"stops-{namespace}", [Rule(["*"], ["*"], "*")]).token
    with ExitStack() as opened:
        proxy = opened.enter_context(FaultProxy(plane.url, plane.ca, key=plane.key))
        through = plane.kubeconfig(f"{namespace}-0", token, url=proxy.url)
        leader = _start(plane, f"{namespace}-0", configuration, through)
        opened.callback(leader.stop)
        found = until(
            lambda: [each["spec"] for each in admin.items(_LEASES) if _is_of(each, namespace)],
            leader.log_tail,
        )
        direct = plane.kubeconfig(f"{namespace}-1", token)
        follower = _start(plane, f"{namespace}-1", configuration, direct)
        opened.callback(follower.stop)
        until(lambda: "stands by" in follower.log_tail(), follower.log_tail)
        made = Replicas(plane, namespace, leader, proxy, follower, found[0]["holderIdentity"])

        def note(request: Request) -> bool:
            if request.is_write:
                made.seen.append(request)
            return False

        proxy.order(Order(note, Fault.CUT, _EVERY))
        # one by one: the API server ends the deletion of so large a collection after a minute
        opened.callback(made.delete_pods)
        yield made


def _is_of(lease: Object, name: str) -> bool:
    return bool(lease["metadata"]["name"] == name and lease["spec"].get("holderIdentity"))


def _is_lease(request: Request) -> bool:
    return request.method == "PUT" and "/leases/" in request.path


def test_nothing_is_decided_after_the_stop_and_nothing_bound_after_the_lease_is_given_up(
    replicas: Replicas,
) -> None:
    with ThreadPoolExecutor(1) as pool:
        creation = pool.submit(replicas.flood)
        until(lambda: any(each.is_binding for each in replicas.seen), replicas.leader.log_tail)
        os.kill(replicas.leader.pid, signal.SIGTERM)
        until(
            lambda: replicas.lease()["holderIdentity"] not in ("", replicas.holder),
            replicas.follower.log_tail,
        )
        creation.result()
    until(lambda: not replicas.leader.is_running, replicas.leader.log_tail)
    assert replicas.leader.stop() == 0, replicas.leader.log_tail()
    assert replicas.lease()["leaseTransitions"] == 1

    records = replicas.records()
    stopped = next(n for n, each in enumerate(records) if each["msg"].startswith("stopping:"))
    decisions = [each["logger"].endswith(".decisions") for each in records]
    assert any(decisions[:stopped])
    assert not any(decisions[stopped:])
    given_up = max(n for n, each in enumerate(replicas.seen) if _is_lease(each))
    assert not any(each.is_binding for each in replicas.seen[given_up:])

    fitting = {f"g{n}-{member}" for n in range(1, GANGS, 2) for member in range(_SIZE)}
    until(
        lambda: {name for name, node in replicas.placed().items() if node} == fitting,
        replicas.follower.log_tail,
    )


def test_second_signal_ends_a_leader_whose_binds_are_not_answered(replicas: Replicas) -> None:
    """The binds may still be carried out, so the lease is not given up."""

    def is_cut_off(request: Request) -> bool:
        if request.is_binding:
            replicas.proxy.partition()
        return False

    replicas.proxy.plan.order(Order(is_cut_off, Fault.CUT, _EVERY))
    replicas.flood()
    until(lambda: any(each.is_binding for each in replicas.seen), replicas.leader.log_tail)
    os.kill(replicas.leader.pid, signal.SIGTERM)
    until(replicas.stops, replicas.leader.log_tail)
    assert replicas.leader.is_running
    code = replicas.leader.stop(timeout=HANG)
    assert code == 128 + signal.SIGTERM
    assert replicas.lease()["holderIdentity"] == replicas.holder
