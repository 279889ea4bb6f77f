"""``Pod``, with its phase and its quality-of-service class.

A pod is identified by its UID: two pods of one name with two UIDs are two pods.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, Final, NoReturn, final

from attrs import Attribute, Factory, field, frozen
from attrs.validators import optional

from gangsched.constraints import (
    Disk,
    HostPort,
    NodeSelectorTerm,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Toleration,
    TopologySpreadConstraint,
    VolumeClaim,
    WeightedPodAffinityTerm,
)
from gangsched.errors import InvalidValueError
from gangsched.model._names import NodeName, PodUID, PreemptionPolicy
from gangsched.model._sequences import as_names, as_sorted_names
from gangsched.resources import EMPTY, NOTHING, FrozenMap, Resources
from gangsched.values.fields import (
    as_resources,
    as_texts,
    as_tuple,
    check_amounts,
    check_each,
    check_instant,
    check_namespace,
    check_positive,
    check_string,
    check_text,
    check_texts,
    check_whole,
    refuse_choice,
)
from gangsched.values.reprs import pretty_repr, short_repr

__all__ = ["Pod", "PodPhase", "QOSClass"]


def _as_node_name(given: str | None) -> NodeName | None:
    return None if given is None else NodeName(given)


class PodPhase(enum.Enum):
    """The phase of a pod, as in ``status.phase``."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "phase", value)


# a look-up in an enum takes ten times as long, and pods are asked with every event
_SUCCEEDED: Final = PodPhase.SUCCEEDED
_FAILED: Final = PodPhase.FAILED


class QOSClass(enum.IntEnum):
    """The quality-of-service class of a pod; a smaller value is ordered first."""

    GUARANTEED = 0
    BURSTABLE = 1
    BEST_EFFORT = 2


def _terms(given: Iterable[NodeSelectorTerm]) -> tuple[NodeSelectorTerm, ...]:
    return as_tuple(given)


def _tolerations(given: Iterable[Toleration]) -> tuple[Toleration, ...]:
    return as_tuple(given)


def _pod_terms(given: Iterable[PodAffinityTerm]) -> tuple[PodAffinityTerm, ...]:
    return as_tuple(given)


def _weighted_terms(
    given: Iterable[WeightedPodAffinityTerm],
) -> tuple[WeightedPodAffinityTerm, ...]:
    return as_tuple(given)


def _preferred_terms(
    given: Iterable[PreferredSchedulingTerm],
) -> tuple[PreferredSchedulingTerm, ...]:
    return as_tuple(given)


def _spread(given: Iterable[TopologySpreadConstraint]) -> tuple[TopologySpreadConstraint, ...]:
    return as_tuple(given)


def _ports(given: Iterable[HostPort]) -> tuple[HostPort, ...]:
    return as_tuple(given)


def _claims(given: Iterable[VolumeClaim]) -> tuple[VolumeClaim, ...]:
    return as_tuple(given)


def _disks(given: Iterable[Disk]) -> tuple[Disk, ...]:
    return as_tuple(given)


_check_pod_terms = check_each(PodAffinityTerm, "a PodAffinityTerm")
_check_weighted_terms = check_each(WeightedPodAffinityTerm, "a WeightedPodAffinityTerm")


def _check_role(_owner: object, attribute: Attribute[Any], value: object) -> None:
    check_string(_owner, attribute, value)
    if "/" in str(value) and not all(str(value).split("/")):
        raise InvalidValueError(attribute.name, value, "a name, or names between slashes")


def _uid_from_name(pod: Pod) -> PodUID:
    return PodUID(f"{pod.namespace}/{pod.name}")


