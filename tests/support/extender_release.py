"""The extender of the chart in a cluster: what its pods run, and pods that need all of its rights.

Rules:
  R1  the arguments are the container's, the configuration is the ConfigMap's, the rights are the
      ServiceAccount's, the certificates are the Secret's. Paths and addresses are this machine's;
  R2  no kubelet and no controller runs, so a replica's pod is created by hand, from the template.
"""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from attrs import define, field

from gangsched.manifests.restarts import RESTARTING_UNTIL, RESTARTS
from support.api_trees import create_tree, delete_trees
from support.chart import NAMESPACE, Installed
from support.cluster_objects import class_of, group_json, node_json, pod_json
from support.control_plane import ApiError, Process
from support.control_plane.client import Client
from support.control_plane.processes import free_ports
from support.priority_class import urgent_class

if TYPE_CHECKING:
    from support.extender_tls import TlsFiles

__all__ = ["SECRET", "VALUES", "Replica", "Workload", "create_pod", "create_secret", "start"]

Object = dict[str, Any]

SECRET: Final = "extender-tls"
VALUES: Final[Mapping[str, Any]] = {
    "mode": "extender",
    "extender": {"schedulerNames": ["gangsched"], "tls": {"secretName": SECRET}},
}
"""The values of the chart."""

_GROUPS: Final = "/apis/scheduling.k8s.io/v1beta1"
_LABELS: Final = {
    "scheduling.x-k8s.io": "scheduling.x-k8s.io/pod-group",
    "scheduling.sigs.k8s.io": "pod-group.scheduling.sigs.k8s.io",
}
_ANNOTATIONS: Final = {
    "scheduling.volcano.sh": "scheduling.volcano.sh/group-name",
    "scheduling.run.ai": "pod-group-name",
}
_VERSIONS: Final = {
    **dict.fromkeys(_LABELS, "v1alpha1"),
    "scheduling.volcano.sh": "v1beta1",
    "scheduling.run.ai": "v2alpha2",
}


def create_secret(installed: Installed, tls: TlsFiles) -> None:
    """Create the Secret that the values name."""
    data = {
        name: base64.b64encode((tls.folder / "data" / name).read_bytes()).decode()
        for name in ("tls.crt", "tls.key", "ca.crt")
    }
    body = {"metadata": {"name": SECRET}, "type": "kubernetes.io/tls", "data": data}
    installed.plane.admin.create(f"/api/v1/namespaces/{NAMESPACE}/secrets", body)


def create_pod(installed: Installed, name: str) -> str:
    """Create the pod of a replica, as the Deployment's controller would; return its path."""
    template = _deployment(installed)["spec"]["template"]
    # as a node would have it: the pod is no pod of a scheduler
    spec = {**template["spec"], "nodeName": "control-plane", "priorityClassName": ""}
    meta = {"name": name, "labels": template["metadata"]["labels"]}
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    installed.plane.admin.create(pods, {"metadata": meta, "spec": spec})
    return f"{pods}/{name}"


@define(eq=False)
class Replica:
    """A replica that was started.

    Attributes:
        process: The process.
        url: Where it answers kube-scheduler.
        pages: A client of its pages.
        pod: The path of its pod.
    """

    process: Process
    url: str
    pages: Client
    pod: str

    @property
    def is_ready(self) -> bool:
        """Whether its readiness probe succeeds."""
        return self.pages.raw("GET", "/readyz")[0] == 200


