"""JSON forms of the model classes, the events and the effects: one table.

Rules:
  R1  every event class and every effect class is in the table, with every field;
  R2  amounts are integers (thousandths), instants and durations are numbers of seconds.
"""

from __future__ import annotations

from typing import Any, Final

from gangsched.cluster_objects import (
    AccessMode,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    RuntimeClass,
    Service,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
    VolumeSource,
)
from gangsched.errors import InvalidValueError
from gangsched.events import (
    Bind,
    BindFailed,
    Bound,
    CopyBound,
    Evict,
    GroupBelowMinimum,
    GroupBound,
    GroupIncomplete,
    GroupPartlyBound,
    GroupRejected,
    GroupRemoved,
    GroupRestarted,
    GroupScheduled,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    Nominated,
    NominationLapsed,
    ObjectChanged,
    ObjectDeleted,
    PermitAllowed,
    PermitRejected,
    PodAdded,
    PodDeleted,
    PodGroupAdded,
    PodGroupDeleted,
    PodGroupUpdated,
    PodNotAdmitted,
    PodRefused,
    PodRejected,
    PodScheduled,
    PodUnschedulable,
    PodUpdated,
    PodWaiting,
    PriorityOverruled,
    Release,
    RestartLimitReached,
    VictimSearchExhausted,
    VolumeChoice,
)
from gangsched.model import (
    Comparison,
    ContainerImage,
    Disk,
    HostPort,
    LabelledRole,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    NodeInclusionPolicy,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    PodGroup,
    PodPhase,
    PreemptionPolicy,
    PreferredSchedulingTerm,
    RestartPolicy,
    Role,
    Taint,
    TaintEffect,
    Toleration,
    Topology,
    TopologySpreadConstraint,
    VolumeClaim,
    WeightedPodAffinityTerm,
    WhenUnsatisfiable,
)
from gangsched.values.forms import (
    BOOL,
    INT,
    RESOURCES,
    SECONDS,
    STR,
    STRS_BY_NAME,
    Form,
    Record,
    choice,
    many,
    mapping,
    optional,
    row,
    union,
)

__all__ = [
    "EFFECT",
    "EFFECTS",
    "EVENT",
    "EVENTS",
    "GROUP",
    "NODE",
    "NOUNS",
    "OBJECTS",
    "POD",
    "TOPOLOGY",
]

