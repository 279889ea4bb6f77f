"""Each field of the running API server is in a table, at each depth that is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from gangsched.manifests.group_fields import CORE, CORE_SCHEMAS, WORKLOAD
from gangsched.manifests.pod_fields import POD_FIELDS, POD_SCHEMAS
from support.api_fields import GONE_FROM_GROUPS, GROUP_SPECS, NODE, POD_SPEC, WORKLOAD_SPEC
from support.control_plane import ControlPlane

pytestmark = pytest.mark.once("makes no scheduler")

POD: Final = "io.k8s.api.core.v1.PodSpec"


class Types:
    """The types that an API server publishes for one version of an API."""

    def __init__(self, control_plane: ControlPlane, path: str) -> None:
        document = control_plane.admin.get(f"/openapi/v3/{path}")
        self._schemas: Mapping[str, Any] = document["components"]["schemas"]

    def fields(self, kind: str) -> Mapping[str, Any]:
        """Return the fields of a type by name."""
        found: Mapping[str, Any] = self._schemas[kind].get("properties", {})
        return found

    def unknown(self, kind: str, schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
        """Yield the paths in a type that a schema lacks, as deep as the schema goes."""
        for name, field in self.fields(kind).items():
            at = f"{path}.{name}" if path else name
            if name not in schema:
                yield at
                continue
            inner = _type_of(field)
            if schema[name] is not None and inner is not None:
                yield from self.unknown(inner, schema[name], at)


def _type_of(field: Mapping[str, Any]) -> str | None:
    """Return the type of a field, or of the elements of a list; None for a plain value."""
    for schema in (field, field.get("items", {})):
        for each in (schema, *schema.get("allOf", ())):
            if "$ref" in each:
                reference: str = each["$ref"]
                return reference.rpartition("/")[2]
    return None


@pytest.fixture(scope="module")
def core(control_plane: ControlPlane) -> Types:
    return Types(control_plane, "api/v1")


def test_each_field_of_a_pod_is_in_the_tables(core: Types) -> None:
    found = set(core.fields(POD))
    assert found <= POD_FIELDS.keys()
    assert found == set(POD_SPEC)


def test_each_part_of_a_field_of_a_pod_that_is_read_is_in_its_schema(core: Types) -> None:
    schemas = {name: POD_SCHEMAS.get(name) for name in POD_FIELDS}
    held = ["resources.claims"]  # on purpose: devices for a pod as a whole
    assert sorted(core.unknown(POD, schemas)) == held


def test_each_field_of_a_node_is_in_the_tables(core: Types) -> None:
    spec = {f"spec.{name}" for name in core.fields("io.k8s.api.core.v1.NodeSpec")}
    status = {f"status.{name}" for name in core.fields("io.k8s.api.core.v1.NodeStatus")}
    assert spec | status == set(NODE)


def test_each_field_of_groups_and_workloads_is_in_the_tables(control_plane: ControlPlane) -> None:
    types = Types(control_plane, "apis/scheduling.k8s.io/v1beta1")
    kind = "io.k8s.api.scheduling.v1beta1"
    group = set(types.fields(f"{kind}.PodGroupSpec"))
    assert group <= CORE.keys()
    assert group | set(GONE_FROM_GROUPS) == set(GROUP_SPECS["scheduling.k8s.io"])
    assert set(types.fields(f"{kind}.WorkloadSpec")) == WORKLOAD.keys() == set(WORKLOAD_SPEC)
    schemas = {name: CORE_SCHEMAS.get(name) for name in CORE}
    assert sorted(types.unknown(f"{kind}.PodGroupSpec", schemas)) == []
