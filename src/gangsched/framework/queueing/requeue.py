"""Requeueing: which parked entities a change may help.

Theory of operation
-------------------

A try that failed proves something about its equivalence class only as long as nothing changed. The
proof is kept in *steps*: ``Attempts.step`` ascends with each event and each decision, so that
causes can be ordered without looking at the time. An entity remembers four steps of its current
attempt.

-   ``tried_step``: a member was last tried.
-   ``failed_step``: a member last found no node; negative while every member found one. Only such
    a failure proves something about the class.
-   ``event_step``: the last event that may help a member that had been tried by then; -1 without
    one. With such an event, the proof holds only if the class still cannot fit.
-   ``round_step``: the first member of the current *round* was tried. A round tries every ready
    member once. A group that waits on permit keeps its nodes from round to round.

An equivalence class is *blocked* at the step of the proof, and *opened* by a later event that may
help. Nodes that a rejected group gives back open only the classes that were blocked after the group
took its first node. Classes that were blocked before failed without these nodes being in use.

Rules:
  R1  readiness is a level: after every event, an entity that may be placed is active, or parked
      behind an active entity of its class;
  R2  a hint may be wrong only in one way: an entity may be requeued although it still does not
      fit. A parked entity never fits. A change matters to a class if a changed node can take one of
      its pods, and the cluster as a whole has capacity for all that the class needs;
  R3  nodes that a rejected group gives back do not requeue the group itself, nor the entities that
      failed before it held them. Otherwise two gangs could requeue each other for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from functools import partial
from typing import Any, cast

from gangsched._core._capacity import gap
from gangsched._core._entity import QueuedEntity
from gangsched._core._queue import SchedulingQueue
from gangsched.framework.nodes.node_table import Nodes
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.queueing import bundles, equivalence
from gangsched.framework.queueing.equivalence import EquivalenceClass, reads_pods
from gangsched.framework.queueing.node_change import UNKNOWN, NodeChange, headroom
from gangsched.framework.runtime import cluster_headroom
from gangsched.framework.state.attempts import Attempts
from gangsched.framework.state.current_call import CurrentCall
from gangsched.framework.state.pods import Pods
from gangsched.framework.state.reservations import Reservations
from gangsched.framework.state.scheduler_state import State
from gangsched.framework.state.settings import Settings
from gangsched.model import NodeName

__all__ = [
    "begin_try",
    "conclude",
    "forget",
    "gain",
    "may_fit",
    "objects_changed",
    "pods_changed",
    "may_preempt_others",
    "reopen",
    "note_entity_event",
    "undo_try",
]


def gain(
    state: State,
    names: Collection[NodeName],
    *,
    now: float,
    since: int | None = None,
    disproved: Hashable = None,
    ends_backoff: bool = False,
) -> None:
    """Open the equivalence classes that nodes with more free capacity may help.

    Runtime complexity: O(log blocked classes), and O(pod classes in each) for each blocked class of
    which a node has enough free for one of its pods. Plus filtering the changed nodes once per pod
    class of these.

    Args:
        state: The scheduler's state.
        names: The nodes that may take more.
        now: The current instant.
        since: For nodes that a rejected group gave back, the step at which it took the first.
            None for an event from outside.
        disproved: The class that the group failed with although it had these nodes: no other
            entity of that class can make more of them.
        ends_backoff: Whether entities in backoff may be tried while no other is active. True only
            for an event from outside. With capacity that a failed bind, a timeout or a rejection
            gives back, entities could requeue each other without any backoff.
    """
    if names:
        state.reservations.backfill.note_capacity_gain(since, disproved)
        _open(state, names, now=now, since=since, disproved=disproved, ends_backoff=ends_backoff)


def reopen(state: State, names: Collection[NodeName], *, now: float) -> None:
    """Open the classes that nodes with less reserved capacity may help. See ``gain``."""
    if names:
        _open(state, names, now=now, since=None, disproved=None, ends_backoff=False)


def _open(
    state: State,
    names: Collection[NodeName],
    *,
    now: float,
    since: int | None,
    disproved: Hashable,
    ends_backoff: bool,
) -> None:
    step = state.attempts.tick()
    for entity in state.attempts.tried.values():
        if since is None or entity.tried_step >= since:
            entity.event_step = step
    if ends_backoff:
        _classify(state.settings, state.nodes, state.pods, state.call, state.queue, now=now)
    infos = [info for name in names if (info := state.nodes.infos.get(name)) is not None]
    free = [info.free for info in infos]
    change = NodeChange(state.settings, state.nodes, names, now)
    for line in state.queue.queues_near(free, partial(_preempts, state.pods, state.reservations)):
        if since is not None and (line.blocked_at < since or line.equivalence_class == disproved):
            continue
        if may_fit(state, line.equivalence_class, now=now, change=change):
            state.queue.open(line, step=step, now=now, helps=ends_backoff)
    # the others still fail, now also with what the nodes have free
    state.queue.renew(step, since=since, but=disproved)
    if not ends_backoff:
        return
    for line in state.queue.open_queues_in_backoff():
        # entities whose failure has proven nothing, or that an earlier event has helped
        if line.helped_at < step and may_fit(state, line.equivalence_class, now=now, change=change):
            state.queue.help(line, step=step)


def _classify(
    settings: Settings,
    nodes: Nodes,
    pods: Pods,
    call: CurrentCall,
    queue: SchedulingQueue,
    *,
    now: float,
) -> None:
    """Note the classes of the entities that changed in backoff. O(members of these)."""
    for entity in queue.unclassed_in_backoff():
        queue.classify(entity, equivalence.class_of(settings, nodes, pods, call, entity), now=now)


def _preempts(pods: Pods, reservations: Reservations, reach: Hashable) -> bool:
    """Return whether entities of a section may preempt others; see ``equivalence.filing``."""
    given = cast("tuple[int, bool] | None", reach)
    return given is not None and may_preempt_others(pods, reservations, *given)


def pods_changed(state: State, *, now: float) -> None:
    """Requeue the parked entities with a pod for which a plugin reads the pods on nodes.

    Called when the pods on a node have changed and the node does not take more than before. Where
    a node takes more, ``gain`` requeues these entities too. As in kube-scheduler, a pod counts as
    new on its node when it is bound: a pod that is only assumed requeues no other.

    Runtime complexity: O(1) if there is no such pod, else O(parked classes with such pods).
    """
    if not state.pod_classes.watching:
        return
    step = state.attempts.tick()
    for entity in state.attempts.tried.values():
        # whether a term was about it when it was tried is not known, so any entity is noted
        entity.event_step = step
    for parked in state.queue.unfiled_queues():
        equivalence_class = parked.equivalence_class
        if reads_pods(equivalence_class) and may_fit(state, equivalence_class, now=now):
            state.queue.open(parked, step=step, now=now, helps=True)


def objects_changed(state: State, kinds: frozenset[type[Any]] | None, *, now: float) -> None:
    """Requeue the parked entities with a pod for which a plugin reads objects of some kinds.

    With None for *kinds*, a plugin has said that it may accept any pod that it refused. Then those
    in backoff may return early that a plugin refused whatever the node; see ``hasten``.

    Runtime complexity: O(parked classes x members of one entity of each). With None for *kinds*,
    plus O(entities in backoff).
    """
    if kinds is None:
        state.queue.admit_refused_by_plugin(step=state.attempts.step)
        _classify(state.settings, state.nodes, state.pods, state.call, state.queue, now=now)
    step = state.attempts.tick()
    for entity in state.attempts.tried.values():
        if kinds is None or _reads_objects(state.pods, entity, kinds):
            entity.event_step = step
    for parked in state.queue.blocked_queues():
        reads = kinds is None or _reads_objects(state.pods, parked.sample, kinds)
        if reads and may_fit(state, parked.equivalence_class, now=now):
            state.queue.open(parked, step=step, now=now, helps=True)
    for line in () if kinds is not None else state.queue.open_queues_in_backoff():
        if line.helped_at < step and may_fit(state, line.equivalence_class, now=now):
            state.queue.help(line, step=step)


def _reads_objects(pods: Pods, entity: QueuedEntity, kinds: frozenset[type[Any]]) -> bool:
    """Return whether a plugin reads objects of some kinds for an entity, or for its bundle."""
    return any(
        not pods.members[pod.uid].pod_class.objects.isdisjoint(kinds)
        for each in bundles.pending(pods, entity)
        for pod in each.pending
    )


def may_fit(
    state: State,
    equivalence_class: Hashable,
    *,
    now: float,
    change: NodeChange | None = None,
) -> bool:
    """Return whether entities of a class may be placed; False only if they cannot.

    Args:
        state: The scheduler's state.
        equivalence_class: The class; see ``equivalence``. An entity that is a class of its own
            may always fit.
        now: The current instant.
        change: The change of nodes that is asked about; None for any change.
    """
    if not isinstance(equivalence_class, EquivalenceClass):
        return True
    if equivalence_class.reach is not None and may_preempt_others(
        state.pods, state.reservations, *equivalence_class.reach
    ):
        return True
    if equivalence_class.alike is not None:  # most classes, and asked with each change of a node
        pod_class, count = equivalence_class.alike
        if change is None:
            room = headroom(state.settings, state.nodes, pod_class, now)
        else:
            room = change.room(pod_class)
        return room == UNKNOWN or equivalence_class.needed <= min(count, room)
    if equivalence_class.floor and gap(equivalence_class.floor, state.nodes.total()):
        return False
    runs = equivalence_class.runs
    counts = runs if len(runs) == 1 else _by_class(runs)
    # for a pod for which plugins read other pods, a change of one node matters on all nodes
    matters = change is None or bool(equivalence_class.floor) or equivalence_class.watches_pods
    if change is None:
        change = NodeChange(state.settings, state.nodes, (), now)
    elif not matters and True not in [change.has_room(each) for each, _count in counts]:
        return False
    needed = equivalence_class.needed
    for pod_class, count in counts:
        if not change.is_judged(pod_class):
            return True  # the cycle of one of its pods will raise the error, and name the pod
        bound = cluster_headroom.of_class(state.settings, state.nodes, pod_class, now)
        needed -= min(count, pod_class.headroom, bound)
        matters = matters or change.takes(pod_class)
    lacking = {each.role: each.count for each in equivalence_class.role_counts}
    for (pod_class, count), role in zip(runs, equivalence_class.roles, strict=False):
        if role:
            lacking[role] -= min(count, pod_class.headroom)
    return matters and needed <= 0 and all(count <= 0 for count in lacking.values())


def _by_class(runs: Iterable[tuple[PodClass, int]]) -> tuple[tuple[PodClass, int], ...]:
    """Return how many pods of each class there are in some runs, in the order of the first."""
    counts: dict[PodClass, int] = {}
    for pod_class, count in runs:
        counts[pod_class] = counts.get(pod_class, 0) + count
    return tuple(counts.items())


def may_preempt_others(
    pods: Pods, reservations: Reservations, priority: int, displaces: bool
) -> bool:
    """Return whether any pod or reserved capacity has a lower priority. O(priorities)."""
    if displaces and any(lower < priority for lower in pods.priorities):
        return True
    return any(kept.priority < priority for kept in reservations.nominations.values())


def begin_try(attempts: Attempts, entity: QueuedEntity) -> tuple[int, int]:
    """Note that a member of an entity is tried in this step; return the steps before it. O(1)."""
    before = (entity.round_step, entity.tried_step)
    if entity.ready_count == len(entity):
        entity.round_step = attempts.step
    entity.tried_step = attempts.step
    attempts.tried[entity.seq] = entity
    return before


def undo_try(attempts: Attempts, entity: QueuedEntity, before: tuple[int, int]) -> None:
    """Undo ``begin_try`` for a cycle that was broken off. O(1)."""
    entity.round_step, entity.tried_step = before
    if entity.tried_step < 0:
        attempts.tried.pop(entity.seq, None)


def note_entity_event(attempts: Attempts, entity: QueuedEntity) -> None:
    """Note an event about an entity: what its tries have proven may hold no more. O(1)."""
    if entity.seq in attempts.tried:
        entity.event_step = attempts.tick()


def conclude(state: State, entity: QueuedEntity, equivalence_class: Hashable, *, now: float) -> int:
    """End a try that failed; return the step since which its class is known to fail.

    Returns:
        The step; -1 if nothing is proven, because no member was refused by every node, or because
        an event has come since with which the class may fit.
    """
    step, stirred = entity.failed_step, entity.event_step
    forget(state.attempts, entity)
    if step < 0:
        return -1
    if stirred < 0:
        return step
    return -1 if may_fit(state, equivalence_class, now=now) else state.attempts.step


def forget(attempts: Attempts, entity: QueuedEntity) -> None:
    """Forget what the tries of an entity have proven. O(1)."""
    entity.tried_step = entity.failed_step = entity.event_step = -1
    attempts.tried.pop(entity.seq, None)
