"""Rounds of ``kubernetes.py``: two schedulers on one API server, one after the other.

One contestant runs at a time, since the machine is shared. Each round has a namespace of its own.
Pods are created first, then the pod groups at once: the clock runs from the first group to the last
bind, as a watch sees it. Where plain pods accompany gangs, they have to be there already, too: the
contestant stands still (``SIGSTOP``) while they are created, and goes on when the clock starts.
Plain pods alone are bound as they come, so their clock runs from the first pod.
Processor time is counted until the contestant has posted its events, which is after the last bind.
Both contestants have the token of a service account: the API server limits their requests.
A third one, the bare client, only binds: what the API server takes at that moment.
"""

from __future__ import annotations

import itertools
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kubernetes_bare import bind_all
from support.control_plane import Account, ControlPlane, Process, Rule
from support.control_plane.cluster import GANG_FEATURES, TREE_FEATURES
from support.control_plane.processes import free_ports
from support.control_plane.programs import programs

__all__ = ["BARE", "CONTESTANTS", "IN_TREE", "OURS", "Binds", "Cluster", "Figures", "Shape"]

IN_TREE: Final = "in-tree"
OURS: Final = "gangsched"
CONTESTANTS: Final = (IN_TREE, OURS)
BARE: Final = "bare"
"""The client that only binds; see ``kubernetes_bare``."""
_GROUPS: Final = "scheduling.k8s.io/v1beta1"
_PARENTS: Final = "scheduling.k8s.io/v1alpha3"
BLOCK: Final = "topology.example/block"
RACK: Final = "topology.example/rack"
_RACKS: Final = 50
_RACKS_OF_A_BLOCK: Final = 10
_THREADS: Final = 8
_PATIENCE: Final = 300.0
_EVERYTHING: Final = Rule(["*"], ["*"], "*")
_GIB: Final = 1 << 30
_QUIET: Final = 1.5
"""Seconds without a new event after which all are taken to be posted."""
_LOOK: Final = 0.25


class Shape(NamedTuple):
    """What one round creates.

    Attributes:
        name: As the table names it.
        gangs: The number of gangs.
        size: The members of each, all of which must start.
        plain: The pods without a gang.
        racked: Whether each gang is within one rack.
        together: How many gangs have a parent in common, and a block; 0 for no parents.
    """

    name: str
    gangs: int
    size: int
    plain: int = 0
    racked: bool = False
    together: int = 0

    @property
    def pods(self) -> int:
        """All pods."""
        return self.gangs * self.size + self.plain

    @property
    def warm_up(self) -> Shape:
        """The least that does the same."""
        return self._replace(name="warm-up", gangs=self.together or 1, size=2, plain=2)


class Figures(NamedTuple):
    """What one round measured.

    Attributes:
        pods_per_s: Pods bound a second of the clock.
        cpu_ms: Processor time of the scheduler a pod, in milliseconds, events included.
        spread_ms: The median time between the first and the last bind of a gang, in milliseconds.
        partial: Gangs of which some members were bound and some not, at the end.
        resident_mb: Memory of the scheduler at the end.
        events: The events about these pods that were posted.
        posted_s: From the start of the clock to the last of them, in seconds; to half a second.
    """

    pods_per_s: float
    cpu_ms: float
    spread_ms: float
    partial: int
    resident_mb: float
    events: int
    posted_s: float


