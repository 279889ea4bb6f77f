"""The plugin of ``docs/how-to/host-dask.md`` on a real cluster, in cases that the page leaves out.

Each case is a program in a process of its own, which ends by itself: every wait has a time limit.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.documents import ROOT, run_program
from support.patience import HANG

pytestmark = pytest.mark.skipif(
    find_spec("distributed") is None,
    reason="distributed is not installed: pip install --group hosts",
)

# what tasks share: in a module, as what stands in the program itself is copied to the workers
_SHARED = """
import threading
PLACES = {}
STARTED, GO = threading.Semaphore(0), threading.Event()

def meet(job, size):
    PLACES.setdefault(job, threading.Barrier(size)).wait(timeout=HANG)
    return job

def start():
    STARTED.release()
    return GO.wait(timeout=HANG)
"""
_BEGIN = """
import contextlib
from distributed import Client, LocalCluster
from gangs import Gangs, gang
from shared import GO, HANG, STARTED, meet, start

def main():
    with LocalCluster(n_workers=4, threads_per_worker=1, processes=False,
                      dashboard_address=":0") as cluster, Client(cluster) as client:
        client.register_plugin(Gangs())
        story(cluster, client)
"""

_END = """
if __name__ == "__main__":
    # apart from what the host logs, and may log while it closes its connections
    with open("told", "w", encoding="utf-8") as told, contextlib.redirect_stdout(told):
        main()
"""


def _tell(folder: Path, story: str) -> str:
    shutil.copy(ROOT / "docs" / "how-to" / "hosts" / "gangs.py", folder)
    (folder / "shared.py").write_text(f"HANG = {HANG}\n{_SHARED}", encoding="utf-8")
    program = f"{_BEGIN}\n{story}\n\n{_END}"
    (folder / "story.py").write_text(program, encoding="utf-8")
    code, printed = run_program("story.py", folder=folder)
    assert code == 0, printed
    return (folder / "told").read_text(encoding="utf-8")


def test_gangs_of_any_size_meet_among_ordinary_tasks_with_inputs(tmp_path: Path) -> None:
    printed = _tell(
        tmp_path,
        """
def story(cluster, client):
    tasks = []
    for turn, size in enumerate((2, 3, 4, 1, 3)):
        ordinary = client.map(abs, range(turn * 10, turn * 10 + 4), pure=False)
        with gang(f"job-{turn}", size):
            for number in range(size):
                key = ("rank", turn, number)
                tasks.append(client.submit(
                    lambda job, size, given: meet(job, size), f"job-{turn}", size,
                    ordinary[number % 4], key=key, pure=False))
        tasks += ordinary
    client.gather(tasks)
    print("all met")
""",
    )

    assert printed.endswith("all met\n")


def test_gang_that_is_too_large_starts_with_the_worker_that_it_lacked(tmp_path: Path) -> None:
    printed = _tell(
        tmp_path,
        """
def story(cluster, client):
    with gang("huge", 5):
        huge = [client.submit(meet, "huge", 5, key=f"huge-{n}", pure=False) for n in range(5)]
    with gang("small", 4):
        small = [client.submit(meet, "small", 4, key=f"small-{n}", pure=False) for n in range(4)]
    client.gather(small)
    print({task.status for task in huge})
    cluster.scale(5)
    print(client.gather(huge))
""",
    )

    assert printed.splitlines()[-2:] == ["{'pending'}", str(["huge"] * 5)]


def test_gang_takes_no_thread_that_an_ordinary_task_has(tmp_path: Path) -> None:
    printed = _tell(
        tmp_path,
        """
def story(cluster, client):
    busy = [client.submit(start, key=f"busy-{n}", pure=False) for n in range(2)]
    for _each in busy:
        assert STARTED.acquire(timeout=HANG)
    with gang("job", 3):
        tasks = [client.submit(meet, "job", 3, key=f"task-{n}", pure=False) for n in range(3)]
    print(client.run_on_scheduler(states))
    GO.set()
    print(client.gather(tasks))

def said(gangs):
    pods = [pod.uid for pod in gangs.cluster.pods() if pod.uid.startswith("task")]
    return str(gangs.scheduler.why("default/job")) if len(pods) == 3 else ""

async def states(dask_scheduler):
    import asyncio
    gangs = dask_scheduler.plugins["gangs"]
    async with asyncio.timeout(HANG):
        while "does not fit" not in said(gangs):
            await asyncio.sleep(0.01)
    return {dask_scheduler.tasks[f"task-{n}"].state for n in range(3)}
""",
    )

    assert printed.splitlines()[-2:] == ["{'no-worker'}", str(["job"] * 3)]


def test_task_whose_worker_is_lost_joins_its_gang_again(tmp_path: Path) -> None:
    printed = _tell(
        tmp_path,
        """
def story(cluster, client):
    with gang("job", 3):
        tasks = [client.submit(start, key=f"task-{n}", pure=False) for n in range(3)]
    for _each in tasks:
        assert STARTED.acquire(timeout=HANG)
    lost = next(address for address, keys in client.processing().items() if keys)
    client.run_on_scheduler(remove, address=lost)
    assert STARTED.acquire(timeout=HANG)
    GO.set()
    print(client.gather(tasks))

async def remove(dask_scheduler, address):
    await dask_scheduler.remove_worker(address, stimulus_id="lost", close=False)
""",
    )

    assert printed.endswith("[True, True, True]\n")


def test_gang_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    printed = _tell(
        tmp_path,
        """
def story(cluster, client):
    with gang("gone", 5):
        gone = [client.submit(meet, "gone", 5, key=f"gone-{n}", pure=False) for n in range(5)]
    client.cancel(gone)
    with gang("next", 4):
        tasks = [client.submit(meet, "next", 4, key=f"next-{n}", pure=False) for n in range(4)]
    print(client.gather(tasks))
    for task in (*gone, *tasks):
        task.release()
    del gone, tasks, task
    print(client.run_on_scheduler(left))

async def left(dask_scheduler):
    import asyncio
    gangs = dask_scheduler.plugins["gangs"]
    async with asyncio.timeout(HANG):
        while gangs.keys or list(gangs.cluster.pods()):
            await asyncio.sleep(0.01)
    return "nothing left"
""",
    )

    assert printed.splitlines()[-2:] == [str(["next"] * 4), "nothing left"]
