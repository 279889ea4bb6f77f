"""``Pod``, ``PodGroup`` and ``Node``, and the values that their attributes hold.

Rules:
  R1  every value is frozen, and validated once, by its constructor. The rest of the library relies
      on that;
  R2  a pod is identified by its UID: two pods of one name with two UIDs are two pods;
  R3  amounts of resources are integers in thousandths (see ``gangsched.quantity``);
  R4  instants and durations are seconds on the caller's clock; names that end in ``_at`` are
      instants;
  R5  parameters take ``str``; attributes have the types ``PodUID``, ``GroupKey`` and ``NodeName``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, Final, NewType, NoReturn, cast, final

from attrs import Factory, field, frozen
from attrs.converters import optional as to_optional
from attrs.validators import optional

from gangsched._fields import (
    as_counts,
    as_resources,
    as_texts,
    as_tuple,
    check_amounts,
    check_counts,
    check_each,
    check_flag,
    check_instant,
    check_namespace,
    check_positive,
    check_string,
    check_text,
    check_texts,
    check_whole,
    of_group,
    refuse_choice,
)
from gangsched._repr import short_repr
from gangsched._seconds import format_duration
from gangsched.constraints import (
    Comparison,
    ContainerImage,
    Disk,
    HostPort,
    LabelSelector,
    LabelSelectorRequirement,
    NodeInclusionPolicy,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Taint,
    TaintEffect,
    Toleration,
    Topology,
    TopologySpreadConstraint,
    VolumeClaim,
    WeightedPodAffinityTerm,
    WhenUnsatisfiable,
)
from gangsched.errors import InvalidPodGroupError, InvalidValueError
from gangsched.quantity import is_seconds
from gangsched.resources import EMPTY, NOTHING, FrozenMap, Resources

__all__ = [
    "Comparison",
    "ContainerImage",
    "Disk",
    "FrozenMap",
    "GroupKey",
    "HostPort",
    "LabelSelector",
    "LabelSelectorRequirement",
    "Node",
    "NodeInclusionPolicy",
    "NodeName",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "Pod",
    "PodAffinityTerm",
    "PodGroup",
    "PodPhase",
    "PodUID",
    "PreemptionPolicy",
    "PreferredSchedulingTerm",
    "QOSClass",
    "Resources",
    "RestartPolicy",
    "Taint",
    "TaintEffect",
    "Toleration",
    "Topology",
    "TopologySpreadConstraint",
    "VolumeClaim",
    "WeightedPodAffinityTerm",
    "WhenUnsatisfiable",
    "group_key",
]

PodUID = NewType("PodUID", str)
GroupKey = NewType("GroupKey", str)
NodeName = NewType("NodeName", str)


def _check_topology(_owner: object, _attribute: object, value: object) -> None:
    if value is not None and not isinstance(value, Topology):
        raise InvalidValueError("topology", value, "a Topology or None")


def _as_keys(given: Iterable[str]) -> tuple[GroupKey, ...]:
    found = as_tuple(given)
    if isinstance(found, tuple) and all(isinstance(key, str) for key in found):
        found = tuple(sorted(set(found)))
    return cast("tuple[GroupKey, ...]", found)


def _as_node_name(given: str | None) -> NodeName | None:
    return None if given is None else NodeName(given)


def _check_keys(_owner: object, _attribute: object, value: object) -> None:
    if not isinstance(value, tuple):
        raise InvalidValueError("bundle", value, "a sequence of group keys, each namespace/name")
    for key in cast("tuple[object, ...]", value):
        namespace, slash, name = key.partition("/") if isinstance(key, str) else ("", "", "")
        if not (namespace and slash and name) or "/" in name:
            raise InvalidValueError("bundle", key, "a group key, namespace/name")


def group_key(namespace: str, name: str) -> GroupKey:
    """Return the key of a pod group: ``namespace/name``."""
    return GroupKey(f"{namespace}/{name}")


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


class PreemptionPolicy(enum.Enum):
    """Whether a pod or a gang may preempt pods of lower priority, if preemption is enabled."""

    PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
    NEVER = "Never"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse_choice(cls, "preemption_policy", value)


class QOSClass(enum.IntEnum):
    """The quality-of-service class of a pod; a smaller value is ordered first."""

    GUARANTEED = 0
    BURSTABLE = 1
    BEST_EFFORT = 2


def _terms(given: Iterable[NodeSelectorTerm]) -> tuple[NodeSelectorTerm, ...]:
    return as_tuple(given)


def _tolerations(given: Iterable[Toleration]) -> tuple[Toleration, ...]:
    return as_tuple(given)


def _taints(given: Iterable[Taint]) -> tuple[Taint, ...]:
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


def _images(given: Iterable[ContainerImage]) -> tuple[ContainerImage, ...]:
    return as_tuple(given)


def _claims(given: Iterable[VolumeClaim]) -> tuple[VolumeClaim, ...]:
    return as_tuple(given)


def _disks(given: Iterable[Disk]) -> tuple[Disk, ...]:
    return as_tuple(given)


def _sorted_names(given: Iterable[str]) -> tuple[str, ...]:
    found = as_tuple(given)
    if isinstance(found, tuple) and all(isinstance(name, str) for name in found):
        found = tuple(sorted(set(found)))
    return found


_check_pod_terms = check_each(PodAffinityTerm, "a PodAffinityTerm")
_check_weighted_terms = check_each(WeightedPodAffinityTerm, "a WeightedPodAffinityTerm")


def _names(given: Iterable[str]) -> tuple[str, ...]:
    return as_tuple(given)


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
        role: The role in that group, such as ``worker``; None if it is not set. Kubernetes has no
            such field: manifests use a label.
        scheduling_gates: The scheduling gates. A pod with a gate is not scheduled, and does not
            count for the quorum of its group.
        owners: The names of the pod's owners.
        controller: Which of the owners is the pod's controller, with API version, kind and name:
            ``apps/v1/ReplicaSet/web-5d4``. Empty for none.
        node_name: The node that the pod is assigned to; None if it is not assigned. A pod that is
            created with a node is not scheduled, as in Kubernetes: it holds that node.
        phase: The phase.
        deleted_at: The instant at which its deletion was requested; None if it is not terminating.
            A terminating pod does not count for the quorum of its group.
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
    role: str | None = field(default=None, validator=optional(check_string))
    scheduling_gates: tuple[str, ...] = field(
        default=(), converter=_names, validator=check_each(str, "a string")
    )
    owners: tuple[str, ...] = field(
        default=(), converter=_names, validator=check_each(str, "a string")
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
        default=(), converter=_names, validator=check_each(str, "a string")
    )
    image_volumes: tuple[str, ...] = field(
        default=(), converter=_names, validator=check_each(str, "a string")
    )
    required_features: tuple[str, ...] = field(
        default=(), converter=_sorted_names, validator=check_each(str, "a string")
    )
    volume_claims: tuple[VolumeClaim, ...] = field(
        default=(), converter=_claims, validator=check_each(VolumeClaim, "a VolumeClaim")
    )
    disks: tuple[Disk, ...] = field(
        default=(), converter=_disks, validator=check_each(Disk, "a Disk")
    )
    unmodelled: tuple[str, ...] = field(
        default=(), converter=_names, validator=check_each(str, "a string")
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


@final
@frozen(kw_only=True)
class RestartPolicy:
    """How often a pod group is restarted as a whole, and how long it backs off.

    A running group that falls below its minimum is restarted: its other members are evicted, their
    controller creates them again, and the group starts as a whole. The n-th restart backs off
    ``min(backoff * 2 ** (n - 1), longest_backoff)`` seconds. The defaults are those of a Kubernetes
    Job: ``backoffLimit: 6``, and 10 s, doubled up to 6 minutes.

    Attributes:
        max_restarts: The number of restarts, an int >= 1. A group that falls below its minimum
            after the last one keeps the members that it has.
        backoff: The backoff of the first restart in seconds; finite and > 0.
        longest_backoff: The longest backoff in seconds; finite and >= *backoff*.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.

    Source: KEP-34, "restart the whole PodGroup, according to the configuration".
    """

    max_restarts: int = 6
    backoff: float = 10.0
    longest_backoff: float = 360.0

    def __attrs_post_init__(self) -> None:
        if type(self.max_restarts) is not int or self.max_restarts < 1:
            raise InvalidValueError("max_restarts", self.max_restarts, "an int >= 1")
        if not is_seconds(self.backoff) or self.backoff <= 0:
            raise InvalidValueError("backoff", self.backoff, "a finite number of seconds > 0")
        if not is_seconds(self.longest_backoff) or self.longest_backoff < self.backoff:
            expected = f"a finite number of seconds >= {format_duration(self.backoff)}"
            raise InvalidValueError("longest_backoff", self.longest_backoff, expected)


def _check_restart(_owner: object, _attribute: object, value: object) -> None:
    if value is not None and not isinstance(value, RestartPolicy):
        raise InvalidValueError("restart", value, "a RestartPolicy or None")


def _check_restarts(_owner: object, _attribute: object, value: object) -> None:
    if type(value) is not int or value < 0:
        raise InvalidValueError("restarts", value, "an int >= 0")


def _in_roles(group: PodGroup) -> Any:
    """Return the default of ``min_available``: the sum of the roles.

    Without roles there is no default. The result is then None, which the constructor refuses.
    """
    counts = group.roles.values() if isinstance(group.roles, FrozenMap) else ()
    return sum(count for count in counts if type(count) is int) or None


@final
@frozen(kw_only=True)
class PodGroup:
    """The specification of a pod group: pods that start together, or not at all.

    Attributes:
        name: The name, a non-empty string.
        namespace: The namespace of the group and of its members, a non-empty string without a
            slash.
        roles: The minimum number of members of each role, each at least 1:
            ``{"ps": 1, "worker": 4}``. Their sum is at most *min_available*. Empty if the quorum
            does not depend on roles. ``minTaskMember`` in Volcano.
        min_available: The quorum: the number of members that start together, at least 1. By
            default the sum of *roles*. ``minMember`` and ``minCount`` elsewhere.
        schedule_timeout: The number of seconds for which members wait on permit for the others, in
            each attempt; finite and >= 0. None for the default of the policy, 0 to not wait.
        min_resources: The resources that the group needs in total. The group is not attempted while
            the nodes together have less than that free.
        priority: The priority of the group; None to use the priority of its members.
        created_at: The instant at which the group was created.
        topology: The topology constraint: the node label of which all members' nodes must have one
            value. None for no constraint.
        bundle: The keys of the groups that start together with this one, or not at all. They may be
            of other namespaces, and the key of this group may be left out. Each group of a bundle
            must name the same groups. Empty for none.
        preemption_policy: Whether the group may preempt pods of lower priority; None to use the
            policy of its members.
        evicted_whole: Whether preemption may only evict all members of the group, and never a part
            of them, such as elastic members.
        restart: When and how often the group is restarted if it falls below its minimum while it
            runs; None for never.
        restarts: How often the group was restarted already, as its status says. A scheduler that
            sees the group for the first time goes on from there.
        restarting_until: While a restart is under way, the instant before which the group must not
            start again, as its status says; None for no restart under way.
        unmodelled: The hard constraints of the group that this library does not know, each in
            words. The pods of a group with one are not scheduled.

    Raises:
        InvalidPodGroupError: A value is malformed. The error names the group, the attribute and
            the value.
        InvalidValueError: A value of *min_resources* is not a quantity. The error names the
            resource.
    """

    name: str = field(validator=of_group(check_text))
    namespace: str = field(default="default", validator=of_group(check_namespace))
    # Before min_available, because the default of that is computed from the roles.
    roles: FrozenMap[int] = field(
        default=EMPTY, converter=as_counts, validator=of_group(check_counts)
    )
    min_available: int = field(default=Factory(_in_roles, takes_self=True))
    schedule_timeout: float | None = None
    min_resources: Resources = field(
        default=NOTHING, converter=as_resources, validator=of_group(check_amounts)
    )
    priority: int | None = None
    created_at: float = field(default=0.0, validator=of_group(check_instant))
    topology: Topology | None = field(default=None, validator=of_group(_check_topology))
    bundle: tuple[GroupKey, ...] = field(
        default=(), converter=_as_keys, validator=of_group(_check_keys)
    )
    preemption_policy: PreemptionPolicy | None = field(
        default=None, converter=to_optional(PreemptionPolicy)
    )
    evicted_whole: bool = field(default=False, validator=of_group(check_flag))
    restart: RestartPolicy | None = field(default=None, validator=of_group(_check_restart))
    restarts: int = field(default=0, validator=of_group(_check_restarts))
    restarting_until: float | None = field(
        default=None, validator=of_group(optional(check_instant))
    )
    unmodelled: tuple[str, ...] = field(
        default=(), converter=_names, validator=of_group(check_each(str, "a string"))
    )

    def __attrs_post_init__(self) -> None:
        if type(self.min_available) is not int or self.min_available < 1:
            raise InvalidPodGroupError(self.key, "min_available", self.min_available, "an int >= 1")
        if sum(self.roles.values()) > self.min_available:
            expected = f"counts with a sum <= min_available, which is {self.min_available}"
            raise InvalidPodGroupError(self.key, "roles", dict(self.roles), expected)
        timeout = self.schedule_timeout
        if timeout is not None and not (is_seconds(timeout) and timeout >= 0):
            raise InvalidPodGroupError(
                self.key,
                "schedule_timeout",
                timeout,
                "a finite number of seconds >= 0, or None",
            )
        if self.priority is not None and type(self.priority) is not int:
            raise InvalidPodGroupError(self.key, "priority", self.priority, "an int or None")

    @property
    def key(self) -> GroupKey:
        """The key of the group: ``namespace/name``."""
        return group_key(self.namespace, self.name)

    def __repr__(self) -> str:
        return short_repr(self)


@final
@frozen(kw_only=True)
class Node:
    """A node: its allocatable resources, its labels, its taints and its images.

    Attributes:
        name: The name, a non-empty string.
        allocatable: The resources that pods can reserve on the node in total. ``pods`` limits the
            number of pods: with ``pods: 0`` the node takes none, without ``pods`` any number.
        labels: The labels, as node selectors and affinity read them.
        taints: The taints; a pod that does not tolerate them is not placed here.
        unschedulable: Whether the node is cordoned: it takes no new pod.
        images: The container images that the node has.
        declared_features: The features that its kubelet declares, in ``status.declaredFeatures``.

    Raises:
        InvalidValueError: A value is malformed. The error names the attribute and the value.
    """

    name: NodeName = field(converter=NodeName, validator=check_text)
    allocatable: Resources = field(default=NOTHING, converter=as_resources, validator=check_amounts)
    labels: FrozenMap[str] = field(default=EMPTY, converter=as_texts, validator=check_texts)
    taints: tuple[Taint, ...] = field(
        default=(), converter=_taints, validator=check_each(Taint, "a Taint")
    )
    unschedulable: bool = field(default=False, validator=check_flag)
    images: tuple[ContainerImage, ...] = field(
        default=(), converter=_images, validator=check_each(ContainerImage, "a ContainerImage")
    )
    declared_features: tuple[str, ...] = field(
        default=(), converter=_sorted_names, validator=check_each(str, "a string")
    )

    def __repr__(self) -> str:
        return short_repr(self)
