"""The same two jobs as gangs, and a third that is too large for the cluster."""

from typing import Any

from distributed import Client, LocalCluster
from gangs import Gangs, gang
from meeting import work


def main() -> None:
    """Submit the jobs by turns, and print what became of each task."""
    with (
        LocalCluster(
            n_workers=4, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        client.register_plugin(Gangs())
        tasks = []
        for number in range(3):
            for job in ("red", "blue"):
                with gang(job, 3):
                    tasks.append(client.submit(work, job, key=f"{job}-{number}", pure=False))
        with gang("huge", 5):
            huge = client.map(work, ["huge"] * 5, key="huge", pure=False)
        for task in tasks:
            print(task.key, task.result(timeout=60.0))
        print("huge:", {task.status for task in huge}, client.run_on_scheduler(why))


def why(dask_scheduler: Any) -> str:
    """Return why the gang that is too large has not started."""
    return str(dask_scheduler.plugins["gangs"].scheduler.why("default/huge"))


if __name__ == "__main__":
    main()
