"""PodGroups and Workloads of two releases, as API servers return them.

Source: those of 1.37 were read from kube-apiserver 1.37.2 with ``GenericWorkload=true``, those of
a tree with the gates ``CompositePodGroup``, ``TopologyAwareWorkloadScheduling`` and
``PodGroupPreemptionPolicy`` too. Those of 1.36 have the form of k8s.io/api v0.36.3,
scheduling/v1alpha2. Field managers are left out.
"""

from __future__ import annotations

import copy
from typing import Any, Final

__all__ = ["GROUPS", "TREE", "WORKLOAD", "evicted_whole", "recorded"]

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


def _in_a_tree(kind: str, metadata: dict[str, Any], template: str, **spec: Any) -> dict[str, Any]:
    composite = kind == "CompositePodGroup"
    finalizers = {} if composite else {"finalizers": _FINALIZERS}
    common = {"namespace": "default", "creationTimestamp": "2026-11-29T16:51:14Z", **finalizers}
    return {
        "kind": kind,
        "apiVersion": f"scheduling.k8s.io/{'v1alpha3' if composite else 'v1beta1'}",
        "metadata": metadata | common,
        "spec": {
            **spec,
            "workloadRef": {"workloadName": "w", "templateName": template},
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {},
    }


TREE: Final = {
    "root": _in_a_tree(
        "CompositePodGroup",
        {"name": "serve", "uid": "278b29c8-c8e7-4712-9885-b51a610fe17c", "resourceVersion": "68"},
        template="root",
        schedulingPolicy={"gang": {"minGroupCount": 2}},
        schedulingConstraints={"topology": [{"key": "topology/block"}]},
        disruptionMode={"single": {}},
        priorityClassName="high",
        priority=1000,
    ),
    "nested": _in_a_tree(
        "CompositePodGroup",
        {"name": "decode", "uid": "1f40b02d-65b7-4bda-8416-f5595b182d5c", "resourceVersion": "69"},
        template="root",
        parentCompositePodGroupName="serve",
        schedulingPolicy={"basic": {}},
        disruptionMode={"all": {}},
        priority=0,
    ),
    "leaf": _in_a_tree(
        "PodGroup",
        {
            "name": "decode-0",
            "uid": "1cba3ac9-5304-43ef-bd20-7129c5b1139a",
            "resourceVersion": "70",
        },
        template="decode",
        parentCompositePodGroupName="serve",
        schedulingPolicy={"gang": {"minCount": 2}},
        schedulingConstraints={"topology": [{"key": "topology/rack"}]},
        disruptionMode={"single": {}},
        priorityClassName="high",
        priority=1000,
    ),
}
"""A root and two groups directly below it."""


def recorded(version: str) -> dict[str, Any]:
    """Return a copy of the group of a version."""
    return copy.deepcopy(GROUPS[version])


def evicted_whole(version: str) -> dict[str, Any]:
    """Return the group of a version whose members are evicted together."""
    found = recorded(version)
    found["spec"]["disruptionMode"] = _WHOLE[version]
    return found
