"""Why a gang waits, in one sentence that is the same wherever it is written.

It is the message of the condition of each pending member and of the group, and the note of their
events. It is the field ``reason`` of the log, and a part of the reason of ``kubectl gang``.

Rules:
  R1  a sentence follows from the objects and from the answer of the scheduler alone. It has no
      instant and no place in the queue, so it changes only if what holds the gang does;
  R2  what is said first is what has to be corrected first: an object that cannot be read, then a
      minimum that is not known. Gates, pods that are held, and missing members come after these;
  R3  a gang that was tried has the reason of its last attempt, which is a notice of the scheduler.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, final

from attrs import evolve, frozen

from gangsched.explain import NotAdmitted, NotEnoughMembers, Why, in_utc
from gangsched.kubernetes._absent_parents import why_absent
from gangsched.kubernetes._cache import Cache
from gangsched.kubernetes._unknown_minimum import is_unknown, unknown_minimum
from gangsched.model import GroupKey, Pod

__all__ = ["FAILED", "Sentence", "reason_beside", "sentence_of"]

FAILED: Final = "FailedScheduling"
_INCOMPLETE: Final = "Incomplete"
_GATED: Final = "SchedulingGated"


@final
@frozen
class Sentence:
    """Why a gang waits.

    Attributes:
        reason: The reason of its events, as one word.
        text: The sentence.
    """

    reason: str
    text: str

    @property
    def kind(self) -> str:
        """The type of its events: a gate is set on purpose."""
        return "Normal" if self.reason == _GATED else "Warning"


def sentence_of(
    cache: Cache, key: GroupKey, pods: Collection[Pod], why: Why | None
) -> Sentence | None:
    """Return why a gang waits that was not tried; None for a gang in any other state.

    Args:
        cache: The objects of the cluster, and which APIs are served.
        key: The group.
        pods: Its members.
        why: The answer of the scheduler; None if it does not know the group.
    """
    unreadable = cache.unreadable_group(key)
    if unreadable is not None:
        return Sentence(FAILED, f"its {unreadable.dialect.kind} cannot be read: {unreadable}")
    if isinstance(why, NotAdmitted):
        parent, more = why_absent(cache, key) or ("", "")
        is_about = more and parent in why.reason
        return Sentence(FAILED, f"{why.reason}; {more}" if is_about else why.reason)
    if not isinstance(why, NotEnoughMembers) or why.forgotten_at is not None:
        return None
    if is_unknown(why):
        cause = unknown_minimum(cache, key, pods).cause
        # a group that may be complete is not called incomplete
        reason = _INCOMPLETE if cache.unread_groups() is None else FAILED
        return Sentence(reason, f"{in_utc(evolve(why, held=()))}; {cause}")
    if why.gates:
        return Sentence(_GATED, in_utc(why))
    if why.held:
        return Sentence(FAILED, f"its pods are held: not modelled: {', '.join(why.held)}")
    return Sentence(_INCOMPLETE, in_utc(why))


def reason_beside(sentence: Sentence, why: Why | None) -> str:
    """Return the sentence about a gang with what the scheduler answers, each said once."""
    answer = "" if why is None else in_utc(why)
    if isinstance(why, NotEnoughMembers) and not is_unknown(why):
        answer = in_utc(evolve(why, held=()))
    if isinstance(why, NotAdmitted):
        answer = in_utc(evolve(why, reason=sentence.text))
    if sentence.text in answer:
        return answer
    if answer and (is_unknown(why) or answer in sentence.text):
        return sentence.text
    return f"{sentence.text}; {answer}" if answer else sentence.text
