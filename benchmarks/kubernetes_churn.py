"""Gangs come and go at a constant rate beside many running pods, for ``kubernetes.py``.

A gang of 10 is created every 10/rate seconds, whatever the scheduler does, and the oldest one is
deleted, so that their number stays the same. A watch sees when each gang is whole. Every gang fits
at once. What is measured: how long each waits, gangs that are partial at the end, and the memory of
the scheduler.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from statistics import median, quantiles
from typing import Any, Final

from kubernetes_moments import add_gang, send
from kubernetes_rounds import Cluster
from support.control_plane import ControlPlane, Process

__all__ = ["churn"]

_SIZE: Final = 10
_PRESENT: Final = 100
"""How many gangs are there at a time."""
_NAMESPACE: Final = "churn"
_PODS: Final = f"/api/v1/namespaces/{_NAMESPACE}/pods"
_GROUPS: Final = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{_NAMESPACE}/podgroups"


def churn(
    cluster: Cluster, plane: ControlPlane, contestant: str, seconds: float, rate: float
) -> dict[str, Any]:
    """Let gangs come and go for some seconds, at *rate* pods a second.

    The cluster must have its nodes and its running pods already.
    """
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    process = cluster.start(contestant)
    seen = _Gangs(plane)
    memory: list[float] = []
    period, number = _SIZE / rate, 0
    present: deque[str] = deque()
    cpu, began = process.cpu_seconds(), time.perf_counter()
    with ThreadPoolExecutor(8) as pool:
        under_way: deque[Any] = deque()
        while (passed := time.perf_counter() - began) < seconds:
            if passed < number * period:
                time.sleep(min(number * period - passed, 0.05))
                continue
            name = f"g{number}"
            under_way.append(pool.submit(_create, plane, contestant, name, seen.created))
            present.append(name)
            number += 1
            if len(present) > _PRESENT:
                under_way.append(pool.submit(_delete, plane, present.popleft()))
            while under_way and (under_way[0].done() or len(under_way) > 64):
                under_way.popleft().result()
            _sample(memory, process, passed)
        for each in under_way:
            each.result()
        passed = time.perf_counter() - began
    time.sleep(2.0)
    waits = seen.waits()
    minutes = [memory[n : n + 60] for n in range(0, len(memory), 60)]
    figures = {
        "gangs": number,
        "seconds": passed,
        "pods_per_s": number * _SIZE / passed,
        "cpu_ms": 1000 * (process.cpu_seconds() - cpu) / (number * _SIZE),
        "median_s": median(waits),
        "p99_s": quantiles(waits, n=100, method="inclusive")[-1],
        "longest_s": max(waits),
        "partial": seen.partial(),
        "waiting": seen.waiting(),
        "minutes_mb": [median(each) for each in minutes if len(each) > 30],
    }
    process.stop()
    return figures


def _create(
    plane: ControlPlane, contestant: str, name: str, created: Callable[[str], object]
) -> None:
    add_gang(plane, _NAMESPACE, contestant, name, _SIZE)
    created(name)


def _delete(plane: ControlPlane, name: str) -> None:
    now = {"gracePeriodSeconds": 0}
    send(plane, "DELETE", f"{_PODS}?labelSelector=gang%3D{name}", now)
    send(plane, "DELETE", f"{_GROUPS}/{name}", now)
    # no controller runs here that would take the finalizer off once the members are gone
    finalizers = {"metadata": {"finalizers": None}}
    send(plane, "PATCH", f"{_GROUPS}/{name}", finalizers, "application/merge-patch+json")


def _sample(memory: list[float], process: Process, passed: float) -> None:
    if passed > len(memory):  # once a second
        memory.append(process.resident_bytes() / 1e6)


class _Gangs:
    """When each gang was complete, and when its last member was bound."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane: Final = plane
        self._created: Final[dict[str, float]] = {}
        self._bound: Final[dict[str, set[str]]] = {}
        self._whole: Final[dict[str, float]] = {}
        version = plane.admin.get(_PODS, limit=1)["metadata"]["resourceVersion"]
        threading.Thread(target=self._follow, args=(version,), daemon=True).start()

    def created(self, name: str) -> None:
        """Note that all members of a gang exist now."""
        self._created[name] = time.perf_counter()

    def waits(self) -> list[float]:
        """Return for how long each gang that is whole has waited; 0 if it was not complete."""
        now = time.perf_counter()
        return [
            max(self._whole.get(name, now) - at, 0.0) for name, at in list(self._created.items())
        ]

    def partial(self) -> int:
        """Return how many gangs were never whole but have members on nodes."""
        return sum(1 for name, bound in self._bound.items() if 0 < len(bound) < _SIZE)

    def waiting(self) -> int:
        """Return how many gangs never became whole."""
        return len(self._created) - len(self._whole)

    def _follow(self, version: str) -> None:
        with suppress(OSError):  # the API server is stopped at the end
            self._see(version)

    def _see(self, version: str) -> None:
        while True:
            line = b""
            for line in self._plane.admin.lines(_PODS, resourceVersion=version):
                if b'"nodeName"' not in line or not line.startswith(b'{"type":"MODIFIED"'):
                    continue  # not decoded: this process must not take the scheduler's time
                pod = json.loads(line)["object"]
                if not pod["spec"].get("nodeName"):
                    continue
                name = pod["metadata"]["labels"]["gang"]
                bound = self._bound.setdefault(name, set())
                bound.add(pod["metadata"]["name"])
                if len(bound) == _SIZE:
                    self._whole.setdefault(name, time.perf_counter())
            if line:
                version = json.loads(line)["object"]["metadata"]["resourceVersion"]
