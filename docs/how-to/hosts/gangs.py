"""A plugin for the scheduler of dask: tasks of one gang start together or not at all.

Rules:
  R1  a task of a gang may run on no worker until gangsched has given it one; then on that one only;
  R2  a task counts for its gang as soon as its inputs are there: before that it could not start;
  R3  other tasks go where dask sends them, and take a thread there that no gang gets;
  R4  everything runs in the event loop of the dask scheduler: nothing here waits or locks.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import dask
from attrs import evolve
from distributed import SchedulerPlugin

from gangsched import (
    Bind,
    InMemoryCluster,
    Node,
    NodeAdded,
    NodeDeleted,
    Pod,
    PodAdded,
    PodDeleted,
    PodPhase,
    PodUpdated,
    presets,
)
from gangsched.drivers.aio import Driver

NOWHERE = "tcp://waits-for-its-gang:0"
"""A worker that does not exist: dask puts tasks confined to it aside, as ``no-worker``."""


def gang(name: str, size: int) -> AbstractContextManager[Any]:
    """Return a context: the tasks submitted in it are a gang of *size* tasks."""
    context: AbstractContextManager[Any] = dask.annotate(
        gang={"name": str(name), "size": int(size)}
    )
    return context


class Gangs(SchedulerPlugin):
    """Tasks that were submitted within ``gang(name, size)`` start together or not at all."""

    name = "gangs"

    async def start(self, scheduler: Any) -> None:
        """Take in the workers that are there, and begin to decide."""
        self.dask = scheduler
        self.keys: dict[str, Any] = {}  # UIDs of pods to keys of tasks, which may be tuples
        self.cluster = InMemoryCluster()
        self.scheduler = presets.gang(self.cluster)
        self.driver = Driver(self.scheduler, apply=self.cluster.apply, bind=self.release)
        self.running = asyncio.create_task(self.run())
        for address in scheduler.workers:
            self.add_worker(scheduler, address)

    async def run(self) -> None:
        """Decide until the dask scheduler ends; log it if an error ends this before."""
        try:
            await self.driver.run()
        except Exception:
            logging.getLogger(__name__).exception("no gang will start any more")
            raise

    async def before_close(self) -> None:
        """End with the dask scheduler."""
        self.running.cancel()

    def update_graph(self, scheduler: Any, *, annotations: Mapping[str, Any], **_more: Any) -> None:
        """Hold the tasks of gangs back, before dask sends any of them."""
        for key in annotations.get("gang", ()):
            scheduler.tasks[key].worker_restrictions = {NOWHERE}

    def transition(self, key: Any, start: str, finish: str, **_more: Any) -> None:
        """Tell the driver how the state of a task has changed."""
        task = self.dask.tasks[key]
        gang = (task.annotations or {}).get("gang")
        uid = str(key)
        if gang is None:
            if finish == "processing":
                self.driver.tell(PodAdded(thread(uid, node_name=task.processing_on.address)))
            elif start == "processing":
                self.driver.tell(PodDeleted(uid))
        elif finish == "no-worker":
            self.keys[uid] = key
            self.driver.tell(PodAdded(thread(uid, gang)))
        elif finish in ("memory", "erred") and uid in self.keys:
            phase = PodPhase.SUCCEEDED if finish == "memory" else PodPhase.FAILED
            pod = self.cluster.pod(uid) or thread(
                uid, gang
            )  # which the driver has not taken in yet
            self.driver.tell(PodUpdated(evolve(pod, phase=phase)))
        elif finish in ("released", "forgotten") and uid in self.keys:
            task.worker_restrictions = {NOWHERE}
            del self.keys[uid]
            self.driver.tell(PodDeleted(uid))

    async def release(self, bind: Bind) -> None:
        """Send a task of a gang to its worker. Never waits, so the whole gang goes at once."""
        key = self.keys.get(bind.uid)
        worker = self.dask.workers.get(bind.node)
        if key is None or worker not in self.dask.running:
            raise LookupError(f"{bind.uid} or {bind.node} is gone")
        task = self.dask.tasks[key]
        task.worker_restrictions = {bind.node}
        self.dask.transitions({key: "processing"}, stimulus_id=f"gang-{bind.uid}-{bind.attempt}")
        if task.processing_on is not worker:
            task.worker_restrictions = {NOWHERE}
            raise RuntimeError(f"{bind.uid} is {task.state}, not processing on {bind.node}")

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Tell the driver about a new worker and its threads."""
        threads = scheduler.workers[worker].nthreads
        self.driver.tell(NodeAdded(Node(name=worker, allocatable={"threads": threads})))

    def remove_worker(self, scheduler: Any, worker: str, **_more: Any) -> None:
        """Tell the driver that a worker is gone. Dask queues its tasks again."""
        self.driver.tell(NodeDeleted(worker))


def thread(uid: str, gang: Mapping[str, Any] | None = None, **more: Any) -> Pod:
    """Return a task, which takes one thread, as a pod."""
    labels: dict[str, str] = {}
    if gang is not None:
        prefix = "pod-group.scheduling.sigs.k8s.io/"
        labels = {prefix + "name": gang["name"], prefix + "min-available": str(gang["size"])}
    return Pod(uid=uid, name=uid, labels=labels, requests={"threads": 1}, **more)
