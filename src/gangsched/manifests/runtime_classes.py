"""What a pod gets by naming a runtime class, in documents that no API server has seen.

Rules:
  R1  a pod gets what the API server adds when it admits it: the overhead, the node selector and
      the tolerations of the class. An overhead that the pod states itself stays;
  R2  a node selector that contradicts that of the class is an error, as in the API server;
  R3  a class that is not given is named in a note: the pod may request more than it says.

Source: the admission plugin RuntimeClass of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from gangsched.cluster_objects import RuntimeClass
from gangsched.manifests.fields import Field
from gangsched.manifests.manifest import Manifest
from gangsched.model import Pod
from gangsched.resources import EMPTY, NOTHING, FrozenMap, Resources

__all__ = ["with_runtime_class"]


def with_runtime_class(manifest: Manifest, spec: Field, pod: Pod) -> Pod:
    """Return a pod with what its runtime class adds.

    Raises:
        ManifestError: The pod contradicts the class.
    """
    asked, known = spec["runtimeClassName"], manifest.runtime_classes
    if known is None or not asked.text():
        return pod
    found = known.get(asked.text())
    if found is None:
        manifest.note(
            f"{asked.path} names the RuntimeClass {asked.text()!r}, which is not given,"
            " so what it adds to the pod is not counted",
            path=asked.path,
        )
        return pod
    overhead = NOTHING if spec["overhead"].given else found.overhead
    return evolve(
        pod,
        requests=pod.requests + overhead,
        limits=_limits(pod.limits, overhead),
        node_selector=_selector(spec, pod.node_selector, found),
        tolerations=tuple(dict.fromkeys((*pod.tolerations, *found.tolerations))),
    )


def _limits(limits: Resources, overhead: Mapping[str, int]) -> Resources:
    return Resources.from_milli({n: limits.amount(n) + overhead.get(n, 0) for n in limits})


def _selector(spec: Field, own: FrozenMap[str], found: RuntimeClass) -> FrozenMap[str]:
    for key, value in found.node_selector.items():
        if own.get(key, value) != value:
            expected = f"{value}, which RuntimeClass {found.name} selects"
            raise spec["nodeSelector"][key].refuse(expected)
    return FrozenMap({**own, **found.node_selector}) if found.node_selector else own or EMPTY
