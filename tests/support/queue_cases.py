"""Cases of queues from the suites of other schedulers, in the format of ``testdata/judges/queues``.

Rules:
  R1  a parent that is only named has no nominal of its own;
  R2  with ``sharing: kai``, the quota of a parent is the sum of its children's. So its nominal is
      what it has beside theirs. What a cluster has beside all quotas is the root's, which lends it;
  R3  nodes are not the limit, unless the case states a capacity or nodes;
  R4  what cannot be spelled is left out: see ``unspelled``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from attrs import evolve

from gangsched import (
    ClusterState,
    Effect,
    Event,
    Evict,
    NodeAdded,
    NodeName,
    Pod,
    PodAdded,
    PodDeleted,
    PodUID,
    Preemption,
    Quota,
    Reclaim,
    ReclaimFrom,
    Scheduler,
    presets,
)
from gangsched.testing import make_node
from support import queue_oracle
from support.immediate_host import ImmediateHost
from support.judges import Case, Spelled, Tree, World, families, levels_of
from support.queue_oracle import Amounts, Job

__all__ = [
    "QUEUE_CASES",
    "PlacedWorld",
    "QueueHost",
    "as_job",
    "as_oracle",
    "as_quotas",
    "per_thousand",
    "queue_preset",
    "unspelled",
]

_FILE: Final = Path(__file__).parents[1] / "testdata" / "judges" / "queues" / "queues.json"
_NAMES: Final = {"cpu": "cpu", "gpu": "nvidia.com/gpu", "mem": "memory"}
_HUGE: Final = {"cpu": 1_000_000, "gpu": 1_000_000, "mem": 1_000_000}
_UNSPELLED: Final = ("tier", "within", "borrow_preempts", "fence")
_NODE: Final = NodeName("n")
_NO_NODES: Final[Mapping[str, Amounts]] = MappingProxyType({})
_NO_PLACES: Final[Mapping[str, str]] = MappingProxyType({})
_MANY: Final = 100
"""More deadlines, or evictions, than any of these cases needs."""

QUEUE_CASES: Final[tuple[Case, ...]] = tuple(json.loads(_FILE.read_text()))


def unspelled(case: Case) -> list[str]:
    """Return what a case says of its queues that has no spelling."""
    return [field for field in _UNSPELLED for queue in case["queues"] if field in queue]


# Spelling -----------------------------------------------------------------------------------------


def _thousandths(given: Mapping[str, float]) -> Amounts:
    return {name: round(amount * 1000) for name, amount in given.items()}


def _queues(case: Case) -> Iterator[queue_oracle.Queue]:
    """Yield the queues of a case; R1, R2."""
    named = {queue["name"]: queue for queue in case["queues"]}
    for parent in [queue.get("parent") for queue in case["queues"]]:
        if parent is not None:
            named.setdefault(parent, {"name": parent})
    for queue in named.values():
        nominal = queue.get("nominal")
        if nominal is not None and case.get("sharing") == "kai":
            nominal = _beside_children(queue, case)
        yield queue_oracle.Queue(
            queue["name"],
            queue.get("parent"),
            None if nominal is None else _thousandths(nominal),
            _thousandths(queue.get("borrow", {})),
            _thousandths(queue.get("lend", {})),
            _thousandths(queue.get("limit", {})),
            queue.get("weight", 1.0),
            queue.get("reclaim", "any"),
        )


def _beside_children(queue: Tree, case: Case) -> Mapping[str, float]:
    children = [each for each in case["queues"] if each.get("parent") == queue["name"]]
    most = dict(queue["nominal"])
    if "parent" not in queue:
        for name, amount in case.get("capacity", {}).items():
            most[name] = max(most.get(name, 0), amount)
    return {
        name: max(0, amount - sum(each["nominal"].get(name, 0) for each in children))
        for name, amount in most.items()
    }


def as_oracle(case: Case) -> queue_oracle.QueueWorld:
    """Return the world of a case as the oracle knows it: those run that run at its beginning."""
    started = case.get("start")
    jobs = [*case.get("running", ()), *case.get("workloads", ())]
    running = [as_job(each) for each in jobs if started is None or each["name"] in started]
    return queue_oracle.QueueWorld(
        {queue.name: queue for queue in _queues(case)},
        {job.name: job for job in running},
        _thousandths(case.get("capacity", {})),
        is_fair=case.get("sharing") == "fair",
    )


def as_job(given: Tree) -> Job:
    """Return a job of a case as the oracle knows it."""
    return Job(
        given["name"],
        given["queue"],
        _thousandths(given["requests"]),
        given.get("priority", 0),
        given.get("preemptible", True),
    )


_RECLAIM_FROM: Final = {
    "never": ReclaimFrom.NEVER,
    "lower": ReclaimFrom.LOWER,
    "lower-or-equal": ReclaimFrom.LOWER_OR_EQUAL,
    "any": ReclaimFrom.ANY,
}


def _amounts(given: Amounts) -> dict[str, str]:
    """Return amounts as a manifest states them."""
    return {_NAMES[name]: f"{amount}m" for name, amount in given.items()}


def as_quotas(queues: Iterable[queue_oracle.Queue]) -> list[Quota]:
    """Spell queues."""
    return [
        Quota(
            name=queue.name,
            parent=queue.parent,
            nominal=None if queue.nominal is None else _amounts(queue.nominal),
            borrow=_amounts(queue.borrow),
            lend=_amounts(queue.lend),
            hard=_amounts(queue.hard),
            weight=queue.weight,
            reclaim_from=_RECLAIM_FROM[queue.reclaim],
        )
        for queue in queues
    ]


def queue_preset(
    world: queue_oracle.QueueWorld, levels: Sequence[Sequence[str]] = ()
) -> Callable[[ClusterState], Scheduler]:
    """Return what creates a scheduler with the queues of a world."""
    reclaim = Reclaim.FAIR if world.is_fair else Reclaim.NOMINAL
    preemption, quotas = Preemption(reclaim=reclaim), as_quotas(world.queues.values())

    def make(cluster: ClusterState) -> Scheduler:
        return presets.gang(
            cluster, quotas=quotas, preemption=preemption, levels=levels, can_evict=True
        )

    return make


def _pod(job: Job, *, in_group: bool = False, **more: Any) -> Pod:
    requests = _amounts(job.requests)
    if in_group:
        more |= {"pod_group": job.name, "min_available": 1}
    return Pod(name=job.name, requests=requests, queue=job.queue, priority=job.priority, **more)


# Running ------------------------------------------------------------------------------------------


class QueueHost(ImmediateHost):
    """A scheduler with the queues of a world; victims leave at once.

    Args:
        world: The queues, and the jobs that run.
        recreates: Whether a job that is evicted is pending again at once.
        in_groups: Whether each job is a group of one pod.
        nodes: What each node has; one node with what the world has, by default.
        places: The node of each job that runs, if there are several.

    Attributes:
        evicted: The names of the jobs that were evicted, in order.
        was_running: The jobs that ran at the beginning, and after each bind.
    """

    def __init__(
        self,
        world: queue_oracle.QueueWorld,
        *,
        recreates: bool = False,
        in_groups: bool = False,
        nodes: Mapping[str, Amounts] = _NO_NODES,
        places: Mapping[str, str] = _NO_PLACES,
    ) -> None:
        super().__init__()
        self._pod = partial(_pod, in_group=in_groups)
        self.scheduler = queue_preset(world)(self.cluster)
        self.recreates = recreates
        self.evicted: list[str] = []
        self.was_running: list[frozenset[str]] = []
        have = nodes or {_NODE: {**_thousandths(_HUGE), **world.capacity}}
        added = [
            NodeAdded(evolve(make_node(name), allocatable={**_amounts(amounts), "pods": "100"}))
            for name, amounts in have.items()
        ]
        running = [
            PodAdded(self._pod(job, node_name=NodeName(places.get(job.name, _NODE))))
            for job in world.running.values()
        ]
        self._play([*added, *running])
        self.was_running = [self.running]

    @property
    def running(self) -> frozenset[str]:
        """The names of the jobs that run."""
        return frozenset(pod.name for pod in self.cluster.pods() if pod.node_name)

    def submit(self, *jobs: Job) -> None:
        """Add jobs, and decide until the scheduler comes to rest."""
        self._play([PodAdded(self._pod(job)) for job in jobs])

    def _play(self, events: Sequence[Event]) -> None:
        known = [self.cluster.apply(event) for event in events]
        self._take(self.scheduler.handle(*known, now=self.now))
        self.decide()
        for _deadline in range(_MANY):
            if (deadline := self.scheduler.next_deadline()) is None:
                return
            self.at(max(deadline, self.now))
        raise AssertionError("it does not come to rest")

    def _take(self, effects: tuple[Effect, ...]) -> None:
        before = self.running
        super()._take(effects)
        if self.running != before:
            self.was_running.append(self.running)
        for effect in effects:
            if isinstance(effect, Evict):
                self._evict(effect.uid)

    def _evict(self, uid: PodUID) -> None:
        pod = self.cluster.pod(uid)
        assert pod is not None
        self.evicted.append(pod.name)
        assert len(self.evicted) <= _MANY, "it evicts on and on"
        self.tell(PodDeleted(uid))
        if self.recreates:
            again = evolve(pod, uid=PodUID(f"{uid}'"), node_name=None, created_at=self.now)
            self.tell(PodAdded(again))


def per_thousand(host: QueueHost, queue: str) -> int:
    """Return the share of a queue among its siblings, in thousandths."""
    _is_last, amount = host.scheduler._state.records.quotas.tree.share(queue)
    return round(amount * 1000)


class PlacedWorld(World):
    """A scheduler that plays a case with queues and nodes.

    Args:
        case: The case.
    """

    def __init__(self, case: Case) -> None:
        self._queue = {each["name"]: each["queue"] for each in case["running"]}
        super().__init__(case, queue_preset(as_oracle(case), levels_of(case)), _in_queue)

    def _play(self, events: Sequence[Event]) -> None:
        super()._play([self._of_queue(event) for event in events])

    def _of_queue(self, event: Event) -> Event:
        """Return an event of which a pod that runs is in its queue."""
        if isinstance(event, PodAdded) and event.pod.name in self._queue:
            return PodAdded(evolve(event.pod, queue=self._queue[event.pod.name]))
        return event


def _in_queue(tree: Tree) -> Spelled:
    """Spell a tree as a family, in its queue."""
    groups, pods = families({word: value for word, value in tree.items() if word != "queue"})
    return [evolve(group, queue=tree["queue"]) for group in groups], pods