_TAINT_EFFECT: Final = choice(TaintEffect)
_REQUIREMENT: Final = Record(NodeSelectorRequirement, key=STR, operator=STR, values=many(STR))
_TERM: Final = Record(
    NodeSelectorTerm, requirements=many(_REQUIREMENT.form), match_fields=many(_REQUIREMENT.form)
)
_PREFERRED_TERM: Final = Record(PreferredSchedulingTerm, weight=INT, preference=_TERM.form)
_EXPRESSION: Final = Record(LabelSelectorRequirement, key=STR, operator=STR, values=many(STR))
_SELECTOR: Final = Record(
    LabelSelector, match_labels=STRS_BY_NAME, match_expressions=many(_EXPRESSION.form)
)
_POD_TERM: Final = Record(
    PodAffinityTerm,
    topology_key=STR,
    label_selector=optional(_SELECTOR.form),
    namespaces=many(STR),
    namespace_selector=optional(_SELECTOR.form),
    match_label_keys=many(STR),
    mismatch_label_keys=many(STR),
)
_WEIGHTED_TERM: Final = Record(
    WeightedPodAffinityTerm, weight=INT, pod_affinity_term=_POD_TERM.form
)
_SPREAD: Final = Record(
    TopologySpreadConstraint,
    max_skew=INT,
    topology_key=STR,
    when_unsatisfiable=choice(WhenUnsatisfiable),
    label_selector=optional(_SELECTOR.form),
    min_domains=optional(INT),
    node_affinity_policy=choice(NodeInclusionPolicy),
    node_taints_policy=choice(NodeInclusionPolicy),
    match_label_keys=many(STR),
)
_PORT: Final = Record(HostPort, host_port=INT, protocol=STR, host_ip=STR)
_IMAGE: Final = Record(ContainerImage, names=many(STR), size_bytes=INT)
_TAINT: Final = Record(Taint, key=STR, value=STR, effect=_TAINT_EFFECT)
_TOLERATION: Final = Record(
    Toleration,
    key=STR,
    value=STR,
    exists=BOOL,
    effect=optional(_TAINT_EFFECT),
    comparison=optional(choice(Comparison)),
)
TOPOLOGY: Final = Record(
    Topology,
    key=optional(STR),
    required=BOOL,
    prefer=optional(STR),
    slices=many(row(STR, INT)),
    apart=optional(STR),
    exclusive=optional(STR),
    balanced=BOOL,
)
_VOLUME_CLAIM: Final = Record(VolumeClaim, name=STR, ephemeral=BOOL)
_DISK: Final = Record(Disk, kind=STR, identity=STR, read_only=BOOL, monitors=many(STR))
POD: Final = Record(
    Pod,
    uid=STR,
    name=STR,
    namespace=STR,
    priority=INT,
    requests=RESOURCES,
    limits=RESOURCES,
    labels=STRS_BY_NAME,
    annotations=STRS_BY_NAME,
    node_selector=STRS_BY_NAME,
    affinity=many(_TERM.form),
    tolerations=many(_TOLERATION.form),
    pod_group=optional(STR),
    min_available=optional(INT),
    role=optional(STR),
    queue=optional(STR),
    scheduling_gates=many(STR),
    owners=many(STR),
    controller=STR,
    node_name=optional(STR),
    phase=choice(PodPhase),
    deleted_at=optional(SECONDS),
    created_at=SECONDS,
    preemption_policy=choice(PreemptionPolicy),
    preferred_node_affinity=many(_PREFERRED_TERM.form),
    pod_affinity=many(_POD_TERM.form),
    preferred_pod_affinity=many(_WEIGHTED_TERM.form),
    pod_anti_affinity=many(_POD_TERM.form),
    preferred_pod_anti_affinity=many(_WEIGHTED_TERM.form),
    topology_spread_constraints=many(_SPREAD.form),
    host_ports=many(_PORT.form),
    images=many(STR),
    image_volumes=many(STR),
    required_features=many(STR),
    volume_claims=many(_VOLUME_CLAIM.form),
    disks=many(_DISK.form),
    unmodelled=many(STR),
)
_RESTART: Final = Record(
    RestartPolicy, max_restarts=INT, backoff=SECONDS, longest_backoff=SECONDS, repair=BOOL
)


def _write_role(role: int | Role) -> Any:
    return _ROLE.write(role) if isinstance(role, Role) else role


def _read_role(value: Any, path: str) -> int | Role:
    if isinstance(value, dict):
        return _ROLE.read(value, path)
    if type(value) is not int:
        raise InvalidValueError(path, value, "an int, or an object")
    return value


ROLE: Final = Form(_write_role, _read_role)
_ROLES: Final = mapping(ROLE)
_ROLE: Final = Record(
    Role,
    count=INT,
    minimum=optional(INT),
    requests=optional(RESOURCES),
    node_selector=optional(STRS_BY_NAME),
    affinity=optional(many(_TERM.form)),
    tolerations=optional(many(_TOLERATION.form)),
    roles=_ROLES,
    topology=optional(TOPOLOGY.form),
    restart=optional(_RESTART.form),
    evicted_whole=BOOL,
)
_LABELLED: Final = Record(
    LabelledRole, role=optional(STR), selector=_SELECTOR.form, number=optional(STR)
)
GROUP: Final = Record(
    PodGroup,
    name=STR,
    namespace=STR,
    roles=_ROLES,
    min_available=INT,
    schedule_timeout=optional(SECONDS),
    min_resources=RESOURCES,
    priority=optional(INT),
    queue=optional(STR),
    created_at=SECONDS,
    topology=optional(TOPOLOGY.form),
    parent=optional(STR),
    min_groups=optional(INT),
    bundle=many(STR),
    preemption_policy=optional(choice(PreemptionPolicy)),
    evicted_whole=BOOL,
    restart=optional(_RESTART.form),
    restarts=INT,
    restarting_until=optional(SECONDS),
    copy_restarts=mapping(row(INT, optional(SECONDS))),
    labelled_roles=many(_LABELLED.form),
    spares=INT,
    unmodelled=many(STR),
)
NODE: Final = Record(
    Node,
    name=STR,
    allocatable=RESOURCES,
    labels=STRS_BY_NAME,
    taints=many(_TAINT.form),
    unschedulable=BOOL,
    images=many(_IMAGE.form),
    declared_features=many(STR),
)

