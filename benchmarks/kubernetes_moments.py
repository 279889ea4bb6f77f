"""Single moments of a scheduler on a cluster, for ``kubernetes.py``: seconds, and memory.

``wake_ups``: one server and four workers of 2 GPUs wait on a cluster of 4 GPUs; from the addition
of the second of two nodes to the first and to the last bind, as a watch sees them. Right after each
run, a bare client binds five other pods at once: so long takes the API server at that moment.

``starts``: from the start of the process to its name in the Lease, with leader election.

``listing``: a scheduler is started beside running pods and one gang that waits: until the gang is
bound, and its memory then and 10 s later.

Processes run one at a time, and contestants in turn.
"""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

from kubernetes_rounds import CONTESTANTS, Binds, Cluster
from support.control_plane import ApiError, ControlPlane

__all__ = ["WakeUp", "add_gang", "listing", "send", "starts", "wake_up", "wake_ups"]

_GROUPS: Final = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
_PATIENCE: Final = 120.0
_numbers: Final = itertools.count()


class WakeUp(NamedTuple):
    """The seconds of one run.

    Attributes:
        last: From the last node's creation to the last bind.
        first: To the first bind.
        bare: Five binds of a bare client, right after it.
    """

    last: float
    first: float
    bare: float


def wake_ups(cluster: Cluster, plane: ControlPlane, runs: int, delay: float) -> dict[str, Any]:
    """Return the seconds from the last node's creation to the last bind, of each run.

    Under ``first_s`` are the seconds to the first bind, under ``bare_s`` those of five binds of a
    bare client, of the same runs in the same order.

    Args:
        cluster: A cluster without nodes.
        plane: Its control plane.
        runs: How many for each contestant.
        delay: How many seconds after the failed attempt the nodes come.
    """
    found: dict[str, Any] = {"first_s": {}, "bare_s": {}}
    with ThreadPoolExecutor(5) as pool:
        for contestant in CONTESTANTS:
            process = cluster.start(contestant)
            seen: list[WakeUp] = []
            for number in range(runs + 1):
                run = wake_up(cluster, plane, contestant, delay, pool)
                if number:  # the first decision costs more than others
                    seen.append(run)
                    print(
                        f"{number} {contestant} {run.last:.3f} s, first bind {run.first:.3f} s,"
                        f" bare binds {run.bare:.3f} s",
                        flush=True,
                    )
            process.stop()
            found[contestant] = [run.last for run in seen]
            found["first_s"][contestant] = [run.first for run in seen]
            found["bare_s"][contestant] = [run.bare for run in seen]
    return found


def wake_up(
    cluster: Cluster, plane: ControlPlane, contestant: str, delay: float, pool: ThreadPoolExecutor
) -> WakeUp:
    namespace = f"wake-{next(_numbers)}"
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    for node in "ab":
        _add_gpu_node(plane, node)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    add_gang(plane, namespace, contestant, "g", 5, gpus=2, without_gpus=1)
    _wait_for_refusal(plane, pods)
    time.sleep(delay)
    if any(pod["spec"].get("nodeName") for pod in plane.admin.items(pods)):
        raise RuntimeError(f"{contestant} started a part of a gang that does not fit")
    binds = Binds(plane, pods, 5)
    _add_gpu_node(plane, "c")
    _add_gpu_node(plane, "d")
    began = time.perf_counter()
    last = binds.wait() - began
    if len(binds.at) < 5:
        raise RuntimeError(f"{contestant} bound {len(binds.at)} of 5 pods")
    bare = _bare_binds(plane, pool, f"bare-{namespace}")
    plane.admin.delete(pods, {"gracePeriodSeconds": 0})
    cluster.remove_nodes()
    time.sleep(0.2)
    return WakeUp(last, min(binds.at.values()) - began, bare)


