"""kube-scheduler as the judge: scenes in, its verdict about each pending pod out.

Rules:
  R1  there is one control plane for all scenes. Everything of the scene before is deleted first;
  R2  pods are judged one after the other, so that each verdict is about a known state. A pod that
      was refused is deleted at once, since an event might make kube-scheduler try it again;
  R3  pods that have ended come before the other pods of a scene. kube-scheduler keeps the host
      ports of a node as a set, so a port that two pods have is free for it once one of them ends.
      Otherwise its verdict would depend on the order, see ``test_ports``;
  R4  a scene is judged only after kube-scheduler has seen all of it, and that the scene before is
      gone. It reads each kind of object by a watch of its own. A probe asks for a label that only
      the nodes of this scene have; of the other kinds, its metrics tell what it has read;
  R5  a pod that is created with the name of a node is not judged. Pods after it are judged when
      kube-scheduler has seen it.
"""

from __future__ import annotations

import itertools
import queue
import re
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from differential.preemption import PRIORITIES, Preemption
from differential.scene import ENDED, NAMESPACES, Object, Running, Scene
from differential.verdict import Verdict, placed, refused
from differential.volumes import DRIVER
from support.control_plane import ApiError, Client
from support.patience import HANG, saw, until
from support.priority_class import create_class

__all__ = ["Judge"]

_PODS: Final = "/api/v1/pods"
_NODES: Final = "/api/v1/nodes"
_SCENE: Final = "judge.test/scene"
_NEVER: Final = "judge.test/never"
_NOW: Final = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
"""Without a policy, a replication controller waits for the garbage collector to orphan its pods."""
_CONNECTIONS: Final = 4
_VOLUMES: Final = "/api/v1/persistentvolumes"
_CLAIMS: Final = "/api/v1/persistentvolumeclaims"
_SELECTED: Final = "volume.kubernetes.io/selected-node"
_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_READ: Final = re.compile(
    r'^informer_store_resource_version\{group="([^"]*)",.*resource="([^"]*)",.*\} (\S+)$', re.M
)
_LOOK: Final = 0.05
"""Seconds between two looks at the claims of a pod that is about to be bound."""


