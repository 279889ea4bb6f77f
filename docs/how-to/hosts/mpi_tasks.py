"""Three MPI tasks on a batch job of four nodes; with ``--gangs``, gangsched as the backlog."""

import concurrent.futures
import pathlib
import sys
import time
from typing import Any

import parsl
from parsl.executors import MPIExecutor
from parsl.executors.high_throughput.executor import DEFAULT_LAUNCH_CMD
from parsl.launchers import SimpleLauncher
from parsl.providers import LocalProvider

HERE = pathlib.Path.cwd()


@parsl.python_app
def mpi(until: str | None = None, parsl_resource_specification: Any = None) -> str:
    """Stand for a program under mpiexec; with *until*, one that runs until that file is there."""
    import os
    import pathlib
    import time

    end = time.monotonic() + 200.0
    while until and not pathlib.Path(until).exists() and time.monotonic() < end:
        time.sleep(0.02)
    return os.environ["PARSL_MPI_PREFIX"].strip()


def needs(nodes: int) -> dict[str, int]:
    """Return what Parsl wants to know of an MPI task."""
    return {"num_nodes": nodes, "ranks_per_node": 1}


def executor(gangs: bool) -> MPIExecutor:
    """Return Parsl's executor for MPI tasks, in a batch job that is only a list of nodes."""
    (HERE / "nodes").write_text("node-0\nnode-1\nnode-2\nnode-3\n")
    pool = "process_worker_pool.py"
    if gangs:
        pool = f"{sys.executable} {HERE / 'gang_pool.py'}"
    return MPIExecutor(
        max_workers_per_block=4,
        address="127.0.0.1",
        launch_cmd=DEFAULT_LAUNCH_CMD.replace("process_worker_pool.py", pool),
        provider=LocalProvider(
            launcher=SimpleLauncher(),
            worker_init=f"export PBS_NODEFILE={HERE / 'nodes'}",
            init_blocks=1,
            max_blocks=1,
        ),
    )


def errors(run_dir: pathlib.Path) -> set[str]:
    """Return what the worker pool has logged of the backlog."""
    logs = [log.read_text() for log in run_dir.glob("**/manager.log")]
    return {line for text in logs for line in text.splitlines() if line.startswith("Recursion")}


def main(gangs: bool) -> None:
    """Run a task that is long, one for which there is no room yet, and one that is short."""
    run_dir = HERE / ("with" if gangs else "without")
    run_dir.mkdir()
    config = parsl.Config(executors=[executor(gangs)], run_dir=str(run_dir), strategy="none")
    with parsl.load(config):
        long = mpi(until=str(run_dir / "enough"), parsl_resource_specification=needs(2))
        wide = mpi(parsl_resource_specification=needs(3))
        short = mpi(parsl_resource_specification=needs(1))
        end = time.monotonic() + 200.0
        while not (short.done() or errors(run_dir)) and time.monotonic() < end:
            time.sleep(0.05)
        (run_dir / "enough").touch()
        concurrent.futures.wait([long], timeout=60.0)
        concurrent.futures.wait([wide, short], timeout=60.0 if gangs else 5.0)
        for name, task in {"long": long, "wide": wide, "short": short}.items():
            print(name, task.result() if task.done() else "has not come back", flush=True)
        for error in errors(run_dir):
            print("manager.log:", error, flush=True)


if __name__ == "__main__":
    main("--gangs" in sys.argv)
