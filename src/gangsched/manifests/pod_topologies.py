"""What the annotations of a pod ask of the topology of the pods of its template.

Kueue has no field for it on a group: it reads annotations of the template of a set of pods, and the
template gives them to each pod. So a pod alone does not say which pods it shares a domain with.
``member_topologies`` makes one topology of what the members of a group ask for.

Rules:
  R1  a value that the webhook of Kueue refuses is malformed;
  R2  Kueue chooses the nodes, and states them in the node selector of the pods with the name of
      its workload. Such a pod asks for nothing more. Without that name, no other program has read
      its annotations;
  R3  an annotation that has no meaning here is a problem, which holds the pods of the group.

Source: ``ValidateTASPodSetRequest`` in pkg/controller/jobframework of Kueue 0.20-devel.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, Final, cast, final

from attrs import frozen

from gangsched.errors import InvalidValueError, ManifestError
from gangsched.manifests.fields import Field, Source
from gangsched.model import Pod, Topology
from gangsched.resources import FrozenMap

__all__ = ["ASKING", "TOGETHER", "PodTopology", "asked_by", "read_pod_topology"]

_KUEUE: Final = "kueue.x-k8s.io/"
REQUIRED: Final = f"{_KUEUE}podset-required-topology"
PREFERRED: Final = f"{_KUEUE}podset-preferred-topology"
_UNCONSTRAINED: Final = f"{_KUEUE}podset-unconstrained-topology"
_SLICE: Final = f"{_KUEUE}podset-slice-required-topology"
_SLICE_SIZE: Final = f"{_KUEUE}podset-slice-size"
_SLICES: Final = f"{_KUEUE}podset-slice-required-topology-constraints"
TOGETHER: Final = f"{_KUEUE}podset-group-name"
_SPREADING: Final = f"{_KUEUE}topology-spreading"
_PLACED: Final = f"{_KUEUE}workload"

ASKING: Final = (
    *(REQUIRED, PREFERRED, _UNCONSTRAINED, _SLICE, _SLICE_SIZE, _SLICES, TOGETHER, _SPREADING),
)
"""The annotations that are read here; the first ones say most."""

_WORDS: Final = frozenset(ASKING)
_MOST_SLICES: Final = 3
_JOB_REPLICAS: Final = "jobset.sigs.k8s.io/replicatedjob-replicas"
_BOOLS: Final = ("true", "True", "TRUE", "t", "T", "1", "false", "False", "FALSE", "f", "F", "0")


@final
@frozen
class PodTopology:
    """What a pod asks for, together with the others of its template.

    Attributes:
        topology: The constraint of these pods; None if they may be anywhere.
        words: The annotations that say it.
        together: The name of sets of pods that share one domain; empty for this set alone.
        jobs: How many jobs these pods are of, each of which numbers its own; 1 for one.
        problem: The annotation that has no meaning here, and why; None if all have one.
    """

    topology: Topology | None = None
    words: tuple[str, ...] = ()
    together: str = ""
    jobs: int = 1
    problem: tuple[str, str] | None = None

    @property
    def is_hard(self) -> bool:
        """Whether these pods must not be placed without it."""
        found = self.topology
        is_soft = found is None or (not found.required and not found.slices)
        return self.problem is not None or not is_soft


def asked_by(pod: Pod) -> PodTopology | None:
    """Return what a pod asks for; None for nothing, and if it is malformed. O(annotations)."""
    annotations = pod.annotations
    if _WORDS.isdisjoint(annotations.keys()):
        return None
    return _asked(annotations, pod.labels.get(_JOB_REPLICAS, ""))


@lru_cache(maxsize=1024)
def _asked(annotations: FrozenMap[str], jobs: str) -> PodTopology | None:
    field = Field(Source("", 1), "metadata.annotations", dict(annotations))
    try:
        return read_pod_topology(field, jobs)
    except ManifestError:
        return None


def read_pod_topology(annotations: Field, jobs: str = "") -> PodTopology | None:
    """Return what the annotations of a pod ask for; None for nothing.

    Args:
        annotations: The annotations.
        jobs: The label that says of how many jobs the pods are.

    Raises:
        ManifestError: An annotation is malformed.
    """
    words = tuple(key for key in ASKING if annotations[key].text())
    if not words or annotations[_PLACED].text():
        return None
    own = [key for key in (REQUIRED, PREFERRED, _UNCONSTRAINED) if key in words]
    if len(own) > 1:
        raise annotations[own[1]].problem(f"expected it alone, and there is {own[0]}")
    annotations[_UNCONSTRAINED].word(_BOOLS, "")
    key = annotations[own[0]].text() if own and own[0] != _UNCONSTRAINED else None
    slices = _slices(annotations)
    problem: tuple[str, str] | None = None
    if _SPREADING in words:
        problem = (_SPREADING, "")
    elif TOGETHER in words and key is None:
        problem = (TOGETHER, "without a topology")
    topology = None
    if key is not None or slices:
        topology = _topology(annotations, key, PREFERRED not in own, slices)
    return PodTopology(
        topology,
        words,
        together=annotations[TOGETHER].text(),
        jobs=int(jobs) if jobs.isascii() and jobs.isdigit() and len(jobs) < 7 else 1,
        problem=problem,
    )


def _topology(
    annotations: Field, key: str | None, required: bool, slices: tuple[tuple[str, int], ...]
) -> Topology:
    try:
        return Topology(key, required=required, slices=slices)
    except InvalidValueError as error:
        of = annotations[_SLICES] if annotations[_SLICES].given else annotations[_SLICE]
        raise of.refuse_as(error) from error


def _slices(annotations: Field) -> tuple[tuple[str, int], ...]:
    one, size, several = annotations[_SLICE], annotations[_SLICE_SIZE], annotations[_SLICES]
    if several.text():
        for each in (one, size):
            if each.text():
                raise each.problem(f"expected it without {_SLICES}")
        return _layers(several)
    if not one.text() and size.text():
        raise one.refuse(f"a label, as {_SLICE_SIZE} is given")
    if not one.text():
        return ()
    text = size.text()
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) < 1:
        raise size.refuse("an int >= 1")
    return ((one.text(), int(text)),)


def _layers(field: Field) -> tuple[tuple[str, int], ...]:
    """Return slices as JSON has them: ``[{"topology": "rack", "size": 16}]``."""
    expected = 'a JSON list of 1 to 3 such as {"topology": "rack", "size": 16}'
    try:
        found: Any = json.loads(field.text())
    except (ValueError, RecursionError) as error:
        raise field.refuse(expected) from error
    if not isinstance(found, list):
        raise field.refuse(expected)
    layers: list[tuple[str, int]] = []
    for each in cast("list[object]", found):
        layer = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        level, size = layer.get("topology"), layer.get("size")
        if (
            not isinstance(level, str)
            or type(size) is not int
            or layer.keys() - {"topology", "size"}
        ):
            raise field.refuse(expected)
        layers.append((level, size))
    if not 1 <= len(layers) <= _MOST_SLICES:
        raise field.refuse(expected)
    return tuple(layers)
