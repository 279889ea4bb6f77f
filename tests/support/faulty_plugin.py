"""A plugin that can be made to misbehave at any extension point."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, final

import pytest

from gangsched import Bind, NodeName, Pod, Scheduler, Skip, Success, Unschedulable
from gangsched.errors import PluginError
from gangsched.profile import calls
from support.busy import NOW

__all__ = ["OOPS", "FaultyPlugin", "bind_of_another", "interrupt", "problem_with"]

OOPS = ZeroDivisionError("oops")

_SOUND: dict[str, Callable[..., object]] = {
    "pod_signature": lambda _pod: "alike",
    "score": lambda _state, _pod, _node: 0,
    "normalize_score": lambda _state, _pod, scores: dict.fromkeys(scores, 0),
    "labels_read": lambda _pod: (),
    "fitted": lambda _pod: (),
    "reads_pods": lambda _pod: False,
    "add_pod": lambda _state, _pod, _added, _node: None,
    "remove_pod": lambda _state, _pod, _removed, _node: None,
    "skips": lambda _pod: False,
    "volume_choices": lambda _pod, _node: (),
    "post_filter": lambda _state, _pod, _reason, *, now: Skip(),
    "unreserve": lambda _state, _pod, _node, *, cause, now: None,
    "bind": lambda _pod, _node, _attempt, *, now: Skip(),
    "post_bind": lambda _pod, _node, *, now: None,
    "queue_sort": lambda entity: (-entity.priority, entity.queued_at, 0, entity.seq, 0),
    "members_needed": lambda group: max(1, group.min_available or 1),
}


@final
class FaultyPlugin:
    """A plugin with the given extension points that returns defaults unless it is to misbehave.

    Attributes:
        answers: Its behaviour at a point: it raises an exception, returns a value, or calls a
            function of its arguments.
        group_wide: The points at which it answers for a whole group.
        signs_node_alone: Whether pods on a node change none of its answers.
    """

    name = "FaultyPlugin"

    def __init__(self, *points: str, group_wide: Collection[str] = ()) -> None:
        self.group_wide = group_wide
        self.signs_node_alone = False
        self.answers: dict[str, Any] = {}
        for point in points:
            setattr(self, point, self._at(point))

    def _at(self, point: str) -> Callable[..., object]:
        def answer(*args: Any, **kwargs: Any) -> object:
            if point not in self.answers:
                return _SOUND.get(point, lambda *_args, **_kwargs: Success())(*args, **kwargs)
            found = self.answers[point]
            if isinstance(found, Exception):
                raise found
            return found(*args, **kwargs) if callable(found) else found

        return answer


def bind_of_another(_pod: Pod, node: NodeName, attempt: int, *, now: float) -> Bind:
    """Return the bind of a pod that the plugin was not asked about."""
    return Bind(Pod(name="another").uid, node, attempt)


def problem_with(point: str, answer: Any) -> str:
    """Return the problem that a ``PluginError`` states for an answer at a point."""
    if isinstance(answer, Exception):
        return f"raised {answer!r}"
    return f"returned {answer!r}, expected {calls.EXPECTED[point]}"


def interrupt(
    scheduler: Scheduler, faulty: FaultyPlugin, point: str, answer: Any = OOPS
) -> PluginError:
    """Make one decision in which the plugin misbehaves at a point; return what is raised."""
    if point == "post_filter":
        faulty.answers["filter"] = Unschedulable("full")
    faulty.answers[point] = answer
    with pytest.raises(PluginError) as caught:
        scheduler.schedule_one(now=NOW)
    faulty.answers.clear()
    scheduler._check()
    return caught.value
