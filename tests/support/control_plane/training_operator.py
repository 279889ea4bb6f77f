"""Kubeflow's training operator on a control plane, and the definitions that it works on.

Rules:
  R1  manifests are those of the modules that the programs are built from, never copies;
  R2  the operator wants a webhook configuration to put its certificate into, and its certificate as
      files. It gets both, and no webhook: nothing here can call one;
  R3  the folder of these files is fixed in the program. So one operator runs at a time on a
      machine, and the folder is removed with it.
"""

from __future__ import annotations

import base64
import fcntl
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from support.control_plane.cluster import ControlPlane
from support.control_plane.processes import Process, free_ports
from support.control_plane.programs import cache_folder, module_folder, programs

__all__ = ["kwok_stages", "one_operator", "start_training_operator"]

_JOBS: Final = ("tf", "pytorch", "mpi", "mx", "paddle", "xgboost")
_FILES: Final = Path(tempfile.gettempdir(), "k8s-webhook-server", "serving-certs")
_NAMESPACE: Final = "kubeflow"
_CERTIFICATE: Final = "training-operator-webhook-cert"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_STAGES: Final = (
    # without pod-complete: pods of a Job would have ended before they are seen to run
    *("pod/fast/pod-ready", "pod/fast/pod-delete"),
    *("node/fast/node-initialize", "node/heartbeat/node-heartbeat"),
)


@contextmanager
def one_operator() -> Iterator[None]:
    """Wait until no other operator runs; afterwards remove what it needed outside of its folder."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / ".operator").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # freed when the file is closed, also by a crash
        try:
            yield
        finally:
            shutil.rmtree(_FILES.parent, ignore_errors=True)


def kwok_stages(plane: ControlPlane) -> Path:
    """Write the stages by which kwok plays kubelets that start every pod at once."""
    folder = module_folder("kwok", "sigs.k8s.io/kwok") / "kustomize" / "stage"
    texts = [(folder / f"{name}.yaml").read_text(encoding="utf-8") for name in _STAGES]
    file = plane.folder / "stages.yaml"
    file.write_text("\n---\n".join(texts), encoding="utf-8")
    return file


def start_training_operator(plane: ControlPlane, *, scheduler: str) -> Process:
    """Start the operator, and return it once it works on every kind of job.

    Args:
        plane: The control plane, with the definition of PodGroups of scheduling.x-k8s.io.
        scheduler: The ``schedulerName`` of the pods that it creates.
    """
    import yaml

    (program,) = programs(["training-operator.v1"]).values()
    module = module_folder("training-operator", "github.com/kubeflow/training-operator")
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
    )
    plane.beside(process)
    until = time.monotonic() + 60
    while not (data := plane.admin.get(f"{secrets}/{_CERTIFICATE}").get("data")):
        if time.monotonic() > until:
            raise AssertionError(f"the operator has made no certificate: {process.log_tail()}")
        time.sleep(0.1)
    _FILES.mkdir(parents=True, exist_ok=True)
    for name, content in data.items():
        (_FILES / name).write_bytes(base64.b64decode(content))
    process.wait_until(lambda: _works(log), timeout=120.0)
    return process


def _works(log: Path) -> bool:
    """Return whether the controller of each kind of job works, by the log of the operator."""
    text = log.read_text(encoding="utf-8")
    return all(re.search(f"Starting workers.*{job}job", text) for job in _JOBS)
