"""Who is woken by what.

Rules:
  R1  readiness is a level: after every fact, whoever may now be placed is tried, or is behind
      one of its shape that is;
  R2  a hint never errs on the side of sleep: who is left asleep cannot be placed. A fact matters
      to an entity when a changed node can take one of its pods, and the cluster as a whole has
      room for as many as it needs, and for what its group asks for in all;
  R3  nodes that a falling group gives back are no news to whoever failed before it held them,
      nor to the group itself: so nobody is tried again for nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from gangsched._core._capacity import gap
from gangsched._core._entity import QueuedEntity
from gangsched.errors import GangschedError
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.queueing.equivalence import Shape
from gangsched.framework.runtime import filter_and_score
from gangsched.framework.state.scheduler_state import State
from gangsched.model import NodeName

__all__ = [
    "begin_turn",
    "conclude",
    "forget",
    "gain",
    "may_fit",
    "pods_changed",
    "reaches_somebody",
    "reopen",
    "stir",
    "undo_turn",
]


def gain(
    state: State,
    names: Collection[NodeName],
    *,
    now: float,
    since: int | None = None,
    disproved: Hashable = None,
) -> None:
    """Open the lines that nodes with more room than before may help.

    Runtime complexity: O(lines x classes in a shape), plus judging the changed nodes once per
    class.

    Args:
        state: The scheduler's memory.
        names: The nodes that may take more.
        now: The current instant.
        since: For nodes given back by a group that fell: the step at which it took the first.
            None for a fact from outside.
        disproved: The shape that the group failed with, though it had these nodes: nobody else
            of that shape can make more of them.
    """
    if names:
        state.reserving.news_of_room(since, disproved)
        _open(state, names, now=now, since=since, disproved=disproved)


def reopen(state: State, names: Collection[NodeName], *, now: float) -> None:
    """Open the lines that nodes may help of which less is kept for another. See ``gain``."""
    if names:
        _open(state, names, now=now, since=None, disproved=None)


def _open(
    state: State,
    names: Collection[NodeName],
    *,
    now: float,
    since: int | None,
    disproved: Hashable,
) -> None:
    step = state.tick()
    for entity in state.tried.values():
        if since is None or entity.tried_step >= since:
            entity.stirred_step = step
    for line in state.queue.blocked_lines():
        if since is not None and (line.blocked_at < since or line.shape == disproved):
            continue
        if may_fit(state, line.shape, now=now, names=names):
            state.queue.open(line, step=step, now=now)
        else:
            state.queue.block(line, step=step)


def pods_changed(state: State, *, now: float) -> None:
    """Requeue the parked entities with a pod for which a plugin reads the pods on nodes.

    Called when the pods on a node have changed and the node does not take more than before. Where
    a node takes more, ``gain`` requeues these entities too. As in kube-scheduler, a pod counts as
    new on its node when it is bound: a pod that is only assumed requeues no other.

    Runtime complexity: O(classes of pods), and O(parked classes) if there is such a pod.
    """
    if not any(pod_class.reads_pods for pod_class in state.classes.values()):
        return
    step = state.tick()
    for entity in state.tried.values():
        if any(state.members[pod.uid].pod_class.reads_pods for pod in entity.pending):
            entity.stirred_step = step
    for line in state.queue.blocked_lines():
        if _reads_pods(line.shape) and may_fit(state, line.shape, now=now):
            state.queue.open(line, step=step, now=now)


def _reads_pods(shape: Hashable) -> bool:
    """Return whether a plugin may read the pods on nodes for entities of a class. O(runs)."""
    if not isinstance(shape, Shape):
        return True
    return any(pod_class.reads_pods for pod_class, _count in shape.runs)


def may_fit(
    state: State, shape: Hashable, *, now: float, names: Collection[NodeName] | None = None
) -> bool:
    """Say whether entities of a shape may be placed; False only when they cannot.

    Args:
        state: The scheduler's memory.
        shape: See ``State.shape``. What is not known in detail may always fit.
        now: The current instant.
        names: Ask only whether a change of these nodes may matter.
    """
    if not isinstance(shape, Shape):
        return True
    if shape.reach is not None and reaches_somebody(state, *shape.reach):
        return True
    if shape.floor and gap(shape.floor, state.nodes.total()):
        return False
    counts: dict[PodClass, int] = {}
    for pod_class, count in shape.runs:
        counts[pod_class] = counts.get(pod_class, 0) + count
    needed = shape.needed
    lacking = dict(shape.quotas)
    # for a pod for which plugins read other pods, a change of one node matters on all nodes
    touched = names is None or bool(shape.floor) or _reads_pods(shape)
    for pod_class, count in counts.items():
        try:
            filter_and_score.judged(state, pod_class, now)
        except GangschedError:
            return True  # its own cycle will raise it, and name the pod
        needed -= min(count, pod_class.headroom)
        touched = touched or any(
            pod_class.takes(state.nodes.class_of(name)) for name in names or ()
        )
    for (pod_class, count), role in zip(shape.runs, shape.roles, strict=False):
        if role:
            lacking[role] -= min(count, pod_class.headroom)
    return touched and needed <= 0 and all(count <= 0 for count in lacking.values())


def reaches_somebody(state: State, priority: int, displaces: bool) -> bool:
    """Say whether there is somebody of a lower priority to give way. O(priorities)."""
    if displaces and any(lower < priority for lower in state.priorities):
        return True
    return any(kept.priority < priority for kept in state.nominations.values())


def begin_turn(state: State, entity: QueuedEntity) -> tuple[int, int]:
    """Take note that a member of an entity has its turn in this step; return what was so before.

    Runtime complexity: O(1).
    """
    before = (entity.round_step, entity.tried_step)
    if entity.ready_count == len(entity):
        entity.round_step = state.step
    entity.tried_step = state.step
    state.tried[entity.seq] = entity
    return before


def undo_turn(state: State, entity: QueuedEntity, before: tuple[int, int]) -> None:
    """Take a turn that was broken off as one that was not had. O(1)."""
    entity.round_step, entity.tried_step = before
    if entity.tried_step < 0:
        state.tried.pop(entity.seq, None)


def stir(state: State, entity: QueuedEntity) -> None:
    """Take note of a fact about an entity: what its turns have shown may be so no more."""
    if entity.seq in state.tried:
        entity.stirred_step = state.tick()


def conclude(state: State, entity: QueuedEntity, shape: Hashable, *, now: float) -> int:
    """End an attempt that failed; return as of which step its shape is known to fail.

    Returns:
        The step; -1 when nothing is known: because no member found every node taken, or because
        there was news since, and with it the shape may fit.
    """
    step, stirred = entity.failed_step, entity.stirred_step
    forget(state, entity)
    if step < 0 or stirred < 0:
        return step
    return -1 if may_fit(state, shape, now=now) else state.step


def forget(state: State, entity: QueuedEntity) -> None:
    """End an attempt of which nothing is to be remembered."""
    entity.tried_step = entity.failed_step = entity.stirred_step = -1
    state.tried.pop(entity.seq, None)
