"""Effects as lines of text, for scenarios: what a reader has to know of each, in plain words.

Rules:
  R1  what follows from another line is left out: ``Release`` before binds, ``PodScheduled`` of a
      bind that the host performs at once, ``PodWaiting`` of a pod that does not wait any more, and
      ``PodUnschedulable`` of members whose group was just said to be rejected or incomplete;
  R2  the line ``at 10s`` stands before what came later than the start of a block.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from itertools import groupby

from gangsched import (
    Bind,
    ClusterState,
    CopyBound,
    Effect,
    Evict,
    GroupBelowMinimum,
    GroupBound,
    GroupIncomplete,
    GroupKey,
    GroupPartlyBound,
    GroupRejected,
    GroupRemoved,
    GroupRestarted,
    GroupScheduled,
    Nominated,
    NominationLapsed,
    PodNotAdmitted,
    PodRefused,
    PodRejected,
    PodScheduled,
    PodUID,
    PodUnschedulable,
    PodWaiting,
    PriorityOverruled,
    Release,
    membership,
)
from support.story import Story

__all__ = ["in_words"]


def in_words(
    effects: Iterable[tuple[float, Effect | str]], since: float, story: Story
) -> Iterator[str]:
    """Return the lines of effects, each with its instant; a text is a line already.

    Args:
        effects: The effects of a block, in order.
        since: The instant at which the block began.
        story: The story at the end of the block.
    """
    waiting = story.scheduler.waiting
    told = [(now, effect) for now, effect in effects if not _is_over(effect, waiting)]
    binds = {effect.uid for _now, effect in told if isinstance(effect, Bind)}
    for now, at_once in groupby(told, key=lambda each: each[0]):
        new = _without_repeats((effect for _now, effect in at_once), binds, story.cluster)
        lines = [_line(effect) for effect in new]
        if lines and now != since:
            yield f"at {now:g}s"
        for (kind, reason), alike in groupby(lines, key=lambda line: (line[0], line[2])):
            names = [name for _kind, name, _reason in alike]
            if kind == "unschedulable":
                yield _joined(kind, " ".join(names), reason)
            else:
                yield from (_joined(kind, name, reason) for name in names)


def _without_repeats(
    effects: Iterable[Effect | str], binds: Container[PodUID], cluster: ClusterState
) -> Iterator[Effect | str]:
    known: set[tuple[GroupKey, str]] = set()
    for effect in effects:
        match effect:
            case PodScheduled(uid) if uid in binds:
                continue
            case PodUnschedulable(uid, reason) if (_group_of(uid, cluster), reason) in known:
                continue
            case GroupRejected(group, _attempt, reason):
                known.add((group, reason))
            case GroupIncomplete(group):
                known.add((group, f"pod group {group} is incomplete"))
            case _:
                pass
        yield effect


def _group_of(uid: PodUID, cluster: ClusterState) -> GroupKey | None:
    pod = cluster.pod(uid)
    claim = None if pod is None else membership(pod)
    return None if claim is None else claim.group


def _is_over(effect: Effect | str, waiting: Container[PodUID]) -> bool:
    is_over = isinstance(effect, PodWaiting) and effect.uid not in waiting
    return is_over or isinstance(effect, Release)


def _joined(kind: str, name: str, reason: str) -> str:
    return " ".join(part for part in (kind, name) if part) + (f": {reason}" if reason else "")


def _line(effect: Effect | str) -> tuple[str, str, str]:
    """Return the verb, the subject and what else is said."""
    match effect:
        case str():
            return effect, "", ""
        case Bind(uid, node):
            return "bind", f"{_name(uid)} {node}", ""
        case Evict(uid, node, reason):
            return "evict", f"{_name(uid)} {node}", reason
        case PodScheduled(uid, node):
            return "bound", f"{_name(uid)} {node}", ""
        case PodRefused(uid, reason):
            return "refused", _name(uid), reason
        case PodNotAdmitted(uid, reason):
            return "not admitted", _name(uid), reason
        case PodUnschedulable(uid, reason):
            return "unschedulable", _name(uid), reason
        case PodRejected(uid, node, reason):
            return "gives back", f"{_name(uid)} {node}", reason
        case PodWaiting(uid, node, deadline, remaining):
            return "waits", f"{_name(uid)} {node}", f"{remaining} more, until {deadline:g}s"
        case PriorityOverruled(uid, _group, priority, used):
            return "overruled", _name(uid), f"priority {priority}, used is {used}"
        case GroupIncomplete(group, present, minimum, roles):
            needed = "an unknown minimum" if minimum is None else minimum
            parts = [f"{present} of {needed}", *(f"{has} of {n} {role}" for role, n, has in roles)]
            return "incomplete", _name(group), ", ".join(parts)
        case GroupRejected(group, _attempt, reason, retry):
            return "rejected", _name(group), f"{reason}; backoff until {retry:g}s"
        case GroupScheduled(group, _attempt, scheduled, waited):
            return "started", _name(group), f"{scheduled} on nodes, after {waited:g}s"
        case GroupBound(group, _attempt, bound):
            return "runs", _name(group), f"{bound} bound"
        case CopyBound(group, path, bound):
            return "runs", f"{_name(group)} {path}", f"{bound} bound"
        case GroupPartlyBound(group, scheduled, minimum, uid, reason):
            return "runs in part", _name(group), f"{scheduled} of {minimum}; {_name(uid)}: {reason}"
        case GroupBelowMinimum(group, scheduled, minimum, path):
            return "below minimum", f"{_name(group)} {path}".strip(), f"{scheduled} of {minimum}"
        case GroupRestarted(group, restarts, limit, until, path):
            told = f"{restarts} of {limit}, not before {until:g}s"
            return "restarted", f"{_name(group)} {path}".strip(), told
        case GroupRemoved(group):
            return "removed", _name(group), ""
        case Nominated(group, _priority, places, victims):
            nodes = ", ".join(f"{_name(uid)} {node}" for uid, node in places)
            named = " ".join(map(_name, victims)) or "none"
            return "nominated", _name(group or places[0][0]), f"{nodes}; victims {named}"
        case NominationLapsed(group, pods, reason):
            return "nomination lapsed", _name(group or " ".join(pods)), reason
        case _:
            return type(effect).__name__, repr(effect), ""


def _name(key: str) -> str:
    return key.removeprefix("default/")
