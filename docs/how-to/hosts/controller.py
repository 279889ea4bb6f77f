"""A controller that starts gangs, with the tables of a database as the source of truth.

Rules:
  R1  the tables are the truth. What is not written has not happened; all else can be made anew;
  R2  the members of a gang are written in one transaction: nobody sees half a gang;
  R3  changes are found by reading: who writes the tables need not know of the controller;
  R4  one controller at a time.
"""

import asyncio
import sqlite3
import sys
from collections.abc import Collection

from gangsched import (
    Bind,
    Effect,
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
    PodUID,
    PodUpdated,
    Release,
    presets,
)
from gangsched.drivers.aio import Driver

SCHEMA = """
CREATE TABLE IF NOT EXISTS nodes (name TEXT PRIMARY KEY, slots INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (name TEXT PRIMARY KEY, workers INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS workers (
    name TEXT PRIMARY KEY, job TEXT NOT NULL REFERENCES jobs, node TEXT, done INTEGER DEFAULT 0
);
"""


class Controller:
    """Reads jobs from the tables, and writes to each worker of a gang its node.

    Attributes:
        every: After how many seconds it reads again.
    """

    every = 0.1

    def __init__(self, path: str) -> None:
        """Open the tables; whatever is in them is taken up by ``run``."""
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.executescript(SCHEMA)
        self.cluster = InMemoryCluster()
        scheduler = presets.gang(self.cluster)
        self.driver = Driver(
            scheduler, apply=self.cluster.apply, bind=self.write, observe=self.observe
        )
        self.unwritten: set[PodUID] = set()
        self.all_there = True

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.driver.run())
            while True:
                self.read()
                await asyncio.sleep(self.every)

    def read(self) -> None:
        """Tell the scheduler what the tables say and the cluster in memory does not."""
        self.db.execute("BEGIN")  # one state of all three tables
        nodes = self.db.execute("SELECT name, slots FROM nodes ORDER BY rowid").fetchall()
        jobs = self.db.execute("SELECT name, workers FROM jobs ORDER BY rowid").fetchall()
        workers = self.db.execute("SELECT name, job, node, done FROM workers ORDER BY rowid")
        pods = {name: worker(name, *row) for name, *row in workers}
        self.db.execute("COMMIT")
        groups = {f"default/{job}": PodGroup(name=job, min_available=n) for job, n in jobs}
        known = self.cluster
        for was, now, changed, gone in (
            ({n.name: n for n in known.nodes()}, slots(nodes), NodeUpdated, NodeDeleted),
            ({g.key: g for g in known.pod_groups()}, groups, PodGroupUpdated, PodGroupDeleted),
            ({p.uid: p for p in known.pods()}, pods, PodUpdated, PodDeleted),
        ):
            for key in [key for key in was if key not in now]:
                self.driver.tell(gone(key))
            for key, noun in now.items():
                if was.get(key) != noun:
                    self.driver.tell(changed(noun))

    def observe(self, effect: Effect) -> None:
        """Begin a transaction where a gang is let go."""
        if isinstance(effect, GroupScheduled):
            print(effect.group, "starts with", effect.scheduled, flush=True)
        if isinstance(effect, Release):
            self.db.execute("BEGIN IMMEDIATE")
            self.unwritten = set(effect.members)
            self.all_there = self.waiting(effect.members) == len(effect.members)

    def waiting(self, names: Collection[str]) -> int:
        """Count who of some workers is there and has no node."""
        marks = ", ".join("?" * len(names))
        question = f"SELECT count(*) FROM workers WHERE node IS NULL AND name IN ({marks})"
        return self.db.execute(question, list(names)).fetchone()[0]

    async def write(self, bind: Bind) -> None:
        """Write a worker's node; end the transaction with the last of the gang. Never waits."""
        try:
            if not self.all_there:
                raise LookupError("the tables have changed since they were read")
            self.db.execute("UPDATE workers SET node = ? WHERE name = ?", (bind.node, bind.uid))
        finally:
            self.unwritten.discard(bind.uid)
            if not self.unwritten:
                self.db.execute("COMMIT")


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
