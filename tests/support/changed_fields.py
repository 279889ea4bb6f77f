"""For each field of Pod, PodGroup and Node, values between which a change is drawn.

Rules:
  R1  each table names every field that is not an identity; ``check_complete`` fails for a field
      that is in none, so that a new field is not forgotten;
  R2  the first value is the default of the field, and each pair of values differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import fields

from gangsched import (
    ContainerImage,
    Disk,
    HostPort,
    LabelSelector,
    Node,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodGroup,
    PodPhase,
    PreemptionPolicy,
    PreferredSchedulingTerm,
    RestartPolicy,
    Taint,
    Toleration,
    Topology,
    TopologySpreadConstraint,
    VolumeClaim,
    WeightedPodAffinityTerm,
    WhenUnsatisfiable,
)
from gangsched.cluster_objects import Service
from gangsched.model import LabelledRole

__all__ = ["GROUP", "IDENTITY", "NODE", "OBJECTS", "POD", "check_complete", "missing_fields"]

IDENTITY: Final[Mapping[type[Any], frozenset[str]]] = {
    Pod: frozenset({"uid", "name", "namespace"}),
    PodGroup: frozenset({"name", "namespace", "min_groups"}),
    Node: frozenset({"name"}),
}
"""An object with another value in one of these is another object."""

OBJECTS: Final = (Service(name="web", selector={"app": "web"}),)
"""The objects that constraints refer to."""


def _in_rack(rack: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(requirements=[NodeSelectorRequirement("rack", "In", [rack])])


def _beside(app: str, key: str = "rack") -> PodAffinityTerm:
    return PodAffinityTerm(
        topology_key=key, label_selector=LabelSelector(match_labels={"app": app})
    )


def _spread(app: str, when: WhenUnsatisfiable) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        max_skew=1,
        topology_key="rack",
        when_unsatisfiable=when,
        label_selector=LabelSelector(match_labels={"app": app}),
    )


_GROUP_LABEL: Final = "pod-group.scheduling.sigs.k8s.io/name"

POD: Final[Mapping[str, tuple[Any, ...]]] = {
    "priority": (0, 3, 9),
    "requests": ({"cpu": 1}, {"cpu": 2}, {"cpu": 3}, {"cpu": 1, "gpu": 1}, {"cpu": 4}),
    "limits": ({}, {"cpu": 1}, {"cpu": 1, "memory": 1}),
    "labels": (
        {},
        {"app": "web"},
        {"app": "db"},
        {_GROUP_LABEL: "h"},
        {"app": "web", _GROUP_LABEL: "g"},
    ),
    "annotations": ({}, {"note": "x"}, {"scheduling.k8s.io/group-name": "h"}),
    "node_selector": ({}, {"rack": "a"}, {"rack": "b"}, {"rack": "none"}),
    "affinity": ((), (_in_rack("a"),), (_in_rack("b"),)),
    "tolerations": ((), (Toleration(key="reserved", exists=True),)),
    "pod_group": (None, "g", "h"),
    "min_available": (None, 1, 2, 3),
    "role": (None, "worker", "driver"),
    "queue": (None, "q", "other"),
    "scheduling_gates": ((), ("kueue",), ("kueue", "other")),
    "owners": ((), ("web",)),
    "controller": ("", "apps/v1/ReplicaSet/web", "apps/v1/ReplicaSet/db"),
    "node_name": (None, "n0", "n3"),
    "phase": (PodPhase.PENDING, PodPhase.SUCCEEDED, PodPhase.FAILED, PodPhase.UNKNOWN),
    "deleted_at": (None, 5.0, 10_000.0),
    "created_at": (0.0, -5.0, 5.0),
    "preemption_policy": (PreemptionPolicy.PREEMPT_LOWER_PRIORITY, PreemptionPolicy.NEVER),
    "preferred_node_affinity": (
        (),
        (PreferredSchedulingTerm(weight=50, preference=_in_rack("a")),),
        (PreferredSchedulingTerm(weight=50, preference=_in_rack("b")),),
    ),
    "pod_affinity": ((), (_beside("web"),), (_beside("db"),)),
    "preferred_pod_affinity": (
        (),
        (WeightedPodAffinityTerm(weight=50, pod_affinity_term=_beside("web")),),
        (WeightedPodAffinityTerm(weight=50, pod_affinity_term=_beside("db")),),
    ),
    "pod_anti_affinity": ((), (_beside("web"),), (_beside("db"),)),
    "preferred_pod_anti_affinity": (
        (),
        (WeightedPodAffinityTerm(weight=50, pod_affinity_term=_beside("web")),),
        (WeightedPodAffinityTerm(weight=50, pod_affinity_term=_beside("db")),),
    ),
    "topology_spread_constraints": (
        (),
        (_spread("web", WhenUnsatisfiable.DO_NOT_SCHEDULE),),
        (_spread("db", WhenUnsatisfiable.DO_NOT_SCHEDULE),),
        (_spread("web", WhenUnsatisfiable.SCHEDULE_ANYWAY),),
    ),
    "host_ports": ((), (HostPort(host_port=80),), (HostPort(host_port=81),)),
    "images": ((), ("web:1",), ("db:1",)),
    "image_volumes": ((), ("web:1",)),
    "required_features": ((), ("Fast",), ("Slow",)),
    "volume_claims": ((), (VolumeClaim(name="data"),)),
    "disks": ((), (Disk("gcePersistentDisk", "disk"),)),
    "unmodelled": ((), ("spec.unknown",)),
}
GROUP: Final[Mapping[str, tuple[Any, ...]]] = {
    "roles": ({}, {"worker": 1}, {"worker": 2}, {"driver": 1}),
    "min_available": (2, 1, 3),
    "schedule_timeout": (None, 0.0, 30.0),
    "min_resources": ({}, {"cpu": 5}, {"cpu": 50}, {"gpu": 1}),
    "priority": (None, 3, 9),
    "queue": (None, "q", "other"),
    "created_at": (0.0, -5.0, 5.0),
    "topology": (None, Topology("rack"), Topology("rack", required=False), Topology("zone")),
    "parent": (None, "default/h", "default/missing"),
    "bundle": ((), ("default/g", "default/h"), ("default/g", "default/missing")),
    "preemption_policy": (
        None,
        PreemptionPolicy.NEVER,
        PreemptionPolicy.PREEMPT_LOWER_PRIORITY,
    ),
    "evicted_whole": (False, True),
    "restart": (None, RestartPolicy(), RestartPolicy(max_restarts=1, repair=True)),
    "restarts": (0, 1, 7),
    "restarting_until": (None, 50.0, 500.0),
    "copy_restarts": ({}, {"worker": (1, 50.0)}, {"worker": (2, None)}),
    "labelled_roles": (
        (),
        (LabelledRole("worker", LabelSelector({"app": "a"})),),
        (LabelledRole("driver"),),
    ),
    "spares": (0, 1, 3),
    "unmodelled": ((), ("spec.unknown",)),
}
NODE: Final[Mapping[str, tuple[Any, ...]]] = {
    "allocatable": (
        {"cpu": 3, "pods": 9},
        {"cpu": 1, "pods": 9},
        {"cpu": 9, "pods": 9},
        {"cpu": 9, "pods": 1},
        {"cpu": 9, "gpu": 1},
    ),
    "labels": ({}, {"rack": "a"}, {"rack": "b"}, {"rack": "b", "zone": "z"}),
    "taints": ((), (Taint(key="reserved"),), (Taint(key="other"),)),
    "unschedulable": (False, True),
    "images": ((), (ContainerImage(names=["web:1"], size_bytes=900_000_000),)),
    "declared_features": ((), ("Fast",), ("Fast", "Slow")),
}
_TABLES: Final[Mapping[type[Any], Mapping[str, tuple[Any, ...]]]] = {
    Pod: POD,
    PodGroup: GROUP,
    Node: NODE,
}


def missing_fields(model: type[Any], table: Mapping[str, tuple[Any, ...]]) -> set[str]:
    """Return the fields of a model between whose values no change is drawn."""
    names = {each.name for each in fields(model)} - IDENTITY.get(model, frozenset())
    return {name for name in names if len(table.get(name, ())) < 2}


def check_complete() -> None:
    """Fail for a field that has no drawn change, and for one that is gone."""
    for model, table in _TABLES.items():
        assert not missing_fields(model, table), model
        assert table.keys() <= {each.name for each in fields(model)}, model
