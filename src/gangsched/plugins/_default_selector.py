"""Which pods belong together with a pod, as the services and controllers of the cluster say.

Rules:
  R1  the result is that of ``DefaultSelector`` in kube-scheduler 1.36: the conditions of all
      services that select the pod, and those of the controller that owns it;
  R2  a controller counts if it is a replication controller, a replica set or a stateful set, in the
      version that kube-scheduler reads, and if it is known.
"""

from __future__ import annotations

from typing import Final

from gangsched.cluster_objects import (
    ClusterObject,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    services_of,
)
from gangsched.constraints import LabelSelector, LabelSelectorRequirement
from gangsched.model import Pod
from gangsched.protocols import ObjectsView

__all__ = ["SETS_OF_PODS", "default_selector", "spread_controller"]

SETS_OF_PODS: Final[tuple[type[ClusterObject], ...]] = (
    *(Service, ReplicationController, ReplicaSet, StatefulSet),
)
"""The classes of objects that are read."""

_REPLICATION_CONTROLLER: Final = "v1/ReplicationController"
_SETS: Final[dict[str, type[ReplicaSet | StatefulSet]]] = {
    "apps/v1/ReplicaSet": ReplicaSet,
    "apps/v1/StatefulSet": StatefulSet,
}


def spread_controller(pod: Pod) -> str:
    """Return the controller of a pod if its selector is read; else an empty string."""
    kind = pod.controller.rpartition("/")[0]
    return pod.controller if kind == _REPLICATION_CONTROLLER or kind in _SETS else ""


def default_selector(objects: ObjectsView, pod: Pod) -> LabelSelector | None:
    """Return which pods of its namespace belong together with a pod; None if nothing says so.

    Runtime complexity: as ``services_of``.

    Source: ``helper.DefaultSelector`` of kube-scheduler 1.36.
    """
    labels: dict[str, str] = {}
    if pod.labels:
        for service in services_of(objects, pod.namespace, pod.labels):
            labels.update(service.selector)
    selector: LabelSelector | None = None
    kind, _slash, name = pod.controller.rpartition("/")
    key = f"{pod.namespace}/{name}"
    if kind == _REPLICATION_CONTROLLER:
        controller = objects.get(ReplicationController, key)
        if controller is not None:
            labels.update(controller.selector)
    elif kind in _SETS:
        found = objects.get(_SETS[kind], key)
        selector = None if found is None else found.selector
    if selector is None:
        return LabelSelector(labels) if labels else None
    return _both(labels, selector)


def _both(labels: dict[str, str], selector: LabelSelector) -> LabelSelector | None:
    """Return the conditions of both; conditions that contradict each other are kept."""
    together = {**selector.match_labels, **labels}
    contradicted = tuple(
        LabelSelectorRequirement(name, "In", (value,))
        for name, value in selector.match_labels.items()
        if together[name] != value
    )
    found = LabelSelector(together, (*selector.match_expressions, *contradicted))
    return None if found.is_empty else found
