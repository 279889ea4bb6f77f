"""Annotations that ask for more than is modelled: of Koordinator, YuniKorn, Kueue and KAI.

``gangsched.membership`` reads the name and the minimum of a Koordinator gang and of a group of
Kueue. The other annotations change what the gang means.

Rules:
  R1  an annotation that asks for what the library does is honoured. One that only describes the
      gang is read as nothing. Any other holds the pod, or the pods of the group;
  R2  on a group, the annotation of groups is the bundle, unless it is in a tree: see ``podgroups``.
      That of a network topology is read in ``network_topology``;
  R3  topologies of sets of pods are read in ``pod_topologies``, and are only checked here;
  R4  a pod of a group that Kueue does not admit as a whole is no member of a gang; a note says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gangsched.manifests.fields import Field
from gangsched.manifests.manifest import Manifest
from gangsched.manifests.network_topology import GATHERED
from gangsched.manifests.notes import NoteKind
from gangsched.manifests.pod_topologies import ASKING, read_pod_topology

__all__ = ["HELD_ANNOTATIONS", "held_by_annotations"]

_KOORDINATOR: Final = "gang.scheduling.koordinator.sh/"
_ALLOWED: Final[dict[str, tuple[str, ...] | None]] = {
    "name": None,
    "min-available": None,
    # describes the gang: a gang waits for its minimum, never for the total
    "total-number": None,
    "mode": ("Strict", ""),
    "match-policy": ("once-satisfied", ""),
    "groups": ("", "[]"),
    # the number of a pod, by which the other scheduler orders nodes
    "network-topology-index": None,
    # how long its pods wait for each other: the permit timeout of the policy decides
    "waiting-time": None,
}
_BUNDLE: Final = f"{_KOORDINATOR}groups"
_OTHER_NAMES: Final = {"pod-group.scheduling.sigs.k8s.io/match-policy": "match-policy"}
_POD_BY_POD: Final = (
    "kueue.x-k8s.io/pod-group-fast-admission",
    "kueue.x-k8s.io/pod-group-serving",
)
_YUNIKORN: Final[tuple[str, ...]] = (
    "yunikorn.apache.org/task-groups",
    "yunikorn.apache.org/task-group-name",
    "yunikorn.apache.org/schedulingPolicyParameters",
)
_KAI: Final = ("gpu-fraction", "gpu-fraction-num-devices", "gpu-memory")
"""What KAI Scheduler reads instead of a request for a GPU."""

HELD_ANNOTATIONS: Final = (
    *(f"{_KOORDINATOR}{name}" for name, allowed in _ALLOWED.items() if allowed is not None),
    *_OTHER_NAMES,
    *_YUNIKORN,
    *_KAI,
    *ASKING,
    GATHERED,
)
"""The annotations that hold a pod or a group, unless their value asks for what is done anyway."""


def held_by_annotations(
    manifest: Manifest, annotations: Field, *, of_group: bool = False, bundles: bool = False
) -> Iterator[str]:
    """Yield the annotations that hold a pod or a group, each in words; add a note about each.

    Args:
        manifest: The object.
        annotations: Its annotations, or those of its template of pods.
        of_group: Whether it is a group.
        bundles: Whether the annotation of groups is read as the bundle.

    Raises:
        ManifestError: An annotation is not a string.
    """
    what = "the pods of the group are" if of_group else "the pod is"
    names: dict[str, str] = {}
    always = _YUNIKORN
    if not of_group:  # groups have annotations of their owners
        always = (*_YUNIKORN, *_KAI)
    for key, field in annotations.entries():
        if (bundles and key == _BUNDLE) or (of_group and key == GATHERED):
            continue
        if key.startswith(_KOORDINATOR) or key in _OTHER_NAMES:
            name = _OTHER_NAMES.get(key, key.removeprefix(_KOORDINATOR))
            allowed = _ALLOWED.get(name, ())
            if allowed is not None and field.text() not in allowed:
                names[key] = field.text()
        elif key in always and field.text():
            names[key] = field.text()
        elif key in _POD_BY_POD and field.text() == "true" and not of_group:
            manifest.note(f"metadata.annotations.{key}: the pods of its group start one by one")
    if not of_group:
        read_pod_topology(annotations)  # what is malformed is refused
    for key in names:
        path = f"metadata.annotations.{key}"
        if key in manifest.ignore or path in manifest.ignore:
            sentence = f"{key} is not modelled and was ignored"
            manifest.note(sentence, path=path, kind=NoteKind.IGNORED)
        else:
            sentence = f"{key} is not modelled, so {what} held"
            manifest.note(sentence, path=path, kind=NoteKind.HELD)
            yield key