_MODES: Final = many(choice(AccessMode))
_SOURCE: Final = Record(VolumeSource, driver=STR, handle=STR, in_tree=BOOL)
OBJECTS: Final[tuple[Record[Any], ...]] = (
    Record(Namespace, name=STR, labels=STRS_BY_NAME),
    Record(
        PersistentVolumeClaim,
        name=STR,
        namespace=STR,
        uid=STR,
        volume=STR,
        bound=BOOL,
        lost=BOOL,
        terminating=BOOL,
        storage_class=STR,
        access_modes=_MODES,
        requests=RESOURCES,
        selector=optional(_SELECTOR.form),
        volume_mode=STR,
        attributes_class=STR,
        selected_node=STR,
        owner=STR,
    ),
    Record(
        PersistentVolume,
        name=STR,
        labels=STRS_BY_NAME,
        capacity=RESOURCES,
        storage_class=STR,
        access_modes=_MODES,
        volume_mode=STR,
        attributes_class=STR,
        node_affinity=optional(many(_TERM.form)),
        claim=STR,
        claim_uid=STR,
        available=BOOL,
        terminating=BOOL,
        source=optional(_SOURCE.form),
    ),
    Record(
        StorageClass,
        name=STR,
        provisioner=STR,
        waits=BOOL,
        allowed_topologies=many(_TERM.form),
    ),
    Record(CSINode, name=STR, drivers=many(STR), limits=mapping(INT), migrated=many(STR)),
    Record(CSIDriver, name=STR, tracks_capacity=BOOL, required_on_node=BOOL),
    Record(
        CSIStorageCapacity,
        name=STR,
        namespace=STR,
        storage_class=STR,
        nodes=optional(_SELECTOR.form),
        largest_volume=RESOURCES,
    ),
    Record(VolumeAttachment, name=STR, node=STR, attacher=STR, volume=STR),
    Record(
        PodDisruptionBudget,
        name=STR,
        namespace=STR,
        selector=optional(_SELECTOR.form),
        disruptions_allowed=INT,
        disrupted_pods=Form(sorted, lambda value, path: frozenset(many(STR).read(value, path))),
    ),
    Record(
        PriorityClass,
        name=STR,
        value=INT,
        global_default=BOOL,
        preemption_policy=choice(PreemptionPolicy),
    ),
    Record(
        RuntimeClass,
        name=STR,
        overhead=RESOURCES,
        node_selector=STRS_BY_NAME,
        tolerations=many(_TOLERATION.form),
    ),
    Record(Service, name=STR, namespace=STR, selector=STRS_BY_NAME),
    Record(ReplicationController, name=STR, namespace=STR, selector=STRS_BY_NAME),
    Record(ReplicaSet, name=STR, namespace=STR, selector=optional(_SELECTOR.form)),
    Record(StatefulSet, name=STR, namespace=STR, selector=optional(_SELECTOR.form)),
)
"""The other objects of a cluster."""

