"""Entities for tests of queues, in which only the order matters."""

from __future__ import annotations

from operator import itemgetter

from gangsched._core._entity import QueuedEntity
from gangsched._core._group_entity import QueuedGroup
from gangsched._core._like_members import KIND, NUMBER, POD
from gangsched._core._registry import PodGroupInfo
from gangsched.model import GroupKey, Pod, PodUID

__all__ = ["a_group", "a_pod", "names", "ready_uids"]


def a_pod(
    seq: int, *, priority: int = 0, queued_at: float = 0.0, rests_until: float = float("-inf")
) -> QueuedEntity:
    """Return the entity of a regular pod, named after its number."""
    entity = QueuedEntity(seq, queued_at)
    entity.add(Pod(name=f"e{seq}", priority=priority), seq)
    entity.backoff_until = rests_until
    return entity


def a_group(
    seq: int,
    *,
    priority: int = 0,
    created_at: float = 0.0,
    members: int = 1,
    rests_until: float = float("-inf"),
) -> QueuedGroup:
    """Return the entity of a group, named after its number."""
    info = PodGroupInfo(
        key=GroupKey(f"ns/e{seq}"),
        uid=seq,
        claimed_priority=priority,
        first_seen_at=created_at,
    )
    entity = QueuedGroup(seq, created_at, info)
    for number in range(members):
        uid = PodUID(f"e{seq}-{number}")
        entity.add(Pod(name=f"e{seq}", uid=uid, priority=priority), number)
    entity.backoff_until = rests_until
    return entity


def names(entities: tuple[QueuedEntity, ...]) -> list[str]:
    """Return the names of entities, in their order."""
    return [entity.pod.name for entity in entities]


def ready_uids(entity: QueuedEntity) -> tuple[PodUID, ...]:
    """Return the untried members of an entity, in order, without changing it."""
    if isinstance(entity, QueuedGroup):
        ready = (each for each in entity._pending.values() if each[KIND].is_ready(each))
        return tuple(record[POD].uid for record in sorted(ready, key=itemgetter(NUMBER)))
    return () if entity.next_member is None else (entity.next_member.uid,)
