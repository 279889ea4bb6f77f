"""A scheduler is killed at every phase of a gang's life, and another one goes on.

The phase is reached when a certain request passes the proxy of the replica: it is killed before the
request is performed, or after it, without the answer. Two replicas elect a leader; the one that is
killed is started again. The oracle demands that every gang becomes whole, that none is partial for
longer than ``BOUND``, that no pod changes its node and no node is oversubscribed.

Profile ``fast`` kills 3 times, ``ci`` 10, ``deep`` 200; ``KILLS=40`` so often. Each phase comes as
often as the others, in an order that follows from ``KILL_SEED``.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final

from attrs import define, field, frozen

from support.cluster_actors import Actors
from support.cluster_oracle import ClusterOracle
from support.control_plane import Account, ControlPlane, Rule
from support.fault_proxy import Fault, FaultProxy, Order, Request
from support.patience import HANG, until
from support.scheduler_replicas import Replicas

BOUND: Final = HANG
_COUNTS: Final = {"fast": 3, "ci": 10, "deep": 200}
_SIZE: Final = 4
_LEFT_OUT: Final = 3.0
_NAME: Final = "gangsched"


@frozen
class Phase:
    """When a scheduler is killed.

    Attributes:
        name: What is under way.
        matches: Which request.
        number: The how many-th of these requests.
        performed: Whether it is performed before the kill.
        surely: Whether every gang passes this phase.
    """

    name: str
    matches: Callable[[Request], bool]
    number: int = 1
    performed: bool = False
    surely: bool = True

    def __str__(self) -> str:
        return f"{'after' if self.performed else 'before'} {self.name} {self.number}"


def _is_status_of_group(request: Request) -> bool:
    return request.method == "PATCH" and "/podgroups/" in request.path


def _is_event(request: Request) -> bool:
    return request.method == "POST" and request.path.endswith("/events")


def _is_renewal(request: Request) -> bool:
    return request.method == "PUT" and "/leases/" in request.path


def phases() -> Iterator[Phase]:
    """Yield every phase of the life of a gang of four."""
    for performed in (False, True):
        # before the first: decided, and nothing written; after the last: all bound, nothing told
        for number in range(1, _SIZE + 1):
            yield Phase("bind", lambda request: request.is_binding, number, performed)
        yield Phase("the condition of the group", _is_status_of_group, 1, performed)
        for number in (1, _SIZE):
            # a leader that loses its lease meanwhile forgets what it has queued
            yield Phase("event", _is_event, number, performed, surely=False)
        yield Phase("a renewal of the lease", _is_renewal, 2, performed, surely=False)


def _kills() -> list[tuple[int, Phase]]:
    given = os.environ.get("KILLS")
    count = int(given or _COUNTS[os.environ.get("HYPOTHESIS_PROFILE", "fast")])
    every = [*phases()]
    random.Random(os.environ.get("KILL_SEED", "0")).shuffle(every)
    return [(number, phase) for number, phase in zip(range(count), itertools.cycle(every))]


@define(eq=False)
class _Trap:
    """Kills the replica whose request is that of a phase; the proxies call it in their threads."""

    phase: Phase
    replicas: Replicas
    lock: threading.Lock = field(factory=threading.Lock)
    seen: int = 0
    sprung: bool = False

    def order(self, replica: int) -> Order:
        """Return what the proxy of a replica has to do."""
        fault = Fault.LOST_ANSWER if self.phase.performed else Fault.CUT
        return Order(lambda request: self._springs(replica, request), fault)

    def disarm(self) -> None:
        """Kill nothing any more."""
        with self.lock:
            self.sprung = True

    def _springs(self, replica: int, request: Request) -> bool:
        with self.lock:
            if self.sprung or not self.phase.matches(request):
                return False
            self.seen += 1
            self.sprung = self.seen == self.phase.number
            if self.sprung:
                # what the proxy has taken in is still performed, as of a process that has just sent
                self.replicas.running[replica].kill()
            return self.sprung


class Cluster:
    """A control plane with two replicas, each behind a proxy of its own."""

    def __init__(self, plane: ControlPlane, namespace: str, opened: ExitStack) -> None:
        admin = plane.admin
        admin.delete("/api/v1/nodes")
        offers = {"cpu": "3", "memory": "8Gi", "pods": "20"}
        for number in range(2):
            node = {"metadata": {"name": f"k{number}"}, "status": {"allocatable": offers}}
            admin.create("/api/v1/nodes", node)
        token = Account.create(admin, f"kills-{namespace}", [Rule(["*"], ["*"], "*")]).token
        self.namespace: Final = namespace
        self.oracle: Final = opened.enter_context(ClusterOracle(admin, bound=BOUND))
        self.actors: Final = opened.enter_context(Actors(admin, namespace))
        self._proxies: Final = [
            opened.enter_context(FaultProxy(plane.url, plane.ca, key=plane.key)) for _ in range(2)
        ]
        kubeconfigs = [
            plane.kubeconfig(f"kills-{namespace}-{number}", token, url=proxy.url)
            for number, proxy in enumerate(self._proxies)
        ]
        self.replicas: Final = Replicas(plane.folder, kubeconfigs, _NAME)
        opened.callback(self.replicas.stop)

    def play(self, number: int, phase: Phase) -> None:
        """Let one gang start while its scheduler is killed, then let it end."""
        name = f"g{number}"
        trap = _Trap(phase, self.replicas)
        for replica, proxy in enumerate(self._proxies):
            proxy.order(trap.order(replica))
        self.actors.add_gang(name, _SIZE, _NAME)
        whole_since: float | None = None

        def is_reached() -> bool:
            nonlocal whole_since
            if trap.sprung or phase.surely:
                return trap.sprung
            # such a phase may be left out; it does not come long after the gang is whole
            if whole_since is None and self.oracle.bound_members(gang) == _SIZE:
                whole_since = time.monotonic()
            return whole_since is not None and time.monotonic() - whole_since > _LEFT_OUT

        gang = f"{self.namespace}/{name}"
        until(is_reached, lambda: f"{phase} was not reached", step=0.02)
        trap.disarm()
        self.oracle.wait_until([gang], self.replicas.revive)
        self.actors.delete_gang(name)


def test_gangs_become_whole_whenever_their_scheduler_is_killed(
    control_plane: ControlPlane, namespace: str
) -> None:
    with ExitStack() as opened:
        cluster = Cluster(control_plane, namespace, opened)
        for number, phase in _kills():
            began = time.monotonic()
            try:
                cluster.play(number, phase)
            except AssertionError as error:
                error.add_note(f"kill {number}: {phase}; logs in {control_plane.folder}")
                raise
            print(f"kill {number}, {phase}: whole after {time.monotonic() - began:.1f} s")
        print(f"longest partial {cluster.oracle.longest_partial:.1f} s")
