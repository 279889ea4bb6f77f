"""The parts of a cluster that are not the scheduler: kubelets, and a controller of gangs.

Rules:
  R1  a pod on a node runs at once, and a terminating pod on a node is gone at once. Kubelets that
      *refuse* let a pod fail for which the running ones leave no CPU, as real ones do, and its
      controller replaces it;
  R2  a deleted member of a wanted gang is created again, under its name and with a new UID.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Final

from support.control_plane import ApiError, Client

__all__ = ["Actors", "native_group_path"]

Object = dict[str, Any]

_NOW: Final = {"gracePeriodSeconds": 0}


def native_group_path(namespace: str) -> str:
    """Return the path of the native pod groups of a namespace."""
    return f"/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups"


class Actors:
    """Kubelets and the controller of one namespace; also a context manager.

    Args:
        client: A client of the API server itself.
        namespace: The namespace that they care for.
        refuse: Whether kubelets refuse what does not fit; all pods must be in the namespace.

    Attributes:
        refused: How many pods kubelets have refused.
    """

    def __init__(self, client: Client, namespace: str, *, refuse: bool = False) -> None:
        self.refused = 0
        self._refuse: Final = refuse
        self._client: Final = client
        self._pods: Final = f"/api/v1/namespaces/{namespace}/pods"
        self._groups: Final = native_group_path(namespace)
        self._wanted: Final[dict[str, Object]] = {}
        self._ends: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Actors:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wanted.clear()
        self._ends.set()
        self._thread.join()

    def add_gang(
        self,
        name: str,
        minimum: int,
        scheduler: str,
        *,
        members: int | None = None,
        requests: dict[str, str] | None = None,
        node_selector: dict[str, str] | None = None,
    ) -> None:
        """Create a gang, and keep its members in existence.

        Args:
            name: The name of the pod group.
            minimum: How many members must start together.
            scheduler: Which scheduler places them.
            members: How many members there are; None for the minimum.
            requests: What each requests; None for one CPU.
            node_selector: The labels of nodes that each demands; None for none.
        """
        asked = requests or {"cpu": "1"}
        spec: Object = {
            "schedulerName": scheduler,
            "schedulingGroup": {"podGroupName": name},
            "containers": [{"name": "c", "image": "i", "resources": {"requests": asked}}],
        }
        if node_selector is not None:
            spec["nodeSelector"] = node_selector
        policy = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        self._surely(
            lambda: self._client.create(self._groups, {"metadata": {"name": name}, "spec": policy})
        )
        for number in range(minimum if members is None else members):
            pod = {"metadata": {"name": f"{name}-{number}"}, "spec": spec}
            self._wanted[f"{name}-{number}"] = pod
            self._surely(partial(self._client.create, self._pods, pod))

    def delete_pod(self, name: str) -> None:
        """Delete a pod; it comes back if it is wanted."""
        self._surely(lambda: self._client.delete(f"{self._pods}/{name}"))

    def delete_gang(self, name: str) -> None:
        """Delete every member of a gang, and want it no longer."""
        for member in [member for member in self._wanted if member.startswith(f"{name}-")]:
            del self._wanted[member]
            self._surely(partial(self._client.delete, f"{self._pods}/{member}", _NOW))

    def _status(self, name: str, phase: str) -> None:
        self._client.patch(f"{self._pods}/{name}/status", {"status": {"phase": phase}})

    def _surely(self, call: Callable[[], object]) -> None:
        """Repeat a call while the API server is away; what is there already, or gone, is fine."""
        while True:
            try:
                call()
            except ApiError as error:
                if error.status in (404, 409):
                    return
                if error.status < 500 and error.status not in (401, 403, 429):
                    raise
            except OSError:
                pass
            else:
                return
            if self._ends.wait(0.1):
                return

    def _work(self) -> None:
        while not self._ends.is_set():
            with suppress(OSError, ApiError, ValueError):
                listing = self._client.get(self._pods)
                for pod in listing["items"]:
                    self._care("ADDED", pod)
                there = {pod["metadata"]["name"] for pod in listing["items"]}
                for name in [*self._wanted.keys() - there]:
                    self._recreate(name)
                version = listing["metadata"]["resourceVersion"]
                watch = self._client.watch(self._pods, resourceVersion=version, timeoutSeconds=1)
                for event in watch:
                    if event["type"] == "ERROR":
                        break
                    self._care(event["type"], event["object"])
            self._ends.wait(0.05)

    def _care(self, kind: str, pod: Object) -> None:
        name = pod["metadata"]["name"]
        if kind == "DELETED":
            self._recreate(name)
        elif "deletionTimestamp" in pod["metadata"]:
            body = {**_NOW, "preconditions": {"uid": pod["metadata"]["uid"]}}
            self._surely(lambda: self._client.delete(f"{self._pods}/{name}", body))
        elif pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending":
            if self._refuse and not self._fits(pod):
                self.refused += 1
                self._surely(lambda: self._status(name, "Failed"))
                self._surely(lambda: self._client.delete(f"{self._pods}/{name}", _NOW))
            else:
                self._surely(lambda: self._status(name, "Running"))

    def _fits(self, pod: Object) -> bool:
        node = pod["spec"]["nodeName"]
        offers = self._client.get(f"/api/v1/nodes/{node}")["status"]["allocatable"]["cpu"]
        others = self._client.items(self._pods, fieldSelector=f"spec.nodeName={node}")
        running = [each for each in others if each["status"].get("phase") == "Running"]
        return sum(_cpus(each) for each in (pod, *running)) <= int(offers)

    def _recreate(self, name: str) -> None:
        if (pod := self._wanted.get(name)) is not None:
            self._surely(lambda: self._client.create(self._pods, pod))


def _cpus(pod: Object) -> int:
    """Return the whole CPUs that a pod requests."""
    return sum(int(each["resources"]["requests"]["cpu"]) for each in pod["spec"]["containers"])
