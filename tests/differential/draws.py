"""Strategies that draw scenes: nodes and pods, with the constraints that a test asks for.

Values come from small pools, so that drawn pods and nodes concern each other: few labels, few
taints, capacities of a few pods. Whatever the API server would refuse is not drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hypothesis import strategies as st

from differential.scene import ENDED, NAMESPACES, Object, Running, Scene, ranked
from differential.volumes import storage, volumes_of_pods

__all__ = ["KINDS", "scenes"]

ZONE: Final = "topology.kubernetes.io/zone"
_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    ZONE: ("a", "b", "c"),
    "rack": ("1", "2"),
    "disk": ("ssd", "hdd", ""),
    "cores": ("4", "8", "010", "many"),
}
_TAINTS: Final = ("dedicated", "gpu", "node.kubernetes.io/unschedulable")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POD_LABELS: Final[Mapping[str, tuple[str, ...]]] = {"app": ("web", "db"), "rev": ("1", "2")}
_GPU: Final = "nvidia.com/gpu"
_MOST_NODES: Final = 6
_WITHOUT_LABELS: Final = frozenset(
    {"fit", "spacious", "taints", "ports", "images", "features", "resized"}
)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def _maybe(strategy: st.SearchStrategy[Any], default: Any = None) -> st.SearchStrategy[Any]:
    return st.one_of(st.just(default), strategy)


def _some_of(pool: Mapping[str, tuple[str, ...]]) -> st.SearchStrategy[dict[str, str]]:
    keys = {key: _maybe(st.sampled_from(values)) for key, values in pool.items()}
    return st.fixed_dictionaries(keys).map(_without_none)


def _without_none(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if value is not None}


# nodes ------------------------------------------------------------------------------------------

_ALLOCATABLE: Final = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(("1", "2", "500m", "3")),
        "memory": st.sampled_from(("1Gi", "2Gi", "3000000000")),
        "pods": st.sampled_from(("1", "2", "3", "10")),
        "ephemeral-storage": _maybe(st.sampled_from(("10Gi", "1Gi"))),
        _GPU: _maybe(st.sampled_from(("0", "1", "2"))),
    }
).map(_without_none)

_SPACIOUS: Final = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(("2", "4", "5500m")),
        "memory": st.sampled_from(("2Gi", "4Gi", "7000000000")),
        "pods": st.just("20"),
        "ephemeral-storage": st.just("100Gi"),
        _GPU: _maybe(st.sampled_from(("2", "4", "8"))),
    }
).map(_without_none)
_ROOMY: Final = {"cpu": "8", "memory": "32Gi", "pods": "20"}

_NODE_TAINTS: Final = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(_TAINTS),
            "value": st.sampled_from(("", "x", "3", "7")),
            "effect": st.sampled_from(_EFFECTS),
        }
    ),
    max_size=2,
    unique_by=lambda taint: (taint["key"], taint["effect"]),
)


@st.composite
def _nodes(draw: st.DrawFn, kinds: frozenset[str]) -> tuple[Object, ...]:
    tainted, labelled = "taints" in kinds, kinds - _WITHOUT_LABELS
    many = draw(st.integers(1, _MOST_NODES))
    capacities = _SPACIOUS if "spacious" in kinds else _ALLOCATABLE
    nodes: list[Object] = []
    for number in range(many):
        spec: Object = {}
        if tainted:
            spec["taints"] = draw(_maybe(_NODE_TAINTS, []))
            spec["unschedulable"] = draw(st.sampled_from((False, False, False, True)))
        labels = draw(_some_of(_LABELS)) if labelled else {}
        # where nothing is requested, pods shall meet their other constraints
        offers = draw(capacities) if "fit" in kinds else _ROOMY
        images = draw(_NODE_IMAGES) if "images" in kinds else []
        status: Object = {"allocatable": offers, "images": images}
        if "features" in kinds:
            status["declaredFeatures"] = draw(_DECLARED)
        metadata = {"name": f"n{number}", "labels": labels}
        nodes.append({"metadata": metadata, "spec": spec, "status": status})
    return ranked(tuple(nodes))


_DECLARED: Final = st.sampled_from(
    (
        [],
        ["RestartAllContainersOnContainerExits"],
        ["FeatureOfTomorrow"],
        ["FeatureOfTomorrow", "RestartAllContainersOnContainerExits"],
    )
)

# kube-scheduler takes the size of an image from the first node with it, so a name has one size
_IMAGES: Final[Mapping[str, int]] = {
    "small:1": 10 << 20,
    "middle:1": 150 << 20,
    "large:2": 600 << 20,
    "huge": 2 << 30,
}


def _image(name: str) -> Object:
    short = name if ":" in name else f"{name}:latest"
    return {"names": [f"images.example/{name}", short], "sizeBytes": _IMAGES[name]}


_NODE_IMAGES: Final = st.lists(
    st.sampled_from(tuple(_IMAGES)).map(_image),
    max_size=3,
    unique_by=lambda image: str(image["names"][0]),
)

# fields of a pod --------------------------------------------------------------------------------

_REQUESTS: Final = st.fixed_dictionaries(
    {
        "cpu": _maybe(st.sampled_from(("0", "100m", "500m", "1", "0.25"))),
        "memory": _maybe(st.sampled_from(("1Mi", "512Mi", "1Gi"))),
        "ephemeral-storage": _maybe(st.sampled_from(("1Gi", "5Gi"))),
        _GPU: _maybe(st.sampled_from(("1", "2"))),
    }
).map(_without_none)


def _resources(requests: dict[str, str]) -> Object:
    extended = {name: amount for name, amount in requests.items() if "/" in name}
    return {"requests": requests, "limits": extended}


@st.composite
def _containers(draw: st.DrawFn, spec: Object, kinds: frozenset[str]) -> None:
    """Add containers, of which some start before others."""
    wants: st.SearchStrategy[Object] = st.just({})
    if "fit" in kinds:
        wants = _REQUESTS.map(_resources)
    for place in range(draw(st.integers(1, 2))):
        container = {"name": f"c{place}", "image": "i", "resources": draw(wants)}
        spec.setdefault("containers", []).append(container)
    if "fit" not in kinds:
        return
    for place in range(draw(st.integers(0, 2))):
        container = {"name": f"i{place}", "image": "i", "resources": draw(wants)}
        if draw(st.booleans()):
            container["restartPolicy"] = "Always"
        spec.setdefault("initContainers", []).append(container)


_EXPRESSIONS: Final = st.one_of(
    *(
        st.fixed_dictionaries(
            {
                "key": st.just(key),
                "operator": st.sampled_from(("In", "NotIn")),
                "values": st.lists(
                    st.sampled_from((*values, "other")), min_size=1, max_size=2, unique=True
                ),
            }
        )
        for key, values in _LABELS.items()
    ),
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(tuple(_LABELS)),
            "operator": st.sampled_from(("Exists", "DoesNotExist")),
        }
    ),
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(("cores", "cores", "disk")),
            "operator": st.sampled_from(("Gt", "Lt")),
            "values": st.sampled_from((["4"], ["8"], ["10"], ["010"], ["many"])),
        }
    ),
)
_FIELDS: Final = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(("In", "NotIn")),
        "values": st.sampled_from((["n0"], ["n1"], ["n2"], ["n9"])),
    }
)
_TERM: Final = st.fixed_dictionaries(
    {"matchExpressions": _maybe(st.lists(_EXPRESSIONS, max_size=2))}
).map(_without_none)
_NAMING_TERM: Final = st.fixed_dictionaries(
    {
        "matchExpressions": _maybe(st.lists(_EXPRESSIONS, max_size=1)),
        "matchFields": _maybe(st.lists(_FIELDS, min_size=1, max_size=2)),
    }
).map(_without_none)


@st.composite
def _node_affinity(draw: st.DrawFn, spec: Object) -> None:
    spec["nodeSelector"] = draw(_maybe(_some_of(_LABELS), {}))
    if terms := draw(st.lists(_TERM, max_size=2)):
        _node_affinity_of(spec)[_REQUIRED] = {"nodeSelectorTerms": terms}


@st.composite
def _node_names(draw: st.DrawFn, spec: Object) -> None:
    if terms := draw(st.lists(_NAMING_TERM, max_size=2)):
        _node_affinity_of(spec)[_REQUIRED] = {"nodeSelectorTerms": terms}


def _compares_numbers(term: Object) -> bool:
    """Return whether no expression compares with a text.

    In a preferred term, kube-scheduler takes that for an error of the pod, and never places it; see
    the known limits.
    """
    return all(each.get("values") != ["many"] for each in term.get("matchExpressions", ()))


@st.composite
def _preferred_nodes(draw: st.DrawFn, spec: Object) -> None:
    term = st.one_of(_TERM, _NAMING_TERM).filter(_compares_numbers)
    weighted = st.fixed_dictionaries({"weight": st.sampled_from((1, 10, 99)), "preference": term})
    if preferred := draw(st.lists(weighted, max_size=2)):
        _node_affinity_of(spec)[_PREFERRED] = preferred


def _node_affinity_of(spec: Object) -> Object:
    affinity: Object = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    return affinity


_TOLERATION: Final = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(("", *_TAINTS)),
            "operator": st.just("Exists"),
            "effect": _maybe(st.sampled_from(_EFFECTS)),
        }
    ),
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(_TAINTS),
            "operator": st.sampled_from(("Equal", "")),
            "value": st.sampled_from(("", "x", "3")),
            "effect": _maybe(st.sampled_from(_EFFECTS)),
        }
    ),
).map(_without_none)


@st.composite
def _tolerations(draw: st.DrawFn, spec: Object) -> None:
    spec["tolerations"] = draw(st.lists(_TOLERATION, max_size=2))


@st.composite
def _ports(draw: st.DrawFn, spec: Object) -> None:
    """Add ports of the host; a restartable init container may have them, too."""
    spec["hostNetwork"] = draw(st.sampled_from((False, False, True)))
    taken: set[tuple[str, str, int]] = set()
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        ports: list[Object] = []
        for _ in range(draw(st.integers(0, 2))):
            number = draw(st.sampled_from((80, 81)))
            port: Object = {"containerPort": number}
            if spec["hostNetwork"] or draw(st.booleans()):
                port["hostPort"] = number
                port["hostIP"] = draw(st.sampled_from(("", "0.0.0.0", "10.0.0.1", "10.0.0.2")))
            port["protocol"] = draw(st.sampled_from(("TCP", "UDP")))
            key = (port["protocol"], port.get("hostIP", "none"), number)
            if key not in taken:  # the API server refuses two of one pod
                taken.add(key)
                ports.append(port)
        container["ports"] = ports


_SELECTOR: Final = _maybe(
    st.one_of(
        _some_of(_POD_LABELS).map(lambda labels: {"matchLabels": labels}),
        st.fixed_dictionaries(
            {
                "key": st.sampled_from(tuple(_POD_LABELS)),
                "operator": st.sampled_from(("Exists", "DoesNotExist")),
            }
        ).map(lambda expression: {"matchExpressions": [expression]}),
        st.fixed_dictionaries(
            {
                "key": st.just("app"),
                "operator": st.sampled_from(("In", "NotIn")),
                "values": st.sampled_from((["web"], ["db"], ["web", "db"])),
            }
        ).map(lambda expression: {"matchExpressions": [expression]}),
    )
)
_DOMAINS: Final = st.sampled_from((ZONE, "rack", "kubernetes.io/hostname"))


@st.composite
def _pod_term(draw: st.DrawFn) -> Object:
    term: Object = {"topologyKey": draw(_DOMAINS), "labelSelector": draw(_SELECTOR)}
    match draw(st.integers(0, 5)):
        case 0:
            term["namespaces"] = draw(st.sampled_from((["judge-a"], ["judge-a", "judge-b"])))
        case 1:
            chosen: tuple[Object, ...] = ({}, {"matchLabels": {"team": "red"}})
            term["namespaceSelector"] = draw(st.sampled_from(chosen))
        case 2 if term["labelSelector"] is not None and "rev" not in str(term["labelSelector"]):
            name = draw(st.sampled_from(("matchLabelKeys", "mismatchLabelKeys")))
            term[name] = ["rev"]
    return _without_none(term)


@st.composite
def _pod_affinity(draw: st.DrawFn, spec: Object) -> None:
    for name in ("podAffinity", "podAntiAffinity"):
        affinity: Object = {}
        if terms := draw(st.lists(_pod_term(), max_size=2)):
            affinity[_REQUIRED] = terms
        weighted = st.fixed_dictionaries(
            {"weight": st.sampled_from((1, 50, 100)), "podAffinityTerm": _pod_term()}
        )
        if terms := draw(st.lists(weighted, max_size=1)):
            affinity[_PREFERRED] = terms
        if affinity:
            spec.setdefault("affinity", {})[name] = affinity


@st.composite
def _spread(draw: st.DrawFn, spec: Object) -> None:
    constraints: list[Object] = []
    for _ in range(draw(st.integers(0, 2))):
        hard = draw(st.sampled_from((True, True, False)))
        constraint: Object = {
            "maxSkew": draw(st.integers(1, 2)),
            "topologyKey": draw(_DOMAINS),
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
            "labelSelector": draw(_SELECTOR),
            "nodeAffinityPolicy": draw(_maybe(st.sampled_from(("Honor", "Ignore")))),
            "nodeTaintsPolicy": draw(_maybe(st.sampled_from(("Honor", "Ignore")))),
            "minDomains": draw(_maybe(st.integers(1, 4))) if hard else None,
        }
        selector = constraint["labelSelector"]
        if selector is not None and "rev" not in str(selector) and draw(st.booleans()):
            constraint["matchLabelKeys"] = ["rev"]
        ours = (constraint["topologyKey"], constraint["whenUnsatisfiable"])
        if all(ours != (c["topologyKey"], c["whenUnsatisfiable"]) for c in constraints):
            constraints.append(_without_none(constraint))
    spec["topologySpreadConstraints"] = constraints


@st.composite
def _images(draw: st.DrawFn, spec: Object) -> None:
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        container["image"] = draw(st.sampled_from((*_IMAGES, "absent:1")))


_RULES: Final = st.fixed_dictionaries(
    {
        "restartPolicy": st.sampled_from(("Never", "OnFailure")),
        "restartPolicyRules": st.lists(
            st.fixed_dictionaries(
                {
                    "action": st.sampled_from(("Restart", "RestartAllContainers")),
                    "exitCodes": st.just({"operator": "In", "values": [3]}),
                }
            ),
            max_size=2,
        ),
    }
)


@st.composite
def _features(draw: st.DrawFn, spec: Object) -> None:
    """Add rules for restarts, of which one needs a feature of the node."""
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        container.update(draw(_maybe(_RULES, {})))


_AMOUNTS: Final = st.fixed_dictionaries(
    {
        "cpu": _maybe(st.sampled_from(("50m", "500m", "1", "1500m"))),
        "memory": _maybe(st.sampled_from(("1Mi", "512Mi", "2Gi"))),
    }
).map(_without_none)
_RESIZES: Final = st.sampled_from(("", "", "Deferred", "Infeasible"))


@st.composite
def _given(draw: st.DrawFn, pod: Object) -> Object:
    """Draw what the kubelet gave to a running pod, which may have been resized since."""

    def reports(containers: list[Object]) -> list[Object]:
        found: list[Object] = []
        for container in containers:
            report = {"name": container["name"], "image": "i", "imageID": "i"}
            if draw(st.sampled_from((True, True, False))):
                report["resources"] = {"requests": draw(_AMOUNTS)}
            if draw(st.booleans()):
                report["allocatedResources"] = draw(_AMOUNTS)
            found.append({**report, "ready": True, "restartCount": 0})
        return found

    spec, status = pod["spec"], dict[str, Any]()
    status["containerStatuses"] = reports(spec["containers"])
    status["initContainerStatuses"] = reports(spec.get("initContainers", []))
    if draw(st.booleans()):
        status["resources"] = {"requests": draw(_AMOUNTS)}
        status["allocatedResources"] = draw(_AMOUNTS)
    if reason := draw(_RESIZES):
        pending = {"type": "PodResizePending", "status": "True", "reason": reason}
        status["conditions"] = [{"type": "PodScheduled", "status": "True"}, pending]
    return status


@st.composite
def _whole_pods(draw: st.DrawFn, spec: Object) -> None:
    """Add requests of the pod as a whole, at least those of its containers."""
    if draw(st.sampled_from((False, False, True))):
        spec["resources"] = {"requests": {"cpu": "4", "memory": "4Gi"}}


_FIELDS_OF: Final[Mapping[str, Callable[[Object], st.SearchStrategy[None]]]] = {
    "node affinity": _node_affinity,
    "node names": _node_names,
    "preferred nodes": _preferred_nodes,
    "taints": _tolerations,
    "ports": _ports,
    "images": _images,
    "features": _features,
    "resized": _whole_pods,
    "pod affinity": _pod_affinity,
    "spread": _spread,
    "volumes": volumes_of_pods,
}
KINDS: Final = ("fit", "spacious", *_FIELDS_OF)
"""The kinds of constraint that can be drawn."""


@st.composite
def _pods(draw: st.DrawFn, name: str, kinds: frozenset[str]) -> Object:
    spec: Object = {"terminationGracePeriodSeconds": 3600}
    draw(_containers(spec, kinds))
    for kind in sorted(kinds - {"fit", "spacious"}):
        draw(_FIELDS_OF[kind](spec))
    labels = draw(_some_of(_POD_LABELS)) if kinds & {"pod affinity", "spread"} else {}
    namespaces = tuple(NAMESPACES) if "pod affinity" in kinds else tuple(NAMESPACES)[:1]
    namespace = draw(st.sampled_from(namespaces))
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"metadata": metadata, "spec": spec}


@st.composite
def _perhaps_bound(draw: st.DrawFn, pod: Object) -> Object:
    """Return a pod, sometimes with the name of a node, which need not fit, and need not exist."""
    node = draw(st.sampled_from(("", "", "n0", "n1", "n2", "n9")))
    return {**pod, "spec": {**pod["spec"], "nodeName": node}} if node else pod


@st.composite
def scenes(
    draw: st.DrawFn, kinds: frozenset[str], *, pending: int = 10, rivals: bool = False
) -> Scene:
    """Draw a scene with the given kinds of constraint, of ``KINDS``.

    Args:
        draw: Given by hypothesis.
        kinds: The kinds.
        pending: The largest number of pending pods.
        rivals: Whether some of these are created with the name of a node, so that no scheduler
            places them.
    """
    nodes = draw(_nodes(kinds))
    running: list[Running] = []
    for number in range(draw(st.integers(0, 4))):
        pod = draw(_pods(f"r{number}", kinds))
        node = draw(st.integers(0, len(nodes) - 1))
        terminating = draw(st.sampled_from((False, False, False, True)))
        phase = draw(st.sampled_from(("", "", "", "Running", *ENDED)))
        status = draw(_given(pod)) if "resized" in kinds else {}
        running.append(Running(pod, f"n{node}", terminating, phase, status=status))
    waiting = [draw(_pods(f"p{number}", kinds)) for number in range(draw(st.integers(1, pending)))]
    if rivals:
        waiting = [draw(_perhaps_bound(pod)) for pod in waiting]
    others = draw(storage(nodes)) if "volumes" in kinds else ()
    return Scene(nodes, tuple(running), tuple(waiting), others)
