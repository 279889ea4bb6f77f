"""What the annotations of a pod ask of the topology of the pods of its template.

Kueue, JobSet and LeaderWorkerSet have no field for it on a group: they read annotations of the
template of a set of pods, and the template gives them to each pod. So a pod alone does not say
which pods it shares a domain with. ``member_topologies`` makes one topology of what the members of
a group ask for.

Rules:
  R1  a value that the webhook of Kueue refuses is malformed;
  R2  Kueue chooses the nodes, and states them in the node selector of the pods with the name of
      its workload. Such a pod asks for nothing more. Without that name, no other program has read
      its annotations;
  R3  JobSet and LeaderWorkerSet write an exclusive topology into their pods: as affinity and
      anti-affinity, or as a node selector. Such a pod asks for nothing more. Otherwise each job of
      a JobSet, each set of a LeaderWorkerSet and each of its sub groups has a domain of its own;
  R4  an annotation that has no meaning here is a problem, which holds the pods of the group.

Source: ``ValidateTASPodSetRequest`` in pkg/controller/jobframework of Kueue 0.20-devel; the pod
webhooks of JobSet 0.11 and of LeaderWorkerSet 0.9, ``getSubGroupIndex`` of the latter.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, Final, cast, final

from attrs import evolve, frozen

from gangsched.errors import InvalidValueError, ManifestError
from gangsched.manifests.fields import Field, Source
from gangsched.model import Pod, Topology
from gangsched.resources import EMPTY, FrozenMap

__all__ = ["ASKING", "TOGETHER", "Copies", "PodTopology", "asked_by", "read_pod_topology"]

_KUEUE: Final = "kueue.x-k8s.io/"
_JOBSET: Final = "jobset.sigs.k8s.io/"
_LWS: Final = "leaderworkerset.sigs.k8s.io/"
_REQUIRED: Final = f"{_KUEUE}podset-required-topology"
_PREFERRED: Final = f"{_KUEUE}podset-preferred-topology"
_UNCONSTRAINED: Final = f"{_KUEUE}podset-unconstrained-topology"
_SLICE: Final = f"{_KUEUE}podset-slice-required-topology"
_SLICE_SIZE: Final = f"{_KUEUE}podset-slice-size"
_SLICES: Final = f"{_KUEUE}podset-slice-required-topology-constraints"
TOGETHER: Final = f"{_KUEUE}podset-group-name"
_SPREADING: Final = f"{_KUEUE}topology-spreading"
_PLACED: Final = f"{_KUEUE}workload"
_OF_JOB: Final = f"alpha.{_JOBSET}exclusive-topology"
_OF_SET: Final = f"{_LWS}exclusive-topology"
_OF_SUB_GROUP: Final = f"{_LWS}subgroup-exclusive-topology"
_BY_NODES: Final = f"alpha.{_JOBSET}node-selector"
_EXCLUSIVE: Final = (_OF_JOB, _OF_SET, _OF_SUB_GROUP)

ASKING: Final = (
    *(_REQUIRED, _PREFERRED, _UNCONSTRAINED, _SLICE, _SLICE_SIZE, _SLICES, *_EXCLUSIVE),
    *(TOGETHER, _SPREADING),
)
"""The annotations that are read here; the first ones say most."""

_WORDS: Final = frozenset(ASKING)
_MOST_SLICES: Final = 3
_JOBS: Final = f"{_JOBSET}replicatedjob-replicas"
_JOB: Final = f"{_JOBSET}job-index"
_REPLICATED_JOB: Final = f"{_JOBSET}replicatedjob-name"
_SET_SIZE: Final = f"{_LWS}size"
_SUB_GROUP_SIZE: Final = f"{_LWS}subgroup-size"
_SUB_GROUP: Final = f"{_LWS}subgroup-index"
_OF_COPIES: Final = (_JOBS, _REPLICATED_JOB)
"""The labels that are read beside the annotations."""
_BOOLS: Final = ("true", "True", "TRUE", "t", "T", "1", "false", "False", "FALSE", "f", "F", "0")


@final
@frozen
class Copies:
    """Pods of one template that are several jobs, or several sub groups.

    Attributes:
        count: How many there are.
        number: The label with the number of each.
        labels: The labels of all.
        size: How many pods each has; 0 if the pods do not say it.
    """

    count: int
    number: str
    labels: FrozenMap[str] = EMPTY
    size: int = 0


@final
@frozen
class PodTopology:
    """What a pod asks for, together with the others of its template.

    Attributes:
        topology: The constraint of these pods; None if they may be anywhere.
        words: The annotations that say it.
        together: The name of sets of pods that share one domain; empty for this set alone.
        copies: What these pods are copies of, each of which numbers its own; None for one.
        each: The constraint of each copy; None for none.
        problem: The annotation that has no meaning here, and why; None if all have one.
    """

    topology: Topology | None = None
    words: tuple[str, ...] = ()
    together: str = ""
    copies: Copies | None = None
    each: Topology | None = None
    problem: tuple[str, str] | None = None

    @property
    def is_hard(self) -> bool:
        """Whether these pods must not be placed without it."""
        if self.problem is not None or self.each is not None:
            return True
        found = self.topology
        return found is not None and (found.required or bool(found.slices))


def asked_by(pod: Pod) -> PodTopology | None:
    """Return what a pod asks for; None for nothing, and if it is malformed. O(annotations)."""
    annotations = pod.annotations
    if _WORDS.isdisjoint(annotations.keys()):
        return None
    labels = {key: pod.labels[key] for key in _OF_COPIES if key in pod.labels}
    written = tuple(
        word for word in _EXCLUSIVE if word in annotations and _is_written(pod, annotations[word])
    )
    return _asked(annotations, FrozenMap(labels), written)


def _is_written(pod: Pod, key: str) -> bool:
    """Return whether a controller has written an exclusive topology into a pod."""
    if key in pod.node_selector or pod.annotations.get(_BY_NODES):
        return True
    terms = (pod.pod_affinity, pod.pod_anti_affinity)
    return all(any(term.topology_key == key for term in each) for each in terms)


@lru_cache(maxsize=1024)
def _asked(
    annotations: FrozenMap[str], labels: FrozenMap[str], written: tuple[str, ...]
) -> PodTopology | None:
    field = Field(Source("", 1), "metadata.annotations", dict(annotations))
    try:
        return read_pod_topology(field, labels, written)
    except ManifestError:
        return None


def read_pod_topology(
    annotations: Field, labels: Mapping[str, str] = EMPTY, written: Collection[str] = ()
) -> PodTopology | None:
    """Return what the annotations of a pod ask for; None for nothing.

    Args:
        annotations: The annotations.
        labels: The labels that say of how many jobs the pods are.
        written: The annotations that are written into the pod already, see R3.

    Raises:
        ManifestError: An annotation is malformed.
    """
    words = tuple(key for key in ASKING if annotations[key].text() and key not in written)
    if not words or annotations[_PLACED].text():
        return None
    own = [key for key in (_REQUIRED, _PREFERRED, _UNCONSTRAINED) if key in words]
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
        topology = _topology(annotations, key, _PREFERRED not in own, slices)
    jobs = _whole(labels.get(_JOBS, ""))
    copies = None
    if jobs > 1 and _REPLICATED_JOB in labels:
        name = FrozenMap({_REPLICATED_JOB: labels[_REPLICATED_JOB]})
        copies = Copies(jobs, _JOB, name)
    together = annotations[TOGETHER].text()
    asked = PodTopology(topology, words, together, copies, problem=problem)
    return _with_exclusive(annotations, asked)


def _with_exclusive(annotations: Field, asked: PodTopology) -> PodTopology:
    """Return what a pod asks for with the domains that are for one job, set or sub group."""
    words = [key for key in _EXCLUSIVE if key in asked.words]
    keys = {word: annotations[word].text() for word in words}
    if not words:
        return asked
    if asked.problem is not None or (_OF_JOB in words and len(words) > 1):
        return evolve(asked, problem=asked.problem or (words[0], "of two controllers"))
    if _OF_SUB_GROUP in words:
        size, pods = (_whole(annotations[key].text()) for key in (_SUB_GROUP_SIZE, _SET_SIZE))
        if not size or not pods:
            return evolve(asked, problem=(_OF_SUB_GROUP, "without the sizes of its sub groups"))
        # a leader that is one too many is in the first sub group, or in none
        each = _alone(keys[_OF_SUB_GROUP], apart=True)
        copies = Copies(pods // size, _SUB_GROUP, size=size)
        asked = evolve(asked, copies=copies, each=each)
    elif _OF_JOB in words and asked.copies is not None:
        return evolve(asked, each=_alone(keys[_OF_JOB], apart=True))
    whole = keys.get(_OF_JOB, keys.get(_OF_SET))
    if whole is None:
        return asked
    if asked.topology is not None:
        return evolve(asked, problem=(words[0], "beside a topology of Kueue"))
    return evolve(asked, topology=_alone(whole))


def _alone(key: str, *, apart: bool = False) -> Topology:
    return Topology(key, exclusive=key, apart=key if apart else None)


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 0


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