class Judge:
    """kube-scheduler on a control plane; see the module for the rules.

    Args:
        client: An administrator's client.
        scheduler_name: The profile that judges unless a call names another.
        pages: A client of the pages of kube-scheduler.

    Attributes:
        judged: The number of verdicts so far.
        namespaces: The namespaces of every scene, as they are stored.
        others: The other objects of the scene, as they were stored.
    """

    def __init__(self, client: Client, scheduler_name: str, pages: Client) -> None:
        self._client: Final = client
        self._pages: Final = pages
        self._written: Final[dict[tuple[str, str], int]] = {}
        self._is_read = True
        self._profile: Final = scheduler_name
        self._scenes: Final = itertools.count(1)
        self._probes: Final = itertools.count(1)
        self._seen: Final[queue.SimpleQueue[Object | Exception]] = queue.SimpleQueue()
        self._threads: Final = ThreadPoolExecutor(_CONNECTIONS)
        self._others: list[tuple[str, Object]] = []
        self._nodes, self._scene = 0, ""
        self.others: list[Object] = []
        self.judged = 0
        for name, labels in NAMESPACES.items():
            with suppress(ApiError):
                client.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        for name, value in PRIORITIES.items():
            create_class(client, name, value)
        self.namespaces: Final = [client.get(f"/api/v1/namespaces/{name}") for name in NAMESPACES]
        for namespace in self.namespaces:
            self._note(namespace)
        threading.Thread(target=self._watch, name="judge-watch", daemon=True).start()

    def stage(self, scene: Scene) -> tuple[list[Object], list[Object]]:
        """Put a scene on the cluster; return its nodes and running pods as they are stored."""
        self._clear()
        number = str(next(self._scenes))
        self.others = [self._add(path, body) for path, body in scene.others]
        marked = [_marked(node, number) for node in scene.nodes]
        nodes = list(self._threads.map(lambda node: self._client.create(_NODES, node), marked))
        running = self._start(scene.running)
        self._nodes = len(nodes)
        until(self._are_others_read, step=0.002)
        self._wait_until_seen(self._nodes, number)
        self._scene = number
        return nodes, running

    def changed(self) -> list[Object]:
        """Return the claims and volumes that a verdict may have changed, as they are stored."""
        if not self.others:
            return []
        found = [*self._client.items(_VOLUMES), *self._client.items(_CLAIMS)]
        return [{**_type_of(each), **each} for each in found]

    def end(self, pod: Object, phase: str) -> Object:
        """Let a running pod end in a phase; return it as it is stored."""
        path = f"{_path(pod)}/{pod['metadata']['name']}/status"
        return self._client.patch(path, {"status": {"phase": phase}})

    def create(self, pod: Object, scheduler_name: str = "") -> Object:
        """Post a pending pod, and return it as it is stored."""
        spec = {**pod["spec"], "schedulerName": scheduler_name or self._profile}
        return self._client.create(_path(pod), {**pod, "spec": spec})

    def bind(self, pod: Object) -> Object:
        """Create a pod that names its node; return it as stored once kube-scheduler has seen it."""
        stored = self._client.create(_path(pod), pod)
        self._wait_until_seen(self._nodes, self._scene)
        return stored

    def verdict(self, pod: Object) -> Verdict:
        """Return what kube-scheduler decides about a pod that ``create`` returned."""
        found = self._decision(pod)
        if not found.node:
            self._client.delete(f"{_path(pod)}/{pod['metadata']['name']}", _NOW)
        return found

    def _decision(self, pod: Object) -> Verdict:
        uid = pod["metadata"]["uid"]
        ends = time.monotonic() + HANG
        claims = _claims(pod) if self.others else []
        while True:
            left = max(ends - time.monotonic(), 0)
            try:
                seen = self._seen.get(timeout=min(left, _LOOK) if claims else left)
            except queue.Empty:
                if time.monotonic() < ends:
                    self._bind(claims)
                    continue
                raise AssertionError(f"no verdict within {HANG:g} s about {pod}") from None
            if isinstance(seen, Exception):
                raise seen
            found = _verdict(seen) if seen["metadata"]["uid"] == uid else None
            if found is not None:
                break
        self.judged += 1
        return found

    def preemption(
        self, pod: Object, is_enough: Callable[[str, Collection[str]], bool]
    ) -> Preemption:
        """Return which pods kube-scheduler evicts for a pod that ``create`` returned, and where.

        Args:
            pod: The pod.
            is_enough: Whether a pod fits on a node without some victims. kube-scheduler evicts in
                the background, and no more than what is enough, so that is waited for.
        """
        verdict = self._decision(pod)
        path = f"{_path(pod)}/{pod['metadata']['name']}"
        # the nomination is written together with the verdict
        node = verdict.node or self._client.get(path)["status"].get("nominatedNodeName", "")
        victims: frozenset[str] = frozenset()
        if node and not verdict.node:
            until(lambda: is_enough(node, self._terminating(pod)))
            victims = self._terminating(pod)
        self._client.delete(path, _NOW)
        return Preemption(node, victims)

    def _terminating(self, pod: Object) -> frozenset[str]:
        metadata = (each["metadata"] for each in self._client.items(_path(pod)))
        return frozenset(each["name"] for each in metadata if "deletionTimestamp" in each)

    def _clear(self) -> None:
        lists = [*(f"/api/v1/namespaces/{name}/pods" for name in NAMESPACES), _NODES]
        list(self._threads.map(lambda path: self._client.delete(path, _NOW), lists))
        while self._others:
            with suppress(ApiError):
                self._remove(*self._others.pop())
        self.others = []

    def _add(self, path: str, body: Object) -> Object:
        stored = self._client.create(path, body)
        name = f"{path}/{body['metadata']['name']}"
        self._others.append((path, stored))
        if "status" in body:
            stored = self._client.patch(f"{name}/status", {"status": body["status"]})
        self._note(stored)
        return stored

    def _remove(self, path: str, stored: Object) -> None:
        """Delete an object, and note the version of its deletion, which not every answer has."""
        name = stored["metadata"]["name"]
        since = self._written[_key(stored)]
        gone = self._client.delete(f"{path}/{name}", _NOW)
        if gone["kind"] == "Status":
            selector = f"metadata.name={name}"
            events = self._client.watch(path, resourceVersion=since, fieldSelector=selector)
            gone = next(each["object"] for each in events if each["type"] == "DELETED")
        self._note(gone)

    def _note(self, stored: Object) -> None:
        """Note that kube-scheduler has to read an object in this version."""
        self._written[_key(stored)] = int(stored["metadata"]["resourceVersion"])
        self._is_read = False

    def _are_others_read(self) -> bool:
        """Return whether kube-scheduler has read all that was written, pods and nodes aside."""
        if not self._is_read:
            _status, text = self._pages.raw("GET", "/metrics")
            read = {(group, kind): float(at) for group, kind, at in _READ.findall(text.decode())}
            unread = [key for key, at in self._written.items() if read.get(key, 0.0) < at]
            saw(f"not read: {unread}")
            self._is_read = not unread
        return self._is_read

    def _bind(self, claims: list[str]) -> None:
        """Do what the volume controller and a provisioner do after kube-scheduler has chosen."""
        for path in claims:
            try:
                claim = self._client.get(path)
            except ApiError:
                continue
            metadata, spec = claim["metadata"], claim["spec"]
            reference = {key: metadata[key] for key in ("namespace", "name", "uid")}
            if "volumeName" in spec:
                continue
            node = metadata.get("annotations", {}).get(_SELECTED)
            if node:
                self._add(_VOLUMES, _provisioned(claim, node, reference))
            for volume in self._client.items(_VOLUMES):
                if volume["spec"].get("claimRef", {}).get("uid") == metadata["uid"]:
                    bound = {"metadata": {"annotations": {_COMPLETED: "yes"}}}
                    name = {"spec": {"volumeName": volume["metadata"]["name"]}}
                    self._client.patch(path, {**bound, **name})
                    self._client.patch(f"{path}/status", {"status": {"phase": "Bound"}})
                    own = f"{_VOLUMES}/{volume['metadata']['name']}/status"
                    self._client.patch(own, {"status": {"phase": "Bound"}})

    def _start(self, running: Sequence[Running]) -> list[Object]:
        """Put running pods on their nodes, those first that have ended; return all in order."""
        stored: dict[int, Object] = {}
        for is_ended in (True, False):
            numbers = [n for n, each in enumerate(running) if (each.phase in ENDED) is is_ended]
            pods = self._threads.map(lambda number: self._run(running[number]), numbers)
            stored.update(zip(numbers, pods, strict=True))
        return [stored[number] for number in range(len(running))]

    def _run(self, running: Running) -> Object:
        spec = {**running.pod["spec"], "nodeName": running.node}
        path = _path(running.pod)
        pod = self._client.create(path, {**running.pod, "spec": spec})
        own = f"{path}/{pod['metadata']['name']}"
        if running.phase:
            pod = self._client.patch(f"{own}/status", {"status": {"phase": running.phase}})
        if running.started:
            started = {"startTime": f"2026-01-31T12:00:{running.started:02}Z"}
            pod = self._client.patch(f"{own}/status", {"status": started})
        if running.status:
            pod = self._client.patch(f"{own}/status", {"status": running.status})
        if running.is_terminating:
            pod = self._client.delete(own, {"gracePeriodSeconds": 3600})
        return pod

    def _wait_until_seen(self, nodes: int, number: str) -> None:
        """Send probes until one is refused by exactly the nodes of this scene."""
        head, lacking = f"0/{nodes} nodes are available", f"{nodes} Insufficient {_NEVER}"

        def is_seen() -> bool:
            answer = self.verdict(self.create(_probe(next(self._probes), number)))
            self.judged -= 1
            return (answer.head == head and lacking in answer.reasons) or not nodes

        until(is_seen, step=0.002)

    def _watch(self) -> None:
        """Put every pod into the queue as it is, also after the API server was away."""
        try:
            while True:
                with suppress(ApiError, OSError):
                    self._follow()
                time.sleep(_LOOK)
        except Exception as error:  # raised in the thread that waits for verdicts
            self._seen.put(error)

    def _follow(self) -> None:
        """List the pods, and watch them until the watch ends."""
        listing = self._client.get(_PODS)
        for pod in listing["items"]:
            self._seen.put(pod)
        version = listing["metadata"]["resourceVersion"]
        for event in self._client.watch(_PODS, resourceVersion=version):
            if event["type"] == "ERROR":
                return
            if event["type"] != "DELETED":
                self._seen.put(event["object"])


