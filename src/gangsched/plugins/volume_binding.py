"""Place a pod where its claims for storage can be met, and choose the volumes for them.

Theory of operation. A claim that is bound has a volume, which some nodes reach. A claim of a
storage class that waits for its first consumer is bound only when the pod is placed. It is bound
to a volume that exists, or a volume is provisioned for the node. Which volume that is depends on
the node, and on the volumes that other pods are about to take. A pod takes volumes from
``reserve`` on; until the pod is bound, the plugin remembers them. Siblings that are planned in the
same decision take volumes too: ``add_pod`` notes them in the cycle. The choice goes out with the
``Bind`` of the pod.

Rules:
  R1  a claim that does not exist, or that should have been bound already, refuses the pod before
      any node is looked at, until an event;
  R2  a volume is chosen for one claim only. Two pods may share a claim: then the second one follows
      the choice of the first;
  R3  what is remembered is empty when no pod waits or is being bound.

Source: VolumeBinding of kube-scheduler 1.36.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, final

from gangsched.cluster_objects import ClusterObject, CSIDriver, CSIStorageCapacity, PersistentVolume
from gangsched.cluster_objects.claims_of_pods import (
    CLAIM_KINDS,
    PodClaims,
    claim_key,
    claims_of,
    matching_volume,
    may_provision,
    pod_part,
    problem_with,
    volumes_by_class,
)
from gangsched.errors import InvalidValueError
from gangsched.events import VolumeChoice
from gangsched.model import Node, NodeName, Pod
from gangsched.outcomes import SKIP, SUCCESS, Outcome, Unschedulable
from gangsched.protocols import CycleView, NodeView, ObjectsView, StateKey

__all__ = ["VolumeBinding"]

_NODE_CONFLICT: Final = "node(s) didn't match PersistentVolume's node affinity"
_BIND_CONFLICT: Final = "node(s) didn't find available persistent volumes to bind"
_NO_SPACE: Final = "node(s) did not have enough free storage"
_NO_VOLUME: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_IMMEDIATE: Final = Unschedulable(
    "pod has unbound immediate PersistentVolumeClaims", resolvable=False
)
_READ: Final[tuple[type[ClusterObject], ...]] = (*CLAIM_KINDS, CSIDriver, CSIStorageCapacity)

_PLANNED: Final[StateKey[dict[str, str]]] = StateKey("VolumeBinding.planned")
"""What siblings take that are planned in this decision, as ``VolumeBinding._taken``."""


@final
class VolumeBinding:
    """Refuse nodes where a claim of the pod cannot be met; choose volumes for unbound claims."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        # "uid claim" -> "node volume"; the volume is empty if one is to be provisioned
        self._taken: dict[str, str] = {}

    @property
    def name(self) -> str:
        """``VolumeBinding``."""
        return "VolumeBinding"

    @property
    def state_keys(self) -> Iterable[StateKey[Any]]:
        """The key under which the choices of planned siblings are kept."""
        return (_PLANNED,)

    def pod_signature(self, pod: Pod) -> Hashable:
        """Return the claims, and the name of the pod if a claim is named after it."""
        return pod_part(pod)

    def skips(self, pod: Pod) -> bool:
        """Return whether the pod has no volumes that the plugin checks."""
        return not pod.volume_claims

    @property
    def signs_node_alone(self) -> bool:
        """True: the signature is constant."""
        return True

    def node_signature(self, node: NodeView) -> Hashable:
        """Return a constant: pods with claims are asked about single nodes."""
        return None

    def reads_pods(self, pod: Pod) -> bool:
        """Return whether the pod has claims."""
        return bool(pod.volume_claims)

    def hindered_within(self, state: CycleView, pod: Pod, other: Pod) -> Iterable[str] | None:
        """Return None if both have claims to be bound: *other* may take the volume on any node."""
        if not (pod.volume_claims and other.volume_claims):
            return ()
        found = (claims_of(state.objects, each).delayed for each in (other, pod))
        return None if all(found) else ()

    def topology_keys(self, state: CycleView, pod: Pod) -> None:
        """Return None: labels do not tell apart which volumes a node reaches or can attach."""

    def node_group(self, state: CycleView, pod: Pod, node: NodeView) -> Hashable:
        """Return the name of the node: each node has volumes and limits of its own."""
        return node.node.name if self.reads_pods(pod) else None

    def objects_read(self, pod: Pod) -> Iterable[type[ClusterObject]]:
        """Return claims, volumes, storage classes, and the capacity of drivers."""
        return _READ if pod.volume_claims else ()

    def pre_filter(self, state: CycleView, pod: Pod, *, now: float) -> Outcome:
        """Refuse a pod with a claim that is missing, lost, or should have been bound."""
        if not pod.volume_claims:
            return SKIP
        problem = problem_with(state.objects, pod)
        if problem:
            return Unschedulable(problem, resolvable=False)
        return _IMMEDIATE if claims_of(state.objects, pod).immediate else SUCCESS

    def filter(self, state: CycleView, pod: Pod, node: NodeView) -> Outcome:
        """Refuse *node* if a volume is not reached from it, or none can be found or provisioned."""
        if not pod.volume_claims:
            return SUCCESS
        found = self._choice(state, pod, node.node)
        if isinstance(found, tuple):
            return Unschedulable(found, resolvable=False)
        return SUCCESS

    def add_pod(self, state: CycleView, pod: Pod, added: Pod, node: NodeView) -> None:
        """Note the volumes that a planned sibling takes."""
        if added.volume_claims:
            found = self._choice(state, added, node.node)
            if not isinstance(found, tuple):
                self._planned(state).update(_entries(added, node.node.name, found))

    def remove_pod(self, state: CycleView, pod: Pod, removed: Pod, node: NodeView) -> None:
        """Forget the volumes that a planned sibling was to take."""
        planned = self._planned(state)
        for claim in removed.volume_claims:
            planned.pop(_entry(removed, claim_key(removed, claim)), None)

    def reserve(self, state: CycleView, pod: Pod, node: NodeName, *, now: float) -> Outcome:
        """Take volumes for the unbound claims of the pod on its node."""
        if not pod.volume_claims:
            return SKIP
        shown = state.nodes.get(node)
        if shown is None:
            return Unschedulable(f"node {node} is gone")
        found = self._choice(state, pod, shown.node)
        if isinstance(found, tuple):
            return Unschedulable(found, resolvable=False)
        self._taken.update(_entries(pod, node, found))
        return SUCCESS

    def unreserve(
        self, state: CycleView, pod: Pod, node: NodeName, *, cause: str, now: float
    ) -> None:
        """Give the volumes back."""
        self._forget(pod)

    def volume_choices(self, pod: Pod, node: NodeName) -> Iterable[VolumeChoice]:
        """Return what must be written before the pod is bound."""
        for claim in pod.volume_claims:
            key = claim_key(pod, claim)
            taken = self._taken.get(_entry(pod, key))
            if taken is not None:
                yield VolumeChoice(key, node, taken.partition(" ")[2])

    def post_bind(self, pod: Pod, node: NodeName, *, now: float) -> None:
        """Forget the volumes: the objects of the cluster show the choice by now."""
        self._forget(pod)

    def snapshot(self) -> object:
        """Return the volumes that are taken, as plain JSON data."""
        return dict(self._taken)

    def restore(self, data: Any) -> None:
        """Replace the volumes that are taken.

        Raises:
            InvalidValueError: *data* is not what ``snapshot`` returns.
        """
        if not isinstance(data, Mapping):
            raise InvalidValueError("data", data, "a mapping of strings to strings")
        given: dict[Any, Any] = {**data}
        if not all(isinstance(one, str) for pair in given.items() for one in pair):
            raise InvalidValueError("data", given, "a mapping of strings to strings")
        self._taken = given

    def fork(self) -> VolumeBinding:
        """Return a plugin that remembers the same."""
        made = VolumeBinding()
        made._taken = dict(self._taken)
        return made

    # Choosing -------------------------------------------------------------------------------

    def _choice(self, state: CycleView, pod: Pod, node: Node) -> dict[str, str] | tuple[str, ...]:
        """Return the volumes of a pod's unbound claims on a node, or why it cannot go there.

        Returns:
            By key of the claim, the name of the volume; empty if one is to be provisioned.
        """
        objects = state.objects
        claims = claims_of(objects, pod)
        reasons = list(_bound_problem(objects, claims, node))
        found: dict[str, str] = {}
        if claims.delayed:
            taken, selected = self._others(state, pod)
            answer = _delayed(objects, claims.delayed, node, taken, selected)
            if isinstance(answer, str):
                # kube-scheduler names a missing volume last
                reasons = sorted([*reasons, answer], key=_NO_VOLUME.__eq__)
            else:
                found = answer
        return tuple(reasons) if reasons else found

    def _others(self, state: CycleView, pod: Pod) -> tuple[dict[str, str], dict[str, str]]:
        """Return which claim takes which volume, and the node of each claim, for other pods.

        A planned pod counts even if it is *pod*: then *pod* stands for a sibling that is like it.
        """
        volumes: dict[str, str] = {}
        nodes: dict[str, str] = {}
        for entries, own in ((self._taken, pod.uid), (state.read(_PLANNED) or {}, None)):
            for entry, value in entries.items():
                uid, _space, claim = entry.partition(" ")
                node, _space, volume = value.partition(" ")
                if uid == own:
                    continue
                if volume:
                    volumes[volume] = claim
                else:
                    nodes[claim] = node
        return volumes, nodes

    def _planned(self, state: CycleView) -> dict[str, str]:
        planned = state.read(_PLANNED)
        if planned is None:
            planned = dict[str, str]()
            state.write(_PLANNED, planned)
        return planned

    def _forget(self, pod: Pod) -> None:
        for claim in pod.volume_claims:
            self._taken.pop(_entry(pod, claim_key(pod, claim)), None)


