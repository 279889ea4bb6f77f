"""Three schedulers on the nodes of one cluster: gangsched under two names, and kube-scheduler.

No scheduler can know what another one has decided and not yet bound, so two of them may give the
same CPU away. Kubernetes leaves that to the kubelet, which refuses the later pod. So the oracle
demands: no pod is placed by a scheduler that it does not name, no node is oversubscribed for longer
than kubelets need, and in the end every gang is whole. With nodes of its own for each scheduler,
nothing may be oversubscribed at any time.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from support.cluster_actors import Actors
from support.cluster_oracle import ClusterOracle
from support.control_plane import Account, ControlPlane, Process, Rule
from support.fault_proxy import Fault, FaultProxy, Order, Rates
from support.patience import HANG
from support.scheduler_replicas import Replicas

BOUND: Final = HANG
_RACES: Final = HANG
_LATE: Final = 3.0
_CPUS: Final = 4
_NAMES: Final = ("ours-a", "ours-b", "in-tree")
_COUNTS: Final = {"fast": 1, "ci": 2, "deep": 20}


def _seeds() -> list[int]:
    if given := os.environ.get("RACE"):
        first, _colon, end = given.partition(":")
        return list(range(int(first), int(end or int(first) + 1)))
    return list(range(_COUNTS[os.environ.get("HYPOTHESIS_PROFILE", "fast")]))


@pytest.fixture
def schedulers(control_plane: ControlPlane, namespace: str) -> Iterator[list[Process]]:
    """Three running schedulers."""
    token = Account.create(
        control_plane.admin, f"races-{namespace}", [Rule(["*"], ["*"], "*")]
    ).token
    in_tree = control_plane.start_scheduler({"profiles": [{"schedulerName": "in-tree"}]})
    with ExitStack() as opened:
        ours: list[Process] = []
        for name in _NAMES[:2]:
            # binds are late, so that the others decide before they see them
            proxy = opened.enter_context(_proxy(control_plane))
            proxy.order(Order(lambda request: request.is_binding, Fault.DELAY, times=1000))
            kubeconfig = control_plane.kubeconfig(f"{namespace}-{name}", token, url=proxy.url)
            replicas = Replicas(control_plane.folder, [kubeconfig], name)
            opened.callback(replicas.stop)
            ours += replicas.running
        yield [*ours, in_tree]
    in_tree.stop()


def _proxy(plane: ControlPlane) -> FaultProxy:
    rates = Rates(longest_delay=_LATE)
    return FaultProxy(plane.url, plane.ca, seed=1, rates=rates, key=plane.key)


def _add_nodes(plane: ControlPlane, count: int, label: str = "") -> None:
    offers = {"cpu": str(_CPUS), "memory": "8Gi", "pods": "20"}
    labels = {"of": label} if label else {}
    for number in range(count):
        metadata = {"name": f"{label or 'shared'}-{number}", "labels": labels}
        node = {"metadata": metadata, "status": {"allocatable": offers}}
        plane.admin.create("/api/v1/nodes", node)


@pytest.mark.parametrize("seed", _seeds())
def test_gangs_of_three_schedulers_become_whole_on_shared_nodes(
    control_plane: ControlPlane, namespace: str, schedulers: list[Process], seed: int
) -> None:
    chance, admin = random.Random(seed), control_plane.admin
    admin.delete("/api/v1/nodes")
    nodes = chance.randint(2, 5)
    _add_nodes(control_plane, nodes)
    with ExitStack() as opened:
        oracle = opened.enter_context(ClusterOracle(admin, bound=BOUND, races=_RACES))
        actors = opened.enter_context(Actors(admin, namespace, refuse=True))
        left, gangs = nodes * _CPUS, list[str]()
        for scheduler in schedulers:  # they decide about all gangs in the same moment
            scheduler.pause()
        while left > 0:
            size = min(chance.randint(1, 4), left)
            name = f"g{len(gangs)}"
            actors.add_gang(name, size, chance.choice(_NAMES))
            gangs.append(f"{namespace}/{name}")
            left -= size
        for scheduler in schedulers:
            scheduler.resume()
        oracle.wait_until(gangs)
        print(f"seed {seed}: {len(gangs)} gangs on {nodes} nodes, {actors.refused} pods refused")


def test_schedulers_with_nodes_of_their_own_never_oversubscribe(
    control_plane: ControlPlane, namespace: str, schedulers: list[Process]
) -> None:
    admin = control_plane.admin
    admin.delete("/api/v1/nodes")
    for name in _NAMES:
        _add_nodes(control_plane, 2, name)
    with ExitStack() as opened:
        oracle = opened.enter_context(ClusterOracle(admin, bound=BOUND))
        actors = opened.enter_context(Actors(admin, namespace))
        gangs: list[str] = []
        for number in range(2):
            for name in _NAMES:
                gang = f"{name}-{number}"
                actors.add_gang(gang, _CPUS, name, node_selector={"of": name})
                gangs.append(f"{namespace}/{gang}")
        oracle.wait_until(gangs)
        for pod in admin.items(f"/api/v1/namespaces/{namespace}/pods"):
            assert pod["spec"]["nodeName"].startswith(pod["spec"]["schedulerName"])
        assert all(each.is_running for each in schedulers)
