"""An oracle of whole gangs that reads only the API server, at every step of a run.

It watches pods, nodes and native pod groups without any proxy in between, and keeps its own account
from the events. Rules, each checked after every event:

  R1  no node is oversubscribed: the pods on it, finished ones aside, request no more than the node
      offers, and are not more than it takes. Two schedulers on the same nodes race; then a node may
      be oversubscribed for *races* seconds, until its kubelet has refused a pod;
  R2  no pod changes its node;
  R3  no gang is partial for longer than ``bound`` seconds: some members on nodes, fewer than its
      minimum, and it was not whole before;
  R4  at the end, no gang waits that fits: see ``unstarted``.

Amounts are compared exactly, as fractions.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from types import TracebackType
from typing import Any, Final

from attrs import define

from support.control_plane import ApiError, Client
from support.patience import HANG, saw, until

__all__ = ["ClusterOracle", "amount"]

Object = dict[str, Any]

_GROUPS: Final = "/apis/scheduling.k8s.io/v1beta1/podgroups"
_NODES: Final = "/api/v1/nodes"
_PODS: Final = "/api/v1/pods"
_FINISHED: Final = ("Succeeded", "Failed")
_UNITS: Final[Mapping[str, Fraction]] = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(1000),
    **{unit: Fraction(1000**power) for power, unit in enumerate("MGTPE", 2)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", 1)},
}


def amount(text: str) -> Fraction:
    """Return a quantity of Kubernetes as a number.

    >>> amount("1500m"), amount("2Ki")
    (Fraction(3, 2), Fraction(2048, 1))
    """
    number = text.rstrip("numkMGTPEi")
    return Fraction(number) * _UNITS[text[len(number) :]]


@define
class _Gang:
    minimum: int
    was_whole: bool = False
    partial_since: float | None = None


class _Account:
    """What the events said, by UID; pods also by gang and by node."""

    def __init__(self) -> None:
        self.pods: Final[dict[str, Object]] = {}
        self.nodes: Final[dict[str, Object]] = {}
        self.gangs: Final[dict[str, _Gang]] = {}
        self.node_names: Final[dict[str, Object]] = {}
        self.first_node: Final[dict[str, str]] = {}
        self._members: Final[defaultdict[str, dict[str, Object]]] = defaultdict(dict)
        self._on: Final[defaultdict[str, dict[str, Object]]] = defaultdict(dict)

    def put_pod(self, uid: str, pod: Object | None) -> None:
        """Take in a pod as it is now; None if it is gone."""
        before = self.pods.pop(uid, None)
        if before is not None:
            self._members[_gang_of(before)].pop(uid, None)
            self._on[before["spec"].get("nodeName", "")].pop(uid, None)
        if pod is not None:
            self.pods[uid] = pod
            self._members[_gang_of(pod)][uid] = pod
            self._on[pod["spec"].get("nodeName", "")][uid] = pod

    def put_node(self, uid: str, node: Object, *, is_there: bool) -> None:
        """Take in a node as it is now, or that it is gone."""
        name = node["metadata"]["name"]
        if is_there:
            self.nodes[uid] = self.node_names[name] = node
        elif self.nodes.pop(uid, None) is not None:
            self.node_names.pop(name, None)

    def members(self, gang: str) -> list[Object]:
        """Return the pods of a gang."""
        return [*self._members[gang].values()]

    def on(self, node: str) -> list[Object]:
        """Return the pods on a node that are not finished."""
        return [pod for pod in self._on[node].values() if _is_placed(pod)]

    def free(self, node: Object) -> dict[str, Fraction]:
        """Return what a node has left; less than nothing if it is oversubscribed."""
        free = {kind: amount(some) for kind, some in _offers(node).items()}
        for pod in self.on(node["metadata"]["name"]):
            for kind, need in _requests(pod).items():
                free[kind] = free.get(kind, Fraction(0)) - need
        return free


class ClusterOracle:
    """The oracle; watches from ``start`` to ``stop``; also a context manager, which then checks.

    Args:
        client: A client of the API server itself, which may read everything.
        bound: How long a gang may be partial, in seconds.
        races: How long a node may be oversubscribed, in seconds.

    Attributes:
        violations: What broke a rule, as sentences, in the order in which it was seen.
        longest_partial: The longest time for which a gang was partial so far, in seconds.
    """

    def __init__(self, client: Client, *, bound: float, races: float = 0.0) -> None:
        self.violations: Final[list[str]] = []
        self._races: Final = races
        self._over: Final[dict[str, float]] = {}
        self.longest_partial = 0.0
        self._client: Final = client
        self._bound: Final = bound
        self._account: Final = _Account()
        self._lock: Final = threading.RLock()
        self._ends: Final = threading.Event()
        self._synced: Final = {path: threading.Event() for path in (_PODS, _NODES, _GROUPS)}
        self._threads: Final = [
            *(
                threading.Thread(target=self._follow, args=(path,), daemon=True)
                for path in self._synced
            ),
            threading.Thread(target=self._tick, daemon=True),
        ]

    def __enter__(self) -> ClusterOracle:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if error is None:
            self.check()

    def start(self) -> None:
        """Begin to watch; return once everything was listed."""
        for thread in self._threads:
            thread.start()
        for synced in self._synced.values():
            assert synced.wait(HANG), "the oracle cannot list the cluster"

    def stop(self) -> None:
        """Watch no longer: afterwards no violation is added."""
        with self._lock:
            self._ends.set()

    def check(self) -> None:
        """Raise an AssertionError if a rule was broken."""
        with self._lock:
            assert not self.violations, "\n".join(self.violations[:10])

    def bound_members(self, gang: str) -> int:
        """Return how many members of a gang, ``namespace/name``, are on nodes, and stay."""
        with self._lock:
            return self._placed(gang)

    def is_partial(self, gang: str) -> bool:
        """Return whether some members of a gang are on nodes, and it was not whole before."""
        with self._lock:
            known = self._account.gangs.get(gang)
            return known is not None and known.partial_since is not None

    def unstarted(self) -> list[str]:
        """Return the gangs that wait although they fit into what is free now.

        Of a gang that was whole and has lost a member, one pending member has to fit.

        A gang is counted only if its members request the same, as then it is easy to be exact.
        Nodes that are cordoned or tainted are left out, as if no member tolerated that.
        """
        with self._lock:
            return [
                name
                for name, gang in self._account.gangs.items()
                if (gang.was_whole or not self._placed(name)) and self._fits(name, gang)
            ]

    def wait_until(
        self, gangs: Iterable[str], meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        """Return once each of *gangs* has its minimum on nodes, and no node is oversubscribed.

        The rules are checked all the while, and *meanwhile* is called.

        Raises:
            AssertionError: A rule was broken, or the gangs do not start.
        """
        names = list(gangs)

        def are_whole() -> bool:
            self.check()
            meanwhile()
            with self._lock:
                known = self._account.gangs
                lacking = [
                    f"{name} has {self._placed(name)}"
                    for name in names
                    if name not in known or self._placed(name) < known[name].minimum
                ]
                over = sorted(self._over)
            saw(f"not started: {lacking[:10]}; oversubscribed: {over}")
            return not lacking and not over

        until(are_whole, step=0.02)

    def _fits(self, name: str, gang: _Gang) -> bool:
        members = [pod for pod in self._account.members(name) if not _ends(pod)]
        if gang.was_whole:
            members = [pod for pod in members if not _is_placed(pod)]
        asked = {tuple(sorted(_requests(pod).items())) for pod in members}
        needed = 1 if gang.was_whole else gang.minimum
        if len(members) < needed or len(asked) != 1:
            return False
        requests = dict(asked.pop())
        places = 0
        for node in self._account.nodes.values():
            if node["spec"].get("unschedulable") or node["spec"].get("taints"):
                continue
            free = self._account.free(node)
            shares = [free.get(kind, Fraction(0)) // need for kind, need in requests.items()]
            places += max(int(min(shares)), 0)
        return places >= needed

    def _placed(self, gang: str) -> int:
        members = self._account.members(gang)
        return sum(1 for pod in members if _is_placed(pod) and not _ends(pod))

    # what is seen ---------------------------------------------------------------------------

    def _follow(self, path: str) -> None:
        """List and watch one kind of object until ``stop``, through restarts of the server."""
        while not self._ends.is_set():
            try:
                version = self._list(path)
                self._synced[path].set()
                while not self._ends.is_set():
                    watch = self._client.watch(path, resourceVersion=version, timeoutSeconds=5)
                    for event in watch:
                        if event["type"] == "ERROR":
                            raise ConnectionError("listed again")
                        version = event["object"]["metadata"]["resourceVersion"]
                        with self._lock:
                            self._see(path, event["type"], event["object"])
                        if self._ends.is_set():
                            return
            except (OSError, ApiError, ValueError):
                self._ends.wait(0.1)

    def _list(self, path: str) -> str:
        listing = self._client.get(path)
        with self._lock:
            known = self._account.pods if path == _PODS else self._account.nodes
            listed = {item["metadata"].get("uid", ""): item for item in listing["items"]}
            if path != _GROUPS:
                for uid in known.keys() - listed.keys():
                    self._see(path, "DELETED", known[uid])
            for item in listed.values():
                self._see(path, "ADDED", item)
        version: str = listing["metadata"]["resourceVersion"]
        return version

    def _see(self, path: str, kind: str, given: Object) -> None:
        if self._ends.is_set():
            return
        uid, account = given["metadata"]["uid"], self._account
        if path == _GROUPS:
            metadata = given["metadata"]
            gang = f"{metadata['namespace']}/{metadata['name']}"
            policy = given["spec"].get("schedulingPolicy", {})
            if kind == "DELETED":
                account.gangs.pop(gang, None)
            else:
                least = (policy.get("gang") or {}).get("minCount", 1)
                account.gangs.setdefault(gang, _Gang(least)).minimum = least
                # its pods may have been seen before it: who waits for a whole gang relies on this
                self._check_gang(gang, time.monotonic())
            return
        if path == _NODES:
            account.put_node(uid, given, is_there=kind != "DELETED")
            return
        account.put_pod(uid, None if kind == "DELETED" else given)
        if kind != "DELETED":
            self._check_pod(uid, given)
        if gang := _gang_of(given):
            self._check_gang(gang, time.monotonic())

    def _check_pod(self, uid: str, pod: Object) -> None:
        node = pod["spec"].get("nodeName")
        if not node:
            return
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        before = self._account.first_node.setdefault(uid, node)
        if before != node:
            self.violations.append(f"pod {name} was on {before} and is on {node}")
        self._check_node(node, f"with pod {name}", time.monotonic())

    def _check_node(self, node: str, what: str, now: float) -> None:
        where = self._account.node_names.get(node)
        free = self._account.free(where) if where else {}
        lacking = {kind: left for kind, left in free.items() if left < 0}
        if not lacking:
            self._over.pop(node, None)
        elif now - self._over.setdefault(node, now) >= self._races:
            for kind, left in lacking.items():
                over = f"{kind} of node {node} is oversubscribed by {float(-left):g}"
                self.violations.append(f"{over}, {what}")

    def _check_gang(self, name: str, now: float) -> None:
        gang = self._account.gangs.get(name)
        if gang is None:
            return
        placed = self._placed(name)
        if placed == 0:
            gang.was_whole = False
        if placed >= gang.minimum:
            gang.was_whole = True
        if placed == 0 or gang.was_whole:
            gang.partial_since = None
        elif gang.partial_since is None:
            gang.partial_since = now
        else:
            age = now - gang.partial_since
            self.longest_partial = max(self.longest_partial, age)
            if age > self._bound:
                what = f"{placed} of {gang.minimum} members for more than {self._bound:g} s"
                self.violations.append(f"gang {name} is partial: {what}")
                gang.partial_since = now

    def _tick(self) -> None:
        while not self._ends.wait(0.05):
            with self._lock:
                if self._ends.is_set():
                    return
                for node in list(self._over) if self._races else ():
                    self._check_node(node, f"for {self._races:g} s", time.monotonic())
                for name in list(self._account.gangs):
                    self._check_gang(name, time.monotonic())


def _ends(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def _is_placed(pod: Object) -> bool:
    finished = pod.get("status", {}).get("phase") in _FINISHED
    return bool(pod["spec"].get("nodeName")) and not finished


def _gang_of(pod: Object) -> str:
    name = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    return f"{pod['metadata']['namespace']}/{name}" if name else ""


def _offers(node: Object) -> dict[str, str]:
    offers: dict[str, str] = node.get("status", {}).get("allocatable", {})
    return offers


def _requests(pod: Object) -> dict[str, Fraction]:
    """Return what the containers request together, and one pod; others than containers are not."""
    total: dict[str, Fraction] = {"pods": Fraction(1)}
    for container in pod["spec"]["containers"]:
        for kind, some in container.get("resources", {}).get("requests", {}).items():
            total[kind] = total.get(kind, Fraction(0)) + amount(some)
    return {kind: need for kind, need in total.items() if need}
