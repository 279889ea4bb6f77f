"""The demonstration: a job of five pods on a cluster that is too small, until nodes are added.

    bash examples/on-a-cluster/run [DEMONSTRATION]

makes an environment for it, runs this program there, and removes it. ``--help`` has the names.

All parts are real: etcd, kube-apiserver, kube-controller-manager, Kubeflow's training operator, and
the scheduler of this library, installed by its chart. Only the kubelets are kwok's, so no container
runs. The parts are built with Go, once, which takes some minutes.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from support.on_a_cluster import DEMONSTRATIONS, OnACluster


def main() -> None:
    parser = argparse.ArgumentParser(description="Show a gang on a cluster that is too small.")
    parser.add_argument("job", nargs="?", choices=sorted(DEMONSTRATIONS), default="tfjob")
    job = parser.parse_args().job
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # all parts are stopped on the way out
    with (
        tempfile.TemporaryDirectory(prefix="on-a-cluster-") as folder,
        OnACluster(Path(folder), say=print) as cluster,
    ):
        DEMONSTRATIONS[job](cluster)


if __name__ == "__main__":
    main()