def start(installed: Installed, name: str, folder: Path) -> Replica:
    """Start what a pod of the Deployment runs, and return it once its readiness probe succeeds."""
    pod = create_pod(installed, name)
    (container,) = _deployment(installed)["spec"]["template"]["spec"]["containers"]
    verbs, pages, health = free_ports(3)
    config = folder / f"{name}.yaml"
    config.write_text(yaml.safe_dump(installed.configuration()), encoding="utf-8")
    here = {
        "--config=/etc/gangsched/config.yaml": f"--config={config}",
        "--serve=0.0.0.0:10259": f"--serve=127.0.0.1:{pages}",
        "--health=0.0.0.0:10260": f"--health=127.0.0.1:{health}",
        "--bind-address=0.0.0.0": "--bind-address=127.0.0.1",
        "--port=8888": f"--port={verbs}",
        **dict(_mounted(installed, folder / f"{name}-tls")),
    }
    environment = {"POD_NAME": name, "POD_NAMESPACE": NAMESPACE}
    assert [each["name"] for each in container["env"]] == list(environment)
    arguments = [here.pop(each, each) for each in container["args"]]
    assert not here, f"the container does not have the arguments {list(here)}"
    for variable, value in environment.items():
        arguments = [each.replace(f"$({variable})", value) for each in arguments]
    kubeconfig = installed.plane.kubeconfig(name, installed.token())
    process = Process(
        Path(sys.executable),
        ["-m", "gangsched", *arguments],
        folder / f"{name}.log",
        environment={**os.environ, "KUBECONFIG": str(kubeconfig)},
    )
    installed.started.append(process)
    scheme = "https" if any(each.startswith("--tls-cert") for each in arguments) else "http"
    pages_of = Client(f"http://127.0.0.1:{pages}")
    found = Replica(process, f"{scheme}://127.0.0.1:{verbs}", pages_of, pod)
    process.wait_until(lambda: found.is_ready)
    return found


def _deployment(installed: Installed) -> Object:
    found = installed.get("apis/apps/v1/@/deployments")
    assert found is not None
    return found


def _mounted(installed: Installed, folder: Path) -> Iterator[tuple[str, str]]:
    """Write the Secret that the Deployment mounts; yield the arguments that name its files."""
    template = _deployment(installed)["spec"]["template"]["spec"]
    (container,) = template["containers"]
    volumes = [each for each in template["volumes"] if each["name"] == "tls"]
    if not volumes:
        return
    (volume,) = volumes
    (mount,) = (each for each in container["volumeMounts"] if each["name"] == "tls")
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{volume['secret']['secretName']}"
    data = installed.plane.admin.get(path)["data"]
    folder.mkdir()
    options = {"tls-cert": "tls.crt", "tls-key": "tls.key", "client-ca": "ca.crt"}
    for option, name in options.items():
        (folder / name).write_bytes(base64.b64decode(data[name]))
        yield f"--{option}={mount['mountPath']}/{name}", f"--{option}={folder / name}"


