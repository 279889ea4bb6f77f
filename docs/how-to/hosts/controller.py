"""A controller that starts gangs, with the tables of a database as the source of truth.

Rules:
  R1  the tables are the truth. What is not written has not happened; the rest can be recomputed;
  R2  the members of a gang are written in one transaction, so no reader sees half a gang;
  R3  changes are found by reading: programs that write the tables need not know the controller;
  R4  one controller at a time.
"""

import asyncio
import sqlite3
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gangsched import (
    Bind,
    Effect,
    Event,
    GroupScheduled,
    InMemoryCluster,
    Node,
    NodeDeleted,
    NodeUpdated,
    Pod,
    PodDeleted,
    PodGroup,
    PodGroupDeleted,
    PodGroupUpdated,
    PodPhase,
    PodUpdated,
    Release,
    presets,
)
from gangsched.drivers.aio import Driver

T = TypeVar("T")

SCHEMA = """
CREATE TABLE IF NOT EXISTS nodes (name TEXT PRIMARY KEY, slots INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (name TEXT PRIMARY KEY, workers INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS workers (
    name TEXT PRIMARY KEY, job TEXT NOT NULL REFERENCES jobs, node TEXT, done INTEGER DEFAULT 0
);
"""


@dataclass
class Gang:
    """Members that are released together: the node of each, and whether they were written."""

    nodes: dict[str, str] = field(default_factory=lambda: dict[str, str]())
    written: bool | None = None


class Controller:
    """Reads jobs from the tables, and writes the node of each worker of a gang.

    Attributes:
        every: The seconds between two readings.
    """

    every = 0.1

    def __init__(self, path: str) -> None:
        """Open the tables; ``run`` reads what is in them."""
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.executescript(SCHEMA)
        self.cluster = InMemoryCluster()
        scheduler = presets.gang(self.cluster)
        self.driver = Driver(
            scheduler, apply=self.cluster.apply, bind=self.write, observe=self.observe
        )
        self.gangs: dict[str, Gang] = {}

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.driver.run())
            while True:
                self.read()
                await asyncio.sleep(self.every)

    def read(self) -> None:
        """Tell the driver what differs between the tables and the cluster in memory."""
        self.db.execute("BEGIN")  # one state of all three tables
        nodes = self.db.execute("SELECT name, slots FROM nodes ORDER BY rowid").fetchall()
        jobs = self.db.execute("SELECT name, workers FROM jobs ORDER BY rowid").fetchall()
        workers = self.db.execute("SELECT name, job, node, done FROM workers ORDER BY rowid")
        pods = {name: worker(name, *row) for name, *row in workers}
        self.db.execute("COMMIT")
        groups = {f"default/{job}": PodGroup(name=job, min_available=n) for job, n in jobs}
        known = self.cluster
        was_nodes = {node.name: node for node in known.nodes()}
        was_groups = {group.key: group for group in known.pod_groups()}
        was_pods = {pod.uid: pod for pod in known.pods()}
        for event in (
            *differences(was_nodes, slots(nodes), NodeUpdated, NodeDeleted),
            *differences(was_groups, groups, PodGroupUpdated, PodGroupDeleted),
            *differences(was_pods, pods, PodUpdated, PodDeleted),
        ):
            self.driver.tell(event)

    def observe(self, effect: Effect) -> None:
        """Note which members are released together, and where each of them goes."""
        if isinstance(effect, GroupScheduled):
            print(effect.group, "starts with", effect.scheduled, flush=True)
        if isinstance(effect, Release):
            self.gangs.update(dict.fromkeys(effect.members, Gang()))
        if isinstance(effect, Bind):
            self.gangs.setdefault(effect.uid, Gang()).nodes[effect.uid] = effect.node

    async def write(self, bind: Bind) -> None:
        """Write the whole gang with the first bind of it; the others have the same outcome."""
        gang = self.gangs.pop(bind.uid)
        if gang.written is None:
            gang.written = False
            gang.written = self.write_gang(gang.nodes)
        if not gang.written:
            raise LookupError("the tables have changed since they were read")

    def write_gang(self, nodes: dict[str, str]) -> bool:
        """Write the nodes of all members in one transaction, or of none; return which."""
        self.db.execute("BEGIN IMMEDIATE")
        try:
            all_there = self.waiting(nodes) == len(nodes)
            for name, node in nodes.items() if all_there else ():
                self.write_one(name, node)
        except sqlite3.Error:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")
        return all_there

    def waiting(self, names: Collection[str]) -> int:
        """Count the workers that exist and have no node."""
        marks = ", ".join("?" * len(names))
        question = f"SELECT count(*) FROM workers WHERE node IS NULL AND name IN ({marks})"
        (count,) = self.db.execute(question, list(names)).fetchone()
        return int(count)

    def write_one(self, name: str, node: str) -> None:
        """Write the node of one worker."""
        self.db.execute("UPDATE workers SET node = ? WHERE name = ?", (node, name))


def differences(
    was: Mapping[Any, T],
    now: Mapping[str, T],
    changed: Callable[[T], Event],
    gone: Callable[[Any], Event],
) -> Iterator[Event]:
    """Return the events that lead from what was known to what the tables say."""
    yield from (gone(key) for key in was if key not in now)
    yield from (changed(value) for key, value in now.items() if was.get(key) != value)


def slots(rows: Collection[tuple[str, int]]) -> dict[str, Node]:
    """Return nodes with a number of slots."""
    return {name: Node(name=name, allocatable={"slots": number}) for name, number in rows}


def worker(name: str, job: str, node: str | None, done: int) -> Pod:
    """Return a worker, which takes one slot, as a member of its job."""
    phase = PodPhase.SUCCEEDED if done else PodPhase.PENDING
    return Pod(
        uid=name, name=name, pod_group=job, requests={"slots": 1}, node_name=node, phase=phase
    )


if __name__ == "__main__":
    asyncio.run(Controller(sys.argv[1]).run())