@final
@frozen(kw_only=True)
class Pod:
    """A pod: its requests, its scheduling constraints and its status.

    Attributes:
        uid: The identity of the pod; by default ``namespace/name``. A recreated pod has the same
            name and another UID.
        name: The name, a non-empty string.
        namespace: The namespace, a non-empty string without a slash.
        priority: The priority; a pod of higher priority is scheduled first.
        requests: The resources that the pod reserves on its node.
        limits: The resources that the pod may use at most; used only for the QoS class.
        labels: The labels; ``membership`` reads the pod's group from them.
        annotations: The annotations; ``membership`` reads them too.
        node_selector: The labels that the node must have.
        affinity: The terms of the required node affinity; the node must match at least one. Empty
            for no condition.
        preferred_node_affinity: The terms that the pod prefers its node to match.
        pod_affinity: The terms of the required pod affinity: for each of them a matching pod must
            be in the domain of the pod's node.
        preferred_pod_affinity: As *pod_affinity*, but preferred.
        pod_anti_affinity: The terms of the required pod anti-affinity: no matching pod may be in
            the domain of the pod's node. It also keeps later pods away.
        preferred_pod_anti_affinity: As *pod_anti_affinity*, but preferred.
        topology_spread_constraints: How evenly pods are to be spread over domains.
        host_ports: The ports of the node that the pod takes for itself: of its containers, and of
            its init containers that restart always. With ``hostNetwork`` all ports of these
            containers.
        images: The image of each container, init containers included.
        image_volumes: The images that are mounted as volumes.
        required_features: The features that the node must declare; see ``Node.declared_features``.
        volume_claims: The claims for storage that the pod mounts.
        disks: The disks that the pod mounts without a claim.
        unmodelled: The hard constraints of the pod that this library does not know, each in words.
            A pod with one is not scheduled, and does not count for the quorum of its group.
        tolerations: The taints that the pod tolerates.
        pod_group: The name of its group, ``spec.schedulingGroup.podGroupName``; None if it is not
            set. Labels and annotations may name the group too: see ``membership``.
        min_available: The quorum of that group, for groups without a ``PodGroup``; None if it is
            not set. Kubernetes has no such field: manifests use a label.
        role: The role in that group, such as ``worker``; a path such as ``decode/0/worker`` if the
            role is of a copy: see ``Role``. None if it is not set. Kubernetes has no such field:
            manifests use a label.
        queue: The queue that it is charged to, the name of a ``Quota``; None for that of its
            namespace. A member of a group with a queue is charged to that one.
        scheduling_gates: The scheduling gates. A pod with a gate is not scheduled, and does not
            count for the quorum of its group.
        owners: The names of the pod's owners.
        controller: Which of the owners is the pod's controller, with API version, kind and name:
            ``apps/v1/ReplicaSet/web-5d4``. Empty for none.
        node_name: The node that the pod is assigned to; None if it is not assigned. A pod that is
            created with a node is not scheduled, as in Kubernetes: it holds that node.
        phase: The phase.
        deleted_at: The instant at which its deletion was requested, or until which it may take, as
            the ``deletionTimestamp`` of Kubernetes; None if it is not terminating. A terminating
            pod does not count for the quorum of its group.
        created_at: The instant at which the pod was created.
        preemption_policy: Whether the pod may preempt pods of lower priority. A gang may preempt
            only if each of its pending members may.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: str = field(validator=check_text)
    namespace: str = field(default="default", validator=check_namespace)
    uid: PodUID = field(
        default=Factory(_uid_from_name, takes_self=True), converter=PodUID, validator=check_text
    )
    priority: int = field(default=0, validator=check_whole)
    requests: Resources = field(default=NOTHING, converter=as_resources, validator=check_amounts)
    limits: Resources = field(default=NOTHING, converter=as_resources, validator=check_amounts)
    labels: FrozenMap[str] = field(default=EMPTY, converter=as_texts, validator=check_texts)
    annotations: FrozenMap[str] = field(default=EMPTY, converter=as_texts, validator=check_texts)
    node_selector: FrozenMap[str] = field(default=EMPTY, converter=as_texts, validator=check_texts)
    affinity: tuple[NodeSelectorTerm, ...] = field(
        default=(),
        converter=_terms,
        validator=check_each(NodeSelectorTerm, "a NodeSelectorTerm"),
    )
    tolerations: tuple[Toleration, ...] = field(
        default=(),
        converter=_tolerations,
        validator=check_each(Toleration, "a Toleration"),
    )
    pod_group: str | None = field(default=None, validator=optional(check_string))
    min_available: int | None = field(default=None, validator=optional(check_positive))
    role: str | None = field(default=None, validator=optional(_check_role))
    queue: str | None = field(default=None, validator=optional(check_text))
    scheduling_gates: tuple[str, ...] = field(
        default=(), converter=as_names, validator=check_each(str, "a string")
    )
    owners: tuple[str, ...] = field(
        default=(), converter=as_names, validator=check_each(str, "a string")
    )
    controller: str = field(default="", validator=check_string)
    node_name: NodeName | None = field(
        default=None, converter=_as_node_name, validator=optional(check_text)
    )
    phase: PodPhase = field(default=PodPhase.PENDING, converter=PodPhase)
    deleted_at: float | None = field(default=None, validator=optional(check_instant))
    created_at: float = field(default=0.0, validator=check_instant)
    preemption_policy: PreemptionPolicy = field(
        default=PreemptionPolicy.PREEMPT_LOWER_PRIORITY, converter=PreemptionPolicy
    )
    preferred_node_affinity: tuple[PreferredSchedulingTerm, ...] = field(
        default=(),
        converter=_preferred_terms,
        validator=check_each(PreferredSchedulingTerm, "a PreferredSchedulingTerm"),
    )
    pod_affinity: tuple[PodAffinityTerm, ...] = field(
        default=(), converter=_pod_terms, validator=_check_pod_terms
    )
    preferred_pod_affinity: tuple[WeightedPodAffinityTerm, ...] = field(
        default=(), converter=_weighted_terms, validator=_check_weighted_terms
    )
    pod_anti_affinity: tuple[PodAffinityTerm, ...] = field(
        default=(), converter=_pod_terms, validator=_check_pod_terms
    )
    preferred_pod_anti_affinity: tuple[WeightedPodAffinityTerm, ...] = field(
        default=(), converter=_weighted_terms, validator=_check_weighted_terms
    )
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = field(
        default=(),
        converter=_spread,
        validator=check_each(TopologySpreadConstraint, "a TopologySpreadConstraint"),
    )
    host_ports: tuple[HostPort, ...] = field(
        default=(), converter=_ports, validator=check_each(HostPort, "a HostPort")
    )
    images: tuple[str, ...] = field(
        default=(), converter=as_names, validator=check_each(str, "a string")
    )
    image_volumes: tuple[str, ...] = field(
        default=(), converter=as_names, validator=check_each(str, "a string")
    )
    required_features: tuple[str, ...] = field(
        default=(), converter=as_sorted_names, validator=check_each(str, "a string")
    )
    volume_claims: tuple[VolumeClaim, ...] = field(
        default=(), converter=_claims, validator=check_each(VolumeClaim, "a VolumeClaim")
    )
    disks: tuple[Disk, ...] = field(
        default=(), converter=_disks, validator=check_each(Disk, "a Disk")
    )
    unmodelled: tuple[str, ...] = field(
        default=(), converter=as_names, validator=check_each(str, "a string")
    )

    @property
    def key(self) -> str:
        """``namespace/name``, for messages; the identity of a pod is its UID."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_gated(self) -> bool:
        """Whether the pod has a scheduling gate, or a hard constraint that is not modelled."""
        return bool(self.scheduling_gates or self.unmodelled)

    @property
    def is_finished(self) -> bool:
        """Whether the pod has succeeded or failed, and so uses no resources of its node."""
        return self.phase is _SUCCEEDED or self.phase is _FAILED

    @property
    def qos_class(self) -> QOSClass:
        """The QoS class: Guaranteed if limits equal requests for cpu and memory.

        BestEffort if neither is set for either of them, Burstable otherwise.
        """
        both = ("cpu", "memory")
        if not any(self.requests.amount(n) or self.limits.amount(n) for n in both):
            return QOSClass.BEST_EFFORT
        if all(
            self.limits.amount(n) and self.limits.amount(n) == self.requests.amount(n) for n in both
        ):
            return QOSClass.GUARANTEED
        return QOSClass.BURSTABLE

    def __repr__(self) -> str:
        return short_repr(self)

    _repr_pretty_ = pretty_repr