@define(eq=False)
class Workload:
    """Gangs for whose sake an extender must use all of its rights, in a namespace of their own.

    Attributes:
        admin: The API server.
        name: The namespace, and how the names of the nodes begin.
        nodes: The nodes that were created.
    """

    admin: Client
    name: str
    nodes: list[str] = field(factory=list)

    def begin(self) -> None:
        """Create nodes, victims and gangs; of the gangs some fail, as ``faults`` has it."""
        self.admin.create("/api/v1/namespaces", {"metadata": {"name": self.name}})
        for node in ("lost", "failed", "full", "small"):
            self._add_node(node)
        for number in range(2):
            full: dict[str, Any] = {"scheduler": "other", "nodeName": f"{self.name}-full"}
            self._add_pod(f"victim-{number}", "full", **full, terminationGracePeriodSeconds=0)
        self._add_gang("lost", "lost")
        self._add_gang("failed", "failed", terminationGracePeriodSeconds=0)
        self._add_gang("strong", "full", priorityClassName=urgent_class(self.admin))
        self._add_gang("late", "late")
        self._add_gang("large", "small", cpu=30)
        for group in _LABELS:
            self._add_foreign(group, f"short-{group.split('.')[1]}", minimum=2)
        self._add_restarted_native()
        create_tree(self.admin, self.name, "tree", "child")
        self._add_pod("child-0", "small", group="child", gpu=0)
        for group in _VERSIONS:
            notes = {RESTARTS: "1", RESTARTING_UNTIL: "1767225600"}
            self._add_foreign(group, f"again-{group.split('.')[1]}", minimum=1, notes=notes)

    def add_late_node(self) -> None:
        """Add the node that a refused gang waits for: its members are nominated."""
        self._add_node("late")

    def is_refused(self, gang: str) -> bool:
        """Return whether each member of a gang has been reported as unschedulable."""
        pods = self.admin.items(f"/api/v1/namespaces/{self.name}/pods")
        found = [pod for pod in pods if pod["metadata"]["name"].startswith(f"{gang}-")]
        conditions = [pod["status"].get("conditions", []) for pod in found]
        return bool(found) and all(
            any(each["reason"] == "Unschedulable" for each in some) for some in conditions
        )

    def replace_a_member(self) -> None:
        """Replace a member of a gang that does not fit: the gang fails again, as before."""
        path = f"/api/v1/namespaces/{self.name}/pods/large-1"
        self.admin.delete(path, gracePeriodSeconds=0)
        self._add_pod("large-1", "small", group="large", cpu=30)

    def end(self) -> None:
        """Delete what was created."""
        self.admin.delete(f"/api/v1/namespaces/{self.name}/pods", gracePeriodSeconds=0)
        self.admin.delete(f"{_GROUPS}/namespaces/{self.name}/podgroups")
        delete_trees(self.admin, self.name)
        for node in self.nodes:
            self.admin.delete(f"/api/v1/nodes/{node}")

    def _add_node(self, name: str) -> None:
        node = node_json(f"{self.name}-{name}", gpu=2)
        node["metadata"]["labels"]["workload"] = f"{self.name}-{name}"
        self.admin.create("/api/v1/nodes", node)
        self.nodes.append(f"{self.name}-{name}")

    def _add_gang(self, group: str, node: str, **pod: Any) -> None:
        for number in range(2):
            self._add_pod(f"{group}-{number}", node, group=group, **pod)
        path = f"{_GROUPS}/namespaces/{self.name}/podgroups"
        self.admin.create(path, group_json(group, 2, namespace=self.name, **class_of(pod)))

    def _add_restarted_native(self) -> None:
        body = group_json("again", 1, namespace=self.name)
        body["metadata"]["annotations"] = {RESTARTS: "1", RESTARTING_UNTIL: "1767225600"}
        self.admin.create(f"{_GROUPS}/namespaces/{self.name}/podgroups", body)
        self._add_pod("again-0", "small", group="again", gpu=0)

    def _add_foreign(
        self, group: str, name: str, *, minimum: int, notes: Mapping[str, str] | None = None
    ) -> None:
        """Create a gang of another API, if it is served, with one pod."""
        version = _VERSIONS[group]
        body = {
            "apiVersion": f"{group}/{version}",
            "kind": "PodGroup",
            "metadata": {"name": name, "annotations": dict(notes or {})},
            "spec": {"minMember": minimum},
        }
        try:
            self.admin.create(f"/apis/{group}/{version}/namespaces/{self.name}/podgroups", body)
        except ApiError as error:
            if error.status != 404:
                raise
            return
        pod: dict[str, Any] = (
            {"annotations": {_ANNOTATIONS[group]: name}}
            if group in _ANNOTATIONS
            else {"labels": {_LABELS[group]: name}}
        )
        pod["gpu"] = 0
        self._add_pod(f"{name}-0", "small", **pod)

    def _add_pod(
        self,
        name: str,
        node: str,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        **pod: Any,
    ) -> None:
        body = pod_json(name, namespace=self.name, **pod)
        body["metadata"].update(labels=dict(labels or {}), annotations=dict(annotations or {}))
        body["spec"]["nodeSelector"] = {"workload": f"{self.name}-{node}"}
        del body["status"]
        self.admin.create(f"/api/v1/namespaces/{self.name}/pods", body)