def _entry(pod: Pod, claim: str) -> str:
    return f"{pod.uid} {claim}"


def _entries(pod: Pod, node: str, found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((_entry(pod, claim), f"{node} {volume}") for claim, volume in found.items())


def _bound_problem(objects: ObjectsView, claims: PodClaims, node: Node) -> Iterator[str]:
    """Yield why the volumes of bound claims are not reached from a node: one reason, or none."""
    for claim in claims.bound:
        volume = objects.get(PersistentVolume, claim.volume)
        if volume is None:
            yield _NO_VOLUME
            return
        if not volume.is_reached_from(node.labels):
            yield _NODE_CONFLICT
            return


def _delayed(
    objects: ObjectsView,
    claims: Iterable[Any],
    node: Node,
    taken: Mapping[str, str],
    selected: Mapping[str, str],
) -> dict[str, str] | str:
    """Return the volumes for claims that are not bound, by claim, or why there are none."""
    found: dict[str, str] = {}
    missing: list[Any] = []
    unmatched: list[Any] = []
    for claim in claims:
        where = claim.selected_node or selected.get(claim.key, "")
        if where and where != node.name:
            return _BIND_CONFLICT
        (missing if where else unmatched).append(claim)
    if unmatched:
        volumes = tuple(volumes_by_class(objects, (claim.storage_class for claim in unmatched)))
        for claim in sorted(unmatched, key=lambda claim: claim.requests.get("storage", 0)):
            of_class = (each for each in volumes if each.storage_class == claim.storage_class)
            volume = matching_volume(of_class, claim, node, taken, found.values())
            if volume is None:
                missing.append(claim)
            else:
                found[claim.key] = volume.name
    for claim in missing:
        possible, enough = may_provision(objects, claim, node)
        if not possible:
            return _BIND_CONFLICT
        if not enough:
            return _NO_SPACE
        found[claim.key] = ""
    return found
