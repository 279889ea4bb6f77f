"""Kubeflow's training operator on a control plane, and the definitions that it works on.

Rules:
  R1  manifests are those of the modules that the programs are built from, never copies;
  R2  the operator wants a webhook configuration to put its certificate into, and a certificate as
      files. It gets both, and no webhook: nothing here can call one. So the files, in a temporary
      folder of its own, are those of the API server;
  R3  it also waits for a file whose path is fixed in the program, whatever its content. Other
      programs may have files there: they are neither changed nor removed. What is created is
      removed, so one operator runs at a time on a machine.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

from support.control_plane.cluster import ControlPlane
from support.control_plane.processes import Process, free_ports
from support.control_plane.programs import cache_folder, module_folder, programs

__all__ = ["existing", "kwok_stages", "one_operator", "start_training_operator"]

_JOBS: Final = ("tf", "pytorch", "mpi", "mx", "paddle", "xgboost")
_SERVED: Final = Path("k8s-webhook-server", "serving-certs")
"""Where the operator reads its certificate, in its temporary folder."""
_AWAITED: Final = Path("/tmp") / _SERVED / "tls.crt"
"""The file that it waits for: ``certDir`` of its ``pkg/cert``."""
_NAMESPACE: Final = "kubeflow"
_CERTIFICATE: Final = "training-operator-webhook-cert"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_STAGES: Final = (
    # without pod-complete: pods of a Job would have ended before they are seen to run
    "pod/fast/pod-ready",
    *("node/fast/node-initialize", "node/heartbeat/node-heartbeat"),
)
_ENDS: Final = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-terminate}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
    - {key: .status.phase, operator: NotIn, values: [Failed, Succeeded]}
  next:
    statusTemplate: "phase: Failed"
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-delete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
    - {key: .status.phase, operator: In, values: [Failed, Succeeded]}
  next: {delete: true}
"""
"""How a pod ends: a kubelet writes the phase before the object goes, and the controller of a Job
with a ``podFailurePolicy`` keeps its finalizer until then. kwok's own stage writes no phase."""


@contextmanager
def one_operator() -> Generator[None]:
    """Wait until no other operator runs; afterwards remove what it needed outside of its folder.

    Only an operator of these tests is waited for.
    """
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / ".operator").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # freed when the file is closed, also by a crash
        with existing(_AWAITED):
            yield


@contextmanager
def existing(path: Path) -> Generator[None]:
    """Let a file exist, in folders that may not; afterwards remove what was created for it."""
    folders = list(takewhile(lambda folder: not folder.exists(), path.parents))
    path.parent.mkdir(parents=True, exist_ok=True)
    is_ours = True
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        is_ours = False
    try:
        yield
    finally:
        with suppress(OSError):
            if is_ours:
                path.unlink()
            for folder in folders:
                folder.rmdir()  # fails if it has other files by now


def kwok_stages(plane: ControlPlane) -> Path:
    """Write the stages by which kwok plays kubelets that start every pod at once."""
    folder = module_folder("kwok") / "kustomize" / "stage"
    texts = [(folder / f"{name}.yaml").read_text(encoding="utf-8") for name in _STAGES]
    file = plane.folder / "stages.yaml"
    file.write_text("\n---\n".join((*texts, _ENDS)), encoding="utf-8")
    return file


def start_training_operator(plane: ControlPlane, *, scheduler: str) -> Process:
    """Start the operator, and return it once it works on every kind of job.

    Args:
        plane: The control plane, with the definition of PodGroups of scheduling.x-k8s.io.
        scheduler: The ``schedulerName`` of the pods that it creates.
    """
    import yaml

    (program,) = programs(["training-operator.v1"]).values()
    module = module_folder("training-operator")
    for job in _JOBS:
        file = module / "manifests" / "base" / "crds" / f"kubeflow.org_{job}jobs.yaml"
        definition = yaml.safe_load(file.read_text(encoding="utf-8"))
        definition.pop("status", None)
        plane.admin.create(_CRDS, definition)
    plane.admin.create("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    secrets = f"/api/v1/namespaces/{_NAMESPACE}/secrets"
    plane.admin.create(secrets, {"metadata": {"name": _CERTIFICATE}})
    webhooks: dict[str, Any] = {"metadata": {"name": "validator.training-operator.kubeflow.org"}}
    registration = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    plane.admin.create(registration, {**webhooks, "webhooks": []})
    own = plane.folder / "training-operator"
    (own / _SERVED).mkdir(parents=True)
    shutil.copyfile(plane.ca, own / _SERVED / "tls.crt")
    shutil.copyfile(plane.key, own / _SERVED / "tls.key")
    metrics, health, webhook = free_ports(3)
    log = plane.folder / "training-operator.log"
    process = Process(
        program,
        [
            f"--gang-scheduler-name={scheduler}",
            f"--kubeconfig={plane.kubeconfig('training-operator')}",
            f"-metrics-bind-address=127.0.0.1:{metrics}",
            f"-health-probe-bind-address=127.0.0.1:{health}",
            f"-webhook-server-port={webhook}",
        ],
        log,
        environment={**os.environ, "TMPDIR": str(own)},
    )
    plane.beside(process)
    process.wait_until(lambda: _works(log))
    return process


def _works(log: Path) -> bool:
    """Return whether the controller of each kind of job works, by the log of the operator."""
    text = log.read_text(encoding="utf-8")
    return all(re.search(f"Starting workers.*{job}job", text) for job in _JOBS)
