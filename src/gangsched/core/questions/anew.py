"""Why a pod or a group does not run as of now: the answer of ``Scheduler.why``.

The state has the reason of the last attempt. An gang is not tried again while nothing has changed
that helps it, so that reason may count nodes that have been filled or freed since. Here a fork
tries it once more.

Rules:
  R1  the scheduler itself is not changed, and its attempts are not counted on;
  R2  the kind of the answer is that of the state: only the reason, and the instant of the attempt,
      are those of the fork. If the fork starts the gang or cannot finish the attempt, the reason
      of the last attempt stays, and the answer says as of when it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import evolve

from gangsched.core.intake import retry
from gangsched.core.questions.ahead import Ahead
from gangsched.core.reading.why import why_of
from gangsched.errors import ClusterStateError, PluginError, ProfileError, UnknownPodError
from gangsched.explain import (
    BackingOff,
    NoNodeFits,
    OnPermit,
    PartlyRunning,
    UnschedulableMember,
    Why,
)
from gangsched.model import GroupKey, Pod, PodGroup, PodUID

__all__ = ["with_fresh_reason"]

_Failed: TypeAlias = BackingOff | NoNodeFits


def with_fresh_reason(
    answer: Why, subject: str | Pod | PodGroup, look: Callable[[], Ahead] | None, *, now: float
) -> Why:
    """Return an answer with the reason of an attempt that a fork makes.

    Args:
        answer: The answer about *subject*, from the state.
        subject: A pod, a group, the UID of a pod, or the key of a group.
        look: Forks the scheduler; see ``simulate.look``. It is called for a failed attempt only.
            None to keep the reason of the last attempt.
        now: The instant of the attempt.
    """
    failed = _failed(answer)
    if failed is None or _is_of_an_event(failed):
        return answer
    then = None if look is None else _tried_anew(look, subject, now)
    fresh = evolve(failed, is_of_last_attempt=True)
    if isinstance(then, OnPermit):
        # pod by pod, siblings wait for the member that does not fit
        fresh = _as_of_now(failed, failed.reason, then.unschedulable_member, now)
    elif then is not None:
        fresh = _as_of_now(failed, then.reason, then.unschedulable_member, now)
    return evolve(answer, rest=fresh) if isinstance(answer, PartlyRunning) else fresh


def _is_of_an_event(failed: _Failed) -> bool:
    """Return whether a reason is what happened, such as an eviction or a bind that failed.

    It is true at any later instant, and another attempt would hide why there is a backoff.
    """
    return isinstance(failed, BackingOff) and failed.unschedulable_member is None


def _as_of_now(
    failed: _Failed, reason: str, member: UnschedulableMember | None, now: float
) -> _Failed:
    return evolve(
        failed,
        reason=reason,
        unschedulable_member=member,
        tried_at=now,
        is_of_last_attempt=False,
    )


def _tried_anew(
    look: Callable[[], Ahead], subject: str | Pod | PodGroup, now: float
) -> _Failed | OnPermit | None:
    """Return the answer after an attempt of a fork.

    None if no member is to blame: the fork starts the gang, has not tried it when its budget is
    used up, or cannot try it because of a plugin.
    """
    try:
        ahead = look()
        _try(ahead, subject)
        ahead.run(now)
        answer = why_of(ahead.state, subject)
    except (ClusterStateError, PluginError, ProfileError, UnknownPodError):
        return None  # such as for a pod that is gone, of which no event has told yet
    if isinstance(answer, OnPermit) and answer.unschedulable_member is not None:
        return answer
    return _failed(answer)


def _failed(answer: Why) -> _Failed | None:
    """Return the part of an answer that is about a failed attempt; None if there is none."""
    part = answer.rest if isinstance(answer, PartlyRunning) else answer
    return part if isinstance(part, NoNodeFits | BackingOff) else None


def _try(ahead: Ahead, subject: str | Pod | PodGroup) -> None:
    """Let the fork try the gang of a subject next, whatever it waits for."""
    records = ahead.state.records
    key = subject.uid if isinstance(subject, Pod) else str(getattr(subject, "key", subject))
    record = records.pods.get(PodUID(key))
    gang = records.gang_of.get(GroupKey(key)) if record is None else record.gang
    if gang is not None:
        retry(ahead.state, gang)
