"""Effects: what the caller performs."""

from __future__ import annotations

from typing import final

from attrs import frozen

from gangsched.model import GroupKey, NodeName, PodUID

__all__ = [
    "Bind",
    "Evict",
    "Release",
    "VolumeChoice",
]


@final
@frozen
class Release:
    """Permit is granted to members of a group; their ``Bind`` effects follow directly.

    A caller that can perform several binds in one transaction uses it as the bounds of the
    transaction. Any other caller may ignore it.

    Attributes:
        group: The group.
        members: The members that are released in this call, in the order of their binds.
    """

    group: GroupKey
    members: tuple[PodUID, ...]


@final
@frozen
class VolumeChoice:
    """How a claim for storage is to be met, a part of ``Bind``.

    Attributes:
        claim: The key of the claim, ``namespace/name``.
        node: The node that the pod goes to.
        volume: The name of the volume that the claim is bound to: set its ``claimRef`` to the
            claim. Empty if a volume is to be provisioned for *node*: annotate the claim with
            ``volume.kubernetes.io/selected-node``.
    """

    claim: str
    node: NodeName
    volume: str = ""


@final
@frozen
class Bind:
    """Bind the pod to the node, then report ``Bound`` or ``BindFailed`` with the same attempt.

    Attributes:
        uid: The pod.
        node: The node.
        attempt: The number of the attempt. The numbers of a pod ascend, and are never used again,
            even if another pod is created under the same UID. The first number is 1.
        volumes: The volumes for claims of the pod that are not bound yet. Write these choices
            first. If that fails, report ``BindFailed``.
    """

    uid: PodUID
    node: NodeName
    attempt: int
    volumes: tuple[VolumeChoice, ...] = ()

    def __repr__(self) -> str:
        # most pods have no claims, and a log has many binds
        more = f", volumes={self.volumes!r}" if self.volumes else ""
        return f"Bind(uid={self.uid!r}, node={self.node!r}, attempt={self.attempt!r}{more})"


@final
@frozen
class Evict:
    """Delete the pod, which is bound, then report ``PodDeleted`` when it is gone.

    The pod's controller creates a new pod. The caller retries until the pod is gone: until then
    the pod keeps its node and counts as terminating. A pod whose bind is under way is evicted when
    the bind is reported as done; if it failed, there is nothing to evict.

    Attributes:
        uid: The pod.
        node: The node that the pod is bound to.
        reason: Why the pod is evicted.
    """

    uid: PodUID
    node: NodeName
    reason: str
