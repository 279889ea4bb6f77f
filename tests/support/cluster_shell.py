"""A cluster that stays until it is interrupted, for a person with a shell of their own.

Rules:
  R1  etcd, kube-apiserver, kube-controller-manager and kwok run, without nodes and without a
      scheduler. kwok makes each node ready and keeps it so, and starts each pod that has a node;
  R2  two lines, ``export PATH`` and ``export KUBECONFIG``, are all that another shell needs:
      ``kubectl``, ``kubectl gang`` and ``gangsched`` are found, and reach this cluster;
  R3  nothing is left: the folder and the processes are those of the control plane.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from support.control_plane import ControlPlane, programs
from support.control_plane.training_operator import kwok_stages
from support.root import ROOT

__all__ = ["SHELL_PROGRAMS", "serve_shell", "shell_tools"]

SHELL_PROGRAMS: Final = ("kube-controller-manager", "kubectl", "kwok")
"""The programs beside etcd and kube-apiserver."""
_PYTHON: Final = {"gangsched": "gangsched.cli", "kubectl-gang": "gangsched.cli._kubectl"}


def shell_tools(folder: Path) -> Path:
    """Make a folder for the PATH with ``kubectl``, its command ``gang``, and ``gangsched``."""
    folder.mkdir()
    (folder / "kubectl").symlink_to(programs(["kubectl"])["kubectl"])
    source = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    for name, module in _PYTHON.items():
        code = f"import sys; from {module} import main; sys.exit(main())"
        command = shlex.join(
            ["env", f"PYTHONPATH={source}", "PYTHONDONTWRITEBYTECODE=1", sys.executable, "-c", code]
        )
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    return folder


def serve_shell(folder: Path, *, say: Callable[[str], object], wait: Callable[[], object]) -> None:
    """Start a cluster, say how it is reached, and stop it once *wait* returns or raises.

    Args:
        folder: An empty folder for everything.
        say: Called with each line for the person.
        wait: Waits for the end.
    """
    programs(SHELL_PROGRAMS)  # what has to be built is built before anything runs
    with ControlPlane(folder / "control-plane") as plane:
        # the feature gate takes the finalizer off Kubernetes' own PodGroups
        plane.start_controller_manager(
            "*,-nodelifecycle,-nodeipam", "--feature-gates=GenericWorkload=true"
        )
        plane.start_kwok(kwok_stages(plane))
        tools = shlex.quote(str(shell_tools(folder / "bin")))
        config = shlex.quote(str(plane.kubeconfig("person")))
        say("# The cluster runs, without nodes and without a scheduler. In each other shell:\n")
        say(f'export PATH={tools}:"$PATH"')
        say(f"export KUBECONFIG={config}\n")
        say("# Nodes are objects: kubectl apply -f nodes.yaml. No container runs.")
        say("# Ctrl-C here stops the cluster and removes it.")
        wait()
