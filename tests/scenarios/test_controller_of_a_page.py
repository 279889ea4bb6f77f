"""The controller of ``docs/how-to/host-asyncio.md``: killed anywhere, it starts no half gang.

It is killed between two statements, by an error that nothing catches; what a kill of the process
leaves in the file is the same, and the page itself does that once.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.documents import ROOT
from support.patience import HANG

NODES = (("node-0", 2), ("node-1", 2))
JOBS = (("red", 3), ("blue", 3), ("green", 1), ("huge", 5))
FIT = {"red", "blue", "green"}


class Killed(BaseException):
    """Stands for the end of the process."""


def _load(name: str) -> ModuleType:
    path = ROOT / "docs" / "how-to" / "hosts" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"page_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_program = _load("controller")


class Connection:
    """A connection that is torn before its n-th statement."""

    def __init__(self, real: sqlite3.Connection, lives: int) -> None:
        self._real, self._left = real, lives

    def execute(self, *given: Any) -> sqlite3.Cursor:
        self._left -= 1
        if self._left < 0:
            raise Killed
        return self._real.execute(*given)


def _submit(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript(_program.SCHEMA)
    db.executemany("INSERT INTO nodes VALUES (?, ?)", NODES)
    db.executemany("INSERT INTO jobs VALUES (?, ?)", JOBS)
    for number in range(5):
        for job, workers in JOBS:
            if number < workers:
                name = f"{job}-{number}"
                db.execute("INSERT INTO workers (name, job) VALUES (?, ?)", (name, job))
    return db


def _controller(path: Path, lives: int | None = None) -> Any:
    controller = _program.Controller(str(path))
    controller.every = 0.002
    if lives is not None:
        controller.db = Connection(controller.db, lives)
    return controller


async def _until(controller: Any, done: Callable[[], bool]) -> None:
    """Run a controller until something is true, or it is killed."""
    task = asyncio.create_task(controller.run())
    with suppress(asyncio.CancelledError):
        async with asyncio.timeout(HANG):
            while not task.done() and not done():
                await asyncio.sleep(0.001)
        task.cancel()
        await task


def _run(controller: Any, done: Callable[[], bool]) -> bool:
    """Say whether it lived to see something become true."""
    lived = True
    try:
        asyncio.run(_until(controller, done))
    except* Killed:
        lived = False
    finally:
        getattr(controller.db, "_real", controller.db).close()
    return lived


def _placed(db: sqlite3.Connection) -> dict[str, int]:
    question = "SELECT job, count(node) FROM workers GROUP BY job"
    return dict(db.execute(question).fetchall())


def _assert_whole(db: sqlite3.Connection) -> None:
    """No job has some of its workers placed, and no node more than its slots."""
    wanted = dict(JOBS)
    assert all(number in (0, wanted[job]) for job, number in _placed(db).items())
    question = "SELECT node, count(*) FROM workers WHERE node NOTNULL AND NOT done GROUP BY node"
    slots = dict(NODES)
    assert all(number <= slots[node] for node, number in db.execute(question))


@pytest.mark.parametrize("lives", range(5, 12))
def test_controller_that_is_killed_at_any_statement_leaves_no_half_gang(
    tmp_path: Path, lives: int
) -> None:
    path = tmp_path / "jobs.db"
    db = _submit(path)
    finished: set[str] = set()

    def all_done() -> bool:
        _assert_whole(db)
        for job, number in _placed(db).items():
            if number and job not in finished:
                finished.add(job)
                db.execute("UPDATE workers SET done = 1 WHERE job = ?", (job,))
        return finished == FIT

    try:
        if not _run(_controller(path, lives), all_done):
            _assert_whole(db)
            assert _run(_controller(path), all_done)
        assert _placed(db) == {"red": 3, "blue": 3, "green": 1, "huge": 0}
    finally:
        db.close()


def test_gang_that_lost_a_worker_since_it_was_read_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    db = _submit(path)
    controller = _controller(path)
    controller.read()
    db.execute("DELETE FROM workers WHERE name = 'red-1'")

    def told() -> bool:
        return controller.cluster.pod("red-1") is None and "blue-0" in {
            pod.uid for pod in controller.cluster.pods() if pod.node_name
        }

    try:
        assert _run(controller, told)
        assert _placed(db) == {"red": 0, "blue": 3, "green": 1, "huge": 0}
    finally:
        db.close()
