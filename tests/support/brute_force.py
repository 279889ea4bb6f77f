"""Brute force: could this entity start on the current cluster?

A new scheduler answers, on a copy of the cluster in which all other pending pods are gated. It has
no memory, so it cannot have lost an event.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from gangsched import (
    Bind,
    ClusterState,
    GroupKey,
    NodeAdded,
    PodAdded,
    PodGroupAdded,
    PodUID,
)
from support.account import claim_of
from support.driver import Driver, Maker
from support.placement_oracle import may_be_placed

__all__ = ["are_alike", "could_start", "entities"]

Entity = tuple[PodUID, ...]


def entities(cluster: ClusterState, *, grouped: bool = True) -> list[Entity]:
    """Return the pending pods: of a group or bundle together, each regular pod alone.

    Groups whose members contradict each other, or their specification, are left out: which
    members are refused depends on the order of arrival.
    """
    found: dict[GroupKey | PodUID, list[PodUID]] = {}
    minds: dict[GroupKey | PodUID, tuple[set[int | None], set[int]]] = {}
    for pod in cluster.pods():
        claim = claim_of(pod) if grouped else None
        key = pod.uid if claim is None else claim[0]
        minima, priorities = minds.setdefault(key, (set(), set()))
        minima.add(None if claim is None else claim[1])
        priorities.add(pod.priority)
        if may_be_placed(pod):
            found.setdefault(key, []).append(pod.uid)
    for group in cluster.pod_groups():
        if group.key in minds and group.priority is not None:
            minds[group.key][1].add(group.priority)
    contradictory = [key for key, kinds in minds.items() if any(len(kind) > 1 for kind in kinds)]
    whole = {key: uids for key, uids in found.items() if key not in contradictory}
    for group in sorted(cluster.pod_groups(), key=lambda group: group.key) if grouped else ():
        for other in group.bundle:
            if other in whole and group.key in whole and other > group.key:
                whole[group.key] += whole.pop(other)
    return [tuple(uids) for uids in whole.values()]


def are_alike(cluster: ClusterState, entity: Entity) -> bool:
    """Return whether all pending pods have equal requests and constraints.

    Otherwise the order matters: unlike members that are placed one by one may fail with more free
    capacity, and fit with less.
    """
    pods = [cluster.pod(uid) for uid in entity]
    kinds = {(p.requests, p.node_selector, p.tolerations) for p in pods if p is not None}
    return len(kinds) == 1


def could_start(make: Maker, cluster: ClusterState, entity: Iterable[PodUID]) -> set[PodUID]:
    """Return the pods that a new scheduler binds if only *entity* is not gated.

    The others are gated, not deleted: one of them may define the priority of a running group.
    """
    asked = set(entity)
    fresh = Driver(make, watched=False, checked=False)
    for node in cluster.nodes():
        fresh.tell(NodeAdded(node))
    for group in cluster.pod_groups():
        fresh.tell(PodGroupAdded(group))
    for pod in cluster.pods():
        kept = pod.uid not in asked and may_be_placed(pod)
        fresh.tell(PodAdded(evolve(pod, scheduling_gates=("kept",)) if kept else pod))
    fresh.drain()
    effects = (effect for told in fresh.log for effect in told.effects)
    return {effect.uid for effect in effects if isinstance(effect, Bind)}
