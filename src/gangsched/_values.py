"""JSON forms of the model classes, the events and the effects: one table.

Rules:
  R1  every event class and every effect class is in the table, with every field;
  R2  amounts are integers (thousandths), instants and durations are numbers of seconds.
"""

from __future__ import annotations

from typing import Any, Final

from gangsched._forms import (
    FLAG,
    NAMED,
    RESOURCES,
    SECONDS,
    TEXT,
    WHOLE,
    Form,
    Record,
    choice,
    many,
    mapping,
    optional,
    row,
    union,
)
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
    RuntimeClass,
    StorageClass,
    VolumeAttachment,
    VolumeSource,
)
from gangsched.events import (
    Bind,
    BindFailed,
    Bound,
    Evict,
    GroupIncomplete,
    GroupRejected,
    GroupScheduled,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    Nominated,
    NominationLapsed,
    ObjectChanged,
    ObjectDeleted,
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
)
from gangsched.model import (
    Comparison,
    ContainerImage,
    HostPort,
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
    Taint,
    TaintEffect,
    Toleration,
    Topology,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
    WhenUnsatisfiable,
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
_REQUIREMENT: Final = Record(NodeSelectorRequirement, key=TEXT, operator=TEXT, values=many(TEXT))
_TERM: Final = Record(
    NodeSelectorTerm, requirements=many(_REQUIREMENT.form), match_fields=many(_REQUIREMENT.form)
)
_PREFERRED_TERM: Final = Record(PreferredSchedulingTerm, weight=WHOLE, preference=_TERM.form)
_EXPRESSION: Final = Record(LabelSelectorRequirement, key=TEXT, operator=TEXT, values=many(TEXT))
_SELECTOR: Final = Record(
    LabelSelector, match_labels=NAMED, match_expressions=many(_EXPRESSION.form)
)
_POD_TERM: Final = Record(
    PodAffinityTerm,
    topology_key=TEXT,
    label_selector=optional(_SELECTOR.form),
    namespaces=many(TEXT),
    namespace_selector=optional(_SELECTOR.form),
    match_label_keys=many(TEXT),
    mismatch_label_keys=many(TEXT),
)
_WEIGHTED_TERM: Final = Record(
    WeightedPodAffinityTerm, weight=WHOLE, pod_affinity_term=_POD_TERM.form
)
_SPREAD: Final = Record(
    TopologySpreadConstraint,
    max_skew=WHOLE,
    topology_key=TEXT,
    when_unsatisfiable=choice(WhenUnsatisfiable),
    label_selector=optional(_SELECTOR.form),
    min_domains=optional(WHOLE),
    node_affinity_policy=choice(NodeInclusionPolicy),
    node_taints_policy=choice(NodeInclusionPolicy),
    match_label_keys=many(TEXT),
)
_PORT: Final = Record(HostPort, host_port=WHOLE, protocol=TEXT, host_ip=TEXT)
_IMAGE: Final = Record(ContainerImage, names=many(TEXT), size_bytes=WHOLE)
_TAINT: Final = Record(Taint, key=TEXT, value=TEXT, effect=_TAINT_EFFECT)
_TOLERATION: Final = Record(
    Toleration,
    key=TEXT,
    value=TEXT,
    exists=FLAG,
    effect=optional(_TAINT_EFFECT),
    comparison=optional(choice(Comparison)),
)
TOPOLOGY: Final = Record(Topology, key=TEXT, required=FLAG)
POD: Final = Record(
    Pod,
    uid=TEXT,
    name=TEXT,
    namespace=TEXT,
    priority=WHOLE,
    requests=RESOURCES,
    limits=RESOURCES,
    labels=NAMED,
    annotations=NAMED,
    node_selector=NAMED,
    affinity=many(_TERM.form),
    tolerations=many(_TOLERATION.form),
    pod_group=optional(TEXT),
    scheduling_gates=many(TEXT),
    owners=many(TEXT),
    node_name=optional(TEXT),
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
    images=many(TEXT),
    image_volumes=many(TEXT),
    required_features=many(TEXT),
)
GROUP: Final = Record(
    PodGroup,
    name=TEXT,
    namespace=TEXT,
    roles=mapping(WHOLE),
    min_available=WHOLE,
    schedule_timeout=optional(SECONDS),
    min_resources=RESOURCES,
    priority=optional(WHOLE),
    created_at=SECONDS,
    topology=optional(TOPOLOGY.form),
    bundle=many(TEXT),
    preemption_policy=optional(choice(PreemptionPolicy)),
)
NODE: Final = Record(
    Node,
    name=TEXT,
    allocatable=RESOURCES,
    labels=NAMED,
    taints=many(_TAINT.form),
    unschedulable=FLAG,
    images=many(_IMAGE.form),
    declared_features=many(TEXT),
)

_MODES: Final = many(choice(AccessMode))
_SOURCE: Final = Record(VolumeSource, driver=TEXT, handle=TEXT, in_tree=FLAG)
OBJECTS: Final[tuple[Record[Any], ...]] = (
    Record(Namespace, name=TEXT, labels=NAMED),
    Record(
        PersistentVolumeClaim,
        name=TEXT,
        namespace=TEXT,
        uid=TEXT,
        volume=TEXT,
        bound=FLAG,
        lost=FLAG,
        terminating=FLAG,
        storage_class=TEXT,
        access_modes=_MODES,
        requests=RESOURCES,
        selector=optional(_SELECTOR.form),
        volume_mode=TEXT,
        attributes_class=TEXT,
        selected_node=TEXT,
        owner=TEXT,
    ),
    Record(
        PersistentVolume,
        name=TEXT,
        labels=NAMED,
        capacity=RESOURCES,
        storage_class=TEXT,
        access_modes=_MODES,
        volume_mode=TEXT,
        attributes_class=TEXT,
        node_affinity=optional(many(_TERM.form)),
        claim=TEXT,
        claim_uid=TEXT,
        available=FLAG,
        terminating=FLAG,
        source=optional(_SOURCE.form),
    ),
    Record(
        StorageClass,
        name=TEXT,
        provisioner=TEXT,
        waits=FLAG,
        allowed_topologies=many(_TERM.form),
    ),
    Record(CSINode, name=TEXT, drivers=many(TEXT), limits=mapping(WHOLE), migrated=many(TEXT)),
    Record(CSIDriver, name=TEXT, tracks_capacity=FLAG, required_on_node=FLAG),
    Record(
        CSIStorageCapacity,
        name=TEXT,
        namespace=TEXT,
        storage_class=TEXT,
        nodes=optional(_SELECTOR.form),
        largest_volume=RESOURCES,
    ),
    Record(VolumeAttachment, name=TEXT, node=TEXT, attacher=TEXT, volume=TEXT),
    Record(
        PodDisruptionBudget,
        name=TEXT,
        namespace=TEXT,
        selector=optional(_SELECTOR.form),
        disruptions_allowed=WHOLE,
        disrupted_pods=Form(sorted, lambda value, path: frozenset(many(TEXT).read(value, path))),
    ),
    Record(
        PriorityClass,
        name=TEXT,
        value=WHOLE,
        global_default=FLAG,
        preemption_policy=choice(PreemptionPolicy),
    ),
    Record(
        RuntimeClass,
        name=TEXT,
        overhead=RESOURCES,
        node_selector=NAMED,
        tolerations=many(_TOLERATION.form),
    ),
)
"""The other objects of a cluster."""

NOUNS: Final[tuple[Record[Any], ...]] = (
    *(POD, GROUP, NODE),
    *(_TAINT, _TOLERATION, _TERM, _REQUIREMENT, TOPOLOGY, _PREFERRED_TERM),
    *(_SELECTOR, _EXPRESSION, _POD_TERM, _WEIGHTED_TERM, _SPREAD, _PORT, _IMAGE),
    _SOURCE,
    *OBJECTS,
)
"""The model classes and the classes of their fields."""

EVENTS: Final[tuple[Record[Any], ...]] = (
    Record(PodAdded, pod=POD.form),
    Record(PodUpdated, pod=POD.form),
    Record(PodDeleted, uid=TEXT),
    Record(NodeAdded, node=NODE.form),
    Record(NodeUpdated, node=NODE.form),
    Record(NodeDeleted, name=TEXT),
    Record(PodGroupAdded, group=GROUP.form),
    Record(PodGroupUpdated, group=GROUP.form),
    Record(PodGroupDeleted, key=TEXT),
    Record(ObjectChanged, value=union(*OBJECTS)),
    Record(ObjectDeleted, object_kind=TEXT, key=TEXT),
    Record(Bound, uid=TEXT, node=TEXT, attempt=WHOLE),
    Record(BindFailed, uid=TEXT, attempt=WHOLE, reason=TEXT),
)
"""The events."""

EFFECTS: Final[tuple[Record[Any], ...]] = (
    Record(Release, group=TEXT, members=many(TEXT)),
    Record(Bind, uid=TEXT, node=TEXT, attempt=WHOLE),
    Record(Evict, uid=TEXT, node=TEXT, reason=TEXT),
    Record(PodRefused, uid=TEXT, reason=TEXT),
    Record(PriorityOverruled, uid=TEXT, group=TEXT, priority=WHOLE, used=WHOLE),
    Record(PodNotAdmitted, uid=TEXT, reason=TEXT),
    Record(
        GroupIncomplete,
        group=TEXT,
        present=WHOLE,
        min_available=optional(WHOLE),
        roles=many(row(TEXT, WHOLE, WHOLE)),
    ),
    Record(PodUnschedulable, uid=TEXT, reason=TEXT),
    Record(PodWaiting, uid=TEXT, node=TEXT, deadline=SECONDS, remaining=WHOLE),
    Record(PodRejected, uid=TEXT, node=TEXT, reason=TEXT),
    Record(GroupRejected, group=TEXT, attempt=WHOLE, reason=TEXT, retry_after=SECONDS),
    Record(GroupScheduled, group=TEXT, attempt=WHOLE, scheduled=WHOLE, waited=SECONDS),
    Record(PodScheduled, uid=TEXT, node=TEXT),
    Record(
        Nominated,
        group=optional(TEXT),
        priority=WHOLE,
        places=many(row(TEXT, TEXT)),
        victims=many(TEXT),
        deadline=SECONDS,
    ),
    Record(NominationLapsed, group=optional(TEXT), pods=many(TEXT), reason=TEXT),
)
"""The effects and the notices."""

EVENT: Final[Form[Any]] = union(*EVENTS)
EFFECT: Final[Form[Any]] = union(*EFFECTS)
