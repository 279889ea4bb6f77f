"""A leader is killed in each phase of a start, of gangs by each spelling; another one goes on.

The proxy of the leader cuts the requests from a chosen point on, so that the phase is a state of
the cluster: before the first bind, between two binds, after the last bind and before anything else
is written, and after that. Then no gang is left half started, and none that was whole is evicted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from support.cluster_objects import node_json
from support.control_plane import Account, ApiError, ControlPlane, Rule
from support.control_plane.fixtures import need_control_plane
from support.fault_proxy import Fault, FaultProxy, Order, Request
from support.patience import until
from support.scheduler_replicas import Replicas
from support.spelled_gangs import SPELLED, Spelled, create_gang, serve_groups

pytestmark = pytest.mark.once("the scheduler is a process with a configuration of its own")

SIZE: Final = 4
GANGS: Final = 3
"""Of each spelling."""
BOUND: Final = 3
"""How many members of each gang are bound when the leader is killed between two binds.

The others wait on connections of their own, of which there are more than gangs.
"""
FOREVER: Final = 1_000_000
ZERO: Final = {"gracePeriodSeconds": 0}
WAS_WHOLE: Final = "gangsched.io/gang-was-whole"
Object = dict[str, Any]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    need_control_plane()
    with ControlPlane(tmp_path_factory.mktemp("killed")) as started:
        serve_groups(started.admin)
        yield started


class Cluster:
    """Gangs of each spelling, and two replicas of a scheduler, each behind a proxy."""

    def __init__(self, plane: ControlPlane, namespace: str, opened: ExitStack) -> None:
        self.admin: Final = plane.admin
        self.namespace: Final = namespace
        self.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.gangs: Final = {
            f"{spelled}-{number}": spelled for spelled in SPELLED for number in range(GANGS)
        }
        node = node_json(namespace, cpu=len(self.gangs) * SIZE)
        node["status"]["allocatable"]["pods"] = "500"
        self.admin.create("/api/v1/nodes", node)
        opened.callback(self.admin.delete, f"/api/v1/nodes/{namespace}")
        self.written: Final[list[set[str]]] = [set(), set()]
        token = Account.create(self.admin, namespace, [Rule(["*"], ["*"], "*")]).token
        self._orders: Final[list[Order]] = []
        self._proxy: Final = partial(FaultProxy, plane.url, plane.ca, key=plane.key)
        self._kubeconfig: Final = partial(plane.kubeconfig, token=token)
        self._proxies: Final[dict[int, FaultProxy]] = {}
        self._listening: Final = [opened.enter_context(ExitStack()) for _ in range(2)]
        kubeconfigs = [self._listen(number) for number in range(2)]
        self._replicas: Replicas | None = None
        self._start: Final = partial(Replicas, plane.folder, kubeconfigs, namespace)
        opened.callback(self._stop)

    def _listen(self, number: int) -> Path:
        """Start a proxy for a replica, and return the kubeconfig that leads to it.

        The one before it ends first, with the requests that it has not passed on yet.
        """
        self._listening[number].close()
        proxy = self._listening[number].enter_context(self._proxy())
        self._proxies[number] = proxy
        return self._kubeconfig(f"{self.namespace}-{number}", url=proxy.url)

    def _stop(self) -> None:
        if self._replicas is not None:
            self._replicas.stop()

    def path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods" + (f"/{name}" if name else "")

    def create(self) -> None:
        for name, spelled in self.gangs.items():
            self.create_gang(spelled, name)

    def create_gang(self, spelled: Spelled, name: str, **pod: Any) -> None:
        create_gang(
            *(self.admin, spelled, self.namespace, name, SIZE),
            scheduler=self.namespace,
            gpu=0,
            terminationGracePeriodSeconds=0,
            **pod,
        )

    def start(self, cuts: Callable[[Request], bool]) -> None:
        """Start the replicas; requests of a leader that *cuts* says are never performed."""
        self.hold(cuts)
        self._replicas = self._start()

    def hold(self, cuts: Callable[[Request], bool]) -> None:
        for number, proxy in self._proxies.items():
            order = Order(partial(self._holds, number, cuts), Fault.CUT, FOREVER)
            self._orders.append(order)
            proxy.order(order)

    def _holds(self, number: int, cuts: Callable[[Request], bool], request: Request) -> bool:
        if request.is_write and "/leases/" not in request.path:
            self.written[number].add(request.path)
        return cuts(request)

    def hand_over(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Kill the leader, and let another one go on without a fault."""
        assert self._replicas is not None
        led = [number for number in range(2) if self.written[number]]
        for number in led:  # both if the Lease was lost under load
            self._replicas.running[number].kill()
            self._listen(number)  # else a last request of the dead one passes without its fault
            self.written[number].clear()
        meanwhile()
        for order in self._orders:
            order.times = 0
        self.hold(lambda _request: False)
        self._replicas.revive()

    def bound(self) -> dict[str, list[Object]]:
        """Return the pods of each gang that are on a node."""
        found: dict[str, list[Object]] = {name: [] for name in self.gangs}
        for pod in self.admin.items(self.path()):
            gang = pod["metadata"]["name"].rpartition("-")[0]
            if pod["spec"].get("nodeName") and gang in found:
                found[gang].append(pod)
        return found

    def counts(self) -> set[int]:
        return {len(pods) for pods in self.bound().values()}

    def events(self, reason: str) -> list[Object]:
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        return [each for each in self.admin.items(path) if each["reason"] == reason]

    def cordon(self) -> None:
        """Let the node take no more pods, so that no gang can be completed."""
        path = f"/api/v1/nodes/{self.namespace}"
        self.admin.patch(path, {"spec": {"unschedulable": True}})

    def say_whole(self) -> bool:
        """Return whether each gang says on its object or its pods that it was whole."""
        return all(self._says(name, spelled) for name, spelled in self.gangs.items())

    def _says(self, name: str, spelled: Spelled) -> bool:
        if spelled.api in ("", "scheduling.volcano.sh", "scheduling.run.ai"):
            return len(self.saying(name)) >= 2
        version = "v1beta1" if spelled.api == "scheduling.k8s.io" else "v1alpha1"
        path = f"/apis/{spelled.api}/{version}/namespaces/{self.namespace}/podgroups/{name}"
        status = self.admin.get(path).get("status", {})
        conditions = [each["status"] for each in status.get("conditions", [])]
        return "True" in conditions or status.get("phase") in ("Scheduled", "Running")

    def saying(self, name: str) -> list[str]:
        """Return the members that say that their gang was whole."""
        return [
            pod["metadata"]["name"]
            for pod in self.bound()[name]
            if WAS_WHOLE in pod["metadata"].get("annotations", {})
        ]


