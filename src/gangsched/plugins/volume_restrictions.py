"""Keep pods apart that cannot use a volume at the same time.

Rules:
  R1  two pods with the same disk are not placed on one node, unless the kind of disk allows it;
  R2  of the pods that use a claim with the access mode ReadWriteOncePod, at most one has a node.

Source: VolumeRestrictions of kube-scheduler 1.36.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, Final, final

from attrs import frozen

from gangsched.cluster_objects import AccessMode, ClusterObject, PersistentVolumeClaim
from gangsched.cluster_objects.claims_of_pods import claim_key
from gangsched.model import Pod
from gangsched.outcomes import SKIP, SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView, ObjectsView, StateKey

__all__ = ["VolumeRestrictions"]

_DISK_CONFLICT: Final = Unschedulable("node(s) had no available disk")
_IN_USE: Final = Unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
    " already in-use by another pod"
)
_KINDS: Final[tuple[type[ClusterObject], ...]] = (PersistentVolumeClaim,)

_USERS: Final[StateKey[int]] = StateKey("VolumeRestrictions.users")
"""How many pods on nodes use a claim of this pod that only one pod may use."""


@final
@frozen
class VolumeRestrictions:
    """Refuse nodes with a conflicting disk, and pods whose claim another pod uses alone."""

    @property
    def name(self) -> str:
        """``VolumeRestrictions``."""
        return "VolumeRestrictions"

    @property
    def state_keys(self) -> Iterable[StateKey[Any]]:
        """The key under which the users of claims are counted."""
        return (_USERS,)

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the disks and the claims."""
        if not pod.disks and not pod.volume_claims:
            return None
        return (pod.disks, pod.namespace, pod.volume_claims)

    def skips(self, pod: Pod) -> bool:
        """Return whether the pod has no volumes that the plugin checks."""
        return not (pod.volume_claims or pod.disks)

    @property
    def signs_node_alone(self) -> bool:
        """True: the signature is constant."""
        return True

    def node_signature(self, node: NodeView) -> Hashable:
        """Return a constant: the plugin reads only pods."""
        return None

    def reads_pods(self, pod: Pod) -> bool:
        """Return whether the pod has disks or claims."""
        return bool(pod.disks or pod.volume_claims)

    def hindered_within(self, state: CycleView, pod: Pod, other: Pod) -> Iterable[str] | None:
        """Return None if the pods share a claim, the node itself if they have conflicting disks."""
        if other.volume_claims and pod.volume_claims:
            own = {claim_key(pod, each) for each in pod.volume_claims}
            if any(claim_key(other, each) in own for each in other.volume_claims):
                return None
        conflict = any(one.conflicts_with(disk) for one in pod.disks for disk in other.disks)
        return ("",) if conflict else ()

    def objects_read(self, pod: Pod) -> Iterable[type[ClusterObject]]:
        """Return claims, for a pod that has some."""
        return _KINDS if pod.volume_claims else ()

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        """Refuse a pod with a claim that is missing; count the users of its claims."""
        if not pod.volume_claims:
            return SKIP
        for each in pod.volume_claims:
            # kube-scheduler leaves the claims of ephemeral volumes to VolumeBinding
            missing = state.objects.get(PersistentVolumeClaim, claim_key(pod, each)) is None
            if missing and not each.ephemeral:
                problem = f'persistentvolumeclaim "{each.name}" not found'
                return Unschedulable(problem, resolvable=False)
        alone = _used_alone(state.objects, pod)
        if alone:
            # a pod has one claim of this kind at most, nearly always, and few pods share one
            users = sum(
                _uses(other, alone)
                for view in state.nodes.values()
                for other in view.pods
                if other.volume_claims and other.uid != pod.uid
            )
            state.write(_USERS, users)
        return SUCCESS

    def add_pod(self, state: CycleView, pod: Pod, added: Pod, node: NodeView) -> None:
        """Count a planned sibling as a user."""
        self._count(state, pod, added, 1)

    def remove_pod(self, state: CycleView, pod: Pod, removed: Pod, node: NodeView) -> None:
        """Count a sibling as a user no more."""
        self._count(state, pod, removed, -1)

    def _count(self, state: CycleView, pod: Pod, other: Pod, change: int) -> None:
        users = state.read(_USERS)
        if users is not None and other.volume_claims:
            state.write(_USERS, users + change * _uses(other, _used_alone(state.objects, pod)))

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* if a pod there has a conflicting disk, or a pod anywhere has the claim."""
        if pod.disks:
            for other in node.pods:
                for disk in other.disks:
                    if any(own.conflicts_with(disk) for own in pod.disks):
                        return _DISK_CONFLICT
        return _IN_USE if state.read(_USERS) else SUCCESS


def _used_alone(objects: ObjectsView, pod: Pod) -> frozenset[str]:
    """Return the keys of the pod's claims that only one pod may use. O(claims)."""
    found: set[str] = set()
    for each in pod.volume_claims:
        key = claim_key(pod, each)
        claim = None if each.ephemeral else objects.get(PersistentVolumeClaim, key)
        if claim is not None and AccessMode.READ_WRITE_ONCE_POD in claim.access_modes:
            found.add(key)
    return frozenset(found)


def _uses(pod: Pod, claims: frozenset[str]) -> int:
    """Return how many of these claims a pod uses. O(claims)."""
    return sum(claim_key(pod, each) in claims for each in pod.volume_claims if not each.ephemeral)
