"""The definitions of the queues of Kueue and Volcano: fields, types, defaults and validation.

Rules:
  R1  what an API server would refuse or fill in there, it refuses or fills in here. A field that is
      not defined is dropped, as there. Descriptions and columns are left out, and the status of
      Kueue's objects, which its controllers write;
  R2  defaults matter most: they are what a scheduler reads that nobody has written.

Source: the v1beta2 API of Kueue, and the v1beta1 API of Volcano.
"""

from __future__ import annotations

from typing import Any, Final

from support.definitions import Object, definition

__all__ = ["KUEUE", "VOLCANO", "queues_of_kueue", "queues_of_volcano"]

KUEUE: Final = "kueue.x-k8s.io/v1beta2"
VOLCANO: Final = "scheduling.volcano.sh/v1beta1"

_DNS: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_NUMBER: Final = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
_QUANTITY: Final[Object] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$",
    "x-kubernetes-int-or-string": True,
}
_TEXT: Final[Object] = {"type": "string"}
_NAME: Final[Object] = {"type": "string", "maxLength": 253, "pattern": _DNS}
_AMOUNTS: Final[Object] = {"type": "object", "additionalProperties": _QUANTITY}
_COUNT: Final[Object] = {"type": "integer", "format": "int32", "minimum": 0}


def _words(*words: str, default: str | None = None) -> Object:
    found: Object = {"type": "string", "enum": [*words]}
    return found if default is None else {**found, "default": default}


def _fields(required: tuple[str, ...] = (), /, **fields: Object) -> Object:
    found: Object = {"type": "object", "properties": fields}
    return {**found, "required": [*required]} if required else found


def _list(of: Object, kind: str, **limits: int) -> Object:
    return {"type": "array", "items": of, "x-kubernetes-list-type": kind, **limits}


def _by_name(of: Object) -> Object:
    """Return a list whose items have names, 64 at the most."""
    found = _list(of, "map", minItems=1, maxItems=64)
    return {**found, "x-kubernetes-list-map-keys": ["name"]}


def _where(schema: Object, rule: str, message: str) -> Object:
    return {**schema, "x-kubernetes-validations": [{"rule": rule, "message": message}]}


# Kueue --------------------------------------------------------------------------------------------

_STOPPED: Final = _words("None", "Hold", "HoldAndDrain", default="None")
_FAIR: Final = _fields(weight={**_QUANTITY, "default": 1})
_RESOURCE: Final = _fields(
    ("name", "nominalQuota"),
    name=_TEXT,
    nominalQuota=_QUANTITY,
    borrowingLimit=_QUANTITY,
    lendingLimit=_QUANTITY,
)
_GROUP: Final = _where(
    _fields(
        ("coveredResources", "flavors"),
        coveredResources=_list(_TEXT, "atomic", minItems=1, maxItems=64),
        flavors=_by_name(_fields(("name", "resources"), name=_NAME, resources=_by_name(_RESOURCE))),
    ),
    "self.flavors.all(x, size(x.resources) == size(self.coveredResources))",
    "flavors must have the same number of resources as the coveredResources",
)
_GROUPS: Final = _list(_GROUP, "atomic", maxItems=16)
_EXPRESSION: Final = _fields(
    ("key", "operator"), key=_TEXT, operator=_TEXT, values=_list(_TEXT, "atomic")
)
_SELECTOR: Final[Object] = {
    **_fields(
        matchExpressions=_list(_EXPRESSION, "atomic"),
        matchLabels={"type": "object", "additionalProperties": _TEXT},
    ),
    "x-kubernetes-map-type": "atomic",
}
_PREEMPTION: Final = _where(
    _fields(
        reclaimWithinCohort=_words("Never", "LowerPriority", "Any", default="Never"),
        borrowWithinCohort={
            **_fields(
                policy=_words("Never", "LowerPriority", default="Never"),
                maxPriorityThreshold={"type": "integer", "format": "int32"},
            ),
            "default": {},
        },
        withinClusterQueue=_words(
            *("Never", "LowerPriority", "LowerOrNewerEqualPriority"), default="Never"
        ),
    ),
    "!(self.reclaimWithinCohort == 'Never' && has(self.borrowWithinCohort) && "
    " self.borrowWithinCohort.policy != 'Never')",
    "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
)
_FLAVORS: Final = _where(
    _fields(
        whenCanBorrow=_words("MayStopSearch", "TryNextFlavor", default="MayStopSearch"),
        whenCanPreempt=_words("MayStopSearch", "TryNextFlavor", default="TryNextFlavor"),
        preference=_words("BorrowingOverPreemption", "PreemptionOverBorrowing"),
    ),
    "!has(self.preference) || (self.whenCanBorrow == 'TryNextFlavor' && "
    "self.whenCanPreempt == 'TryNextFlavor')",
    "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor",
)
_CHECK: Final = _fields(
    ("name",),
    name={"type": "string", "minLength": 1, "maxLength": 316},
    onFlavors=_list(_NAME, "set", maxItems=64),
)
_MIGRATION: Final = _fields(
    ("mode",),
    mode={**_words("TryPreferredFlavors", "RetainFirstAdmission"), "maxLength": 253},
    constraints=_fields(lastAcceptableFlavorName=_NAME),
)
_SCOPES: Final = ("UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing")
_CLUSTER_QUEUE: Final = _where(
    _fields(
        resourceGroups=_GROUPS,
        cohortName=_NAME,
        queueingStrategy=_words("StrictFIFO", "BestEffortFIFO", default="BestEffortFIFO"),
        namespaceSelector=_SELECTOR,
        flavorFungibility={**_FLAVORS, "default": {}},
        preemption={**_PREEMPTION, "default": {}},
        admissionChecksStrategy=_fields(("admissionChecks",), admissionChecks=_by_name(_CHECK)),
        stopPolicy=_STOPPED,
        fairSharing=_FAIR,
        admissionScope=_fields(("admissionMode",), admissionMode=_words(*_SCOPES)),
        concurrentAdmissionPolicy=_fields(("migration",), migration=_MIGRATION),
    ),
    "!has(self.cohortName) && has(self.resourceGroups) ? self.resourceGroups.all(rg, "
    "rg.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit)))) : true",
    "borrowingLimit must be nil when cohort is empty",
)
_COHORT: Final = _fields(parentName=_NAME, resourceGroups=_GROUPS, fairSharing=_FAIR)
_LOCAL_QUEUE: Final = _fields(
    clusterQueue=_where(_NAME, "self == oldSelf", "field is immutable"),
    stopPolicy=_STOPPED,
    fairSharing=_FAIR,
)


