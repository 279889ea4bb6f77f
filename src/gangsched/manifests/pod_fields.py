"""The fields of a pod's specification: which are read, which restrict no node, which hold the pod.

Rules:
  R1  the table has each field of Kubernetes 1.37. A field that is not in it, such as one of a
      later version, may be a constraint: a pending pod with such a field is *held*. A held pod
      counts as gated;
  R2  a field that is read has a schema. A field in it that the schema lacks holds the pod too.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from gangsched.manifests.fields import Field
from gangsched.manifests.pod_volumes import unknown_volumes

__all__ = [
    "HELD_WITHIN",
    "POD_FIELDS",
    "POD_SCHEMAS",
    "Schema",
    "Treatment",
    "unknown",
    "unmodelled",
]


class Treatment(enum.Enum):
    """What the library makes of a field."""

    HONOURED = "honoured"
    HELD = "held"
    FREE = "restricts no node"


Schema: TypeAlias = "Mapping[str, Any]"
"""The fields that are read, each with the schema of what is in it, or None."""

_SELECTOR: Final[Schema] = {
    "matchLabels": None,
    "matchExpressions": {"key": None, "operator": None, "values": None},
}
_NODE_TERM: Final[Schema] = {
    "matchExpressions": {"key": None, "operator": None, "values": None},
    "matchFields": {"key": None, "operator": None, "values": None},
}
_POD_TERM: Final[Schema] = {
    "topologyKey": None,
    "labelSelector": _SELECTOR,
    "namespaces": None,
    "namespaceSelector": _SELECTOR,
    "matchLabelKeys": None,
    "mismatchLabelKeys": None,
}
# Unknown fields of a preference hold no pod: a preference restricts no node.
_POD_AFFINITY: Final[Schema] = {
    "requiredDuringSchedulingIgnoredDuringExecution": _POD_TERM,
    "preferredDuringSchedulingIgnoredDuringExecution": None,
}
POD_SCHEMAS: Final[Mapping[str, Schema | None]] = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": _NODE_TERM},
            "preferredDuringSchedulingIgnoredDuringExecution": None,
        },
        "podAffinity": _POD_AFFINITY,
        "podAntiAffinity": _POD_AFFINITY,
    },
    "containers": None,
    "hostNetwork": None,
    "hostUsers": None,
    "initContainers": None,
    "nodeName": None,
    "nodeSelector": None,
    "overhead": None,
    "preemptionPolicy": None,
    "priority": None,
    "priorityClassName": None,
    "resources": {"limits": None, "requests": None},
    "runtimeClassName": None,
    "schedulerName": None,
    "schedulingGates": {"name": None},
    "schedulingGroup": {"podGroupName": None},
    "tolerations": {
        "key": None,
        "operator": None,
        "value": None,
        "effect": None,
        "tolerationSeconds": None,
    },
    "topologySpreadConstraints": {
        "maxSkew": None,
        "topologyKey": None,
        "whenUnsatisfiable": None,
        "labelSelector": _SELECTOR,
        "minDomains": None,
        "nodeAffinityPolicy": None,
        "nodeTaintsPolicy": None,
        "matchLabelKeys": None,
    },
    "volumes": None,
}
"""The fields that are read; with the fields in them, each of which is read too."""
_HELD: Final = ("resourceClaims", "workloadRef")
HELD_WITHIN: Final = ("containers.resources.claims", "initContainers.resources.claims")
"""The fields that hold a pod and are in a field that is read."""
_FREE: Final = (
    *("activeDeadlineSeconds", "automountServiceAccountToken", "dnsConfig", "dnsPolicy"),
    *("enableServiceLinks", "ephemeralContainers", "evictionResponders", "hostAliases"),
    *("hostIPC", "hostPID"),
    *("hostname", "hostnameOverride", "imagePullSecrets", "os", "readinessGates"),
    *("restartPolicy", "securityContext", "serviceAccount", "serviceAccountName"),
    *("setHostnameAsFQDN", "shareProcessNamespace", "subdomain"),
    *("terminationGracePeriodSeconds",),
)

POD_FIELDS: Final[Mapping[str, Treatment]] = {
    **dict.fromkeys(POD_SCHEMAS, Treatment.HONOURED),
    **dict.fromkeys(_HELD, Treatment.HELD),
    **dict.fromkeys(_FREE, Treatment.FREE),
}
"""What becomes of each field of a pod's specification."""

_EMPTY: Final[tuple[Any, ...]] = (None, [], {}, "")


def unmodelled(spec: Field) -> Iterator[Field]:
    """Yield the fields that may restrict the nodes of a pod, and that are not modelled."""
    for name, field in spec.entries():
        if field.value in _EMPTY:
            continue
        treatment = POD_FIELDS.get(name, Treatment.HELD)
        if treatment is Treatment.HELD:
            yield field
        schema = POD_SCHEMAS.get(name)
        if schema is not None:
            yield from unknown(field, schema)
    yield from unknown_volumes(spec["volumes"])
    for container in (*spec["containers"].elements(), *spec["initContainers"].elements()):
        claims = container["resources"]["claims"]
        if claims.value not in _EMPTY:
            yield claims


def unknown(field: Field, schema: Schema) -> Iterator[Field]:
    """Yield the fields in a mapping, or in each of a list, that a schema lacks.

    Raises:
        ManifestError: The field is neither a mapping nor a list of mappings.
    """
    if isinstance(field.value, list):
        for each in field.elements():
            yield from unknown(each, schema)
        return
    for name, inner in field.entries():
        if inner.value in _EMPTY:
            continue
        if name not in schema:
            yield inner
        elif schema[name] is not None:
            yield from unknown(inner, schema[name])
