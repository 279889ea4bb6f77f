"""Convert a ``PlainPod`` into a ``Pod`` and the ``PodGroup`` of its gang; and a parent into one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangsched.constraints import Toleration, Topology
from gangsched.errors import InvalidValueError
from gangsched.model import GroupKey, Pod, PodGroup, PodUID, Role, group_key
from gangsched.resources import EMPTY
from gangsched.testing._plain_parent import PlainParent
from gangsched.testing._plain_pod import PlainPod

__all__ = ["key_of", "parent_of", "pod_of", "spec_of"]

_NAME: Final = "pod-group.scheduling.sigs.k8s.io/name"
_MINIMUM: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
_ROLE: Final = "pod-group.scheduling.sigs.k8s.io/role"
_NAMESPACE: Final = "default"
_COPY: Final = "copy"
_MEMBER: Final = "member"


def pod_of(pod: PlainPod, *, created_at: float, labels: Mapping[str, str] = EMPTY) -> Pod:
    """Return the ``Pod``. Its label gives the minimum if the gang needs no ``PodGroup``.

    Args:
        pod: The pod.
        created_at: When it was created.
        labels: Further labels, none of them of a group.

    Raises:
        InvalidValueError: A further label is one of a group.
    """
    taken = [key for key in labels if key in (_NAME, _MINIMUM, _ROLE)]
    if taken:
        raise InvalidValueError("labels", taken[0], "a label that is none of the pod's group")
    labels = dict(labels)
    if pod.group is not None:
        labels[_NAME] = pod.group
        if spec_of(pod) is None:
            labels[_MINIMUM] = str(pod.min_available)
    if pod.copies:
        labels[_ROLE] = f"{_COPY}.{pod.copy}.{_MEMBER}"
    elif pod.role is not None:
        labels[_ROLE] = pod.role
    return Pod(
        name=pod.name,
        uid=PodUID(pod.uid),
        namespace=_NAMESPACE,
        labels=labels,
        requests=dict(pod.requests),
        priority=pod.priority,
        tolerations=tuple(Toleration(key=taint, exists=True) for taint in pod.tolerates),
        created_at=created_at,
    )


def spec_of(pod: PlainPod) -> PodGroup | None:
    """Return the ``PodGroup`` of a pod's gang; None if labels on the pods are enough."""
    if pod.group is None or not (
        pod.roles or pod.copies or pod.topology_key or pod.bundle or pod.parent
    ):
        return None
    roles: dict[str, int | Role] = dict(pod.roles)
    if pod.copies:
        needed = pod.min_available // pod.copy_size
        roles = {_COPY: Role(pod.copies, needed, roles={_MEMBER: pod.copy_size})}
    return PodGroup(
        name=pod.group,
        namespace=_NAMESPACE,
        min_available=pod.min_available,
        roles=roles,
        topology=None if pod.topology_key is None else Topology(pod.topology_key),
        bundle=tuple(map(key_of, pod.bundle)),
        parent=None if pod.parent is None else key_of(pod.parent),
    )


def parent_of(parent: PlainParent) -> PodGroup:
    """Return the ``PodGroup`` of a group of groups."""
    return PodGroup(
        name=parent.name,
        namespace=_NAMESPACE,
        min_groups=parent.min_groups,
        parent=None if parent.parent is None else key_of(parent.parent),
    )


def key_of(name: str) -> GroupKey:
    """Return the key of a gang or a parent."""
    return group_key(_NAMESPACE, name)
