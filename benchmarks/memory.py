"""How much memory and processor time does a leader need, by nodes, pods and pending gangs?

Each row is a process of its own. It reads objects as the watches of `gangsched run` bring them,
with the same decoders, cache and scheduler, and decides about all of them; no API server takes
part. The figures of a row are those above the process without these items, for each item. Memory is
what is resident at the end, without what only a request in progress takes. We would act above 30 KB
for a pending gang of one pod that is unlike all others, or 3 KB for a pod that runs.

    python benchmarks/memory.py [--quick]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from gangsched.configuration import make_scheduler, read_settings
from gangsched.events import Bind, Bound, Effect, Event
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._decode import NodeDecoder, PodDecoder
from gangsched.kubernetes._known import Identity
from gangsched.kubernetes._reflector import Delta
from gangsched.scheduler import Scheduler

_NAME: Final = "pod-group.scheduling.sigs.k8s.io/name"
_MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
_CONFIGURATION: Final = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {"schedulerName": "gangsched", "pluginConfig": [{"name": "Backfill", "args": {}}]}
    ],
}
_NODES: Final = 100


class Leader:
    """The cache and the scheduler of a leader, without its connections."""

    def __init__(self) -> None:
        self.cache: Final = Cache(["gangsched"])
        self._decode_pod: Final = PodDecoder()
        self._decode_node: Final = NodeDecoder()
        self._scheduler: Final[Scheduler] = make_scheduler(
            read_settings(_CONFIGURATION), self.cache.cluster, membership=self.cache.membership
        )
        self._scheduler.rebuild(now=0.0)

    def pod(self, document: dict[str, Any]) -> None:
        """Take in a pod as the watch has it."""
        facts = self._decode_pod(json.dumps(document).encode())
        self._take(self.cache.pod(Delta("added", facts.identity, facts)))

    def node(self, document: dict[str, Any]) -> None:
        """Take in a node as the watch has it."""
        facts = self._decode_node(json.dumps(document).encode())
        identity = Identity(facts.node.name, "", "1")
        self._take(self.cache.node(Delta("added", identity, facts)))

    def decide(self) -> None:
        """Make all decisions."""
        while (effects := self._scheduler.schedule_one(now=time.time())) is not None:
            self._see(effects)

    def _take(self, event: Event | None) -> None:
        if event is not None:
            self._see(self._scheduler.handle(event, now=time.time()))

    def _see(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Bind):
                self._take(self.cache.apply(Bound(effect.uid, effect.node, effect.attempt)))


def add_nodes(leader: Leader, count: int) -> None:
    """Add nodes of 8 GPUs."""
    for number in range(count):
        offers = {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
        name = f"n{number}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"z{number % 3}"}
        status = {"allocatable": offers, "capacity": offers}
        leader.node({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status})


def _pod(name: str, requests: dict[str, str], labels: dict[str, str]) -> dict[str, Any]:
    meta = {
        "name": name,
        "namespace": "team",
        "uid": f"6b6b0c2e-0000-0000-0000-{name:0>12}",
        "resourceVersion": "1",
        "creationTimestamp": "2026-01-31T12:00:00Z",
        "labels": labels,
    }
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    spec = {"schedulerName": "gangsched", "containers": containers}
    return {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


def nodes(leader: Leader, count: int) -> None:
    add_nodes(leader, count)


def running(leader: Leader, count: int) -> None:
    add_nodes(leader, _NODES)
    for number in range(count):
        document = _pod(f"r{number}", {"cpu": "10m"}, {"job": f"j{number // 10}"})
        document["spec"]["nodeName"] = f"n{number % _NODES}"
        document["status"] = {"phase": "Running"}
        leader.pod(document)


def alike(leader: Leader, count: int) -> None:
    """Gangs of 4 that request the same, and fit on no node."""
    add_nodes(leader, _NODES)
    for number in range(count):
        for place in range(4):
            labels = {_NAME: f"g{number}", _MINIMUM: "4"}
            leader.pod(_pod(f"g{number}-{place}", {"nvidia.com/gpu": "9"}, labels))
        leader.decide()


def unlike(leader: Leader, count: int) -> None:
    """Gangs of one pod, each of another size, that fit on no node."""
    add_nodes(leader, _NODES)
    for number in range(count):
        requests = {"nvidia.com/gpu": "9", "memory": str(2**30 + number)}
        labels = {_NAME: f"f{number}", _MINIMUM: "1", "flood": f"x{number}"}
        leader.pod(_pod(f"f{number}", requests, labels))
        leader.decide()


ROWS: Final[dict[str, tuple[Callable[[Leader, int], None], int]]] = {
    "a node": (nodes, 5000),
    "a pod that runs": (running, 20_000),
    "a pending gang of 4, all alike": (alike, 1250),
    "a pending gang of 1, all unlike": (unlike, 5000),
}
"""What is added, and how many of them."""


def measure(name: str, count: int) -> None:
    """Print the resident bytes and the processor seconds of a leader with so many items."""
    leader = Leader()
    add, _usual = ROWS[name]
    begun = time.process_time()
    add(leader, count)
    leader.decide()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    bytes_ = pages * os.sysconf("SC_PAGE_SIZE")
    print(json.dumps([bytes_, time.process_time() - begun]))


def _measured(name: str, count: int) -> tuple[float, float]:
    command = [sys.executable, __file__, "--one", name, "--count", str(count)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    bytes_, seconds = json.loads(ran.stdout)
    return bytes_, seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it runs")
    parser.add_argument("--one", choices=list(ROWS), help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(options.one, options.count)
        return
    print("| what | number | KB each | CPU ms each | MB in all |\n|---|---|---|---|---|")
    for name, (_add, usual) in ROWS.items():
        count = usual // 100 if options.quick else usual
        base, begun = _measured(name, 0)
        bytes_, seconds = _measured(name, count)
        each = (bytes_ - base) / 1e3 / count
        cpu = 1e3 * (seconds - begun) / count
        print(f"| {name} | {count:,} | {each:.1f} | {cpu:.2f} | {bytes_ / 1e6:.0f} |", flush=True)


if __name__ == "__main__":
    main()
