"""The backlog of ``docs/how-to/host-parsl.md`` with many tasks, compared with that of Parsl.

The class is driven as by Parsl's manager, in a process of its own, with queues and no workers.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.documents import ROOT, run_program

pytestmark = pytest.mark.skipif(
    find_spec("parsl") is None, reason="parsl is not installed: pip install --group hosts"
)

_STORY = """
import os, pickle, queue, random, sys
from gang_pool import GangTaskScheduler, parsl_mpi

NODES = {f"node-{n}" for n in range(4)}
with open("nodes", "w") as file:
    file.write("\\n".join(sorted(NODES)))
os.environ["PBS_NODEFILE"] = "nodes"
made = {"gangs": GangTaskScheduler, "parsl": parsl_mpi.MPITaskScheduler}[sys.argv[1]]
draw = random.Random(7)
tasks, results = queue.Queue(), queue.Queue()
scheduler = made(tasks, results)
sizes = [draw.randint(1, 4) for _ in range(60)]
if "too-large" in sys.argv:
    sizes.insert(10, 5)
for number, size in enumerate(sizes):
    scheduler.put_task({"task_id": number, "context": {"resource_spec": {"num_nodes": size}}})

taken, running, done = set(), {}, 0
while done < 60:
    try:
        while True:  # begin whatever may begin; wait only where nothing else can happen
            task = tasks.get(timeout=0.02 if running else 30)
            spec = task["context"]["resource_spec"]
            nodes = set(spec["MPI_NODELIST"].split(","))
            assert len(nodes) == spec["num_nodes"] and nodes <= NODES, spec
            assert not nodes & taken, (nodes, taken)
            taken |= nodes
            running[task["task_id"]] = nodes
    except queue.Empty:
        pass
    ended = draw.choice(sorted(running))
    taken -= running.pop(ended)
    results.put(pickle.dumps({"type": "result", "task_id": ended}))
    assert pickle.loads(scheduler.get_result())["task_id"] == ended
    done += 1
print("all done")
"""


def _tell(folder: Path, *words: str) -> tuple[int, str]:
    shutil.copy(ROOT / "docs" / "how-to" / "hosts" / "gang_pool.py", folder)
    (folder / "story.py").write_text(_STORY, encoding="utf-8")
    return run_program("story.py", *words, folder=folder)


def test_every_task_that_fits_the_batch_job_runs_on_nodes_of_its_own(tmp_path: Path) -> None:
    code, printed = _tell(tmp_path, "gangs")

    assert (code, printed) == (0, "all done\n")


def test_too_large_task_keeps_no_other_task_waiting(tmp_path: Path) -> None:
    code, printed = _tell(tmp_path, "gangs", "too-large")

    assert (code, printed) == (0, "all done\n")


def test_backlog_of_parsl_recurses_without_end(tmp_path: Path) -> None:
    """When it no longer does, the page has to be rewritten."""
    code, printed = _tell(tmp_path, "parsl")

    assert code == 1
    assert "RecursionError" in printed
