"""Strategies that draw claims, volumes, classes and drivers, and the pods that use them.

Each scene has its own storage classes: one whose claims wait for a pod and are provisioned, one
whose claims wait and are never provisioned, one whose claims should have been bound at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from hypothesis import strategies as st

from differential.scene import NAMESPACES, Object

__all__ = ["DRIVER", "storage", "volumes_of_pods"]

DRIVER: Final = "csi.judge.test"
_NAMESPACE: Final = next(iter(NAMESPACES))
_STORAGE: Final = "/apis/storage.k8s.io/v1"
_CLASSES: Final = ("provisioned", "static", "immediate")
_MOST_CLAIMS: Final = 4
_SIZES: Final = ("1Gi", "2Gi", "3Gi")
_ZONE: Final = "topology.kubernetes.io/zone"
_HOST: Final = "kubernetes.io/hostname"
_MODES: Final = (["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadOnlyMany"], ["ReadWriteOncePod"])

Others = tuple[tuple[str, Object], ...]


def _one_in(count: int) -> st.SearchStrategy[bool]:
    return st.integers(1, count).map(lambda number: number == 1)


def _selects(key: str, values: Iterable[str]) -> Object:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [*values]}]}
    return {"required": {"nodeSelectorTerms": [term]}}


_REACHED_FROM: Final = st.one_of(
    st.none(),
    st.sampled_from((("a",), ("b", "c"))).map(lambda zones: _selects(_ZONE, zones)),
    st.sampled_from((("n0",), ("n1", "n2"), ("n9",))).map(lambda nodes: _selects(_HOST, nodes)),
)
_ZONE_LABELS: Final = st.sampled_from(({}, {}, {_ZONE: "a"}, {_ZONE: "b__c"}, {"tier": "gold"}))


@st.composite
def _volume(draw: st.DrawFn, name: str, storage_class: str, claim: str = "") -> Object:
    """Draw a volume; it is bound to *claim* if one is named."""
    csi = {"csi": {"driver": DRIVER, "volumeHandle": draw(st.sampled_from((name, "shared")))}}
    spec: Object = {
        "capacity": {"storage": draw(st.sampled_from(_SIZES))},
        "accessModes": draw(st.sampled_from((["ReadWriteOnce"], ["ReadOnlyMany"]))),
        "storageClassName": storage_class,
        **draw(st.sampled_from((csi, csi, {"hostPath": {"path": "/x"}}))),
    }
    affinity = draw(_REACHED_FROM)
    if affinity is not None:
        spec["nodeAffinity"] = affinity
    if claim:
        spec["claimRef"] = {"namespace": _NAMESPACE, "name": claim}
    phase = "Bound" if claim else draw(st.sampled_from(("Available",) * 5 + ("Released",)))
    metadata = {"name": name, "labels": draw(_ZONE_LABELS)}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


@st.composite
def _claim(draw: st.DrawFn, name: str, storage_class: str, volume: str = "") -> Object:
    """Draw a claim; it is bound to *volume* if one is named."""
    spec: Object = {
        "accessModes": draw(st.sampled_from(_MODES)),
        "resources": {"requests": {"storage": draw(st.sampled_from(_SIZES))}},
        "storageClassName": storage_class,
    }
    if draw(_one_in(8)):
        spec["selector"] = {"matchLabels": {"tier": "gold"}}
    metadata: Object = {"name": name, "namespace": _NAMESPACE}
    status: Object = {"phase": "Pending"}
    if volume:
        spec["volumeName"] = volume
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        status = {"phase": draw(st.sampled_from(("Bound",) * 7 + ("Lost",)))}
    return {"metadata": metadata, "spec": spec, "status": status}


@st.composite
def storage(draw: st.DrawFn, nodes: tuple[Object, ...]) -> Others:
    """Draw the objects of a scene, each with the path of its list.

    Args:
        draw: Given by hypothesis.
        nodes: The nodes of the scene.
    """
    found = [*draw(_classes()), *draw(_drivers(nodes))]
    volumes, claims = "/api/v1/persistentvolumes", _claims_path()
    for number in range(draw(st.integers(1, _MOST_CLAIMS))):
        storage_class = draw(st.sampled_from(_CLASSES))
        name, volume = f"c{number}", ""
        if draw(st.booleans()):
            volume = f"v-{name}"
            if not draw(_one_in(8)):  # otherwise the volume of a bound claim is missing
                found.append((volumes, draw(_volume(volume, storage_class, name))))
        found.append((claims, draw(_claim(name, storage_class, volume))))
    for number in range(draw(st.integers(0, 4))):
        storage_class = draw(st.sampled_from(_CLASSES))
        found.append((volumes, draw(_volume(f"v{number}", storage_class))))
    return tuple(found)


def _claims_path() -> str:
    return f"/api/v1/namespaces/{_NAMESPACE}/persistentvolumeclaims"


@st.composite
def _classes(draw: st.DrawFn) -> list[tuple[str, Object]]:
    topologies: list[Object] = []
    if draw(_one_in(4)):
        expression = {"key": _ZONE, "values": draw(st.sampled_from((["a"], ["b", "c"])))}
        topologies.append({"matchLabelExpressions": [expression]})
    waits, at_once = "WaitForFirstConsumer", "Immediate"
    kinds: dict[str, Object] = {
        "provisioned": {"provisioner": DRIVER, "volumeBindingMode": waits},
        "static": {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": waits},
        "immediate": {"provisioner": DRIVER, "volumeBindingMode": at_once},
    }
    if topologies:
        kinds["provisioned"]["allowedTopologies"] = topologies
    path = f"{_STORAGE}/storageclasses"
    return [(path, {"metadata": {"name": name}, **body}) for name, body in kinds.items()]


@st.composite
def _drivers(draw: st.DrawFn, nodes: tuple[Object, ...]) -> list[tuple[str, Object]]:
    """Draw the driver, how many volumes it attaches to each node, and how much storage it has."""
    found: list[tuple[str, Object]] = []
    if draw(st.booleans()):
        spec = {"storageCapacity": draw(st.booleans())}
        found.append((f"{_STORAGE}/csidrivers", {"metadata": {"name": DRIVER}, "spec": spec}))
        for zone in ("a", "b", "c"):
            size = draw(st.sampled_from((None, "1Gi", "2Gi", "10Gi")))
            if size is not None:
                capacity = {
                    "metadata": {"name": f"in-{zone}", "namespace": _NAMESPACE},
                    "storageClassName": "provisioned",
                    "nodeTopology": {"matchLabels": {_ZONE: zone}},
                    draw(st.sampled_from(("capacity", "maximumVolumeSize"))): size,
                }
                path = f"{_STORAGE}/namespaces/{_NAMESPACE}/csistoragecapacities"
                found.append((path, capacity))
    for node in nodes:
        limit = draw(st.sampled_from((None, None, 0, 1, 2)))
        if limit is not None:
            name = node["metadata"]["name"]
            driver = {"name": DRIVER, "nodeID": name, "topologyKeys": [_ZONE]}
            body = {
                "metadata": {"name": name},
                "spec": {"drivers": [{**driver, "allocatable": {"count": limit}}]},
            }
            found.append((f"{_STORAGE}/csinodes", body))
    return found


@st.composite
def volumes_of_pods(draw: st.DrawFn, spec: Object) -> None:
    """Add volumes to a pod: claims that may be missing, and disks that conflict."""
    volumes: list[Any] = []
    numbers = st.lists(st.integers(0, _MOST_CLAIMS), max_size=2, unique=True)
    for number in draw(numbers):
        claim = {"claimName": f"c{number}", "readOnly": False}
        volumes.append({"name": f"v{number}", "persistentVolumeClaim": claim})
    if draw(_one_in(10)):
        template = {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            }
        }
        volumes.append({"name": "own", "ephemeral": {"volumeClaimTemplate": template}})
    if draw(_one_in(5)):
        disk: Object = {"iqn": "iqn.2001-04.com.example:" + draw(st.sampled_from(("a", "b")))}
        disk |= {"targetPortal": "10.0.0.1", "lun": 0, "readOnly": draw(st.booleans())}
        volumes.append({"name": "disk", "iscsi": disk})
    spec["volumes"] = volumes