def queues_of_kueue() -> tuple[Object, ...]:
    """Return the definitions of ``Cohort``, ``ClusterQueue`` and ``LocalQueue``."""
    return (
        definition(KUEUE, "Cohort", "cohorts", _fields(spec=_COHORT), scope="Cluster"),
        definition(
            KUEUE, "ClusterQueue", "clusterqueues", _fields(spec=_CLUSTER_QUEUE), scope="Cluster"
        ),
        definition(KUEUE, "LocalQueue", "localqueues", _fields(spec=_LOCAL_QUEUE)),
    )


# Volcano ------------------------------------------------------------------------------------------


def _texts() -> Object:
    return {"type": "array", "items": _TEXT}


def _node_groups() -> Object:
    suffix = "DuringSchedulingIgnoredDuringExecution"
    return _fields(**{f"{word}{suffix}": _texts() for word in ("required", "preferred")})


_QUEUE: Final = _fields(
    affinity=_fields(nodeGroupAffinity=_node_groups(), nodeGroupAntiAffinity=_node_groups()),
    capability=_AMOUNTS,
    dequeueStrategy=_words("fifo", "traverse", default="traverse"),
    deserved=_AMOUNTS,
    extendClusters={
        "type": "array",
        "items": _fields(
            capacity=_AMOUNTS, name=_TEXT, weight={"type": "integer", "format": "int32"}
        ),
    },
    guarantee=_fields(resource=_AMOUNTS),
    parent=_NAME,
    priority=_COUNT,
    reclaimable={"type": "boolean"},
    type={"type": "string", "maxLength": 253},
    weight={**_COUNT, "minimum": 1, "maximum": 65535, "default": 1},
)
_QUEUE_STATUS: Final = _fields(
    allocated=_AMOUNTS,
    reservation=_fields(nodes=_texts(), resource=_AMOUNTS),
    state=_words("Open", "Closed", "Closing", "Unknown"),
    **dict.fromkeys(("unknown", "pending", "running", "inqueue", "completed"), _COUNT),
)


def queues_of_volcano() -> tuple[Object, ...]:
    """Return the definition of ``Queue``."""
    schema: dict[str, Any] = _fields(spec=_QUEUE, status=_QUEUE_STATUS)
    return (definition(VOLCANO, "Queue", "queues", schema, scope="Cluster"),)
