"""Queues of another project on an API server: red and blue, which lend to each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

import pytest

from support.chart import CHART
from support.control_plane import Client, Rule
from support.definitions import Object
from support.queue_definitions import KUEUE, VOLCANO, queues_of_kueue, queues_of_volcano

__all__ = ["PEERS", "PeerQueues"]

GPU: Final = "nvidia.com/gpu"
QUEUES: Final = ("red", "blue")


def _has(gpus: int) -> dict[str, Any]:
    """Return what a queue has: as Kueue wants it, all that pods request is covered."""
    return {GPU: gpus, "cpu": 8, "memory": "64Gi"}


class PeerQueues(ABC):
    """The queues of a project; a queue has some GPUs by itself.

    Attributes:
        peer: The word of the configuration.
        definitions: The definitions of the kinds that state queues.
        held: What the reason of a pod in the closed queue ``red`` has, with the namespace.
    """

    peer: str
    definitions: tuple[Object, ...]
    held: str

    def __str__(self) -> str:
        return self.peer

    def right(self) -> Rule:
        """Return the right that the chart gives."""
        yaml = pytest.importorskip("yaml")
        rule = yaml.safe_load((CHART / "files" / "quotas.yaml").read_text("utf-8"))[self.peer]
        return Rule(rule["verbs"], rule["resources"], *rule["apiGroups"])

    @abstractmethod
    def create(self, admin: Client, namespace: str, gpus: int) -> None:
        """Create both queues, with as many GPUs each, for pods of a namespace."""

    @abstractmethod
    def resize(self, admin: Client, queue: str, gpus: int) -> None:
        """Change how many GPUs a queue has."""

    @abstractmethod
    def close(self, admin: Client, queue: str) -> None:
        """Let a queue take no more pods."""

    @abstractmethod
    def put_into(self, pod: Object, queue: str) -> None:
        """Let a pod name a queue."""


class OfKueue(PeerQueues):
    """Cluster queues in a cohort, and a local queue that leads to each."""

    peer = "kueue"
    definitions = queues_of_kueue()
    held = "queue {namespace}/red does not exist"

    def create(self, admin: Client, namespace: str, gpus: int) -> None:
        cohort: Object = {"metadata": {"name": "company"}, "spec": {"fairSharing": {}}}
        admin.create(f"/apis/{KUEUE}/cohorts", {**_typed(KUEUE, "Cohort"), **cohort})
        for name in QUEUES:
            spec = {
                "cohortName": "company",
                "namespaceSelector": {},
                "preemption": {"reclaimWithinCohort": "Any"},
                **self._groups(gpus),
            }
            body = {**_typed(KUEUE, "ClusterQueue"), "metadata": {"name": name}, "spec": spec}
            admin.create(f"/apis/{KUEUE}/clusterqueues", body)
            leads = {"metadata": {"name": name}, "spec": {"clusterQueue": name}}
            path = f"/apis/{KUEUE}/namespaces/{namespace}/localqueues"
            admin.create(path, {**_typed(KUEUE, "LocalQueue"), **leads})

    def _groups(self, gpus: int) -> Object:
        has = _has(gpus)
        resources = [{"name": name, "nominalQuota": amount} for name, amount in has.items()]
        flavors = [{"name": "h100", "resources": resources}]
        return {"resourceGroups": [{"coveredResources": [*has], "flavors": flavors}]}

    def resize(self, admin: Client, queue: str, gpus: int) -> None:
        admin.patch(f"/apis/{KUEUE}/clusterqueues/{queue}", {"spec": self._groups(gpus)})

    def close(self, admin: Client, queue: str) -> None:
        admin.patch(f"/apis/{KUEUE}/clusterqueues/{queue}", {"spec": {"stopPolicy": "Hold"}})

    def put_into(self, pod: Object, queue: str) -> None:
        labels: dict[str, Any] = pod["metadata"].setdefault("labels", {})
        labels["kueue.x-k8s.io/queue-name"] = queue


class OfVolcano(PeerQueues):
    """Queues below a queue that has no more than they have together."""

    peer = "volcano"
    definitions = queues_of_volcano()
    held = "queue red does not exist"

    def create(self, admin: Client, namespace: str, gpus: int) -> None:
        together = {GPU: gpus * len(QUEUES), "cpu": 16, "memory": "128Gi"}
        self._create(admin, "company", together)
        for name in QUEUES:
            self._create(admin, name, _has(gpus), parent="company")

    def _create(self, admin: Client, name: str, has: dict[str, Any], **spec: str) -> None:
        given = {"deserved": has, "reclaimable": True, **spec}
        body = {**_typed(VOLCANO, "Queue"), "metadata": {"name": name}, "spec": given}
        admin.create(f"/apis/{VOLCANO}/queues", body)

    def resize(self, admin: Client, queue: str, gpus: int) -> None:
        admin.patch(f"/apis/{VOLCANO}/queues/{queue}", {"spec": {"deserved": {GPU: gpus}}})

    def close(self, admin: Client, queue: str) -> None:
        path = f"/apis/{VOLCANO}/queues/{queue}/status"
        admin.patch(path, {"status": {"state": "Closed"}})

    def put_into(self, pod: Object, queue: str) -> None:
        notes: dict[str, Any] = pod["metadata"].setdefault("annotations", {})
        notes["scheduling.volcano.sh/queue-name"] = queue


def _typed(api: str, kind: str) -> Object:
    return {"apiVersion": api, "kind": kind}


PEERS: Final[tuple[PeerQueues, ...]] = (OfKueue(), OfVolcano())