NOUNS: Final[tuple[Record[Any], ...]] = (
    *(POD, GROUP, NODE),
    *(_TAINT, _TOLERATION, _TERM, _REQUIREMENT, TOPOLOGY, _PREFERRED_TERM),
    *(_SELECTOR, _EXPRESSION, _POD_TERM, _WEIGHTED_TERM, _SPREAD, _PORT, _IMAGE),
    *(_SOURCE, _VOLUME_CLAIM, _DISK, _RESTART, _ROLE),
    *OBJECTS,
)
"""The model classes and the classes of their fields."""

EVENTS: Final[tuple[Record[Any], ...]] = (
    Record(PodAdded, pod=POD.form),
    Record(PodUpdated, pod=POD.form),
    Record(PodDeleted, uid=STR),
    Record(NodeAdded, node=NODE.form),
    Record(NodeUpdated, node=NODE.form),
    Record(NodeDeleted, name=STR),
    Record(PodGroupAdded, group=GROUP.form),
    Record(PodGroupUpdated, group=GROUP.form),
    Record(PodGroupDeleted, key=STR),
    Record(ObjectChanged, value=union(*OBJECTS)),
    Record(ObjectDeleted, object_kind=STR, key=STR),
    Record(Bound, uid=STR, node=STR, attempt=INT),
    Record(BindFailed, uid=STR, attempt=INT, reason=STR),
    Record(PermitAllowed, uid=STR, plugin=STR, attempt=INT),
    Record(PermitRejected, uid=STR, plugin=STR, attempt=INT, reason=STR),
)
"""The events."""

_CHOICE: Final = Record(VolumeChoice, claim=STR, node=STR, volume=STR)
EFFECTS: Final[tuple[Record[Any], ...]] = (
    Record(Release, group=STR, members=many(STR)),
    Record(Bind, uid=STR, node=STR, attempt=INT, volumes=many(_CHOICE.form)),
    Record(Evict, uid=STR, node=STR, reason=STR),
    Record(PodRefused, uid=STR, reason=STR),
    Record(PriorityOverruled, uid=STR, group=STR, priority=INT, used=INT),
    Record(PodNotAdmitted, uid=STR, reason=STR),
    Record(
        GroupIncomplete,
        group=STR,
        present=INT,
        min_available=optional(INT),
        roles=many(row(STR, INT, INT)),
    ),
    Record(PodUnschedulable, uid=STR, reason=STR),
    Record(
        PodWaiting,
        uid=STR,
        node=STR,
        deadline=SECONDS,
        remaining=INT,
        attempt=INT,
        plugins=many(STR),
    ),
    Record(PodRejected, uid=STR, node=STR, reason=STR),
    Record(GroupRejected, group=STR, attempt=INT, reason=STR, retry_after=SECONDS),
    Record(GroupScheduled, group=STR, attempt=INT, scheduled=INT, waited=SECONDS),
    Record(GroupBound, group=STR, attempt=INT, bound=INT),
    Record(CopyBound, group=STR, path=STR, bound=INT),
    Record(GroupPartlyBound, group=STR, scheduled=INT, min_available=INT, uid=STR, reason=STR),
    Record(GroupBelowMinimum, group=STR, scheduled=INT, min_available=INT, path=STR),
    Record(GroupRestarted, group=STR, restarts=INT, limit=INT, until=SECONDS, path=STR),
    Record(RestartLimitReached, group=STR, restarts=INT, path=STR),
    Record(GroupRemoved, group=STR),
    Record(PodScheduled, uid=STR, node=STR),
    Record(
        Nominated,
        group=optional(STR),
        priority=INT,
        places=many(row(STR, STR)),
        victims=many(STR),
        deadline=SECONDS,
    ),
    Record(NominationLapsed, group=optional(STR), pods=many(STR), reason=STR),
    Record(VictimSearchExhausted, group=optional(STR), uid=STR, steps=INT, is_found=BOOL),
)
"""The effects and the notices."""

EVENT: Final[Form[Any]] = union(*EVENTS)
EFFECT: Final[Form[Any]] = union(*EFFECTS)
