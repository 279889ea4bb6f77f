"""Topologies that the pods of a file ask for, as the specifications of their groups.

Rules:
  R1  all pods of a file are there at once, so each group is stated once. It arrives before its
      members if the file has no object of it;
  R2  a note names the annotation that holds pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

from gangsched.errors import InvalidPodGroupError
from gangsched.events import PodAdded, PodGroupAdded
from gangsched.manifests.member_topologies import MemberTopologies, held_alone
from gangsched.membership import Membership, membership
from gangsched.model import Pod

__all__ = ["with_asked_topologies"]

E = TypeVar("E")

_NOT_HERE: Final = "its group has no minimum in this file"


def with_asked_topologies(
    events: Sequence[E], notes: list[str], *, file: str
) -> Iterator[E | PodAdded | PodGroupAdded]:
    """Yield the events of a file, their groups with what their members ask for. O(events).

    Args:
        events: What arrives at once.
        notes: Grows by a sentence for each group and pod that is held.
        file: The name of the file, for notes.
    """
    topologies = MemberTopologies()
    pods = [event.pod for event in events if isinstance(event, PodAdded)]
    if not any(map(topologies.asked_by, pods)):
        yield from events
        return
    claims = {pod.uid: _claim(pod) for pod in pods}
    for pod in pods:
        claim = claims[pod.uid]
        if claim is not None:
            topologies.change(None, (claim, pod))
    known = {event.group.key for event in events if isinstance(event, PodGroupAdded)}

    def note(what: str, before: Sequence[str], after: Sequence[str]) -> None:
        notes.extend(f"{file}: {what}: {each}: held" for each in after[len(before) :])

    for event in events:
        if isinstance(event, PodGroupAdded):
            group = topologies.stated(event.group.key, event.group) or event.group
            note(f"PodGroup {group.key}", event.group.unmodelled, group.unmodelled)
            yield PodGroupAdded(group)
        elif isinstance(event, PodAdded):
            pod, claim = event.pod, claims[event.pod.uid]
            if claim is not None and claim.group not in known:
                implied = topologies.stated(claim.group, None)
                if implied is not None:
                    known.add(claim.group)
                    note(f"PodGroup {implied.key}", (), implied.unmodelled)
                    yield PodGroupAdded(implied)
            if claim is None:
                pod = held_alone(pod, topologies.asked_by(pod))
            elif claim.group not in known:
                pod = held_alone(pod, topologies.asked_by(pod), _NOT_HERE)
            note(f"Pod {pod.key}", event.pod.unmodelled, pod.unmodelled)
            yield PodAdded(pod)
        else:
            yield event


def _claim(pod: Pod) -> Membership | None:
    """Return the claim of a pod; None if it is malformed, which the scheduler reports."""
    try:
        return membership(pod)
    except InvalidPodGroupError:
        return None
