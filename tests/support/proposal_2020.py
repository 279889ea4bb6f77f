"""Published comparators, word for word: what the texts say, not what they mean.

``first_text`` is the proposal of January 2020, ``final_text`` its last revision, ``qos_example``
the queue sort that the scheduling framework gives as its example. They only serve to show where
they are no order.
"""

from __future__ import annotations

from attrs import field, frozen

from gangsched.model import Pod, QOSClass

__all__ = ["TextGroup", "TextPod", "final_text", "first_text", "qos_example"]


@frozen
class TextGroup:
    """``PodGroupInfo``.

    Attributes:
        uid: Its ``UID``.
        at: ``LastFailureTimestamp`` of the first text, ``InitialTimestamp`` of the final one.
    """

    uid: str
    at: float


@frozen
class TextPod:
    """``PodInfo``.

    Attributes:
        name: What to call it.
        at: ``Timestamp`` of the first text, ``InitialAttemptTimestamp`` of the final one.
        group: Its group; None for a regular pod.
        priority: ``.spec.priority``.
    """

    name: str
    at: float
    group: TextGroup | None = None
    priority: int = field(default=0, kw_only=True)


def first_text(a: TextPod, b: TextPod) -> bool:
    """Compare as rules 1 to 4 of the first text do."""
    if a.priority != b.priority:
        return a.priority > b.priority
    if a.group is None and b.group is None:
        return a.at < b.at
    if a.group is None and b.group is not None:
        return a.at < b.group.at
    if a.group is not None and b.group is None:
        return a.group.at < b.at
    assert a.group is not None
    assert b.group is not None
    if a.group.at != b.group.at:
        return a.group.at < b.group.at
    return a.group.uid < b.group.uid  # "we will compare the UID": which way is not said


def final_text(a: TextPod, b: TextPod) -> bool:
    """Compare as the list under ``Less`` in the last revision does."""
    if a.priority != b.priority:
        return a.priority > b.priority
    if a.group is None and b.group is None:
        return a.at < b.at
    if a.group is None and b.group is not None:
        return a.at < b.group.at
    if a.group is not None and b.group is None:
        return a.group.at < b.at
    assert a.group is not None
    assert b.group is not None
    if a.at != b.at:
        return a.at < b.at
    return a.group.uid > b.group.uid  # "lexicographically greater UID is scheduled ahead"


def qos_example(a: Pod, b: Pod) -> bool:
    """Compare as ``Less`` and ``compQOS`` of the example do."""
    if a.priority != b.priority:
        return a.priority > b.priority
    first, second = a.qos_class, b.qos_class
    if first is QOSClass.GUARANTEED:
        return True
    if first is QOSClass.BURSTABLE:
        return second is not QOSClass.GUARANTEED
    return second is QOSClass.BEST_EFFORT