def _bare_binds(plane: ControlPlane, pool: ThreadPoolExecutor, namespace: str) -> float:
    """Return the seconds in which five pods of no scheduler are bound at once."""
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    pods = f"/api/v1/namespaces/{namespace}/pods"
    containers = [{"name": "c", "image": "i"}]
    names = [f"p{number}" for number in range(5)]

    def add(name: str) -> None:
        spec = {"schedulerName": "none", "containers": containers}
        plane.admin.create(pods, {"metadata": {"name": name}, "spec": spec})

    def bind(name: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": "a"}
        plane.admin.create(f"{pods}/{name}/binding", {"metadata": {"name": name}, "target": target})

    list(pool.map(add, names))  # so each thread has its connection, too
    binds = Binds(plane, pods, len(names))
    began = time.perf_counter()
    list(pool.map(bind, names))
    passed = binds.wait() - began
    plane.admin.delete(pods, {"gracePeriodSeconds": 0})
    return passed


def starts(cluster: Cluster, plane: ControlPlane, runs: int) -> dict[str, Any]:
    """Return the seconds from the start of a process to its leadership, of each run.

    Under ``cpu_s`` are the seconds of processor time until then, of ended child processes too.
    """
    found: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    used: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    for number in range(runs):
        for contestant in CONTESTANTS if number % 2 else CONTESTANTS[::-1]:
            lease = f"start-{next(_numbers)}"
            began = time.perf_counter()
            process = cluster.launch(contestant, lease=lease)
            while not _holder(plane, lease):
                if time.perf_counter() - began > _PATIENCE:
                    raise RuntimeError(f"{contestant} does not lead; see {process.log}")
                time.sleep(0.01)
            found[contestant].append(time.perf_counter() - began)
            used[contestant].append(process.cpu_seconds(children=True))
            print(f"{number} {contestant} {found[contestant][-1]:.2f} s", flush=True)
            process.stop()
    return {**found, "cpu_s": used}


def _holder(plane: ControlPlane, lease: str) -> str:
    try:
        spec = plane.admin.get(f"{_LEASES}/{lease}")["spec"]
    except ApiError as error:
        if error.status != 404:
            raise
        return ""
    return str(spec.get("holderIdentity") or "")


def listing(cluster: Cluster, plane: ControlPlane) -> dict[str, dict[str, float]]:
    """Start each contestant beside pods that run; return seconds, and megabytes of memory."""
    found: dict[str, dict[str, float]] = {}
    for contestant in CONTESTANTS:
        namespace = f"first-{next(_numbers)}"
        plane.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        add_gang(plane, namespace, contestant, "g", 2)
        began = time.perf_counter()
        process = cluster.launch(contestant)
        first = _until_bound(plane, f"/api/v1/namespaces/{namespace}/pods", began)
        at_once = process.resident_bytes() / 1e6
        time.sleep(10.0)
        later = process.resident_bytes() / 1e6
        found[contestant] = {
            "first_s": first,
            "cpu_s": process.cpu_seconds(),
            "first_mb": at_once,
            "later_mb": later,
        }
        process.stop()
        plane.admin.delete(f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})
    return found


def add_gang(
    plane: ControlPlane,
    namespace: str,
    scheduler: str,
    name: str,
    size: int,
    *,
    gpus: int = 0,
    without_gpus: int = 0,
) -> None:
    """Create a group and its members.

    Args:
        plane: The control plane.
        namespace: The namespace.
        scheduler: The scheduler of the pods.
        name: The name of the group.
        size: How many members there are, all of which must start.
        gpus: The GPUs of each member.
        without_gpus: How many members need none.
    """
    group = {"metadata": {"name": name}, "spec": {"schedulingPolicy": {"gang": {"minCount": size}}}}
    send(plane, "POST", _GROUPS.format(namespace), group)
    for place in range(size):
        asked: dict[str, Any] = {"requests": {"cpu": "1"}}
        if gpus and place >= without_gpus:
            asked["limits"] = {"nvidia.com/gpu": str(gpus)}
        spec = {
            "schedulerName": scheduler,
            "schedulingGroup": {"podGroupName": name},
            "containers": [{"name": "c", "image": "i", "resources": asked}],
        }
        pod = {"metadata": {"name": f"{name}-{place}", "labels": {"gang": name}}, "spec": spec}
        send(plane, "POST", f"/api/v1/namespaces/{namespace}/pods", pod)


def send(
    plane: ControlPlane, method: str, path: str, body: object, kind: str = "application/json"
) -> None:
    """Make a request; its answer is not decoded, since the load runs on the same cores.

    Raises:
        ApiError: The API server refused it.
    """
    status, answer = plane.admin.raw(method, path, body, kind)
    if status >= 400:
        raise ApiError(method, path, status, answer)


def _until_bound(plane: ControlPlane, pods: str, began: float) -> float:
    """Wait until every pod of a list is on a node; return the seconds since *began*."""
    while not all(pod["spec"].get("nodeName") for pod in plane.admin.items(pods)):
        if time.perf_counter() - began > _PATIENCE:
            raise RuntimeError(f"{pods} were not all bound within {_PATIENCE} s")
        time.sleep(0.002)
    return time.perf_counter() - began


def _add_gpu_node(plane: ControlPlane, name: str) -> None:
    offers = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "2"}
    node = {"metadata": {"name": name}, "status": {"capacity": offers, "allocatable": offers}}
    plane.admin.create("/api/v1/nodes", node)


def _wait_for_refusal(plane: ControlPlane, path: str) -> None:
    """Return once the scheduler said of a pod that it is unschedulable."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for pod in plane.admin.items(path):
            for condition in pod["status"].get("conditions", ()):
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    return
        time.sleep(0.01)
    raise RuntimeError("the scheduler never tried a gang that does not fit")
