"""The demonstration on a cluster: every part real but the kubelets, driven as a person would.

Rules:
  R1  what is shown is what ``kubectl``, ``helm`` and the programs print, with the command above it;
  R2  a step waits until its end is seen in the API server, and fails with what was seen instead;
  R3  nothing is left: the folder and the processes are those of the control plane.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from support.chart import CHART, NAMESPACE, Helm, Installed
from support.control_plane import ControlPlane, programs
from support.control_plane.training_operator import (
    kwok_stages,
    one_operator,
    start_training_operator,
)
from support.definitions import CRDS, definition
from support.extended_cluster import extended_configuration
from support.extender_release import SECRET, create_secret, start
from support.kubectl_program import plugin_folder
from support.patience import until
from support.root import ROOT

if TYPE_CHECKING:
    from support.extender_tls import TlsFiles

__all__ = ["DEMONSTRATIONS", "OnACluster"]

EXAMPLES: Final = ROOT / "examples" / "on-a-cluster"
SCHEDULER: Final = "scheduler-plugins"
_OF_THE_CHART: Final = (
    *("/api/v1/configmaps", "/api/v1/secrets", "/api/v1/serviceaccounts", "/api/v1/services"),
    *("/apis/apps/v1/deployments", "/apis/policy/v1/poddisruptionbudgets"),
    *(
        f"/apis/rbac.authorization.k8s.io/v1/{kind}"
        for kind in ("clusterroles", "clusterrolebindings", "roles", "rolebindings")
    ),
)
_OF_THE_JOBS: Final = (
    *("/apis/batch/v1", "/apis/kubeflow.org/v1", "/apis/kubeflow.org/v2beta1"),
    *("/apis/scheduling.k8s.io/v1beta1", "/apis/scheduling.x-k8s.io/v1alpha1"),
    "/apis/scheduling.volcano.sh/v1beta1",
)
_JOBS: Final = ("pods", "podgroups", "jobs", "tfjobs", "pytorchjobs", "mpijobs")


class OnACluster:
    """A cluster without nodes, with the scheduler installed; a context manager.

    Args:
        folder: An empty folder for everything.
        say: Called with each line that a person would see.
    """

    def __init__(self, folder: Path, *, say: Callable[[str], object] = lambda _line: None) -> None:
        self._folder = folder
        self._say = say
        self.plane: Final = ControlPlane(folder / "control-plane")
        self._helm: Helm
        self.installed: Final = Installed(self.plane)
        self._others = ExitStack()
        self._began = time.monotonic()

    def __enter__(self) -> OnACluster:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop every program."""
        for process in self.installed.started:
            process.stop()
        self.plane.stop()
        self._others.close()

    def _start(self) -> None:
        names = ["kubectl", "kwok", "kube-controller-manager", "helm", "training-operator.v1"]
        self._kubectl = programs(names)["kubectl"]
        self.plane.start()
        self._helm = Helm(self._folder, self.plane.kubeconfig("person"))
        self._environment = self._make_environment()
        # it takes the finalizer off Kubernetes' own PodGroups, which nothing else does
        self.plane.start_controller_manager(
            "*,-nodelifecycle,-nodeipam", "--feature-gates=GenericWorkload=true"
        )
        self.plane.start_kwok(kwok_stages(self.plane))
        self.comment("etcd, kube-apiserver, kube-controller-manager and kwok run; no nodes yet")

    def _make_environment(self) -> dict[str, str]:
        """Return an environment in which kubectl finds its command ``gang``."""
        tools = plugin_folder(self._folder / "bin")
        path = os.pathsep.join((str(tools), os.environ.get("PATH", "")))
        kubeconfig = str(self.plane.kubeconfig("person"))
        source = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        return {**os.environ, "PATH": path, "KUBECONFIG": kubeconfig, "PYTHONPATH": source}

    # What a person does ---------------------------------------------------------------------

    def comment(self, text: str) -> None:
        """Say something, with the seconds since the beginning."""
        self._say(f"# {time.monotonic() - self._began:5.1f} s: {text}")

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl; show the command and what it prints; return that."""
        self._say(f"$ kubectl {' '.join(arguments)}")
        ran = subprocess.run(
            [self._kubectl, *arguments],
            env=self._environment,
            cwd=EXAMPLES,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, f"kubectl {' '.join(arguments)}: {ran.stdout}"
        self._say(ran.stdout.rstrip() + "\n")
        return ran.stdout

    def install(self) -> None:
        """Install the scheduler with Helm, and start what a pod of its Deployment would run."""
        values = {"schedulerName": SCHEDULER}
        self._say(
            f"$ helm install gangsched charts/{CHART.name} --namespace {NAMESPACE}"
            f" --create-namespace --set schedulerName={SCHEDULER}\n"
        )
        self._helm.install(values=values)
        self.installed.start(sys.executable, self._folder)
        self.comment("the scheduler runs, with the token of its ServiceAccount")

    def uninstall(self) -> None:
        """Uninstall the scheduler."""
        self._say(f"$ helm uninstall gangsched --namespace {NAMESPACE}\n")
        for process in self.installed.started:
            process.stop()
        self._helm.uninstall()

    def left_behind(self) -> list[str]:
        """Return what the demonstration has made and not removed, but definitions and the Lease."""
        found: list[str] = []
        for kind in _OF_THE_CHART:
            for each in self.plane.admin.items(kind):
                name, labels = each["metadata"]["name"], each["metadata"].get("labels", {})
                if labels.get("app.kubernetes.io/instance") == "gangsched":
                    found.append(f"{kind}/{name}")
        for path in ("/api/v1", *_OF_THE_JOBS):
            status, body = self.plane.admin.raw("GET", path)
            for each in json.loads(body)["resources"] if status == 200 else ():
                if each["name"] in _JOBS:
                    kind = f"{path}/namespaces/default/{each['name']}"
                    items = self.plane.admin.items(kind)
                    found += [f"{kind}/{item['metadata']['name']}" for item in items]
        return found

    def extend(self) -> None:
        """Install the extender with Helm, start what its pod would run, and a stock kube-scheduler.

        Both sides have certificates and verify the other one's, if trustme is installed, which
        issues them. Else they speak plain HTTP.
        """
        names = ["default-scheduler", SCHEDULER]
        tls = self._certificates()
        secure = {"enabled": True, "secretName": SECRET} if tls else {"enabled": False}
        given = ",".join(
            f"extender.tls.{key}={str(value).lower()}" for key, value in secure.items()
        )
        self._say(
            f"$ helm install gangsched charts/{CHART.name} --namespace {NAMESPACE}"
            f" --create-namespace --set mode=extender,{given}"
            f" --set 'extender.schedulerNames={{{','.join(names)}}}'\n"
        )
        extender = {"schedulerNames": names, "tls": secure}
        self._helm.install(values={"mode": "extender", "extender": extender})
        if tls is not None:
            create_secret(self.installed, tls)
        replica = start(self.installed, "replica-0", self._folder)
        self.comment(f"the extender runs at {replica.url}, with the token of its ServiceAccount")
        of_scheduler = None if tls is None else tls.of_scheduler()
        configuration = extended_configuration(replica.url, names, of_scheduler)
        self.plane.start_scheduler(configuration, features={})
        self.comment("kube-scheduler runs as it is, with extenders: in its configuration")

    def _certificates(self) -> TlsFiles | None:
        try:
            from support.extender_tls import TlsFiles
        except ModuleNotFoundError:
            return None
        return TlsFiles(self._folder / "tls")

    def operator(self) -> None:
        """Start the training operator, which creates pods and PodGroups of jobs."""
        self._others.enter_context(one_operator())
        start_training_operator(self.plane, scheduler=SCHEDULER)
        self.comment(f"the training operator runs, with --gang-scheduler-name={SCHEDULER}")

    def serve_volcano(self) -> None:
        """Define Volcano's PodGroups, without Volcano."""
        groups = definition("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups")
        self.plane.admin.create(CRDS, groups)
        path = "/apis/scheduling.volcano.sh/v1beta1"
        self.until("the API is served", lambda: self.plane.admin.raw("GET", path)[0] == 200)

    def add_nodes(self, *names: str, gpus: int = 2) -> None:
        """Add nodes with some GPUs; kwok makes them ready."""
        self.comment(f"{len(names)} nodes of {gpus} GPUs each are added: {', '.join(names)}")
        offers = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
        offers["nvidia.com/gpu"] = str(gpus)
        for name in names:
            labels = {"kubernetes.io/hostname": name}
            status = {"allocatable": offers, "capacity": offers}
            body = {"metadata": {"name": name, "labels": labels}, "status": status}
            self.plane.admin.create("/api/v1/nodes", body)

    # What is seen ---------------------------------------------------------------------------

    def pods(self) -> list[dict[str, Any]]:
        """Return the pods of the namespace of the demonstration."""
        return self.plane.admin.items("/api/v1/namespaces/default/pods")

    def phases(self) -> list[str]:
        """Return the phases of the pods."""
        return sorted(pod["status"]["phase"] for pod in self.pods())

    def until(self, what: str, true: Callable[[], object]) -> None:
        """Wait until something is true; *what* says it to a person."""

        def shown() -> str:
            pods = json.dumps([pod["status"] for pod in self.pods()], indent=1)[-3000:]
            logs = "\n".join(each.log_tail() for each in self.installed.started)
            return f"not so: {what}\n{pods}\n{logs}"

        until(true, shown)

    def until_reported(self, count: int) -> None:
        """Wait until so many pods are pending, each with its condition."""

        def is_reported() -> bool:
            found = [
                condition
                for pod in self.pods()
                for condition in pod["status"].get("conditions", [])
                if condition.get("reason") == "Unschedulable"
            ]
            return self.phases() == ["Pending"] * count and len(found) == count

        self.until(f"{count} pods are unschedulable", is_reported)

    def check_none_is_placed(self, seconds: float) -> None:
        """Check for some seconds that no pod of the job has a node: the job is not partial."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            placed = [pod["spec"].get("nodeName") for pod in self.pods()]
            assert not any(placed), placed
            time.sleep(0.1)

    def until_running(self, count: int) -> None:
        """Wait until so many pods run."""
        self.until(f"{count} pods run", lambda: self.phases() == ["Running"] * count)


def _gang(cluster: OnACluster, manifest: str, count: int, delete: str) -> None:
    """Show a gang that waits for two nodes, and starts as a whole; then uninstall."""
    _waits_and_starts(cluster, manifest, count, delete)
    _uninstall(cluster)


def _uninstall(cluster: OnACluster) -> None:
    cluster.until("nothing is left of the job", lambda: cluster.phases() == [])
    cluster.uninstall()
    cluster.until("nothing is left", lambda: not cluster.left_behind())


def _waits_and_starts(cluster: OnACluster, manifest: str, count: int, delete: str) -> None:
    cluster.add_nodes("gpu-node-0", "gpu-node-1")
    cluster.kubectl("apply", "-f", manifest)
    cluster.until_reported(count)
    cluster.check_none_is_placed(2.0)
    cluster.kubectl("get", "pods", "-o", "wide")
    cluster.kubectl("gang", "get")
    cluster.kubectl("gang", "what-if", "--add-nodes", "2", "--like", "gpu-node-0")
    began = time.monotonic()
    cluster.add_nodes("gpu-node-2", "gpu-node-3")
    cluster.until_running(count)
    cluster.comment(f"all {count} run, {time.monotonic() - began:.1f} s after the nodes were added")
    cluster.kubectl("get", "pods", "-o", "wide")
    cluster.kubectl("gang", "get")
    cluster.kubectl("delete", *delete.split(), "--wait=false")
    cluster.until("the pods are gone", lambda: not cluster.pods())


def _of_the_operator(manifest: str, count: int, delete: str) -> Callable[[OnACluster], None]:
    def show(cluster: OnACluster) -> None:
        cluster.install()
        cluster.operator()
        _gang(cluster, manifest, count, delete)

    return show


def _native(cluster: OnACluster) -> None:
    cluster.install()
    _gang(cluster, "job.yaml", 4, "-f job.yaml")


def _volcano(cluster: OnACluster) -> None:
    cluster.serve_volcano()
    cluster.install()
    _gang(cluster, "volcano.yaml", 4, "-f volcano.yaml")


def _extender(cluster: OnACluster) -> None:
    """Show the job of the first demonstration with kube-scheduler and the extender."""
    cluster.extend()
    cluster.operator()
    _waits_and_starts(cluster, "tfjob.yaml", 5, "tfjob mnist")
    _uninstall(cluster)


def _stock(
    manifest: str,
    running: int,
    waiting: int,
    delete: str,
    *,
    prepare: Callable[[OnACluster], None] = OnACluster.operator,
) -> Callable[[OnACluster], None]:
    """Show the stock scheduler, which starts a part of the job; *prepare* adds what it needs."""

    def show(cluster: OnACluster) -> None:
        cluster.install()
        prepare(cluster)
        cluster.plane.start_scheduler(features={})
        cluster.comment("kube-scheduler runs, without gangs")
        cluster.add_nodes("gpu-node-0", "gpu-node-1")
        cluster.kubectl("apply", "-f", manifest)
        partial = ["Pending"] * waiting + ["Running"] * running
        cluster.until(f"{running} run and {waiting} wait", lambda: cluster.phases() == partial)
        cluster.kubectl("get", "pods", "-o", "wide")
        cluster.comment("the job holds all four GPUs, and cannot train")
        cluster.kubectl("delete", *delete.split(), "--wait=false")
        cluster.until("the pods are gone", lambda: not cluster.pods())
        _uninstall(cluster)

    return show


DEMONSTRATIONS: Final[Mapping[str, Callable[[OnACluster], None]]] = {
    "tfjob": _of_the_operator("tfjob.yaml", 5, "tfjob mnist"),
    "pytorchjob": _of_the_operator("pytorchjob.yaml", 4, "pytorchjob bert"),
    "mpijob": _of_the_operator("mpijob.yaml", 5, "mpijob pi"),
    "job": _native,
    "volcano": _volcano,
    "extender": _extender,
    "stock": _stock("tfjob-stock.yaml", 3, 2, "tfjob mnist-stock"),
    "stock-pytorchjob": _stock("pytorchjob-stock.yaml", 2, 2, "pytorchjob bert-stock"),
    "stock-mpijob": _stock("mpijob-stock.yaml", 3, 2, "mpijob pi-stock"),
    "stock-job": _stock("job-stock.yaml", 2, 2, "-f job-stock.yaml", prepare=lambda _cluster: None),
    "stock-volcano": _stock(
        "volcano-stock.yaml", 2, 2, "-f volcano-stock.yaml", prepare=OnACluster.serve_volcano
    ),
}
"""By the name of the job, what is shown."""
