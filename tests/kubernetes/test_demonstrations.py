"""The demonstrations of examples/on-a-cluster: every part real but the kubelets."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.control_plane.fixtures import need_control_plane
from support.examples import IS_DEEP
from support.on_a_cluster import DEMONSTRATIONS, OnACluster

pytestmark = pytest.mark.once("the gangs are those of job controllers")

STOCK = {"stock": 3, "stock-pytorchjob": 2, "stock-mpijob": 3, "stock-job": 2, "stock-volcano": 2}
"""By the name of a demonstration of the stock scheduler, how many pods of the job it starts."""
PLAIN = ("job", "volcano", "stock-job", "stock-volcano")
ALL = DEMONSTRATIONS.keys()
PLAYED = ALL if IS_DEEP else ALL - (STOCK.keys() - {"stock"}) - {"job"}
"""Profiles other than ``deep`` leave out what the stock scheduler does with each kind of job, and
the one that is shown from a clone; see ``test_demonstration_from_a_clone``."""


@pytest.mark.parametrize("job", sorted(PLAYED & {*PLAIN}))
def test_demonstration_shows_what_it_says(job: str, tmp_path: Path) -> None:
    _show(job, tmp_path)


@pytest.mark.parametrize("job", sorted(PLAYED - {*PLAIN}))
def test_demonstration_with_an_operator_shows_what_it_says(job: str, tmp_path: Path) -> None:
    """One worker runs them, since one operator runs at a time on a machine."""
    _show(job, tmp_path, "training-operator.v1")


def _show(job: str, tmp_path: Path, *operator: str) -> None:
    need_control_plane("kube-controller-manager", "kwok", "kubectl", "helm", *operator)
    said: list[str] = []
    with OnACluster(tmp_path, say=said.append) as cluster:
        DEMONSTRATIONS[job](cluster)
        for process in cluster.installed.started:
            assert "forbidden" not in process.log.read_text(encoding="utf-8")
    text = "\n".join(said)
    if job in STOCK:
        assert text.count("Pending ") == 2
        assert text.count("Running ") == STOCK[job]
        assert "holds all four GPUs" in text
    else:
        pending, _, running = text.partition("gpu-node-2, gpu-node-3")
        assert "Running " not in pending
        assert "would start" in pending
        assert "Pending " not in running
    if job == "extender":
        assert "the extender runs at https://" in text
