"""How long do single moments of a scheduler on a cluster take, and how much memory does it need?

    python benchmarks/kubernetes_moments.py wake-up [--runs 50] [--late]
    python benchmarks/kubernetes_moments.py listing [--nodes 5000] [--pods 50000]
    python benchmarks/kubernetes_moments.py churn [--seconds 600] [--rate 200]

``wake-up``: one server and four workers of 2 GPUs wait on a cluster of 4 GPUs; from the addition of
the second of two nodes to the last bind. With ``--late`` the nodes come 2.5 s after the failed
attempt, otherwise 0.3 s after it. We would act if the longest took more than 0.05 s.

``listing``: a scheduler is started beside running pods: seconds until it is ready, until its first
decision, and its memory then. We would act at more than 10 s, or at more than half of the memory
of kube-scheduler.

``churn``: gangs come and go at a constant rate; the longest wait of a gang that fits, and memory at
the end over memory after a tenth of the time. We would act at 1 s, or if memory grew by a tenth.

Needs what ``kubernetes.py`` needs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from kubernetes_rounds import CONTESTANTS, OURS, Cluster, Shape
from support.control_plane import ControlPlane

_GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/{}/podgroups"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("wake-up", "listing", "churn"))
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--late", action="store_true", help="nodes come 2.5 s after the failure")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--only", choices=CONTESTANTS, help="measure one scheduler alone")
    options = parser.parse_args(arguments)
    contestants = [options.only] if options.only else CONTESTANTS
    with (
        tempfile.TemporaryDirectory(prefix="gangsched-benchmark-") as folder,
        ControlPlane(Path(folder)) as plane,
    ):
        if options.what == "wake-up":
            for name in contestants:
                delay = 2.5 if options.late else 0.3
                times = wake_ups(Cluster(plane), plane, name, options.runs, delay)
                worst, middle = max(times), median(times)
                print(f"{name}: min {min(times):.3f}, median {middle:.3f}, max {worst:.3f} s")
        elif options.what == "listing":
            listing(plane, contestants, options.nodes, options.pods)
        else:
            churn(plane, options.only or OURS, options.seconds, options.rate)


def wake_ups(
    cluster: Cluster, plane: ControlPlane, contestant: str, runs: int, delay: float
) -> list[float]:
    """Return the seconds from the last node's creation to the last bind, for each run."""
    process = cluster.start(contestant)
    found: list[float] = []
    for number in range(runs):
        namespace = f"wake-{contestant}-{number}"
        plane.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        for node in "ab":
            _add_gpu_node(plane, node)
        group = {"schedulingPolicy": {"gang": {"minCount": 5}}}
        path = _GROUPS.format(namespace)
        plane.admin.create(path, {"metadata": {"name": "g"}, "spec": group})
        pods = f"/api/v1/namespaces/{namespace}/pods"
        for place in range(5):
            _add_member(plane, pods, contestant, f"g-{place}", gpus=2 if place else 0)
        _wait_for_refusal(plane, pods)
        time.sleep(delay)
        if any(pod["spec"].get("nodeName") for pod in plane.admin.items(pods)):
            raise RuntimeError(f"{contestant} started a part of a gang that does not fit")
        _add_gpu_node(plane, "c")
        _add_gpu_node(plane, "d")
        began = time.perf_counter()
        while not all(pod["spec"].get("nodeName") for pod in plane.admin.items(pods)):
            if time.perf_counter() - began > 60:
                raise RuntimeError(f"{contestant} did not wake up within a minute")
            time.sleep(0.002)
        found.append(time.perf_counter() - began)
        plane.admin.delete(pods, {"gracePeriodSeconds": 0})
        cluster.remove_nodes()
        time.sleep(0.2)
    process.stop()
    return found


def listing(plane: ControlPlane, contestants: Sequence[str], nodes: int, pods: int) -> None:
    """Start each scheduler beside running pods, and print seconds and memory."""
    cluster = Cluster(plane)
    cluster.add_nodes(nodes)
    cluster.add_running(pods, nodes)
    memory: dict[str, float] = {}
    for name in contestants:
        began = time.perf_counter()
        process = cluster.start(name)
        ready = time.perf_counter() - began
        cluster.place(process, name, Shape("first", 1, 2))
        first = time.perf_counter() - began
        memory[name] = process.resident_bytes() / 1e6
        print(f"{name}: ready {ready:.1f} s, first gang {first:.1f} s, {memory[name]:.0f} MB")
        process.stop()
    if len(memory) == len(CONTESTANTS):
        theirs, ours = (memory[name] for name in CONTESTANTS)
        print(f"memory: {ours / theirs:.2f} of kube-scheduler's")


def churn(plane: ControlPlane, contestant: str, seconds: float, rate: float) -> None:
    """Let gangs come and go, and print the longest wait and the memory."""
    cluster, size, lasting = Cluster(plane), 10, 50
    cluster.add_nodes(1000)
    process = cluster.start(contestant)
    namespace = "churn"
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    pods, groups = f"/api/v1/namespaces/{namespace}/pods", _GROUPS.format(namespace)
    present: deque[int] = deque()
    waits: list[float] = []
    memory: list[float] = []
    began = time.perf_counter()
    number = 0
    while (passed := time.perf_counter() - began) < seconds:
        time.sleep(max(number * size / rate - passed, 0))
        gang = {"schedulingPolicy": {"gang": {"minCount": size}}}
        for place in range(size):
            _add_member(plane, pods, contestant, f"g{number}-{place}", group=f"g{number}")
        created = time.perf_counter()
        plane.admin.create(groups, {"metadata": {"name": f"g{number}"}, "spec": gang})
        last = f"{pods}/g{number}-{size - 1}"
        while not plane.admin.get(last)["spec"].get("nodeName"):
            time.sleep(0.005)
        waits.append(time.perf_counter() - created)
        present.append(number)
        number += 1
        if len(present) > lasting:
            gone = present.popleft()
            for place in range(size):
                plane.admin.delete(f"{pods}/g{gone}-{place}", {"gracePeriodSeconds": 0})
        memory.append(process.resident_bytes() / 1e6)
    early = memory[len(memory) // 10]
    print(f"{contestant}: {number} gangs, {number * size / passed:.0f} pods/s")
    print(
        f"{median(waits):.3f}, longest {max(waits):.3f} s; memory {early:.0f} → {memory[-1]:.0f} MB"
    )
    process.stop()


def _add_gpu_node(plane: ControlPlane, name: str) -> None:
    offers = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "2"}
    node = {"metadata": {"name": name}, "status": {"capacity": offers, "allocatable": offers}}
    plane.admin.create("/api/v1/nodes", node)


def _add_member(
    plane: ControlPlane, path: str, scheduler: str, name: str, *, group: str = "g", gpus: int = 0
) -> None:
    asked: dict[str, Any] = {"requests": {"cpu": "1"}}
    if gpus:
        asked["limits"] = {"nvidia.com/gpu": str(gpus)}
    spec = {
        "schedulerName": scheduler,
        "schedulingGroup": {"podGroupName": group},
        "containers": [{"name": "c", "image": "i", "resources": asked}],
    }
    plane.admin.create(path, {"metadata": {"name": name}, "spec": spec})


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


if __name__ == "__main__":
    main()
