"""The demonstrations of examples/on-a-cluster: every part real but the kubelets."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.control_plane.fixtures import need_control_plane
from support.on_a_cluster import DEMONSTRATIONS, OnACluster

pytestmark = pytest.mark.once("the gangs are those of job controllers")

OPERATED = ("tfjob", "pytorchjob", "mpijob", "extender", "stock")


@pytest.mark.parametrize("job", sorted(DEMONSTRATIONS))
def test_demonstration_shows_what_it_says(job: str, tmp_path: Path) -> None:
    operator = ["training-operator.v1"] if job in OPERATED else []
    need_control_plane("kube-controller-manager", "kwok", "kubectl", "helm", *operator)
    said: list[str] = []
    with OnACluster(tmp_path, say=said.append) as cluster:
        DEMONSTRATIONS[job](cluster)
        for process in cluster.installed.started:
            assert "forbidden" not in process.log.read_text(encoding="utf-8")
    text = "\n".join(said)
    if job == "stock":
        assert text.count("Pending ") == 2
    else:
        pending, _, running = text.partition("gpu-node-2, gpu-node-3")
        assert "Running " not in pending
        assert "would start" in pending
        assert "Pending " not in running
    if job == "extender":
        assert "the extender runs at https://" in text