class Cluster:
    """An API server with nodes.

    Args:
        control_plane: The running control plane.
        uneven: Whether the memory of each node differs by some KiB, as in real clusters.
        levels: Whether the contestants know racks and blocks, and groups of groups.

    Attributes:
        uneven: The same, of nodes that are created from now on.
    """

    def __init__(
        self, control_plane: ControlPlane, *, uneven: bool = False, levels: bool = False
    ) -> None:
        self._plane: Final = control_plane
        self._admin: Final = control_plane.admin
        self.uneven = uneven
        self._features: Final = {**GANG_FEATURES, **(TREE_FEATURES if levels else {})}
        self._levels: Final = (BLOCK, RACK) if levels else ()
        self._per_rack = 1
        self._pool: Final = ThreadPoolExecutor(_THREADS)
        self._numbers: Final = itertools.count(1)
        self._ports: Final[dict[str, tuple[str, int]]] = {}
        self._started: list[Process] = []
        self._tokens: Final = {
            name: Account.create(self._admin, name, [_EVERYTHING]).token for name in CONTESTANTS
        }

    def add_nodes(self, count: int, first: int = 0) -> None:
        """Create nodes with 8 GPUs each, in 50 racks, of which 10 are in a block."""
        self._per_rack = max(count // _RACKS, 1)
        self._all(self._add_node, range(first, first + count))

    def remove_nodes(self) -> None:
        """Delete every node."""
        self._admin.delete("/api/v1/nodes")

    def stop(self) -> None:
        """Stop every contestant that still runs, also after an error in the middle of a round."""
        while self._started:
            self._started.pop().stop()

    def start(self, contestant: str, *, plugins: Sequence[Any] = ()) -> Process:
        """Start a contestant, and return it once it is ready."""
        process = self.launch(contestant, plugins=plugins)
        scheme, port = self._ports[contestant]
        with type(self._admin)(f"{scheme}://127.0.0.1:{port}") as probe:
            process.wait_until(lambda: probe.raw("GET", "/readyz")[0] == 200)
        return process

    def launch(self, contestant: str, *, lease: str = "", plugins: Sequence[Any] = ()) -> Process:
        """Start a contestant, and return it at once.

        Args:
            contestant: Which one.
            lease: The name of the Lease by which it becomes the leader; empty for no election.
            plugins: The ``pluginConfig`` of its profile.
        """
        election: dict[str, Any] = {"leaderElect": bool(lease)}
        if lease:
            election |= {"resourceName": lease, "resourceNamespace": "kube-system"}
        kubeconfig = self._plane.kubeconfig(contestant, self._tokens[contestant])
        connection: dict[str, Any] = {"kubeconfig": str(kubeconfig)}
        if contestant == IN_TREE:
            connection |= {"qps": 5000, "burst": 5000}
        configuration = self._plane.folder / f"{contestant}.json"
        content = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": connection,
            "leaderElection": election,
            "profiles": [{"schedulerName": contestant, "pluginConfig": list(plugins)}],
        }
        if self._levels and contestant == OURS:
            content["levels"] = list(self._levels)
        configuration.write_text(json.dumps(content), encoding="utf-8")
        (port,) = free_ports(1)
        log = self._plane.folder / f"{contestant}.log"
        self._ports[contestant] = ("https" if contestant == IN_TREE else "http", port)
        if contestant == IN_TREE:
            (program,) = programs(["kube-scheduler"]).values()
            gates = ",".join(f"{name}=true" for name in self._features)
            command = [f"--config={configuration}", "--bind-address=127.0.0.1"]
            command += [f"--secure-port={port}", f"--feature-gates={gates}", "--v=0"]
            command += [f"--authentication-kubeconfig={kubeconfig}"]
            command += [f"--authorization-kubeconfig={kubeconfig}"]
            return self._run(program, command, log)
        command = ["-m", "gangsched.cli", "run", f"--config={configuration}"]
        command += [f"--serve=127.0.0.1:{port}", "-v", "0"]
        return self._run(Path(sys.executable), command, log)

    def _run(self, program: Path, command: Sequence[str], log: Path) -> Process:
        self._started = [each for each in self._started if each.is_running]
        process = Process(program, command, log)
        self._started.append(process)
        return process

    def round(self, contestant: str, shape: Shape) -> Figures:
        """Start a contestant, let it place one shape, and stop it."""
        process = self.start(contestant)
        try:
            # the first decisions of a process cost more than all later ones
            self.place(process, contestant, shape.warm_up)
            return self.place(process, contestant, shape)
        finally:
            process.stop()

    def bare_round(self, shape: Shape, nodes: int) -> float:
        """Create the pods of a shape, let the bare client bind them; return the binds a second.

        Args:
            shape: The shape; only the number of its pods counts.
            nodes: How many nodes there are, which get the pods in turn.
        """
        pods = f"/api/v1/namespaces/{self._new_namespace()}/pods"
        names = [f"p{number}" for number in range(shape.pods)]
        binds = Binds(self._plane, pods, shape.pods)
        self._all(lambda name: self._add_pod(pods, BARE, name, None), names)
        time.sleep(1.0)
        kubeconfig = self._plane.kubeconfig(BARE, self._tokens[OURS])
        targets = {name: f"n{number % nodes}" for number, name in enumerate(names)}
        began = bind_all(kubeconfig, pods, targets)
        passed = binds.wait() - began
        if len(binds.at) < shape.pods:
            raise RuntimeError(f"the bare client bound {len(binds.at)} of {shape.pods} pods")
        self._admin.delete(pods, {"gracePeriodSeconds": 0})
        return shape.pods / passed

    def _new_namespace(self) -> str:
        namespace = f"round-{next(self._numbers)}"
        self._admin.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        return namespace

    def add_running(self, count: int, nodes: int, first: int = 0) -> None:
        """Create pods that run already, spread over the nodes that ``add_nodes`` created."""
        if not first:
            self._admin.create("/api/v1/namespaces", {"metadata": {"name": "running"}})
        pods = "/api/v1/namespaces/running/pods"

        def add(number: int) -> None:
            resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
            spec = {
                "schedulerName": "other",
                "nodeName": f"n{number % nodes}",
                "containers": [{"name": "c", "image": "i", "resources": resources}],
            }
            self._admin.create(pods, {"metadata": {"name": f"r{number}"}, "spec": spec})

        self._all(add, range(first, first + count))

    def place(self, process: Process, contestant: str, shape: Shape) -> Figures:
        """Let a running contestant place one shape, and return what that took."""
        namespace = self._new_namespace()
        pods = f"/api/v1/namespaces/{namespace}/pods"
        groups = f"/apis/{_GROUPS}/namespaces/{namespace}/podgroups"
        parents = f"/apis/{_PARENTS}/namespaces/{namespace}/compositepodgroups"
        names = [f"g{gang}" for gang in range(shape.gangs)]
        members = [(f"{name}-{place}", name) for name in names for place in range(shape.size)]
        binds = Binds(self._plane, pods, shape.pods)
        self._all(lambda member: self._add_pod(pods, contestant, *member), members)
        time.sleep(1.0 if members else 0.0)

        def add_plain() -> None:
            self._all(
                lambda number: self._add_pod(pods, contestant, f"p{number}", None),
                range(shape.plain),
            )

        cpu = process.cpu_seconds()
        if names:
            process.pause()
            add_plain()
        began = time.perf_counter()
        process.resume()
        families = range(0, shape.gangs, shape.together) if shape.together else ()
        self._all(lambda first: self._add_parent(parents, first, shape), families)
        self._all(lambda number: self._add_group(groups, number, shape), range(shape.gangs))
        if not names:
            add_plain()
        finished = binds.wait()
        events, posted = self._wait_for_events(namespace)
        cpu = process.cpu_seconds() - cpu
        figures = Figures(
            pods_per_s=len(binds.at) / max(finished - began, 1e-9),
            cpu_ms=1000 * cpu / shape.pods,
            spread_ms=1000 * binds.spread(),
            partial=binds.partial(shape.size),
            resident_mb=process.resident_bytes() / 1e6,
            events=events,
            posted_s=posted - began,
        )
        if len(binds.at) < shape.pods:
            raise RuntimeError(f"{contestant} bound {len(binds.at)} of {shape.pods} pods")
        self._check_domains(contestant, shape, binds)
        self._admin.delete(pods, {"gracePeriodSeconds": 0})
        if names:
            self._admin.delete(groups)
        if families:
            self._admin.delete(parents)
        return figures

    def _check_domains(self, contestant: str, shape: Shape, binds: Binds) -> None:
        """Raise if a gang is in several racks, or gangs with one parent are in several blocks."""
        racks: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
        members = [each for each in binds.nodes.items() if shape.racked and "-" in each[0]]
        for name, node in members:
            gang, rack = int(name[1:].partition("-")[0]), int(node[1:]) // self._per_rack
            racks["gang", gang].add(rack)
            if shape.together:
                racks["parent", gang // shape.together].add(rack // _RACKS_OF_A_BLOCK)
        if broken := [name for name, domains in racks.items() if len(domains) > 1]:
            raise RuntimeError(f"{contestant} placed outside of one domain: {broken}")

    def _wait_for_events(self, namespace: str) -> tuple[int, float]:
        """Return how many events there are once no more come, and when the last one came."""
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        count, changed = -1, time.perf_counter()
        while time.perf_counter() - changed < _QUIET:
            # one event and the number of the others: decoding them all would take as long
            page = self._admin.get(path, limit=1)
            known = len(page["items"]) + page["metadata"].get("remainingItemCount", 0)
            if known != count:
                count, changed = known, time.perf_counter()
            time.sleep(_LOOK)
        return count, changed

    def _all(self, call: Callable[[Any], object], given: Iterable[Any]) -> None:
        list(self._pool.map(call, given))

    def _add_node(self, number: int) -> None:
        memory = 256 * _GIB + (number << 12 if self.uneven else 0)
        offers = {"cpu": "32", "memory": str(memory), "pods": "110", "nvidia.com/gpu": "8"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        name, rack = f"n{number}", number // self._per_rack
        labels = {"kubernetes.io/hostname": name}
        if self._levels:
            labels |= {RACK: f"r{rack}", BLOCK: f"b{rack // _RACKS_OF_A_BLOCK}"}
        self._admin.create(
            "/api/v1/nodes",
            {
                "metadata": {"name": name, "labels": labels},
                "status": {"capacity": offers, "allocatable": offers, "conditions": [ready]},
            },
        )

    def _add_parent(self, path: str, first: int, shape: Shape) -> None:
        """Create the parent of the gangs from the number *first* on."""
        spec: dict[str, Any] = {
            "schedulingPolicy": {"gang": {"minGroupCount": shape.together}},
            "schedulingConstraints": {"topology": [{"key": BLOCK}]},
            "workloadRef": {"workloadName": "w", "templateName": "parent"},
        }
        self._admin.create(path, {"metadata": {"name": f"parent{first}"}, "spec": spec})

    def _add_group(self, path: str, number: int, shape: Shape) -> None:
        spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": shape.size}}}
        if shape.racked:
            spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
        if shape.together:
            first = number - number % shape.together
            spec["parentCompositePodGroupName"] = f"parent{first}"
            spec["workloadRef"] = {"workloadName": "w", "templateName": "child"}
        self._admin.create(path, {"metadata": {"name": f"g{number}"}, "spec": spec})

    def _add_pod(self, path: str, scheduler: str, name: str, group: str | None) -> None:
        asked = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}
        resources = {"requests": asked, "limits": {"nvidia.com/gpu": "1"}}
        spec: dict[str, Any] = {
            "schedulerName": scheduler,
            "containers": [{"name": "c", "image": "i", "resources": resources}],
        }
        if group is not None:
            spec["schedulingGroup"] = {"podGroupName": group}
        self._admin.create(path, {"metadata": {"name": name}, "spec": spec})


class Binds:
    """When each pod of a namespace was bound, as a watch sees it.

    Args:
        plane: The control plane.
        path: The path of the pods.
        expected: How many pods are bound at the end.

    Attributes:
        at: By the name of a pod, the time of its bind, on ``time.perf_counter``.
        nodes: By the name of a pod, the name of its node.
    """

    def __init__(self, plane: ControlPlane, path: str, expected: int) -> None:
        self.at: Final[dict[str, float]] = {}
        self.nodes: Final[dict[str, str]] = {}
        self._expected: Final = expected
        self._done: Final = threading.Event()
        self._lines: Final = lambda version: plane.admin.lines(
            path, resourceVersion=version, timeout=_PATIENCE
        )
        version = plane.admin.get(path, limit=1)["metadata"]["resourceVersion"]
        threading.Thread(target=self._follow, args=(version,), daemon=True).start()

    def wait(self) -> float:
        """Return when the last pod was bound; gives up after some minutes."""
        self._done.wait(_PATIENCE)
        return max(self.at.values(), default=time.perf_counter())

    def spread(self) -> float:
        """Return the median time between the first and the last bind of a gang, in seconds."""
        spreads = [max(times) - min(times) for times in self._by_gang().values()]
        return median(spreads) if spreads else 0.0

    def partial(self, size: int) -> int:
        """Return how many gangs have fewer members on nodes than *size*, but some."""
        return sum(1 for times in self._by_gang().values() if len(times) < size)

    def _by_gang(self) -> dict[str, list[float]]:
        gangs: defaultdict[str, list[float]] = defaultdict(list)
        for name, at in self.at.items():
            gang, dash, _place = name.partition("-")
            if dash:
                gangs[gang].append(at)
        return gangs

    def _follow(self, version: str) -> None:
        with suppress(OSError):  # the API server is stopped if the section is ended
            self._see(version)

    def _see(self, version: str) -> None:
        while len(self.at) < self._expected:
            line = b""
            for line in self._lines(version):
                # others are not decoded: this process must not take the schedulers' time
                if b'"nodeName"' in line and self._is_last(json.loads(line)["object"]):
                    break
            if line:  # a watch that is too slow is ended by the server
                version = json.loads(line)["object"]["metadata"]["resourceVersion"]
        self._done.set()

    def _is_last(self, pod: dict[str, Any]) -> bool:
        if node := pod["spec"].get("nodeName"):
            self.nodes[pod["metadata"]["name"]] = node
            self.at.setdefault(pod["metadata"]["name"], time.perf_counter())
        return len(self.at) == self._expected