def _key(stored: Object) -> tuple[str, str]:
    """Return the group and the resource of an object as the metrics of kube-scheduler name them."""
    group, slash, _version = stored["apiVersion"].partition("/")
    return (group if slash else "", f"{stored['kind'].lower()}s")


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods"


def _claims(pod: Object) -> list[str]:
    """Return the paths of the claims of a pod."""
    volumes = [each.get("persistentVolumeClaim") for each in pod["spec"].get("volumes", ())]
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/persistentvolumeclaims"
    return [f"{path}/{each['claimName']}" for each in volumes if each]


def _provisioned(claim: Object, node: str, reference: Object) -> Object:
    """Return the volume that a provisioner makes for a claim on a node."""
    name = f"pvc-{claim['metadata']['uid']}"
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec = {
        "capacity": claim["spec"]["resources"]["requests"],
        "accessModes": claim["spec"]["accessModes"],
        "storageClassName": claim["spec"]["storageClassName"],
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "claimRef": reference,
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
    }
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Bound"}}


def _type_of(item: Object) -> Object:
    """Return the kind of a claim or a volume, which an object of a list does not say."""
    kind = "PersistentVolumeClaim" if "namespace" in item["metadata"] else "PersistentVolume"
    return {"apiVersion": "v1", "kind": kind}


def _marked(node: Object, number: str) -> Object:
    metadata = node["metadata"]
    return {**node, "metadata": {**metadata, "labels": {**metadata["labels"], _SCENE: number}}}


def _probe(number: int, scene: str) -> Object:
    """Return a pod that only the nodes of a scene refuse for its resource, which none has."""
    lacks = {_NEVER: "1"}
    container = {"name": "c", "image": "probe", "resources": {"limits": lacks, "requests": lacks}}
    spec: dict[str, Any] = {
        "containers": [container],
        "nodeSelector": {_SCENE: scene},
        "tolerations": [{"operator": "Exists"}],
    }
    namespace = next(iter(NAMESPACES))
    return {"metadata": {"name": f"probe-{number}", "namespace": namespace}, "spec": spec}


def _verdict(pod: Object) -> Verdict | None:
    if node := pod["spec"].get("nodeName"):
        return placed(node)
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            if condition["reason"] == "SchedulerError":
                return refused(f"SchedulerError: {condition.get('message', '')}")
            return refused(condition.get("message", ""))
    return None
