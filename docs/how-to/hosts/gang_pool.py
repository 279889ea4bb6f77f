"""Parsl's worker pool, with gangsched as the backlog of its MPI tasks.

Rules:
  R1  an MPI task is a gang: as many members as it needs nodes, a whole node for each;
  R2  it goes to Parsl's workers with the names of its nodes, when the last member is bound;
  R3  the thread of the driver decides and binds. Parsl's threads only tell it events.
"""

import pickle
import runpy
import threading
from typing import Any

from parsl.executors.high_throughput import mpi_resource_management as parsl_mpi

from gangsched import Bind, InMemoryCluster, Node, NodeAdded, Pod, PodAdded, PodDeleted, presets
from gangsched.drivers.blocking import Driver


class GangTaskScheduler(parsl_mpi.TaskScheduler):
    """Takes the place of ``MPITaskScheduler``: the same three methods, another backlog."""

    def __init__(self, pending_task_q: Any, pending_result_q: Any) -> None:
        """Take in the nodes of the batch job, and begin to decide."""
        super().__init__(pending_task_q, pending_result_q)
        self.tasks: dict[str, dict[str, Any]] = {}  # the MPI tasks that wait or run, by ID
        self.nodes: dict[str, list[str]] = {}  # of each task whose members are being bound, by ID
        cluster = InMemoryCluster()
        self.driver = Driver(
            presets.gang(cluster), apply=cluster.apply, bind=self.bind, max_binds=1
        )
        for name in parsl_mpi.get_nodes_in_batchjob(parsl_mpi.identify_scheduler()):
            self.driver.tell(NodeAdded(Node(name=name, allocatable={"nodes": 1})))
        threading.Thread(target=self.driver.run, name="gangs", daemon=True).start()

    def put_task(self, task: dict[str, Any]) -> None:
        """Take a task from Parsl; one that needs no nodes goes on at once."""
        number = task.get("context", {}).get("resource_spec", {}).get("num_nodes")
        if not number:
            self.pending_task_q.put(task)
            return
        self.tasks[str(task["task_id"])] = task
        for pod in members(task["task_id"], number):
            self.driver.tell(PodAdded(pod))

    def bind(self, bind: Bind) -> None:
        """Give a node to a member; with the last one the task goes to the workers."""
        number = bind.uid.partition("/")[0]
        nodes = self.nodes.setdefault(number, [])
        nodes.append(bind.node)
        task = self.tasks[number]
        spec = task["context"]["resource_spec"]
        if len(nodes) == spec["num_nodes"]:
            spec["MPI_NODELIST"] = ",".join(self.nodes.pop(number))
            self.pending_task_q.put(task)

    def get_result(self, block: bool = True, timeout: float | None = None) -> Any:
        """Return a result to Parsl; the nodes of its task are free again."""
        packed = self.pending_result_q.get(block, timeout)
        result = None if packed is None else pickle.loads(packed)
        if result is not None and result["type"] == "result":
            task = self.tasks.pop(str(result["task_id"]), None)
            if task is not None:
                number = task["context"]["resource_spec"]["num_nodes"]
                for pod in members(task["task_id"], number):
                    self.driver.tell(PodDeleted(pod.uid))
        return packed


def members(task_id: int, number: int) -> list[Pod]:
    """Return the members of a task's gang."""
    prefix = "pod-group.scheduling.sigs.k8s.io/"
    labels = {prefix + "name": str(task_id), prefix + "min-available": str(number)}
    return [
        Pod(uid=f"{task_id}/{n}", name=f"{task_id}-{n}", labels=labels, requests={"nodes": 1})
        for n in range(number)
    ]


if __name__ == "__main__":
    # the pool has no option for it: it takes the scheduler by this name when it is imported
    parsl_mpi.MPITaskScheduler = GangTaskScheduler
    pool = "parsl.executors.high_throughput.process_worker_pool"
    runpy.run_module(pool, run_name="__main__", alter_sys=True)
