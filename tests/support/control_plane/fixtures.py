"""What tests of a real control plane ask for; a folder's ``conftest.py`` imports these names.

Nothing starts unless ``GANGSCHED_CONTROL_PLANE=1`` is set: the first build takes minutes, and the
plain test command must need neither Go nor these minutes. A test that asks for a control plane is
skipped with that reason. With ``GANGSCHED_CONTROL_PLANE=required`` it fails where nothing can be
built, so that a check which relies on these tests cannot pass without them.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.control_plane.client import ApiError
from support.control_plane.cluster import ControlPlane
from support.control_plane.programs import NoToolchain, programs

__all__ = ["SWITCH", "control_plane", "namespace", "need_control_plane"]

SWITCH: Final = "GANGSCHED_CONTROL_PLANE"
_numbers = itertools.count(1)


def need_control_plane(*names: str) -> None:
    """Skip the running test if a control plane is not wanted, or cannot be built here.

    Args:
        names: Further programs that the test starts.
    """
    wanted = os.environ.get(SWITCH, "0")
    if wanted in ("", "0"):
        pytest.skip(f"starts a Kubernetes control plane, which needs Go; set {SWITCH}=1")
    try:
        programs(["etcd", "kube-apiserver", "kube-scheduler", *names])
    except NoToolchain as error:
        if wanted == "required":
            raise
        pytest.skip(f"the control plane cannot be built: {error}")


@pytest.fixture(scope="session")
def control_plane(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[ControlPlane]:
    """A control plane of the whole run; its logs stay in the temporary folder if a test fails."""
    need_control_plane()
    folder: Path = tmp_path_factory.mktemp("control-plane")
    failed_before = request.session.testsfailed
    with ControlPlane(folder) as running:
        yield running
    if request.session.testsfailed == failed_before:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"\nlogs of the control plane: {folder}")


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    """A namespace of the running test; its pods are deleted afterwards, it stays."""
    name = f"test-{next(_numbers)}"
    admin = control_plane.admin
    admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    for group, kind in (("api/v1", "pods"), ("apis/scheduling.k8s.io/v1beta1", "podgroups")):
        try:
            path = f"/{group}/namespaces/{name}/{kind}"
            admin.delete(path, {"gracePeriodSeconds": 0})
        except ApiError as error:
            if error.status != 404:
                raise
