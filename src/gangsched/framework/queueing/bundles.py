"""Bundles: pod groups that start together or not at all.

The specification of a group may name other groups. Groups that all name each other are a bundle.
Until a bundle has started, one of its groups stands in the queue for all of them: the first by key
of the groups that have not started. The others are not admitted, and their reason names it.

Whether a bundle is complete is asked with each event about one of its groups. The first group, by
key, that is not ready is remembered (``Bundle.lacking``): while it is not ready, none of the others
is looked at. So the groups of a bundle may arrive one by one.

Every entity, also a regular pod or a group without a bundle, is admitted by ``pre_enqueue`` of this
file. The bundle is the last condition of admission, after the plugins.

Rules:
  R1  a group is admitted only if its bundle is complete: every group that is named exists, names
      the same groups, and is complete;
  R2  a group that has started is not waited for, and does not wait for the others;
  R3  what ``Bundle.lacking`` says is asked again before it is believed. A bundle is complete only
      after all of its groups were asked;
  R4  while a bundle ``is_closed``, an event that does not complete it moves none of the others. In
      a bundle of many groups they are not told what they wait for now, either: that would be a
      notice for each group with each event. ``reason`` asks again;
  R5  a group that ends takes along those that name the same groups, and no others. So a group
      cannot have another one evicted by naming it.

Source: kubernetes-sigs/scheduler-plugins#107, and the composite groups of KEP-6012.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from gangsched._core._bundle import Bundle
from gangsched._core._entity import QueuedEntity
from gangsched._core._queue import SchedulingQueue
from gangsched._core._registry import PodGroupInfo
from gangsched.framework.queueing import quotas
from gangsched.framework.runtime import extension_points
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.settings import Settings
from gangsched.model import GroupKey, Pod
from gangsched.outcomes import Outcome, Unschedulable

__all__ = [
    "close",
    "held_back",
    "is_complete",
    "is_shared",
    "lead",
    "pending",
    "pre_enqueue",
    "reason",
    "restarting",
    "siblings",
    "started",
]

_FEW: Final = 32
"""The number of groups up to which each of them is told what the bundle waits for."""


def pending(pods: Pods, entity: QueuedEntity) -> list[QueuedEntity]:
    """Return the entities that one cycle is about: the entity, or the groups of its bundle."""
    info = entity.group
    if info is None or info.bundle is None or info.was_scheduled:
        return [entity]
    return siblings(pods, info.bundle) or [entity]


def is_shared(pods: Pods, entity: QueuedEntity) -> bool:
    """Return whether a cycle of an entity is about other groups too. O(groups of its bundle)."""
    info = entity.group
    if info is None or info.bundle is None or info.was_scheduled:
        return False
    return any(_is_pending(pods, key) for key in info.bundle.keys if key != info.key)


def siblings(pods: Pods, bundle: Bundle | None, but: GroupKey | None = None) -> list[QueuedEntity]:
    """Return the groups of a bundle, except *but*, that have members and have not started.

    Runtime complexity: O(groups).
    """
    if bundle is None:
        return []
    return [pods.entities[key] for key in bundle.keys if key != but and _is_pending(pods, key)]


def started(pods: Pods, entity: QueuedEntity) -> list[QueuedEntity]:
    """Return the other groups of a bundle that have started. O(groups).

    A group that is named and names other groups is none of the bundle (R5).
    """
    bundle = None if entity.group is None else entity.group.bundle
    known = (pods.entities.get(key) for key in (() if bundle is None else bundle.keys))
    return [
        other
        for other in known
        if other is not None
        and other is not entity
        and other.group is not None
        and other.group.bundle is bundle
        and other.group.was_scheduled
    ]


def _is_pending(pods: Pods, key: GroupKey) -> bool:
    entity = pods.entities.get(key)
    return entity is not None and entity.group is not None and not entity.group.was_scheduled


def pre_enqueue(
    settings: Settings,
    pods: Pods,
    call: CurrentCall,
    pod: Pod,
    info: PodGroupInfo | None,
    now: float,
) -> Outcome:
    """Ask whether a pod is admitted to the queue: plugins first, then its group and its bundle."""
    answer = extension_points.pre_enqueue(settings, call, pod, info, now)
    if info is None or isinstance(answer, Unschedulable):
        return answer
    held = restarting(pods, info)
    if held:
        return Unschedulable(held, resolvable=False)
    bundle = info.bundle
    if bundle is None or info.was_scheduled:
        return _charged(pods, info, answer)
    first: GroupKey | None = None
    if call.complete and call.complete[0] is bundle:
        first = call.complete[1]
    else:
        problem = _first_problem(settings, pods, call, bundle, info.key, now)
        if problem:
            return Unschedulable(problem, resolvable=False)
        first = lead(pods, bundle)
    if first is not None and first != info.key:
        return Unschedulable(_behind(first), resolvable=False)
    bundle.is_closed = False
    return _charged(pods, info, answer)


def _charged(pods: Pods, info: PodGroupInfo, answer: Outcome) -> Outcome:
    """Return the answer for a group that only its quota may keep from the queue."""
    exceeded = quotas.admit(pods, info)
    return Unschedulable(exceeded, resolvable=False) if exceeded else answer


def held_back(pods: Pods, info: PodGroupInfo) -> str:
    """Return why a group may not queue although it is complete; empty if it may. O(1)."""
    return restarting(pods, info) or pods.quotas.reason(info.key)


def restarting(pods: Pods, info: PodGroupInfo) -> str:
    """Return that a group is being restarted, or may be; empty if it is not. O(1)."""
    if pods.restarts.is_held(info.key):
        return f"pod group {info.key} is being restarted"
    if pods.restarts.is_short(info.key):
        return f"pod group {info.key} has lost members, and is restarted if they are not replaced"
    return ""


def _awaited(pods: Pods, info: PodGroupInfo) -> str:
    """Return which old pod the restart of a group waits for; empty if it waits for none."""
    old = pods.leaving(info) if pods.restarts.is_held(info.key) else []
    if not old:
        return ""
    pod, more = old[0].pod, f" and {len(old) - 1} more" if len(old) > 1 else ""
    where = "" if pod.node_name is None else f" on node {pod.node_name}"
    how = "has not ended" if pod.deleted_at is None else "is terminating"
    return f": pod {pod.name}{where} {how}{more}"


def _behind(first: GroupKey | None) -> str:
    return f"starts with pod group {first}"


def is_complete(
    settings: Settings, pods: Pods, call: CurrentCall, bundle: Bundle, changed: GroupKey, now: float
) -> bool:
    """Return whether every group of a bundle is ready, after one of them has changed.

    Runtime complexity: O(1) amortised while the groups arrive one by one; O(groups) if it is
    complete.
    """
    if _of_key(settings, pods, call, bundle, changed, now):
        if bundle.lacking is not None and changed < bundle.lacking:
            bundle.lacking = changed
        return False
    return not _first_problem(settings, pods, call, bundle, changed, now)


def lead(pods: Pods, bundle: Bundle) -> GroupKey | None:
    """Return the group that stands in the queue for a complete bundle; None if all have started.

    Runtime complexity: O(groups).
    """
    for key in bundle.keys:
        other = pods.registry.get(key)
        if other is not None and not other.was_scheduled:
            return key
    return None


def close(pods: Pods, queue: SchedulingQueue, bundle: Bundle) -> bool:
    """Return whether no group of a large bundle is queued; remember it if so.

    False for a bundle of few groups. Runtime complexity: O(groups), O(1) while it is closed.
    """
    if len(bundle.keys) <= _FEW:
        return False
    if not bundle.is_closed:
        waiting = siblings(pods, bundle)
        bundle.is_closed = all(queue.is_gated(each) for each in waiting if len(each))
    return bundle.is_closed


def reason(
    settings: Settings, pods: Pods, call: CurrentCall, entity: QueuedEntity, now: float
) -> str:
    """Return why an entity is not admitted now. O(groups of its bundle)."""
    info = entity.group
    bundle = None if info is None else info.bundle
    if info is not None and held_back(pods, info):
        return held_back(pods, info) + _awaited(pods, info)
    if info is None or bundle is None:
        return entity.denial
    answer = extension_points.pre_enqueue(settings, call, entity.pod, info, now)
    if isinstance(answer, Unschedulable):
        return answer.reason
    for key in bundle.keys:  # a question leaves what is remembered as it is
        problem = "" if key == info.key else _of_key(settings, pods, call, bundle, key, now)
        if problem:
            return problem
    first = lead(pods, bundle)
    return entity.denial if first in (None, info.key) else _behind(first)


def _first_problem(
    settings: Settings,
    pods: Pods,
    call: CurrentCall,
    bundle: Bundle,
    but: GroupKey,
    now: float,
) -> str:
    """Return what the first group of a bundle that is not ready lacks; empty if all are ready.

    The group *but* is not asked about.
    """
    names = bundle.keys
    begin = 0 if bundle.lacking is None else bisect_left(names, bundle.lacking)
    for offset in range(len(names)):
        key = names[(begin + offset) % len(names)]
        problem = "" if key == but else _of_key(settings, pods, call, bundle, key, now)
        if problem:
            bundle.lacking = key
            return problem
    bundle.lacking = None
    return ""


def _of_key(
    settings: Settings, pods: Pods, call: CurrentCall, bundle: Bundle, key: GroupKey, now: float
) -> str:
    """Return why a group of a bundle cannot start; empty if it can."""
    other = pods.registry.get(key)
    if other is None or other.spec is None:
        return f"waiting for pod group {key} of its bundle: it does not exist"
    if other.bundle is not bundle:
        return f"pod group {key} names another bundle"
    if other.was_scheduled:
        return ""
    entity = pods.entities.get(key)
    if entity is None or not len(entity):
        return f"waiting for pod group {key} of its bundle: it has no pending members"
    answer = extension_points.pre_enqueue(settings, call, entity.pod, other, now)
    if isinstance(answer, Unschedulable):
        return f"waiting for pod group {key} of its bundle: {answer.reason}"
    held = restarting(pods, other)
    return f"waiting for pod group {key} of its bundle: {held}" if held else ""
