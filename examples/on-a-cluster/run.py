"""The demonstration: a job of five pods on a cluster that is too small, until nodes are added.

    bash examples/on-a-cluster/run [DEMONSTRATION]

makes an environment for it, runs this program there, and removes it. ``--help`` has the names.
``shell`` shows nothing: it starts a cluster that stays until Ctrl-C, for a shell of yours.

All parts are real: etcd, kube-apiserver, kube-controller-manager, Kubeflow's training operator, and
the scheduler of this library, installed by its chart. Only the kubelets are kwok's, so no container
runs. The parts are built with Go, once, which takes some minutes.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.cluster_shell import serve_shell
from support.on_a_cluster import DEMONSTRATIONS, OnACluster

_SHELL = "shell"


def _wait() -> None:
    while True:
        time.sleep(3600.0)  # until a signal ends the process


def main() -> None:
    parser = argparse.ArgumentParser(description="Show a gang on a cluster that is too small.")
    names = sorted([*DEMONSTRATIONS, _SHELL])
    parser.add_argument("job", nargs="?", choices=names, default="tfjob")
    job = parser.parse_args().job
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # all parts are stopped on the way out
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # else the script `run` handles it
        signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    with tempfile.TemporaryDirectory(prefix="on-a-cluster-") as folder:
        if job == _SHELL:
            serve_shell(Path(folder), say=print, wait=_wait)
            return
        with OnACluster(Path(folder), say=print) as cluster:
            DEMONSTRATIONS[job](cluster)


if __name__ == "__main__":
    main()
