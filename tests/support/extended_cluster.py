"""A stock kube-scheduler with this library's extender, as processes beside a control plane.

Rules:
  R1  kube-scheduler has no feature gates: it is the one that every cluster has;
  R2  its configuration is that of ``examples/on-a-cluster/kube-scheduler-with-extender.yaml``, with
      the address of this run, so the example is what is tested.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from support.control_plane import ControlPlane, Process
from support.control_plane.client import Client
from support.control_plane.processes import free_ports
from support.documents import ROOT

__all__ = ["EXAMPLE", "extended_configuration", "start_extender"]

EXAMPLE: Final = ROOT / "examples" / "on-a-cluster" / "kube-scheduler-with-extender.yaml"


def extended_configuration(
    url: str, names: Sequence[str], tls: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the fields of the example's ``KubeSchedulerConfiguration`` for a run.

    Args:
        url: Where the extender is.
        names: The ``schedulerName`` of each profile.
        tls: The example's ``tlsConfig`` with the files of this run; None for plain HTTP.
    """
    example: Mapping[str, Any] = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    (extender,) = example["extenders"]
    found = {key: example[key] for key in ("podInitialBackoffSeconds", "podMaxBackoffSeconds")}
    secure = ("enableHTTPS", "tlsConfig")
    kept = {key: value for key, value in extender.items() if key not in secure}
    if tls is not None:
        assert tls.keys() >= extender["tlsConfig"].keys()
        kept.update(enableHTTPS=extender["enableHTTPS"], tlsConfig=dict(tls))
    return {
        **found,
        "profiles": [{"schedulerName": name} for name in names],
        "extenders": [{**kept, "urlPrefix": url}],
    }


def start_extender(
    plane: ControlPlane,
    folder: Path,
    *,
    names: Sequence[str] = ("default-scheduler",),
    kubeconfig: Path | None = None,
    more: Sequence[str] = (),
    pages: int | None = None,
) -> tuple[Process, str]:
    """Start the extender, and return it with its address once it is ready.

    Args:
        plane: The control plane.
        folder: Where its log is written.
        names: The values of ``schedulerName`` whose gangs it decides.
        kubeconfig: How it reaches the API server; None for the administrator.
        more: Further arguments; with ``--tls-cert`` the address is that of HTTPS.
        pages: The port of ``/metrics``; None for a free one.
    """
    verbs, free = free_ports(2)
    pages = free if pages is None else pages
    found = kubeconfig or plane.kubeconfig("extender")
    arguments = ["-m", "gangsched.cli", "extender", f"--kubeconfig={found}", f"--port={verbs}"]
    arguments += ["--bind-address=127.0.0.1", f"--serve=127.0.0.1:{pages}", "--no-leader-elect"]
    arguments += [*(f"--scheduler-name={name}" for name in names), *more]
    process = Process(Path(sys.executable), arguments, folder / "extender.log")
    plane.beside(process)
    with Client(f"http://127.0.0.1:{pages}") as probe:
        process.wait_until(lambda: probe.raw("GET", "/readyz")[0] == 200)
    scheme = "https" if any(each.startswith("--tls-cert") for each in more) else "http"
    return process, f"{scheme}://127.0.0.1:{verbs}"
