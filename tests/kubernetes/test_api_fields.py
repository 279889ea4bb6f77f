"""The lists of fields in ``support.api_fields`` are those of the API server that is built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from support.api_fields import GROUP_SPECS, NODE, POD_SPEC
from support.control_plane import ControlPlane

pytestmark = pytest.mark.once("makes no scheduler")

CORE: Final = "io.k8s.api.core.v1"
LATER: Final = {"preemptionPolicy"}
"""The fields of native groups that came with ``v1alpha3``, in Kubernetes 1.37."""


def fields(control_plane: ControlPlane, path: str, kind: str) -> set[str]:
    """Return the names of the fields of a type, as the API server publishes them."""
    schemas: Mapping[str, Any] = control_plane.admin.get(path)["components"]["schemas"]
    return set(schemas[kind]["properties"])


def test_fields_of_pods_and_nodes_are_those_of_the_api_server(control_plane: ControlPlane) -> None:
    path = "/openapi/v3/api/v1"
    assert set(POD_SPEC) == fields(control_plane, path, f"{CORE}.PodSpec")
    spec = fields(control_plane, path, f"{CORE}.NodeSpec")
    status = fields(control_plane, path, f"{CORE}.NodeStatus")
    assert set(NODE) == {f"spec.{name}" for name in spec} | {f"status.{name}" for name in status}


def test_fields_of_native_pod_groups_are_those_of_the_api_server(
    control_plane: ControlPlane,
) -> None:
    path = "/openapi/v3/apis/scheduling.k8s.io/v1beta1"
    found = fields(control_plane, path, "io.k8s.api.scheduling.v1alpha2.PodGroupSpec")
    assert set(GROUP_SPECS["scheduling.k8s.io"]) == found | LATER
    assert not found & LATER
