"""From the rows of a snapshot to the scheduling queue.

The order within each part of the queue follows from the sort keys, which the queue sort plugin is
asked for again.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import suppress

from attrs import evolve

from gangsched._core._entity import Place, QueuedEntity
from gangsched._core._equivalence_queue import EquivalenceQueue
from gangsched.errors import GangschedError
from gangsched.framework.events import prefetch
from gangsched.framework.events.prefetch import Seen
from gangsched.framework.nodes.pod_class import PodClass
from gangsched.framework.queueing import bundles, equivalence
from gangsched.framework.queueing.equivalence import EquivalenceClass
from gangsched.framework.runtime import filter_and_score
from gangsched.framework.snapshot.reading import Reading, each_once, require, unique
from gangsched.framework.snapshot.rows import EquivalenceClassRow, EquivalenceQueueRow
from gangsched.model import Pod, PodUID

__all__ = ["equivalence_class", "pod_class_of", "read_queue"]


def read_queue(reading: Reading) -> None:
    """Read the place of each entity that is queued."""
    queue, rows = reading.state.queue, reading.rows
    settings, pod_classes = reading.state.settings, reading.state.pod_classes
    for pod_class in pod_classes.by_signature.values():
        filter_and_score.note_fitted(settings, pod_class)
        if pod_class.pending and settings.profile.signed:
            with suppress(GangschedError):  # a cycle asks again, and names the pod
                filter_and_score.share_judgements(settings, pod_classes, pod_class)
    for n, seq in enumerate(rows.active):
        entity = _place(reading, seq, Place.ACTIVE, f"active[{n}]")
        entity._handle = queue._active.push(entity.sort_key, entity)
    for n, seq in enumerate(rows.backoff):
        entity = _place(reading, seq, Place.BACKOFF, f"backoff[{n}]")
        queue._backoff[(entity.backoff_until, seq)] = entity
    for n, seq in enumerate(rows.gated):
        queue._gated[seq] = _place(reading, seq, Place.UNSCHEDULABLE, f"gated[{n}]")
    for n, row in enumerate(rows.queues):
        path = f"queues[{n}]"
        found = _queue(reading, row, path)
        unique(queue._queues, found.equivalence_class, f"{path}.asked")
        queue._queues[found.equivalence_class] = found
        if row.blocked:
            queue._blocked.add(found, step=row.blocked_at)
        else:
            queue._open[found.number] = found
    for entity in queue._backoff.values():
        if entity.equivalence_class is None:
            queue._early.enter(entity, None)
    for n, row in enumerate(rows.queues):
        _check_asked(reading, row, f"queues[{n}].asked")


def _place(reading: Reading, seq: int, place: Place, path: str) -> QueuedEntity:
    entity = reading.entity(seq, path)
    require(entity.place is Place.NOWHERE, path, seq, "an entity that is listed once")
    require(len(entity), path, seq, "an entity with a pending pod")
    entity.place = place
    if not path.startswith("gated"):
        entity.sort_key = reading.state.queue._sort(entity)
    return entity


def _queue(reading: Reading, row: EquivalenceQueueRow, path: str) -> EquivalenceQueue:
    step = reading.rows.step
    for name in ("blocked_at", "opened_at", "helped_at"):
        given = getattr(row, name)
        require(given <= step, f"{path}.{name}", given, f"an int <= {step}, the current step")
    is_known = row.blocked or row.blocked_at == -1
    require(is_known, f"{path}.blocked_at", row.blocked_at, "-1 if it is not blocked")
    is_free = not row.blocked or row.helped_at == -1
    require(is_free, f"{path}.helped_at", row.helped_at, "-1 if it is blocked")
    queues = reading.state.queue
    queues._numbers += 1
    asked = equivalence_class(reading, row.asked, f"{path}.asked")
    queue = EquivalenceQueue(asked, queues._numbers)
    queue.opened_at, queue.helped_at = row.opened_at, row.helped_at
    for n, seq in enumerate(each_once(row.entities, f"{path}.entities")):
        _enter(reading, queue, seq, f"{path}.entities[{n}]")
    if row.leader is not None:
        leader = reading.entity(row.leader, f"{path}.leader")
        is_first = leader.place is Place.ACTIVE and leader.equivalence_class is None
        require(is_first, f"{path}.leader", row.leader, "an active entity of no other queue")
        queue.leader = leader
        leader.equivalence_class = queue.equivalence_class
    return queue


def _enter(reading: Reading, queue: EquivalenceQueue, seq: int, path: str) -> None:
    """Park an entity in an equivalence queue, or note that it returns there from backoff."""
    entity = reading.entity(seq, path)
    if entity.place is Place.BACKOFF:
        require(entity.equivalence_class is None, path, seq, "an entity of no other queue")
        entity.equivalence_class = queue.equivalence_class
        queue.in_backoff[seq] = entity
        reading.state.queue._early.enter(entity, queue)
    else:
        _place(reading, seq, Place.UNSCHEDULABLE, path)
        entity.equivalence_class = queue.equivalence_class
        queue.push(entity)


def _check_asked(reading: Reading, row: EquivalenceQueueRow, path: str) -> None:
    """Compare the class of a queue with what each entity asks for now.

    An event about an entity takes it out of its queue, so both are equal. Only a leader may have
    changed since: it is being tried. A group of a bundle is not compared: events about the other
    groups change what the bundle asks for.
    """
    state = reading.state
    for seq in row.entities:
        entity = reading.entities[seq]
        asked = equivalence.class_of(state.settings, state.nodes, state.pods, state.call, entity)
        expected = f"what entity {seq} asks for, or the number of that entity"
        found = entity.equivalence_class
        is_right = (
            found == seq
            or _comparable(found) == _comparable(asked)
            or bundles.is_shared(state.pods, entity)
        )
        require(is_right, path, row.asked, expected)
    is_own = not isinstance(row.asked, int) or {row.leader, *row.entities} <= {row.asked, None}
    require(is_own, path, row.asked, "the number of the only entity of the queue")


def equivalence_class(reading: Reading, row: int | EquivalenceClassRow, path: str) -> Hashable:
    """Return the equivalence class of a row, or the number of an entity without a class."""
    return row if isinstance(row, int) else _class(reading, row, path)


def _class(reading: Reading, row: EquivalenceClassRow, path: str) -> EquivalenceClass:
    return EquivalenceClass(
        row.needed,
        tuple(
            (_pod_class(reading, sample, f"{path}.runs[{n}]"), count)
            for n, (sample, count) in enumerate(row.runs)
        ),
        row.floor,
        row.role_counts,
        row.roles,
        row.topology,
        tuple(_class(reading, part, f"{path}.parts[{n}]") for n, part in enumerate(row.parts)),
        row.reach,
        row.affected,
    )


def _pod_class(reading: Reading, sample: PodUID | Pod, path: str) -> PodClass:
    """Return the class of a known pod, or a class of its own for a pod that is not known."""
    if isinstance(sample, str):
        return reading.member(sample, path).pod_class
    return pod_class_of(prefetch.ask(reading.state.settings, reading.state.pod_classes, sample))


def pod_class_of(seen: Seen) -> PodClass:
    """Return a new class for a pod, by what plugins say of it."""
    return PodClass(
        seen.signature,
        seen.pod,
        seen.labels,
        reads_pods=seen.reads_pods,
        watches_pods=seen.watches_pods,
        carried=seen.carried,
        selected=seen.selected,
        objects=seen.objects,
    )


def _comparable(asked: Hashable) -> Hashable:
    """Return a class without what depends on the pods that are on nodes at the moment."""
    if not isinstance(asked, EquivalenceClass):
        return asked
    parts = tuple(evolve(part, affected=()) for part in asked.parts)
    return evolve(asked, affected=(), parts=parts)
