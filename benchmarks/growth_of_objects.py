"""Rows of ``growth.py``: quotas, disruption budgets, claims, volumes and services.

Rule: a row is a function that prepares a run of *n* items; see ``growth_runs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import evolve

from gangsched import LabelSelector, Pod, PodDeleted, Preemption, Quota
from gangsched.cluster_objects import (
    AccessMode,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    PriorityClass,
    StorageClass,
    VolumeSource,
)
from gangsched.constraints import NodeSelectorRequirement, NodeSelectorTerm, VolumeClaim
from gangsched.events import ObjectChanged, ObjectDeleted
from gangsched.testing import make_pod
from growth_runs import HOST, Row, Run, Shown, added, after, full, nodes, one_on_each, pods

__all__ = ["ROWS"]

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


def with_claims(given: list[Pod]) -> list[Pod]:
    """Return pods with a claim each."""
    return [evolve(pod, volume_claims=(VolumeClaim(f"c{k}"),)) for k, pod in enumerate(given)]


def quotas(n: int) -> Run:
    """Namespaces with a quota each, and a group in each that fits it."""
    limits = [Quota(name=f"q{k}", namespaces=(f"ns{k}",), hard={"cpu": 1}) for k in range(n)]
    given = [
        evolve(
            make_pod(f"p{k}", group="g", min_available=1, cpu=1), namespace=f"ns{k}", uid=f"u{k}"
        )
        for k in range(n)
    ]
    return after(nodes(n // 32 + 1), list(map(added, given)), n, quotas=limits)


def groups_that_wait_for_a_quota(n: int) -> Run:
    """Groups of one namespace whose quota admits one after the other."""
    limit = Quota(name="q", namespaces=("default",), hard={"cpu": 1})
    given = [make_pod(f"p{k}", group=f"g{k}", min_available=1, cpu=1) for k in range(n)]
    leave = [PodDeleted(pod.uid) for pod in given]
    return after(nodes(1), [*map(added, given), *leave], n, quotas=(limit,))


def budgets(n: int) -> Run:
    """Pods that preempt; each evicts one of as many pods with a disruption budget each."""
    running = [
        evolve(pod, labels={"app": f"a{k}"}) for k, pod in enumerate(one_on_each(pods(n, "r")))
    ]
    limits = [
        PodDisruptionBudget(
            name=f"b{k}", selector=LabelSelector({"app": f"a{k}"}), disruptions_allowed=1
        )
        for k in range(n)
    ]
    given = pods(n, priority=5)
    shown: list[Shown] = [*nodes(n, cpu=1), *running, *limits]
    return after(shown, list(map(added, given)), n, preemption=Preemption())


def bound(k: int) -> list[Shown]:
    """Return a claim that is bound, and its volume."""
    return [
        PersistentVolumeClaim(name=f"c{k}", volume=f"v{k}", bound=True, requests={"storage": 1}),
        PersistentVolume(
            name=f"v{k}",
            capacity={"storage": 1},
            claim=f"default/c{k}",
            available=False,
            source=VolumeSource("driver", f"h{k}"),
        ),
    ]


def bound_claims(n: int) -> Run:
    """Pods with a claim each that is bound, on nodes that attach 100 volumes each."""
    hosts = n // 32 + 1
    drivers = [
        CSINode(name=f"n{k}", drivers=("driver",), limits={"driver": 100}) for k in range(hosts)
    ]
    objects = [each for k in range(n) for each in bound(k)]
    return after([*nodes(hosts), *drivers, *objects], list(map(added, with_claims(pods(n)))), n)


def provisioned_claims(n: int) -> Run:
    """Pods with a claim each for which a volume is provisioned."""
    claims = [
        PersistentVolumeClaim(name=f"c{k}", storage_class="s", requests={"storage": 1})
        for k in range(n)
    ]
    storage = StorageClass(name="s", provisioner="example.com/disk", waits=True)
    shown: list[Shown] = [*nodes(n // 32 + 1), storage, *claims]
    return after(shown, list(map(added, with_claims(pods(n)))), n)


def local_volumes(n: int) -> Run:
    """Pods with a claim each, and as many nodes with a local volume each."""
    modes = (AccessMode.READ_WRITE_ONCE,)
    shown: list[Shown] = [
        *nodes(n, named=True),
        StorageClass(name="s", provisioner=NO_PROVISIONER, waits=True),
    ]
    for k in range(n):
        here = NodeSelectorTerm((NodeSelectorRequirement(HOST, "In", (f"n{k}",)),))
        shown += [
            PersistentVolumeClaim(
                name=f"c{k}", storage_class="s", requests={"storage": 1}, access_modes=modes
            ),
            PersistentVolume(
                name=f"v{k}",
                capacity={"storage": 1},
                storage_class="s",
                access_modes=modes,
                node_affinity=(here,),
            ),
        ]
    return after(shown, list(map(added, with_claims(pods(n)))), n)


def claims_beside_missing_ones(n: int) -> Run:
    """Claims that are added, beside as many pods whose claims are missing."""
    claims = [PersistentVolumeClaim(name=f"x{k}", requests={"storage": 1}) for k in range(n)]
    return after([*nodes(10), *with_claims(pods(n))], list(map(ObjectChanged, claims)), 0)


def priority_classes(n: int) -> Run:
    """Priority classes that are added and removed beside pending pods."""
    classes = [PriorityClass(name=f"c{k}", value=k) for k in range(n)]
    gone = [ObjectDeleted("PriorityClass", f"c{k}") for k in range(n)]
    return after([*full(10), *pods(10)], [*map(ObjectChanged, classes), *gone], 0)


ROWS: Final[Mapping[str, tuple[Row, int]]] = {
    "quotas": (quotas, 1),
    "groups that wait for a quota": (groups_that_wait_for_a_quota, 40),
    "disruption budgets": (budgets, 10),
    "bound claims": (bound_claims, 1),
    "claims to be provisioned": (provisioned_claims, 1),
    "local volumes": (local_volumes, 40),
    "claims beside missing ones": (claims_beside_missing_ones, 160),
    "priority classes": (priority_classes, 1),
}
"""Each row, with how many times smaller its sizes are."""
