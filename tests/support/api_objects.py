"""Objects as an API server sends them: plain ones, and drawn ones, malformed ones included."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

__all__ = ["Document", "drawn_nodes", "drawn_pods", "event_line", "node", "pod", "pod_group", "raw"]

Document = dict[str, Any]


def raw(document: object) -> bytes:
    """Return a document as JSON, as an API server writes it: without spaces."""
    return json.dumps(document, separators=(",", ":")).encode()


def pod(name: str = "w-0", *, version: str = "7", uid: str | None = None, **spec: Any) -> Document:
    """Return a pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": uid or f"uid-{name}",
            "resourceVersion": version,
            "generation": 1,
            "creationTimestamp": "2026-01-31T12:00:00Z",
            "labels": {"job": "train", "index": name},
            "managedFields": [{"manager": "x", "operation": "Update", "fieldsV1": {"f:spec": {}}}],
        },
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "x",
                    "args": [name],
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                    "terminationMessagePath": "/dev/termination-log",
                    "imagePullPolicy": "Always",
                    "volumeMounts": [{"name": f"token-{name}", "mountPath": "/x"}],
                }
            ],
            "volumes": [{"name": f"token-{name}", "projected": {"defaultMode": 420}}],
            "restartPolicy": "Always",
            "schedulerName": "gangsched",
            "securityContext": {},
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "schedulingGroup": {"podGroupName": "train"},
            **spec,
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def node(name: str = "n1", *, version: str = "7", **status: Any) -> Document:
    """Return a node."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "labels": {"kubernetes.io/hostname": name},
        },
        "spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi"}, "images": [], **status},
    }


def pod_group(name: str = "train", *, version: str = "7", **spec: Any) -> Document:
    """Return a PodGroup of ``scheduling.k8s.io``."""
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": version,
        },
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, **spec},
    }


_FIELDS = {
    "f:spec": {
        "f:containers": {
            'k:{"name":"c"}': {
                ".": {},
                "f:image": {},
                "f:imagePullPolicy": {},
                "f:name": {},
                "f:resources": {".": {}, "f:limits": {".": {}, "f:nvidia.com/gpu": {}}},
                "f:terminationMessagePath": {},
                "f:terminationMessagePolicy": {},
            }
        },
        "f:dnsPolicy": {},
        "f:enableServiceLinks": {},
        "f:restartPolicy": {},
        "f:schedulerName": {},
        "f:schedulingGroup": {".": {}, "f:podGroupName": {}},
    }
}


def event_line(number: int) -> bytes:
    """Return one line of a watch: a pod of a job, of the size that pods have."""
    document = pod(
        f"train-{number // 100}-{number}",
        version=str(number + 1),
        tolerations=[
            {
                "key": f"node.kubernetes.io/{what}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for what in ("not-ready", "unreachable")
        ],
        dnsPolicy="ClusterFirst",
        terminationGracePeriodSeconds=30,
        enableServiceLinks=True,
        schedulingGroup={"podGroupName": f"train-{number // 100}"},
    )
    document["metadata"]["managedFields"][0]["fieldsV1"] = _FIELDS
    return raw({"type": "ADDED", "object": document}) + b"\n"


_LABELS = st.dictionaries(st.sampled_from(["a", "b", "c/d"]), st.sampled_from(["", "x", "y"]))
_QUANTITY = st.sampled_from(["0", "1", "500m", "4Gi", "1e3", 2, "-1", "many", 0.5, None])
_AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), _QUANTITY)
_ODD: st.SearchStrategy[Any] = st.sampled_from([None, 0, "", [], {}, "x", True])
_INSTANT = st.sampled_from(
    ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00+02:00", "2026-01-31T12:00:00", "soon", "", None]
)
_TOLERATION = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["gpu", "spot", ""]),
        "operator": st.sampled_from(["Exists", "Equal", "Lt", ""]),
        "value": st.sampled_from(["", "a"]),
        "effect": st.sampled_from(["NoSchedule", "NoExecute", "", "Never"]),
        "tolerationSeconds": st.just(300),
    },
)
_EXPRESSION = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["zone", ""]),
        "operator": st.sampled_from(["In", "NotIn", "Exists", "Gt", "Near"]),
    },
    optional={"values": st.lists(st.sampled_from(["a", "3", "n1", "n2"]), max_size=2)},
)
_TERM = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(_EXPRESSION, max_size=2),
        "matchFields": st.lists(_EXPRESSION, max_size=1),
    },
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_POD_TERM = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(["zone", "host"])},
    optional={
        "labelSelector": st.fixed_dictionaries({"matchLabels": _LABELS}),
        "namespaces": st.lists(st.sampled_from(["team", "other"]), max_size=1),
        "matchLabelKeys": st.just(["a"]),
    },
)
_AFFINITY = st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": st.fixed_dictionaries(
            {},
            optional={
                _REQUIRED: st.fixed_dictionaries(
                    {}, optional={"nodeSelectorTerms": st.lists(_TERM, max_size=2)}
                )
            },
        ),
        "podAffinity": st.fixed_dictionaries(
            {}, optional={_REQUIRED: st.lists(_POD_TERM, max_size=1)}
        ),
        "podAntiAffinity": st.fixed_dictionaries(
            {}, optional={_REQUIRED: st.lists(_POD_TERM, max_size=1)}
        ),
    },
)
_CONTAINER = st.fixed_dictionaries(
    {"name": st.sampled_from(["c", "d"])},
    optional={
        "image": st.sampled_from(["x", "y"]),
        "resources": st.fixed_dictionaries({}, optional={"requests": _AMOUNTS, "limits": _AMOUNTS}),
        "ports": st.lists(
            st.fixed_dictionaries({}, optional={"hostPort": st.sampled_from([0, 80, -1, "80"])}),
            max_size=2,
        ),
        "restartPolicy": st.sampled_from(["Always", "Never", "Sometimes"]),
        "env": st.just([{"name": "A", "value": "b"}]),
        "fieldOfTomorrow": _ODD,
    },
)
_VOLUME = st.fixed_dictionaries(
    {"name": st.sampled_from(["v", "w"])},
    optional={
        "persistentVolumeClaim": st.just({"claimName": "x"}),
        "ephemeral": st.just({}),
        "emptyDir": st.just({}),
        "volumeOfTomorrow": st.just({}),
    },
)
_SPREAD = st.fixed_dictionaries(
    {"maxSkew": st.just(1), "topologyKey": st.just("zone")},
    optional={
        "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": st.fixed_dictionaries({"matchLabels": _LABELS}),
    },
)
_SPEC: dict[str, st.SearchStrategy[Any]] = {
    "initContainers": st.lists(_CONTAINER, max_size=2) | _ODD,
    "volumes": st.lists(_VOLUME, max_size=2) | _ODD,
    "nodeSelector": _LABELS | _ODD,
    "affinity": _AFFINITY | _ODD,
    "tolerations": st.lists(_TOLERATION, max_size=2) | _ODD,
    "topologySpreadConstraints": st.lists(_SPREAD, max_size=1) | _ODD,
    "schedulingGates": st.lists(st.sampled_from([{"name": "g"}, {"name": ""}, {}]), max_size=2),
    "overhead": _AMOUNTS | _ODD,
    "resources": st.fixed_dictionaries({}, optional={"requests": _AMOUNTS, "limits": _AMOUNTS}),
    "resourceClaims": st.just([{"name": "x"}]) | _ODD,
    "workloadRef": st.just({"name": "x"}) | _ODD,
    "priority": st.sampled_from([0, 7, -1, "7", None, 1.5, 2**40]),
    "priorityClassName": st.sampled_from(["", "system-node-critical", "unknown", None]),
    "preemptionPolicy": st.sampled_from(["Never", "PreemptLowerPriority", "Maybe", "", None]),
    "schedulingGroup": st.sampled_from(
        [{}, {"podGroupName": "g"}, {"podGroupName": ""}, {"podGroupName": 3}, [], None]
    ),
    "schedulerName": st.sampled_from(["gangsched", "", None]),
    "hostname": st.sampled_from(["h", ""]),
    "hostNetwork": st.booleans(),
    "runtimeClassName": st.sampled_from(["gvisor", None]),
    "os": st.just({"name": "linux"}),
    "fieldOfTomorrow": _ODD,
}
_METADATA: dict[str, st.SearchStrategy[Any]] = {
    "namespace": st.sampled_from(["team", "default", "", None, "No Such"]),
    "uid": st.sampled_from(["u", "", None]),
    "labels": _LABELS | _ODD,
    "annotations": _LABELS | _ODD,
    "ownerReferences": st.lists(
        st.fixed_dictionaries({"name": st.sampled_from(["job", ""])}), max_size=2
    )
    | _ODD,
    "creationTimestamp": _INSTANT,
    "deletionTimestamp": _INSTANT,
    "resourceVersion": st.sampled_from(["1", "2"]),
    "generation": st.sampled_from([0, 3]),
}
_GIVEN: dict[str, st.SearchStrategy[Any]] = {
    "resources": st.fixed_dictionaries({}, optional={"requests": _AMOUNTS}) | _ODD,
    "allocatedResources": _AMOUNTS | _ODD,
}
_CONTAINER_STATUSES = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from(["c", "d", ""])}, optional=_GIVEN), max_size=2
)
_STATUS: dict[str, st.SearchStrategy[Any]] = {
    **_GIVEN,
    "containerStatuses": _CONTAINER_STATUSES | st.none(),
    "initContainerStatuses": _CONTAINER_STATUSES | st.none(),
    "phase": st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Lost", "", None]),
    "nominatedNodeName": st.sampled_from(["n1", "", None]),
    "conditions": st.lists(
        st.fixed_dictionaries(
            {"type": st.sampled_from(["PodScheduled", "Ready", "PodResizePending"])},
            optional={
                "status": st.just("False"),
                "reason": st.sampled_from(["Unschedulable", "Infeasible", "Deferred"]),
            },
        ),
        max_size=2,
    )
    | st.none(),
}


@st.composite
def drawn_pods(draw: st.DrawFn) -> list[Document]:
    """Draw pods of one job: their specifications are mostly alike, and sometimes malformed."""
    some = draw(st.lists(st.sampled_from(sorted(_SPEC)), max_size=3, unique=True))
    spec: Document = {
        "containers": draw(st.lists(_CONTAINER, min_size=1, max_size=2)),
        **{key: draw(_SPEC[key]) for key in some},
    }
    pods: list[Document] = []
    for index in range(draw(st.integers(2, 4))):
        metadata, status = _few(draw, _METADATA), _few(draw, _STATUS)
        own = dict(spec)
        if draw(st.booleans()):
            own["nodeName"] = draw(st.sampled_from(["n1", "n1", "n2", "", None]))
        if draw(st.booleans()):
            key = draw(st.sampled_from([*some, *some, *sorted(_SPEC)]))
            own[key] = draw(_SPEC[key])
        name = draw(st.sampled_from([*[f"w-{index}"] * 8, "W", ""]))
        base = {"name": name, "uid": f"u{index}", "namespace": "team", "resourceVersion": "9"}
        pods.append(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**base, **metadata},
                "spec": own,
                "status": status,
            }
        )
    return pods


@st.composite
def drawn_nodes(draw: st.DrawFn) -> list[Document]:
    """Draw versions of one node, some of them malformed."""
    nodes: list[Document] = []
    for index in range(draw(st.integers(2, 4))):
        document = node(version=str(index))
        document["metadata"]["labels"] = draw(_LABELS | _ODD)
        document["spec"] = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "unschedulable": st.booleans() | _ODD,
                    "taints": st.lists(
                        st.sampled_from([{"key": "a", "effect": "NoSchedule"}, {"key": "a"}, {}]),
                        max_size=2,
                    ),
                },
            )
        )
        document["status"] = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "allocatable": _AMOUNTS,
                    "capacity": _AMOUNTS,
                    "declaredFeatures": st.lists(st.sampled_from(["a", "b"]), max_size=2) | _ODD,
                    "images": st.lists(
                        st.sampled_from([{"names": ["x:1"], "sizeBytes": 9}, {}, {"names": 1}]),
                        max_size=2,
                    ),
                },
            )
        )
        nodes.append(document)
    return nodes


def _few(draw: st.DrawFn, fields: dict[str, st.SearchStrategy[Any]]) -> Document:
    some = draw(st.lists(st.sampled_from(sorted(fields)), max_size=2, unique=True))
    return {key: draw(fields[key]) for key in some}
