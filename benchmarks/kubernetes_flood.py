"""A namespace is flooded with gangs that never fit, for ``kubernetes.py``: what the others notice.

Gangs of 4 that fit are created in a namespace of their own, one after the other, and deleted when
they are bound: first alone, then while another namespace is flooded, then beside the failed gangs.
Each flooding gang has one pod, and differs from all others. With ``Backfill``, each of them may ask
for a reservation. What is measured: how long a fitting gang waits from its completion to its last
bind, as a watch sees it; the memory, and the processor time, for each pod of the flood.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from statistics import median, quantiles
from typing import Any, Final

from kubernetes_moments import add_gang, send
from kubernetes_rounds import OURS, Cluster
from support.control_plane import ControlPlane, Process

__all__ = ["KINDS", "flood"]

_SIZE: Final = 4
_PERIOD: Final = 0.1
"""Seconds between a fitting gang and the next one."""
_THREADS: Final = 4
_NAME: Final = "pod-group.scheduling.sigs.k8s.io/name"
_MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
_ANNOTATION: Final = 250_000
"""Characters of an annotation; the API server takes 262,144 in all annotations of an object."""


def _sizes(number: int) -> dict[str, Any]:
    return {"memory": str(2**31 + number)}


def _labels(number: int) -> dict[str, Any]:
    return {"labels": {"flood": f"x{number}"}}


def _annotations(number: int) -> dict[str, Any]:
    return {"annotations": {"flood": f"{number:08}" + "x" * (_ANNOTATION - 8)}}


KINDS: Final[dict[str, Callable[[int], dict[str, Any]]]] = {
    "sizes": _sizes,
    "labels": _labels,
    "annotations": _annotations,
    "nodes": _sizes,
}
"""In what the gangs of a flood differ, beside their names; with ``nodes``, a node changes ten times
a second, too."""


def flood(
    cluster: Cluster, plane: ControlPlane, sizes: list[int], probes: int, kind: str
) -> dict[str, Any]:
    """Return how long fitting gangs wait, without a flood, during it, and beside its failed gangs.

    Args:
        cluster: A cluster with nodes of 8 GPUs.
        plane: Its control plane.
        sizes: After how many flooding gangs fitting ones are created, ascending.
        probes: How many fitting gangs are created each time.
        kind: One of ``KINDS``.
    """
    quiet, loud = f"quiet-{kind}", f"flood-{kind}"
    for namespace in (quiet, loud):
        plane.admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    process = cluster.start(OURS, plugins=[{"name": "Backfill", "args": {}}])
    gangs = _Fitting(plane, quiet)
    gangs.create(10)  # the first decisions of a process cost more than all later ones
    gangs.waits.clear()
    phases: dict[str, Any] = {"alone": gangs.phase(probes)}
    memory, cpu = process.resident_bytes(), process.cpu_seconds()
    there = 0
    with ThreadPoolExecutor(_THREADS) as pool, _node_churn(plane, kind):
        for size in sizes:
            create = [pool.submit(_add, plane, loud, kind, n) for n in range(there, size)]
            phases[f"up to {size}"] = gangs.phase(probes, until=create)
            there = size
            _settle(process)
            phases[f"beside {size}"] = gangs.phase(probes)
            print(f"{kind}: {size} failed gangs: {phases[f'beside {size}']}", flush=True)
    figures = {
        "phases": phases,
        "pods": there,
        "kb_a_pod": (process.resident_bytes() - memory) / 1e3 / there,
        "cpu_ms_a_pod": 1e3 * (process.cpu_seconds() - cpu) / there,
        "memory_mb": process.resident_bytes() / 1e6,
    }
    process.stop()
    plane.admin.delete(f"/api/v1/namespaces/{loud}/pods", {"gracePeriodSeconds": 0})
    return figures


def _add(plane: ControlPlane, namespace: str, kind: str, number: int) -> None:
    """Create a gang of one pod that fits on no node."""
    differs = KINDS[kind](number)
    requests = {"cpu": "1", "memory": differs.get("memory", "1Gi"), "nvidia.com/gpu": "9"}
    meta = {
        "name": f"f{number}",
        "labels": {_NAME: f"f{number}", _MINIMUM: "1", **differs.get("labels", {})},
        "annotations": differs.get("annotations", {}),
    }
    resources = {"requests": requests, "limits": {"nvidia.com/gpu": "9"}}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    pod = {"metadata": meta, "spec": {"schedulerName": OURS, "containers": containers}}
    send(plane, "POST", f"/api/v1/namespaces/{namespace}/pods", pod)


def _settle(process: Process) -> None:
    """Wait until the scheduler is idle, but for no longer than 20 s."""
    for _second in range(20):
        before = process.cpu_seconds()
        time.sleep(1.0)
        if process.cpu_seconds() - before < 0.2:
            return


class _node_churn:  # noqa: N801 - used as a function
    """Change a label of a node ten times a second, if the kind says so."""

    def __init__(self, plane: ControlPlane, kind: str) -> None:
        self._plane = plane
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True) if kind == "nodes" else None

    def __enter__(self) -> None:
        if self._thread is not None:
            self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(0.1):
            number += 1
            labels = {"metadata": {"labels": {"flood": f"x{number}"}}}
            kind = "application/merge-patch+json"
            send(self._plane, "PATCH", "/api/v1/nodes/n0", labels, kind)


class _Fitting:
    """Gangs that fit, one after the other.

    Attributes:
        waits: For how long each has waited, from its completion to its last bind, in seconds.
    """

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self._plane: Final = plane
        self._namespace: Final = namespace
        self._pods: Final = f"/api/v1/namespaces/{namespace}/pods"
        self._groups: Final = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups"
        self._number = 0
        self._bound: Final[dict[str, set[str]]] = {}
        self._whole: Final[dict[str, float]] = {}
        self._changed: Final = threading.Condition()
        self.waits: Final[list[float]] = []
        version = plane.admin.get(self._pods, limit=1)["metadata"]["resourceVersion"]
        threading.Thread(target=self._follow, args=(version,), daemon=True).start()

    def phase(self, least: int, until: list[Future[None]] | None = None) -> dict[str, float]:
        """Create gangs, at least so many, and until some tasks are done; return the figures."""
        self.waits.clear()
        self.create(least)
        while until is not None and not all(each.done() for each in until):
            self.create(1)
        for each in until or ():
            each.result()
        return {
            "gangs": len(self.waits),
            "median_s": median(self.waits),
            "p99_s": quantiles(self.waits, n=100, method="inclusive")[-1],
            "longest_s": max(self.waits),
        }

    def create(self, count: int) -> None:
        """Create gangs, and wait for each."""
        for _gang in range(count):
            self._number += 1
            name = f"g{self._number}"
            add_gang(self._plane, self._namespace, OURS, name, _SIZE)
            complete = time.perf_counter()
            with self._changed:
                if not self._changed.wait_for(lambda name=name: name in self._whole, timeout=300):
                    raise RuntimeError(f"gang {name} was not bound within 300 s")
            self.waits.append(max(self._whole[name] - complete, 0.0))
            now = {"gracePeriodSeconds": 0}
            send(self._plane, "DELETE", f"{self._pods}?labelSelector=gang%3D{name}", now)
            send(self._plane, "DELETE", f"{self._groups}/{name}", now)
            finalizers = {"metadata": {"finalizers": None}}
            kind = "application/merge-patch+json"
            send(self._plane, "PATCH", f"{self._groups}/{name}", finalizers, kind)
            time.sleep(_PERIOD)

    def _follow(self, version: str) -> None:
        with suppress(OSError):  # the API server is stopped at the end
            while True:
                for line in self._lines(version):
                    pod = json.loads(line)["object"]
                    version = pod["metadata"]["resourceVersion"]
                    if pod.get("spec", {}).get("nodeName"):
                        self._see(pod["metadata"])

    def _lines(self, version: str) -> Iterator[bytes]:
        yield from self._plane.admin.lines(self._pods, resourceVersion=version)

    def _see(self, meta: dict[str, Any]) -> None:
        name = meta["labels"]["gang"]
        bound = self._bound.setdefault(name, set())
        bound.add(meta["name"])
        if len(bound) == _SIZE:
            with self._changed:
                self._whole.setdefault(name, time.perf_counter())
                self._changed.notify_all()
