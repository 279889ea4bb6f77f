"""Two jobs of three tasks on four threads: dask sees six tasks."""

from distributed import Client, LocalCluster, wait
from meeting import give_up, work


def main() -> None:
    """Submit both jobs by turns, as two users would, and print what became of each task."""
    with (
        LocalCluster(
            n_workers=4, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        tasks = [
            client.submit(work, job, key=f"{job}-{number}", pure=False)
            for number in range(3)
            for job in ("red", "blue")
        ]
        try:
            wait(tasks, timeout=3.0)
        except TimeoutError:
            print("after 3 seconds no job has met; done:", sum(task.done() for task in tasks))
            give_up()
        for task in tasks:
            print(task.key, task.result(timeout=60.0))


if __name__ == "__main__":
    main()
