"""Why a pod or a group does not run as of now: the answer of ``Scheduler.why_anew``.

``why`` gives the reason of the last attempt. An entity is not tried again while nothing has changed
that helps it, so its reason may count nodes that have been filled or freed since. Here a fork tries
it once more.

Rules:
  R1  the scheduler itself is not changed, and its attempts are not counted on;
  R2  the kind of the answer is that of ``why``: only the reason, and the instant of the attempt,
      are those of the fork. If the fork starts the entity, or cannot finish the attempt, or if a
      plugin cannot be forked, the answer is that of ``why``.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from gangsched.errors import ProfileError
from gangsched.explain import BackingOff, NoNodeFits, PartlyRunning, Why
from gangsched.framework.lifecycle import transition
from gangsched.framework.what_if import why as answers
from gangsched.framework.what_if.simulate import Ahead
from gangsched.model import GroupKey, Pod, PodGroup, PodUID

__all__ = ["with_fresh_reason"]


def with_fresh_reason(
    answer: Why, subject: str | Pod | PodGroup, look: Callable[[], Ahead], *, now: float
) -> Why:
    """Return an answer of ``why`` with the reason of an attempt that a fork makes.

    Args:
        answer: The answer about *subject*.
        subject: A pod, a group, the UID of a pod, or the key of a group.
        look: Forks the scheduler; see ``simulate.look``. It is called for a failed attempt only.
        now: The instant of the attempt.

    Raises:
        PluginError: A plugin raised.
    """
    failed = _failed(answer)
    if failed is None:
        return answer
    try:
        ahead = look()
    except ProfileError:
        return answer
    _try(ahead, subject)
    ahead.run(now)
    then = _failed(answers.why(ahead.state, subject, now=ahead.now))
    if then is None:  # it has started, or is not tried yet as the budget is used up
        return answer
    member = then.unschedulable_member
    fresh = evolve(failed, reason=then.reason, unschedulable_member=member, tried_at=now)
    return evolve(answer, rest=fresh) if isinstance(answer, PartlyRunning) else fresh


def _failed(answer: Why) -> NoNodeFits | BackingOff | None:
    """Return the part of an answer that is about a failed attempt; None if there is none."""
    part = answer.rest if isinstance(answer, PartlyRunning) else answer
    return part if isinstance(part, NoNodeFits | BackingOff) else None


def _try(ahead: Ahead, subject: str | Pod | PodGroup) -> None:
    """Let the fork try the entity of a subject next, whatever it waits for."""
    pods = ahead.state.pods
    key = subject.uid if isinstance(subject, Pod) else str(getattr(subject, "key", subject))
    member = pods.members.get(PodUID(key))
    entity = pods.entities.get(GroupKey(key)) if member is None else member.entity
    if entity is not None:
        transition.send_for(ahead.state.queue, entity, now=ahead.now)