@pytest.fixture
def cluster(plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with ExitStack() as opened:
        name = re.sub(r"[^a-z]+", "-", request.node.name.removeprefix("test_"))[:40].strip("-")
        found = Cluster(plane, name, opened)
        yield found
        found.admin.delete(found.path(), ZERO)


def test_gangs_start_whose_leader_was_killed_before_the_first_bind(cluster: Cluster) -> None:
    cluster.create()
    cluster.start(lambda request: request.is_binding)
    until(
        lambda: (
            sum(path.endswith("/binding") for path in cluster.written[0] | cluster.written[1]) >= 8
        )
    )
    assert cluster.counts() == {0}
    cluster.hand_over()
    until(lambda: cluster.counts() == {SIZE}, cluster.counts)


def test_half_started_gang_is_released_whose_leader_was_killed_between_binds(
    cluster: Cluster,
) -> None:
    def is_late(request: Request) -> bool:
        number = re.search(r"-(\d+)/binding$", request.path)
        return request.is_binding and number is not None and int(number[1]) >= BOUND

    cluster.create()
    cluster.start(is_late)
    until(lambda: cluster.counts() == {BOUND}, cluster.counts)
    cluster.hand_over(cluster.cordon)
    gangs = {*cluster.gangs}

    def untold() -> set[str]:
        return gangs - {_gang(each) for each in cluster.events("PartlyBound")}

    until(lambda: not untold(), untold)
    until(lambda: cluster.counts() == {0}, cluster.counts)
    # a pod is gone before its event is written, which is a request of its own
    until(lambda: {_gang(each) for each in cluster.events("GangReleased")} == gangs)


def test_gang_that_was_whole_is_not_released_if_it_lost_a_member_between_two_leaders(
    cluster: Cluster,
) -> None:
    def is_told(request: Request) -> bool:
        return request.method == "PATCH"

    cluster.create()
    cluster.start(is_told)
    until(lambda: cluster.counts() == {SIZE}, cluster.counts)
    assert not any(cluster.saying(name) for name in cluster.gangs)
    cluster.hand_over()  # killed after the last bind, before anything was told
    until(cluster.say_whole)

    def lose() -> None:
        for name, pods in cluster.bound().items():
            lost = (cluster.saying(name) or [pods[0]["metadata"]["name"]])[0]
            cluster.admin.delete(cluster.path(lost), ZERO)
        cluster.cordon()
        cluster.create_gang(SPELLED[1], "begun", nodeSelector={"none": "such"})
        body = {
            "metadata": {"name": "begun-0", "annotations": {"gangsched.io/bound-in-start": "true"}},
            "target": {"kind": "Node", "name": cluster.namespace},
        }
        cluster.admin.create(cluster.path("begun-0/binding"), body)

    cluster.hand_over(lose)
    # the gang that was begun is as old as the others, and it is released
    until(lambda: _is_gone(cluster, "begun-0"))
    assert cluster.counts() == {SIZE - 1}
    until(lambda: {_gang(each) for each in cluster.events("BelowMinimum")} == {*cluster.gangs})
    until(lambda: all(len(cluster.saying(n)) >= 2 or s.api for n, s in cluster.gangs.items()))


def _gang(event: Object) -> str:
    regarding = event["regarding"]
    name: str = regarding["name"]
    return name if regarding["kind"] == "PodGroup" else name.rpartition("-")[0]


def _is_gone(cluster: Cluster, name: str) -> bool:
    try:
        cluster.admin.get(cluster.path(name))
    except ApiError as error:
        return error.status == 404
    return False
