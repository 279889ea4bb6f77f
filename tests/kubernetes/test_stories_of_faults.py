"""Whole gangs under faults: a real API server behind a proxy, and an oracle that reads only it.

A story follows from its seed: the nodes, the gangs, how likely faults are, and what happens in
between: connections are severed, the scheduler is killed and started again, members are deleted and
come back, a node goes and returns, etcd stands still, the API server is killed, the wall clock of a
scheduler jumps by up to an hour. Then the faults stop, and every gang that fits has to start. The
oracle checks all the while that no node is oversubscribed and no gang partial for longer than
``BOUND``.

Profile ``fast`` plays 2 stories, ``ci`` 15, ``deep`` 1,000. ``STORY=17`` plays that one, and
``STORY=100:200`` a hundred.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

import pytest

from support.cluster_actors import Actors
from support.cluster_oracle import ClusterOracle
from support.control_plane import Account, ControlPlane, Rule
from support.fault_proxy import FaultProxy, Rates
from support.patience import HANG, saw, until
from support.scheduler_replicas import Replicas

BOUND: Final = HANG
_COUNTS: Final = {"fast": 2, "ci": 15, "deep": 1000}
_NAME: Final = "gangsched"
_CPUS: Final = 4
_HOUR: Final = 3600.0
_RULES: Final = (
    Rule(["get", "list", "watch"], ["nodes", "pods", "namespaces"]),
    Rule(["delete"], ["pods"]),
    Rule(["create"], ["pods/binding", "pods/eviction"]),
    Rule(["patch", "update"], ["pods/status"]),
    Rule(["get", "list", "watch"], ["persistentvolumeclaims", "persistentvolumes"]),
    Rule(["get", "list", "watch"], ["*"], "storage.k8s.io"),
    Rule(["get", "list", "watch"], ["*"], "resource.k8s.io"),
    Rule(["get", "list", "watch"], ["podgroups", "priorityclasses"], "scheduling.k8s.io"),
    Rule(["patch", "update"], ["podgroups/status"], "scheduling.k8s.io"),
    Rule(["get", "list", "watch"], ["poddisruptionbudgets"], "policy"),
    Rule(["create", "patch"], ["events"], "events.k8s.io"),
    Rule(["create", "patch"], ["events"]),
    Rule(["create", "get", "update"], ["leases"], "coordination.k8s.io"),
)


def _seeds() -> list[int]:
    if given := os.environ.get("STORY"):
        first, _colon, end = given.partition(":")
        return list(range(int(first), int(end or int(first) + 1)))
    return list(range(_COUNTS[os.environ.get("HYPOTHESIS_PROFILE", "fast")]))


class Story:
    """One story; ``play`` plays it."""

    def __init__(self, plane: ControlPlane, namespace: str, seed: int) -> None:
        self._plane: Final = plane
        self._namespace: Final = namespace
        self._chance: Final = random.Random(seed)
        self._seed: Final = seed
        self._nodes: Final = self._chance.randint(2, 6)
        self._open: Final = ExitStack()

    def play(self, token: str) -> None:
        """Play it to its end."""
        chance, admin = self._chance, self._plane.admin
        admin.delete("/api/v1/nodes")
        for number in range(self._nodes):
            self._add_node(number)
        rates = Rates(
            requests=chance.choice((0.0, 0.1, 0.3)),
            watches=chance.choice((0.0, 0.1, 0.3)),
            events=chance.choice((0.0, 0.05, 0.2)),
            longest_delay=chance.choice((0.05, 0.5)),
        )
        with (
            ClusterOracle(admin, bound=BOUND) as oracle,
            FaultProxy(
                self._plane.url, self._plane.ca, seed=self._seed, rates=rates, key=self._plane.key
            ) as proxy,
            Actors(admin, self._namespace) as actors,
        ):
            name = f"story-{self._seed}"
            kubeconfig = self._plane.kubeconfig(name, token, url=proxy.url)
            count = chance.choice((1, 1, 1, 2))
            replicas = Replicas(self._plane.folder, [kubeconfig] * count, _NAME)
            try:
                replicas.wait_until_watching(proxy)
                gangs = self._act(proxy, actors, replicas)
                proxy.calm()
                proxy.heal()
                self._settle(oracle, replicas, gangs)
            finally:
                replicas.stop()
                print(f"story {self._seed}: {rates}; {dict(proxy.plan.happened)}")
                print(f"longest partial {oracle.longest_partial:.1f} s")

    def _act(self, proxy: FaultProxy, actors: Actors, replicas: Replicas) -> dict[str, int]:
        """Let things happen; return the size of each gang."""
        chance = self._chance
        left = self._nodes * _CPUS
        gangs: dict[str, int] = {}
        deeds: list[tuple[int, Callable[[], Any]]] = [
            (4, lambda: actors.delete_pod(self._member(gangs))),
            (2, proxy.sever),
            (3, lambda: replicas.kill(chance.randrange(len(replicas.running)))),
            (2, lambda: self._partition(proxy)),
            (1, lambda: self._without_node(chance.randrange(self._nodes))),
            (1, self._pause_etcd),
            (2, lambda: self._jump(replicas)),
            (1 if chance.random() < 0.1 else 0, self._restart_apiserver),
        ]
        weights = [weight for weight, _deed in deeds]
        for _ in range(chance.randint(6, 14)):
            size = chance.randint(1, 6)
            if chance.random() < 0.6 and size <= left + 4:
                name = f"g{len(gangs)}"
                actors.add_gang(name, size, _NAME)
                gangs[name] = size
                left -= size
            else:
                chance.choices([deed for _weight, deed in deeds], weights)[0]()
            time.sleep(chance.choice((0.0, chance.uniform(0, 0.1), chance.uniform(0, 1.0))))
        return gangs

    def _settle(self, oracle: ClusterOracle, replicas: Replicas, gangs: dict[str, int]) -> None:
        """Wait until no gang is partial, and none waits that fits."""
        quiet_since = time.monotonic()

        def is_quiet() -> bool:
            nonlocal quiet_since
            oracle.check()
            replicas.revive()
            placed = {gang: oracle.bound_members(f"{self._namespace}/{gang}") for gang in gangs}
            partial = [gang for gang in gangs if oracle.is_partial(f"{self._namespace}/{gang}")]
            unstarted = oracle.unstarted()
            if partial or unstarted:
                quiet_since = time.monotonic()
            saw(f"on nodes: {placed} of {gangs}; partial: {partial}; fit and wait: {unstarted}")
            return time.monotonic() - quiet_since >= 1.0

        until(is_quiet, lambda: [process.log for process in replicas.running])

    def _member(self, gangs: dict[str, int]) -> str:
        if not gangs:
            return "none"
        gang = self._chance.choice(sorted(gangs))
        return f"{gang}-{self._chance.randrange(gangs[gang])}"

    def _add_node(self, number: int) -> None:
        offers = {"cpu": str(_CPUS), "memory": "8Gi", "pods": "20"}
        node = {"metadata": {"name": f"n{number}"}, "status": {"allocatable": offers}}
        self._plane.admin.create("/api/v1/nodes", node)

    def _partition(self, proxy: FaultProxy) -> None:
        proxy.partition()
        time.sleep(self._chance.uniform(0, 1.0))
        proxy.heal()

    def _without_node(self, number: int) -> None:
        self._plane.admin.delete(f"/api/v1/nodes/n{number}")
        time.sleep(self._chance.uniform(0, 0.5))
        self._add_node(number)

    def _jump(self, replicas: Replicas) -> None:
        number = self._chance.randrange(len(replicas.running))
        replicas.set_clock(
            number, self._chance.choice((1.0, 30.0, _HOUR)) * self._chance.uniform(-1, 1)
        )

    def _pause_etcd(self) -> None:
        self._plane.etcd.pause()
        time.sleep(self._chance.uniform(0, 1.0))
        self._plane.etcd.resume()

    def _restart_apiserver(self) -> None:
        self._plane.apiserver.kill()
        self._plane.start_apiserver()


@pytest.fixture(scope="module")
def token(control_plane: ControlPlane) -> str:
    """The token of an account with the rights that a scheduler needs, and no others."""
    return Account.create(control_plane.admin, "gangsched-stories", _RULES).token


@pytest.mark.parametrize("seed", _seeds())
def test_gangs_start_whole_or_not_at_all_under_faults(
    control_plane: ControlPlane, namespace: str, token: str, seed: int
) -> None:
    Story(control_plane, namespace, seed).play(token)
