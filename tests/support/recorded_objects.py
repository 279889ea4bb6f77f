"""PodGroups and Workloads of two releases, as API servers return them.

Source: those of 1.37 were read from kube-apiserver 1.37.2 with ``GenericWorkload=true``. Those of
1.36 have the form of k8s.io/api v0.36.3, scheduling/v1alpha2. Field managers are left out.
"""

from __future__ import annotations

import copy
from typing import Any, Final

__all__ = ["COMPOSITE_MEMBER", "GROUPS", "WORKLOAD", "evicted_whole", "recorded"]

_FINALIZERS: Final = ["scheduling.k8s.io/podgroup-protection"]
_OF_1_36: Final[dict[str, Any]] = {
    "kind": "PodGroup",
    "apiVersion": "scheduling.k8s.io/v1alpha2",
    "metadata": {
        "name": "g",
        "namespace": "default",
        "uid": "5b4f8a0e-51b7-4c53-a8f2-0a41f86b9a3c",
        "resourceVersion": "218",
        "creationTimestamp": "2026-08-20T09:44:03Z",
        "finalizers": _FINALIZERS,
    },
    "spec": {
        "podGroupTemplateRef": {
            "workload": {"workloadName": "w", "podGroupTemplateName": "workers"}
        },
        "schedulingPolicy": {"gang": {"minCount": 3}},
    },
    "status": {},
}
_OF_1_37: Final[dict[str, Any]] = {
    "kind": "PodGroup",
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "metadata": {
        "name": "g",
        "namespace": "default",
        "uid": "97602773-16cf-4b6b-a13b-4c92c8c5d220",
        "resourceVersion": "218",
        "creationTimestamp": "2026-11-27T09:44:03Z",
        "finalizers": _FINALIZERS,
    },
    "spec": {
        "workloadRef": {"workloadName": "w", "templateName": "workers"},
        "schedulingPolicy": {"gang": {"minCount": 3}},
        "disruptionMode": {"single": {}},
        "priority": 0,
    },
    "status": {},
}

GROUPS: Final = {
    "v1alpha2": _OF_1_36,
    "v1alpha3": {**_OF_1_37, "apiVersion": "scheduling.k8s.io/v1alpha3"},
    "v1beta1": _OF_1_37,
}
"""The same group with a minimum of 3, by version of ``scheduling.k8s.io``."""

_WHOLE: Final[dict[str, object]] = {
    "v1alpha2": "PodGroup",
    "v1alpha3": {"all": {}},
    "v1beta1": {"all": {}},
}

WORKLOAD: Final[dict[str, Any]] = {
    "kind": "Workload",
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "metadata": {
        "name": "w",
        "namespace": "default",
        "uid": "2de179f5-6560-41dc-a1fb-f7a705d42b32",
        "resourceVersion": "217",
        "creationTimestamp": "2026-11-27T09:44:03Z",
    },
    "spec": {
        "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "w"},
        "podGroupTemplates": [
            {
                "name": "workers",
                "schedulingPolicy": {"gang": {"minCount": 3}},
                "schedulingConstraints": None,
            }
        ],
    },
}
"""The workload from whose template the groups were made."""

COMPOSITE_MEMBER: Final[dict[str, Any]] = {
    **_OF_1_37,
    "spec": {**_OF_1_37["spec"], "parentCompositePodGroupName": "tree"},
}
"""A group in a composite pod group, with the gate ``CompositePodGroup``."""


def recorded(version: str) -> dict[str, Any]:
    """Return a copy of the group of a version."""
    return copy.deepcopy(GROUPS[version])


def evicted_whole(version: str) -> dict[str, Any]:
    """Return the group of a version whose members are evicted together."""
    found = recorded(version)
    found["spec"]["disruptionMode"] = _WHOLE[version]
    return found
