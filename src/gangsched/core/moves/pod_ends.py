"""Pods that no longer use the node they were bound to: which plugins learn of it, and what follows.

A plugin that counts, such as a quota, refuses pods because of other pods, wherever these run. When
one of those ends, the node that it leaves may help no pod that the plugin refused. The plugin
itself says that it may accept more.

Rules:
  R1  each bound pod ends once: it has succeeded or failed, or it was deleted before that;
  R2  plugins are told after the event has been taken in, so that what is tried sees its result;
  R3  if a plugin raises, the others are still told, and the error is raised at the end;
  R4  of gangs in backoff that ask for the same, one is tried after the other until one is refused:
      then the backoff of the others goes on. So the end of a pod costs one vain try.
"""

from __future__ import annotations

from gangsched.core.records import OVER
from gangsched.core.records.gang import GangRecord, QueuePlace
from gangsched.core.state import State

__all__ = ["accept_more", "tell"]


def tell(state: State) -> None:
    """Tell the plugins of the pods that have ended, and try again what they may accept now."""
    ended, state.call.ended = state.call.ended, []
    wakes = False
    for pod in ended:
        record = state.records.pods.get(pod.uid)
        if record is None or record.state in OVER:
            wakes |= state.points.pod_ended(pod, state.records.now)
    if wakes:
        accept_more(state)


def accept_more(state: State) -> None:
    """Try again what plugins had refused. O(gangs)."""
    state.evaluator.forget()
    state.call.pods_changed = True
    state.queue.wake_all()
    refused: list[GangRecord] = []
    for gang in state.records.gangs.values():
        if not gang.pending and not gang.waiting:
            continue  # the same call took its pods, and has not settled it yet
        member = gang.refused
        if gang.place is QueuePlace.NOT_ADMITTED or gang.waiting:
            state.touch(gang)
        elif gang.place is QueuePlace.BACKOFF and member is not None and member.diagnosis is None:
            refused.append(gang)
    state.queue.take_turns(refused)
