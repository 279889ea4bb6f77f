"""Bundles: pod groups that start together or not at all.

The specification of a group may name other groups. Groups that all name each other are a bundle.
Until a bundle has started, one of its groups stands in the queue for all of them: the first by key
of the groups that have not started. The others are not admitted, and their reason names it.

Rules:
  R1  a group is admitted only if its bundle is complete: every group that is named exists, names
      the same groups, and is complete;
  R2  a group that has started is not waited for, and does not wait for the others.

Source: kubernetes-sigs/scheduler-plugins#107, and the composite groups of KEP-6012.
"""

from __future__ import annotations

from functools import lru_cache

from gangsched._core._entity import QueuedEntity
from gangsched._core._registry import PodGroupInfo
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.settings import Settings
from gangsched.model import GroupKey, Pod, PodGroup
from gangsched.outcomes import Outcome, Unschedulable

__all__ = ["is_shared", "keys", "pending", "pre_enqueue", "siblings"]


def keys(spec: PodGroup | None) -> tuple[GroupKey, ...]:
    """Return the keys of a group's bundle in order, its own included; empty without a bundle."""
    if spec is None or not spec.bundle:
        return ()
    return _in_order(spec.key, spec.bundle)


@lru_cache(maxsize=4096)
def _in_order(key: GroupKey, others: tuple[GroupKey, ...]) -> tuple[GroupKey, ...]:
    return tuple(sorted({key, *others}))


def pending(pods: Pods, entity: QueuedEntity) -> list[QueuedEntity]:
    """Return the entities that one cycle is about: the entity, or the groups of its bundle."""
    info = entity.group
    if info is None or info.spec is None or not info.spec.bundle or info.was_scheduled:
        return [entity]
    found = [
        other
        for key in keys(info.spec)
        if (other := pods.entities.get(key)) is not None
        and other.group is not None
        and not other.group.was_scheduled
    ]
    return found or [entity]


def is_shared(pods: Pods, entity: QueuedEntity) -> bool:
    """Return whether a cycle of an entity is about other groups too. O(groups of its bundle)."""
    return len(pending(pods, entity)) > 1


def siblings(pods: Pods, spec: PodGroup | None) -> list[QueuedEntity]:
    """Return the other groups of a bundle that have members and have not started. O(groups)."""
    found = (pods.entities.get(key) for key in keys(spec) if spec is None or key != spec.key)
    return [
        entity
        for entity in found
        if entity is not None and entity.group is not None and not entity.group.was_scheduled
    ]


def pre_enqueue(
    settings: Settings,
    pods: Pods,
    call: CurrentCall,
    pod: Pod,
    info: PodGroupInfo | None,
    now: float,
) -> Outcome:
    """Ask whether a pod is admitted to the queue: plugins first, then its bundle."""
    answer = extension_points.pre_enqueue(settings, call, pod, info, now)
    if info is None or info.was_scheduled or isinstance(answer, Unschedulable):
        return answer
    bundle = keys(info.spec)
    lead: GroupKey | None = None
    for key in bundle:
        other = pods.registry.get(key)
        problem = (
            _problem(settings, pods, call, bundle, key, other, now) if other is not info else ""
        )
        if problem:
            return Unschedulable(problem, resolvable=False)
        if lead is None and other is not None and not other.was_scheduled:
            lead = key
    if lead is not None and lead != info.key:
        return Unschedulable(f"starts with pod group {lead}", resolvable=False)
    return answer


def _problem(
    settings: Settings,
    pods: Pods,
    call: CurrentCall,
    bundle: tuple[GroupKey, ...],
    key: GroupKey,
    other: PodGroupInfo | None,
    now: float,
) -> str:
    """Return why another group of a bundle cannot start; empty if it can."""
    if other is None or other.spec is None:
        return f"waiting for pod group {key} of its bundle: it does not exist"
    if keys(other.spec) != bundle:
        return f"pod group {key} names another bundle"
    if other.was_scheduled:
        return ""
    entity = pods.entities.get(key)
    if entity is None or not len(entity):
        return f"waiting for pod group {key} of its bundle: it has no pending members"
    answer = extension_points.pre_enqueue(settings, call, entity.pod, other, now)
    if isinstance(answer, Unschedulable):
        return f"waiting for pod group {key} of its bundle: {answer.reason}"
    return ""
